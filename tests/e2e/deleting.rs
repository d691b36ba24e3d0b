//! Sessions that are deleted: one outcome for everybody, nothing of them left, and the agent goes on without any.

use serde_json::{Value, json};
use wolli_testkit::http::{Client, EventStream};
use wolli_testkit::process::eventually;
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::World;

fn delete(id: &str) -> Value {
    json!({"type": "delete_session", "targetSessionId": id})
}

async fn listed(world: &World) -> Vec<String> {
    let state = world.agent_state().await;
    state["sessions"].as_array().unwrap().iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
}

/// Names of all files below `sessions/`, but for the index.
fn files(world: &World) -> Vec<String> {
    let mut names = Vec::new();
    for folder in
        std::fs::read_dir(world.agent.home.join("sessions")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        names.extend(std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()));
    }
    names
}

async fn control_stream(client: &Client, query: &str) -> EventStream {
    let mut stream = client.events(&format!("/events{query}"), &[]).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().name, "hello");
    stream
}

/// A second session beside the first.
async fn another(world: &World) -> String {
    let state = world.succeed(json!({"type": "create_session"})).await;
    state["sessionId"].as_str().unwrap().to_owned()
}

async fn deployed(kind: Kind) -> World {
    let world = World::scripted(kind).await;
    world.succeed(json!({"type": "deploy"})).await;
    world
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_files_and_everybody_is_told_what_they_asked_for() {
    let mut world = deployed(Kind::Anthropic).await;
    let gone = another(&world).await;
    let stays = world.session.clone();
    let mut plain = control_stream(&world.client(), "").await;
    let mut told = control_stream(&world.client(), "?include=lifecycle").await;

    // It is in memory, and somebody reads it.
    world.session = gone.clone();
    world.provider.reply(Answer::says("Good."));
    world.prompt("hello").await;
    world.idle().await;
    let mut reader = world.stream("").await;
    reader.next().await.unwrap();
    world.session = stays.clone();
    world.succeed(delete(&gone)).await;
    while reader.next().await.unwrap().is_some() {}
    assert!(reader.ended_cleanly());

    assert!(!listed(&world).await.contains(&gone));
    assert!(!files(&world).iter().any(|name| name.contains(&gone)), "{:?}", files(&world));
    let unknown = format!("No session \"{gone}\" for agent \"a\"");
    assert_eq!(world.client().command(&gone, &json!({"type": "get_state"})).await.unwrap()["error"], unknown);
    assert_eq!(world.command(delete(&gone)).await["error"], unknown);
    assert_eq!(world.client().get(&format!("/sessions/{gone}/events")).await.unwrap().status, 404);
    assert_eq!(world.client().get(&format!("/sessions/{gone}/entries")).await.unwrap().status, 404);

    // Something that everybody hears, behind all of it.
    world.succeed(json!({"type": "rename_session", "targetSessionId": stays, "sessionName": "last"})).await;
    let types = |frames: Vec<Value>| -> Vec<String> {
        let of_gone = frames.iter().filter(|frame| frame["sessionId"] == gone);
        of_gone.map(|frame| frame["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(types(plain.until_type("session_renamed").await.unwrap()), ["session_removed"]);
    assert_eq!(types(told.until_type("session_renamed").await.unwrap()), ["session_removed", "session_deleted"]);
}

#[tokio::test]
async fn one_that_was_not_in_memory_is_deleted_without_coming_there() {
    let mut world = deployed(Kind::OpenAi).await;
    let gone = another(&world).await;
    world.restart().await;
    let mut told = control_stream(&world.client(), "?include=all").await;
    world.succeed(delete(&gone)).await;
    let frames = told.until_type("session_deleted").await.unwrap();
    let of_gone: Vec<&Value> = frames.iter().filter(|frame| frame.to_string().contains(&gone)).collect();
    assert_eq!(of_gone, [&json!({"type": "session_deleted", "sessionId": gone})]);
    world.restart().await;
    assert!(!listed(&world).await.contains(&gone));
}

#[tokio::test]
async fn the_configured_notices_are_the_default_of_the_control_stream_and_unknown_ones_are_refused() {
    let mut world = World::echo().await;
    world.daemon.terminate().await.unwrap();
    world.home.write("config.toml", "[events]\ninclude = [\"lifecycle\"]\n").unwrap();
    world.start().await;
    let mut stream = control_stream(&world.client(), "").await;
    let mut none = control_stream(&world.client(), "?include=").await;
    world.succeed(delete(&world.session)).await;
    stream.until_type("session_deleted").await.unwrap();
    world.client().succeed("none", &json!({"type": "create_session"})).await.unwrap();
    let frames = none.until_type("session_added").await.unwrap();
    assert!(!frames.iter().any(|frame| frame["type"] == "session_deleted"), "{frames:?}");
    assert_eq!(world.client().get("/events?include=nope").await.unwrap().status, 400);
}

#[tokio::test]
async fn a_session_at_work_is_not_deleted() {
    let world = deployed(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Done at last.").hold_before(3, &gate));
    world.prompt("go").await;
    gate.reached().await;
    let refused = world.command(delete(&world.session)).await;
    assert_eq!(refused["error"], "the session is at work; abort its run first");
    gate.open();
    world.idle().await;
    assert_eq!(world.messages().await.len(), 2);
    world.succeed(delete(&world.session)).await;
    assert!(!listed(&world).await.contains(&world.session));
}

#[tokio::test]
async fn an_agent_without_sessions_works_and_gets_one_when_asked_or_with_the_next_start() {
    // It is forming: it has its birth session only.
    let mut world = World::echo().await;
    world.succeed(delete(&world.session)).await;
    assert_eq!(listed(&world).await, [""; 0]);
    assert_eq!(world.client().get("/health").await.unwrap().status, 200);
    let refused = world.command(json!({"type": "get_state"})).await;
    assert_eq!(refused["error"], format!("No session \"{}\" for agent \"a\"", world.session));
    // The commands that concern the agent are taken under any name.
    let state = world.client().succeed("none", &json!({"type": "create_session"})).await.unwrap();
    world.session = state["sessionId"].as_str().unwrap().to_owned();
    world.prompt("hello").await;
    world.idle().await;
    let second = world.command(json!({"type": "create_session"})).await;
    assert_eq!(second["error"], "This agent is still forming — it stays in its birth session until it deploys.");

    world.succeed(delete(&world.session)).await;
    world.restart().await;
    let sessions = listed(&world).await;
    assert_eq!(sessions.len(), 1);
    assert_ne!(sessions[0], world.session);
    world.session = sessions[0].clone();
    world.succeed(delete(&world.session)).await;
    world.client().succeed("none", &json!({"type": "shutdown"})).await.unwrap();
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn deleting_while_others_open_has_one_outcome() {
    let world = deployed(Kind::Anthropic).await;
    for round in 0..10 {
        let gone = another(&world).await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..12 {
            let (client, gone, keeper) = (world.client(), gone.clone(), world.session.clone());
            tasks.spawn(async move {
                match number % 4 {
                    0 => client.command(&keeper, &delete(&gone)).await.unwrap()["success"].to_string(),
                    1 => {
                        // Before, or after; what is between nobody sees.
                        let status = client.get(&format!("/sessions/{gone}/entries")).await.unwrap().status;
                        assert!(matches!(status, 200 | 404), "{status}");
                        String::new()
                    }
                    2 => {
                        let rename = json!({"type": "rename_session", "targetSessionId": gone, "sessionName": "n"});
                        client.command(&keeper, &rename).await.unwrap();
                        String::new()
                    }
                    _ => {
                        client.command(&gone, &json!({"type": "get_state"})).await.unwrap();
                        // A stream that began ends.
                        if let Ok(mut stream) = client.events(&format!("/sessions/{gone}/events"), &[]).await {
                            while let Ok(Some(_)) = stream.next().await {}
                        }
                        String::new()
                    }
                }
            });
        }
        let outcomes = tasks.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| *outcome == "true").count(), 1, "round {round}: {outcomes:?}");
        assert!(!files(&world).iter().any(|name| name.contains(&gone)), "round {round}: {:?}", files(&world));
    }
    assert_eq!(listed(&world).await.len(), 2);
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_is_finished_and_a_copy_goes_with_it() {
    let mut world = deployed(Kind::Anthropic).await;
    let gone = another(&world).await;
    let file = files(&world).into_iter().find(|name| name.contains(&gone) && name.ends_with(".jsonl")).unwrap();
    let folder = world.session_file().await.parent().unwrap().to_owned();
    world.daemon.kill().unwrap();
    std::fs::create_dir(world.agent.home.join("sessions/elsewhere")).unwrap();
    std::fs::copy(folder.join(&file), world.agent.home.join("sessions/elsewhere").join(&file)).unwrap();
    world.start().await;
    world.succeed(delete(&gone)).await;
    assert!(!listed(&world).await.contains(&gone), "a copy in another folder took its place");

    let kept = another(&world).await;
    let file = files(&world).into_iter().find(|name| name.contains(&kept) && name.ends_with(".jsonl")).unwrap();
    world.daemon.kill().unwrap();
    std::fs::rename(folder.join(&file), folder.join(format!("{file}.deleted"))).unwrap();
    world.start().await;
    assert!(!listed(&world).await.contains(&kept));
    eventually("the end of the deletion", std::time::Duration::from_secs(10), || {
        (!files(&world).iter().any(|name| name.contains(&kept))).then_some(())
    })
    .await
    .unwrap();
}
