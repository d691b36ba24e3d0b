//! The control stream: `hello` first, then sessions that come, go and are renamed, told to everybody.

use serde_json::{Value, json};

use crate::support::World;

#[tokio::test]
async fn hello_comes_first_also_when_sessions_come_and_go_at_that_moment() {
    let world = World::echo().await;
    let (client, path) = (world.client(), world.events_path(""));
    for _ in 0..20 {
        let (control, reader) = tokio::join!(client.events("/events", &[]), client.events(&path, &[]));
        drop(reader);
        let mut control = control.unwrap();
        let first = control.next().await.unwrap().unwrap();
        assert_eq!(first.name, "hello", "{first:?}");
        let hello: Value = serde_json::from_str(&first.data).unwrap();
        let keys: Vec<&String> = hello.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["config", "cwd", "sessions", "confinement"]);
    }
}

#[tokio::test]
async fn a_new_session_is_told_to_all_and_stands_first() {
    let world = World::echo().await;
    let mut readers = [world.client().events("/events", &[]).await.unwrap(), world.client().events("/events", &[]).await.unwrap()];
    for reader in &mut readers {
        reader.next_json().await.unwrap();
    }
    let deployed = world.succeed(json!({"type": "deploy"})).await;
    let created = world.succeed(json!({"type": "create_session"})).await;
    for reader in &mut readers {
        for state in [&deployed, &created] {
            let frame = reader.next_json().await.unwrap();
            let expected =
                json!({"type": "session_added", "session": {"sessionId": state["sessionId"], "isStreaming": false, "live": true}});
            assert_eq!(frame, expected);
        }
    }
    let state = world.agent_state().await;
    let ids: Vec<&Value> = state["sessions"].as_array().unwrap().iter().map(|session| &session["sessionId"]).collect();
    assert_eq!(ids, [&created["sessionId"], &deployed["sessionId"], &json!(world.session)], "newest first");
    for session in state["sessions"].as_array().unwrap() {
        let keys: Vec<&String> = session.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["sessionId", "createdAt", "isStreaming", "live"]);
    }
}

#[tokio::test]
async fn the_end_of_the_daemon_ends_the_streams_and_tells_of_no_session() {
    let mut world = World::echo().await;
    let mut control = world.client().events("/events", &[]).await.unwrap();
    control.next_json().await.unwrap();
    let mut session = world.stream("").await;
    session.next_json().await.unwrap();
    world.succeed(json!({"type": "shutdown"})).await;
    assert_eq!(control.next().await.unwrap(), None);
    assert_eq!(session.next().await.unwrap(), None);
    assert!(control.ended_cleanly() && session.ended_cleanly());
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(0));
}
