//! Readers that do not read, readers that vanish, and readers that come and go by the thousand: nobody else notices, nothing piles up.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wolli_testkit::http::{Connection, EventStream};
use wolli_testkit::process::{eventually, holds_connection, memory_kib, open_files};
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::{Reader, World, count};

/// Deltas of a long turn.
const DELTAS: usize = 50_000;

/// KiB by which memory may grow from one long turn to the next: a ring, and what stuck readers hold.
const GROWTH: u64 = 8 * 1024;

/// Reads to the end of the run that `prompts` counts; comes back whenever the connection is lost.
async fn read_on(reader: &mut Reader, world: &World, messages: u64) -> usize {
    let mut resumed = 0;
    loop {
        while reader.view.state.is_streaming || reader.view.state.message_count < messages {
            match reader.step().await {
                Ok(Some(_)) => reader.frames.clear(),
                Ok(None) => break,
                Err(error) => {
                    assert!(format!("{error:#}").contains("reset"), "{error:#}");
                    break;
                }
            }
        }
        if !reader.view.state.is_streaming && reader.view.state.message_count >= messages {
            return resumed;
        }
        reader.resume(&world.client()).await.unwrap();
        resumed += 1;
    }
}

fn transcript(reader: &Reader) -> Vec<Value> {
    reader.view.transcript.iter().map(|item| json!([item.entry_id, item.message])).collect()
}

/// A stream that is asked for and never read.
async fn attach_and_stall(world: &World, query: &str) -> Connection {
    let mut connection = Connection::open_with_small_buffer(world.agent.address()).await.unwrap();
    let request = world.client().request_bytes("GET", &world.events_path(query), &[], None);
    connection.send(request).await.unwrap();
    connection
}

#[tokio::test]
async fn a_stalled_and_a_vanished_reader_change_nothing_for_the_others() {
    let world = World::echo().await;
    let prompt = format!("!repeat {DELTAS} x");
    // The first turn fills what is filled once.
    world.prompt(&prompt).await;
    world.idle().await;
    let before = memory_kib(world.daemon.pid()).unwrap();

    let mut readers = [world.reader("").await, world.reader("").await, world.reader("?view=full").await];
    let mut stuck = Vec::new();
    for query in ["", "?view=full"] {
        stuck.push(attach_and_stall(&world, query).await);
        let mut vanished = attach_and_stall(&world, query).await;
        vanished.half_close().await.unwrap();
        stuck.push(vanished);
    }
    world.prompt(&prompt).await;
    let [first, second, full] = &mut readers;
    let resumed = tokio::join!(read_on(first, &world, 4), read_on(second, &world, 4), read_on(full, &world, 4));
    eprintln!("came back: {resumed:?}");
    world.idle().await;
    let after = memory_kib(world.daemon.pid()).unwrap();
    let text = world.messages().await[3]["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text.matches('x').count(), DELTAS);
    assert_eq!(transcript(&readers[0]).len(), 2);
    assert_eq!(transcript(&readers[0]), transcript(&readers[1]));
    assert_eq!(transcript(&readers[0]), transcript(&readers[2]));
    assert_eq!(readers[0].view.state, readers[2].view.state);
    assert_eq!(readers[0].view.last_id(), readers[2].view.last_id());
    eprintln!("memory: {before} KiB, then {after} KiB");
    assert!(after < before + GROWTH, "memory grew from {before} to {after} KiB");
}

#[tokio::test]
async fn thousands_that_come_and_go_leave_nothing_behind() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("one two three").hold_before(4, &gate));
    let mut steady = world.reader("").await;
    world.prompt("go").await;
    gate.reached().await;
    let pid = world.daemon.pid();
    let path = world.events_path("");
    // Warm up, then count.
    come_and_go(&world, &path, 400).await;
    let quiet = eventually("a quiet daemon", Duration::from_secs(40), || settled(pid, usize::MAX)).await.unwrap();
    let before = memory_kib(pid).unwrap();
    let slowest = come_and_go(&world, &path, count(1_000, 9_000)).await;
    let left = eventually("the sockets' end", Duration::from_secs(40), || settled(pid, quiet)).await.unwrap();
    let after = memory_kib(pid).unwrap();
    eprintln!("files {quiet} -> {left}, memory {before} -> {after} KiB, slowest /health {slowest:?}");
    assert!(after < before + 4 * 1024, "memory grew from {before} to {after} KiB");
    assert!(slowest < Duration::from_secs(1), "/health took {slowest:?}");
    gate.open();
    steady.run_end().await;
    assert_eq!(world.state().await["isStreaming"], false);
}

/// The number of open files, if it is at most that.
fn settled(pid: u32, most: usize) -> Option<usize> {
    open_files(pid).ok().filter(|files| *files <= most)
}

/// Attaches to both streams that many times and leaves in several ways; gives back the slowest `/health` of all.
async fn come_and_go(world: &World, path: &str, cycles: usize) -> Duration {
    let client = world.client();
    let mut slowest = Duration::ZERO;
    for cycle in 0..cycles {
        for path in [path, "/events"] {
            let mut connection = Connection::open(world.agent.address()).await.unwrap();
            connection.send(client.request_bytes("GET", path, &[], None)).await.unwrap();
            connection.read_head().await.unwrap();
            match cycle % 3 {
                0 => drop(connection),
                1 => connection.reset().unwrap(),
                _ => {
                    connection.half_close().await.unwrap();
                    drop(connection);
                }
            }
        }
        if cycle % 20 == 0 {
            let asked = Instant::now();
            assert_eq!(world.agent.stranger().get("/health").await.unwrap().status, 200);
            slowest = slowest.max(asked.elapsed());
        }
    }
    slowest
}

#[tokio::test]
async fn quiet_streams_are_pinged_also_while_a_turn_is_silent() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("one").hold_before(0, &gate));
    let mut session = world.stream("").await;
    let mut control = world.client().events("/events", &[]).await.unwrap();
    world.prompt("go").await;
    gate.reached().await;
    let started = Instant::now();
    let pinged = async |stream: &mut EventStream| {
        stream.keep_bytes();
        stream.until_bytes(b": ping\n\n", Duration::from_secs(20)).await.map(|()| started.elapsed())
    };
    let (session, control) = tokio::join!(pinged(&mut session), pinged(&mut control));
    for waited in [session.unwrap(), control.unwrap()] {
        assert!((13.0..17.5).contains(&waited.as_secs_f64()), "{waited:?}");
    }
    gate.open();
    world.idle().await;
}

#[tokio::test]
async fn a_head_request_gets_the_headers_and_does_not_attach() {
    let mut world = World::echo().await;
    // A new session is live; one that was found is not.
    world.restart().await;
    for path in [world.events_path(""), "/events".to_owned()] {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        connection.send(world.client().request_bytes("HEAD", &path, &[("Connection", "close")], None)).await.unwrap();
        let (head, _) = connection.read_head().await.unwrap();
        assert_eq!((head.status().unwrap(), head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(connection.read_to_end().await.unwrap(), b"", "{path}: a body");
        let state = world.agent_state().await;
        assert_eq!(state["sessions"][0]["live"], false, "{path} made the session live");
    }
}

#[tokio::test]
async fn streams_have_the_headers_and_bytes_that_proxies_and_clients_need() {
    let world = World::echo().await;
    for path in [world.events_path(""), "/events".to_owned()] {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        let request = world.client().request_bytes("GET", &path, &[("Accept-Encoding", "gzip, deflate")], None);
        connection.send(request).await.unwrap();
        let (head, _) = connection.read_head().await.unwrap();
        for (name, value) in [
            ("content-type", Some("text/event-stream")),
            ("cache-control", Some("no-cache, no-transform")),
            ("x-accel-buffering", Some("no")),
            ("transfer-encoding", Some("chunked")),
            ("content-encoding", None),
            ("content-length", None),
        ] {
            assert_eq!(head.header(name), value, "{path}: {name}");
        }
    }
    let mut stream = world.stream("").await;
    stream.keep_bytes();
    world.prompt("hello there").await;
    stream.until_type("agent_end").await.unwrap();
    let text = String::from_utf8(stream.bytes().to_vec()).unwrap();
    let mut frames = text.split_inclusive("\n\n");
    let hello = frames.next().unwrap();
    assert!(hello.starts_with("event: hello\ndata: {\"sessionId\":") && !hello.contains("\nid:"), "{hello:?}");
    for (number, frame) in frames.enumerate() {
        let id = format!("\nid: {}\n\n", number + 1);
        assert!(frame.starts_with("event: message\ndata: {\"type\":\"") && frame.ends_with(&id), "{frame:?}");
        assert_eq!(frame.lines().count(), 4, "{frame:?}");
    }
}

#[tokio::test]
async fn two_clients_see_the_same_frames_under_the_same_numbers() {
    let world = World::scripted(Kind::OpenAi).await;
    world.provider.reply(Answer::new().text("A look.").tool_call("c1", "bash", &json!({"command": "seq 1 200"})));
    world.provider.reply(Answer::says("Seen."));
    let (mut one, mut two) = (world.reader("").await, world.reader("").await);
    world.prompt("go").await;
    one.run_end().await;
    two.run_end().await;
    assert_eq!(one.frames, two.frames);
    assert_eq!(one.view, two.view);
}

/// What one reader gets of a reply of so many deltas: frames, bytes of body, and bytes of text.
async fn cost(world: &World, deltas: usize) -> (u64, u64, u64) {
    let text = "some words ";
    let mut stream = world.stream("?view=delta").await;
    stream.next().await.unwrap();
    let before = stream.received();
    world.prompt(&format!("!repeat {deltas} {text}")).await;
    let frames = stream.until_type("agent_end").await.unwrap().len();
    (frames as u64, stream.received() - before, (deltas * text.len()) as u64)
}

#[tokio::test]
async fn a_reply_costs_bytes_in_proportion_to_its_length() {
    let world = World::echo().await;
    let (frames, short, text) = cost(&world, 1_000).await;
    let (long_frames, long, long_text) = cost(&world, 10_000).await;
    eprintln!("{frames} frames, {short} bytes for {text} of text; {long_frames} frames, {long} bytes for {long_text}");
    assert!(short <= 5 * text + 160 * frames && long <= 5 * long_text + 160 * long_frames);
    assert!(long * 10 <= short * 105, "{short} bytes for 1,000 deltas, {long} for 10,000");
}

#[tokio::test]
async fn a_reader_that_never_reads_loses_its_connection_and_nothing_else() {
    let world = World::echo().await;
    let mut stalled = attach_and_stall(&world, "").await;
    let (pid, address) = (world.daemon.pid(), stalled.local_address().unwrap());
    world.prompt(&format!("!repeat {DELTAS} many words that fill every buffer on the way")).await;
    world.idle().await;
    assert!(holds_connection(pid, address).unwrap(), "it left by itself");
    // A write that makes no progress is given up after 30 s.
    let ended = || holds_connection(pid, address).is_ok_and(|held| !held).then_some(());
    eventually("the end of the stalled connection", Duration::from_secs(45), ended).await.unwrap();
    // Cut off, not ended. A reset may take with it what was not read.
    let got = stalled.read_to_end().await.unwrap();
    assert!(!got.ends_with(b"0\r\n\r\n"), "{} bytes and a clean end", got.len());
    assert_eq!(world.messages().await.len(), 2);
}
