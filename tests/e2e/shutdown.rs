//! Every way to end a daemon: what it does with work in progress, what it ends with, and what its successor finds.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wolli_testkit::http::Connection;
use wolli_testkit::process::{eventually, running_with};
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::{Reader, World, roles, text_of, texts_of};

/// The whole hand-over takes less.
const HANDOVER: Duration = Duration::from_secs(10);

/// A text that stands in the command line of one test's tools alone.
fn marker(test: u32) -> String {
    format!("51{}.{test}", std::process::id())
}

/// A turn whose tool runs until it is ended, and ignores what asks it to.
async fn with_a_stubborn_tool(marker: &str) -> (World, Reader) {
    let world = World::scripted(Kind::Anthropic).await;
    let command = format!("trap '' TERM HUP INT; sleep {marker} & echo started; while :; do sleep {marker}; done");
    world.provider.reply(Answer::new().text("A tool.").tool_call("c1", "bash", &json!({"command": command})));
    let mut reader = world.reader("").await;
    world.prompt("go").await;
    reader.until(|frame| frame["appended"].as_str().is_some_and(|text| text.contains("started"))).await.unwrap();
    assert!(!running_with(marker).is_empty());
    (world, reader)
}

/// Reads to the end of the stream.
async fn drain(reader: &mut Reader) {
    while reader.step().await.unwrap().is_some() {}
}

#[tokio::test]
async fn sigterm_in_a_turn_ends_the_tool_keeps_the_messages_and_closes_the_streams() {
    let marker = marker(1);
    let (mut world, mut reader) = with_a_stubborn_tool(&marker).await;
    let mut control = world.client().events("/events", &[]).await.unwrap();
    let asked = Instant::now();
    world.daemon.signal(Signal::TERM).unwrap();
    drain(&mut reader).await;
    while control.next().await.unwrap().is_some() {}
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(143));
    assert!(asked.elapsed() < HANDOVER, "{:?}", asked.elapsed());
    assert!(reader.ended_cleanly() && control.ended_cleanly(), "a stream was cut off");
    assert!(running_with(&marker).is_empty(), "the tool survived");

    world.start().await;
    let messages = world.messages().await;
    assert_eq!(roles(&messages)[..2], ["user", "assistant"]);
    // What the stream promised is there.
    let stored: Vec<String> = world.entries().await.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect();
    assert!(reader.entry_ids().iter().all(|id| stored.contains(id)), "{stored:?}");
    world.provider.reply(Answer::says("Back."));
    world.prompt("and now?").await;
    world.idle().await;
    assert_eq!(text_of(world.messages().await.last().unwrap()), "Back.");
}

#[tokio::test]
async fn sigint_ends_with_130_and_a_quiet_daemon_ends_at_once() {
    let mut world = World::echo().await;
    let mut reader = world.reader("").await;
    let asked = Instant::now();
    world.daemon.signal(Signal::INT).unwrap();
    drain(&mut reader).await;
    assert!(reader.ended_cleanly());
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(130));
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    world.start().await;
}

#[tokio::test]
async fn the_shutdown_command_is_answered_in_full_and_ends_with_0() {
    let mut world = World::echo().await;
    let mut reader = world.reader("").await;
    let client = world.client();
    // A connection that is kept for later.
    let mut kept = Connection::open(world.agent.address()).await.unwrap();
    kept.send(client.request_bytes("GET", "/health", &[], None)).await.unwrap();
    assert_eq!(kept.read_response().await.unwrap().status, 200);
    let answer = world.command(json!({"type": "shutdown", "id": "bye"})).await;
    assert_eq!(answer, json!({"id": "bye", "type": "response", "command": "shutdown", "success": true}));
    drain(&mut reader).await;
    assert!(reader.ended_cleanly());
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(0));
    // On the kept connection nobody is healthy any more.
    let asked = kept.send(client.request_bytes("GET", "/health", &[], None)).await;
    assert!(asked.is_err() || kept.read_response().await.is_err(), "a daemon that has ended answers");
}

#[tokio::test]
async fn a_second_sigterm_takes_the_grace_away() {
    let marker = marker(2);
    let (mut world, reader) = with_a_stubborn_tool(&marker).await;
    let asked = Instant::now();
    world.daemon.signal(Signal::TERM).unwrap();
    world.daemon.signal(Signal::TERM).unwrap();
    // Two signals of one number that come together may count as one.
    let mut again = 0;
    let ended = loop {
        if !world.daemon.is_running().unwrap() {
            break asked.elapsed();
        }
        again += 1;
        if again % 20 == 0 {
            let _ = world.daemon.signal(Signal::TERM);
        }
        assert!(asked.elapsed() < HANDOVER);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(143));
    assert!(ended < Duration::from_secs(4), "{ended:?}");
    drop(reader);
    world.start().await;
    eventually("the tool's end", Duration::from_secs(10), || running_with(&marker).is_empty().then_some(())).await.unwrap();
    assert_eq!(roles(&world.messages().await)[..2], ["user", "assistant"]);
}

#[tokio::test]
async fn a_successor_that_comes_early_waits_and_takes_over() {
    let marker = marker(3);
    let (mut world, mut reader) = with_a_stubborn_tool(&marker).await;
    world.daemon.signal(Signal::TERM).unwrap();
    // It has said so in its lock by then.
    let lock = world.agent.home.join("daemon.lock");
    let draining =
        || serde_json::from_slice::<Value>(&std::fs::read(&lock).unwrap_or_default()).is_ok_and(|record| record["draining"] == true);
    eventually("the mark in the lock", HANDOVER, || draining().then_some(())).await.unwrap();
    let mut successor = world.home.spawn_daemon(&world.agent, &[]).unwrap();
    successor.ready().await.unwrap();
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(143));
    drain(&mut reader).await;
    world.daemon = successor;
    assert_eq!(roles(&world.messages().await)[..2], ["user", "assistant"]);
    assert!(running_with(&marker).is_empty());
}

#[tokio::test]
async fn a_port_is_free_for_the_next_one_at_once() {
    let mut world = World::echo().await;
    for _ in 0..5 {
        // Connections that linger must not keep the port.
        let streams = [world.stream("").await, world.stream("?view=full").await];
        world.succeed(json!({"type": "shutdown"})).await;
        let mut successor = world.home.spawn_daemon(&world.agent, &[]).unwrap();
        successor.ready().await.unwrap();
        assert_eq!(world.daemon.ended().await.unwrap().code(), Some(0));
        world.daemon = successor;
        drop(streams);
    }
}

#[tokio::test]
async fn prompts_that_come_while_it_stops_are_refused_and_those_before_are_kept() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("one two three").hold_before(4, &gate));
    world.prompt("first").await;
    world.succeed(json!({"type": "follow_up", "message": "waits"})).await;
    gate.reached().await;
    let client = world.client();
    let mut kept = Connection::open(world.agent.address()).await.unwrap();
    world.daemon.signal(Signal::TERM).unwrap();
    let late = json!({"type": "prompt", "message": "late"}).to_string();
    let path = format!("/sessions/{}/control", world.session);
    let sent = kept.send(client.request_bytes("POST", &path, &[], Some(late.as_bytes()))).await;
    let answer = if sent.is_ok() { kept.read_response().await.ok() } else { None };
    let accepted = answer.is_some_and(|answer| answer.status == 200 && answer.json()["success"] == true);
    assert!(!accepted, "a prompt without a future was accepted");
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(143));
    gate.open();
    world.start().await;
    let reader = world.reader("").await;
    assert_eq!(reader.hello["waiting"]["kind"], "resume", "{}", reader.hello);
    assert_eq!(reader.hello["pendingMessageCount"], 1);
    let messages = world.messages().await;
    assert!(roles(&messages).starts_with(&["user"]) && text_of(&messages[0]) == "first", "{messages:?}");
    world.provider.respond_with(|request| Answer::says(&format!("to {}", request.last_user_text())));
    world.prompt("second").await;
    world.idle().await;
    let messages = world.messages().await;
    assert_eq!(texts_of(&messages, "user"), ["first", "second", "waits"]);
    assert_eq!(text_of(messages.last().unwrap()), "to waits");
}

/// What a request over the socket gets, head and body as one text.
async fn over_socket(path: &PathBuf, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_unix_socket_serves_its_owner_and_goes_with_the_daemon() {
    let mut world = World::echo().await;
    let record: Value = serde_json::from_slice(&std::fs::read(world.agent.home.join("daemon.lock")).unwrap()).unwrap();
    let path = PathBuf::from(record["socket"].as_str().unwrap());
    assert!(path.starts_with(world.home.folder().join("run")), "{}", path.display());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let health = over_socket(&path, "GET /health HTTP/1.1\r\nHost: whatever\r\nConnection: close\r\n\r\n").await;
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("\"status\":\"ok\""), "{health}");
    let request = |token: &str| format!("GET /sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\r\n");
    assert!(over_socket(&path, &request("")).await.starts_with("HTTP/1.1 401"));
    let authorised = format!("Authorization: Bearer {}\r\n", world.agent.token);
    assert!(over_socket(&path, &request(&authorised)).await.starts_with("HTTP/1.1 200"));
    world.daemon.terminate().await.unwrap();
    assert!(!path.exists(), "the socket stayed");

    // One that a killed daemon left is replaced.
    world.start().await;
    world.daemon.kill().unwrap();
    assert!(path.exists());
    world.start().await;
    assert!(over_socket(&path, &request(&authorised)).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_slow_answer_is_finished_before_the_end() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("one two").hold_before(3, &gate));
    world.prompt("go").await;
    gate.reached().await;
    // `wait_for_idle` is answered when the run is over, which the end of the daemon brings about.
    let mut waiting = Connection::open(world.agent.address()).await.unwrap();
    let path = format!("/sessions/{}/control", world.session);
    let command = json!({"type": "wait_for_idle", "id": 1}).to_string();
    waiting.send(world.client().request_bytes("POST", &path, &[], Some(command.as_bytes()))).await.unwrap();
    let (head, _) = waiting.read_head().await.unwrap();
    assert_eq!(head.status().unwrap(), 200);
    world.daemon.signal(Signal::TERM).unwrap();
    let body = waiting.read_body(head.body_kind(false).unwrap()).await.unwrap();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&answer["id"], &answer["command"]), (&json!(1), &json!("wait_for_idle")), "{answer}");
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(143));
    gate.open();
}
