//! Which sessions are in memory: who opens them, who lets them go, and what stays when they have gone.

use serde_json::{Value, json};
use wolli_testkit::http::EventStream;
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::World;

/// The control stream behind its `hello`, when the session of the start has left.
async fn at_rest(world: &World) -> EventStream {
    let mut control = world.client().events("/events", &[]).await.unwrap();
    control.next_json().await.unwrap();
    drop(world.stream("").await);
    control.until_type("session_removed").await.unwrap();
    assert!(!is_live(world).await);
    control
}

async fn is_live(world: &World) -> bool {
    let state = world.agent_state().await;
    let sessions = state["sessions"].as_array().unwrap();
    sessions.iter().find(|session| session["sessionId"] == world.session.as_str()).unwrap()["live"] == true
}

async fn expect(control: &mut EventStream, kind: &str, world: &World) {
    let frame = control.next_json().await.unwrap();
    let id = if kind == "session_added" { &frame["session"]["sessionId"] } else { &frame["sessionId"] };
    assert_eq!((&frame["type"], id), (&json!(kind), &json!(world.session)));
}

#[tokio::test]
async fn a_daemon_starts_with_its_newest_session_open_and_keeps_it() {
    let mut world = World::echo().await;
    assert!(is_live(&world).await);
    let first = world.session.clone();
    world.restart().await;
    let state = world.agent_state().await;
    assert_eq!(state["sessions"].as_array().unwrap().len(), 1, "no other was made");
    assert_eq!(state["sessions"][0]["sessionId"], json!(first));
}

#[tokio::test]
async fn attaching_opens_a_session_once_and_the_last_one_to_leave_lets_it_go() {
    let world = World::echo().await;
    let mut control = at_rest(&world).await;
    let (one, two) = (world.stream("").await, world.stream("?view=full").await);
    expect(&mut control, "session_added", &world).await;
    drop(one);
    let three = world.stream("").await;
    drop(two);
    // One of several that leaves changes nothing: the next frame is that of the last one.
    assert!(is_live(&world).await);
    drop(three);
    expect(&mut control, "session_removed", &world).await;
    assert!(!is_live(&world).await);
    assert_eq!(world.agent_state().await["sessions"].as_array().unwrap().len(), 1, "its file stays");
}

#[tokio::test]
async fn a_command_opens_a_session_and_answers_to_dialogs_do_not() {
    let world = World::echo().await;
    let mut control = at_rest(&world).await;
    for route in ["ui-response", "login-response"] {
        let path = format!("/sessions/{}/{route}", world.session);
        let answer = world.client().post(&path, &json!({"type": "extension_ui_response", "id": "x", "cancelled": true})).await.unwrap();
        assert_eq!(answer.json()["success"], true);
    }
    let page = world.client().get(&format!("/sessions/{}/entries", world.session)).await.unwrap();
    assert_eq!(page.status, 200);
    assert!(!is_live(&world).await);
    // An unknown command as well: the session is looked for first.
    world.command(json!({"type": "fork"})).await;
    expect(&mut control, "session_added", &world).await;
    world.command(json!({"type": "get_state"})).await;
    assert!(is_live(&world).await);
    drop(world.stream("").await);
    expect(&mut control, "session_removed", &world).await;
}

#[tokio::test]
async fn a_run_goes_on_when_the_last_client_leaves_and_its_end_lets_the_session_go() {
    let world = World::scripted(Kind::Anthropic).await;
    let mut control = at_rest(&world).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("It is done.").hold_before(1, &gate));
    let reader = world.stream("").await;
    expect(&mut control, "session_added", &world).await;
    world.prompt("go").await;
    gate.reached().await;
    drop(reader);
    // It is seen by a command that the daemon has noticed, and that the session stays.
    let state = world.state().await;
    assert_eq!(state["isStreaming"], true);
    let listed: Value = world.agent_state().await["sessions"][0].clone();
    assert_eq!((&listed["live"], &listed["isStreaming"]), (&json!(true), &json!(true)));
    gate.open();
    expect(&mut control, "session_removed", &world).await;
    let entries = world.client().get(&format!("/sessions/{}/entries", world.session)).await.unwrap().json();
    let last = entries["entries"].as_array().unwrap().last().unwrap()["message"].clone();
    assert_eq!((crate::support::text_of(&last).as_str(), &last["stopReason"]), ("It is done.", &json!("stop")));
}

#[tokio::test]
async fn what_a_session_keeps_when_it_leaves() {
    let world = World::scripted(Kind::Anthropic).await;
    world.succeed(json!({"type": "rename_session", "targetSessionId": world.session, "sessionName": " minutes "})).await;
    world.succeed(json!({"type": "set_model", "provider": "scripted-openai", "modelId": "scripted-1"})).await;
    world.succeed(json!({"type": "set_thinking_level", "level": "high"})).await;
    let before = world.state().await;
    at_rest(&world).await;
    let after = world.state().await;
    assert_eq!(after, before);
    assert_eq!((&after["sessionName"], &after["model"]["provider"]), (&json!("minutes"), &json!("scripted-openai")));
}

#[tokio::test]
async fn a_session_that_many_open_at_once_is_opened_once() {
    let world = World::echo().await;
    let mut control = at_rest(&world).await;
    let (path, client) = (world.events_path(""), world.client());
    let (state, messages) = (json!({"type": "get_state"}), json!({"type": "get_messages"}));
    let readers = tokio::join!(
        client.events(&path, &[]),
        client.events(&path, &[]),
        client.command(&world.session, &state),
        client.events(&path, &[]),
        client.command(&world.session, &messages),
    );
    expect(&mut control, "session_added", &world).await;
    drop(readers);
    expect(&mut control, "session_removed", &world).await;
}
