//! The bytes of frames on both streams: their lines, which of them have a number, and how often a quiet stream says that it is there.

use std::time::{Duration, Instant};

use serde_json::json;
use wolli_testkit::provider::Kind;

use crate::support::World;
use crate::wire::{data_of, frames, id_of, stream, without_numbers, without_texts};

const MODEL: &str = concat!(
    r#"{"id":"scripted-1","name":"Scripted","api":"anthropic-messages","provider":"scripted","baseUrl":"URL","reasoning":true,"#,
    r#""input":["text","image"],"cost":{"input":1,"output":2,"cacheRead":0.5,"cacheWrite":1.5},"contextWindow":200000,"maxTokens":32000}"#
);

#[tokio::test]
async fn the_hello_of_a_session_has_these_bytes() {
    let world = World::scripted(Kind::Anthropic).await;
    let file = world.session_file().await;
    for view in ["", "?view=full", "?view=delta&include=compaction,retry,waiting,login_ui,lifecycle"] {
        let mut stream = stream(&world, &world.events_path(view), &[]).await;
        let event = stream.next().await.unwrap().unwrap();
        assert_eq!((event.name.as_str(), &event.id), ("hello", &None));
        let expected = format!(
            concat!(
                "event: hello\ndata: {{\"sessionId\":\"{}\",\"model\":{},\"thinkingLevel\":\"off\",\"scopedModels\":[],\"isStreaming\":false,",
                "\"sessionFile\":\"{}\",\"messageCount\":0,\"pendingMessageCount\":0,\"confinement\":\"none\",",
                "\"stream\":{{\"firstId\":1,\"lastId\":0,\"resumed\":false,\"gap\":false}},\"dialogs\":[]}}\n\n"
            ),
            world.session,
            MODEL.replace("URL", &format!("http://{}", world.provider.address())),
            file.display(),
        );
        assert_eq!(String::from_utf8_lossy(stream.bytes()), expected, "{view}");
    }
}

#[tokio::test]
async fn a_run_has_these_bytes() {
    let world = World::echo().await;
    let mut stream = stream(&world, &world.events_path(""), &[]).await;
    world.prompt("Grüße an 🦀").await;
    stream.until_type("agent_end").await.unwrap();
    let usage = r#""usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;
    let user = r#"{"role":"user","content":[{"type":"text","text":"Grüße an 🦀"}],"timestamp":TIME}"#;
    let answer = |content: &str| {
        format!(
            r#"{{"role":"assistant","content":[{content}],"api":"echo","provider":"echo","model":"demo",{usage},"stopReason":"stop","timestamp":TIME}}"#
        )
    };
    let update = |step: &str| format!(r#"{{"type":"message_update","assistantMessageEvent":{step}}}"#);
    let expected: Vec<String> = [
        r#"{"type":"agent_start"}"#.to_owned(),
        r#"{"type":"turn_start"}"#.to_owned(),
        format!(r#"{{"type":"message_start","message":{user},"entryId":"ENTRY"}}"#),
        format!(r#"{{"type":"message_end","message":{user},"entryId":"ENTRY"}}"#),
        format!(r#"{{"type":"message_start","message":{},"entryId":"ENTRY"}}"#, answer("")),
        update(r#"{"type":"text_start","contentIndex":0}"#),
        update(r#"{"type":"text_delta","contentIndex":0,"delta":"Grüße "}"#),
        update(r#"{"type":"text_delta","contentIndex":0,"delta":"an "}"#),
        update(r#"{"type":"text_delta","contentIndex":0,"delta":"🦀"}"#),
        update(r#"{"type":"text_end","contentIndex":0,"content":"Grüße an 🦀"}"#),
        format!(r#"{{"type":"message_end","message":{},"entryId":"ENTRY"}}"#, answer(r#"{"type":"text","text":"Grüße an 🦀"}"#)),
        r#"{"type":"turn_end","message":{"entryId":"ENTRY"},"toolResults":[]}"#.to_owned(),
        r#"{"type":"agent_end","messages":[{"entryId":"ENTRY"},{"entryId":"ENTRY"}]}"#.to_owned(),
    ]
    .iter()
    .zip(1..)
    .map(|(data, id)| format!("event: message\ndata: {data}\nid: {id}\n\n"))
    .collect();
    let seen: Vec<String> =
        frames(&stream)[1..].iter().map(|frame| without_texts(&without_numbers(frame, "timestamp", "TIME"), "entryId", "ENTRY")).collect();
    let seen: Vec<String> = seen.iter().map(|frame| without_usage(frame, usage)).collect();
    assert_eq!(seen, expected);
}

/// The demonstration counts words for tokens; how many is not what is looked at.
fn without_usage(frame: &str, zero: &str) -> String {
    let Some((before, rest)) = frame.split_once("\"usage\":{") else { return frame.to_owned() };
    let (_, after) = rest.split_once("}}").unwrap();
    format!("{before}{zero}{after}")
}

#[tokio::test]
async fn data_is_one_line_whatever_it_holds() {
    let world = World::echo().await;
    let mut stream = stream(&world, &world.events_path(""), &[]).await;
    let text = "a\nb\r\nc\rd\u{2028}e\u{85}f\tg\"h\\";
    world.prompt(text).await;
    stream.until_type("agent_end").await.unwrap();
    let seen = frames(&stream);
    assert!(!stream.bytes().contains(&b'\r'));
    for frame in &seen {
        let lines: Vec<&str> = frame.split('\n').collect();
        let names: Vec<&str> = lines.iter().map(|line| line.split(':').next().unwrap()).collect();
        let hello = ["event", "data", "", ""];
        let event = ["event", "data", "id", "", ""];
        assert!(names == hello || names == event, "{frame:?}");
    }
    let told = data_of(seen.iter().find(|frame| frame.contains("\"role\":\"user\"")).unwrap());
    assert_eq!(told["message"]["content"][0]["text"], text);
}

#[tokio::test]
async fn frames_of_the_control_stream_have_these_bytes_and_no_number() {
    let world = World::echo().await;
    let session = &world.session;
    let mut control = stream(&world, "/events", &[("last-event-id", "1")]).await;
    control.next().await.unwrap().unwrap();
    let hello = format!("event: hello\ndata: {}\n\n", world.client().get("/sessions").await.unwrap().text());
    assert_eq!(frames(&control), [hello], "the same as GET /sessions");
    // The session of the start is live; a reader that comes and goes makes it leave, another one makes it come.
    world.succeed(json!({"type": "rename_session", "targetSessionId": session, "sessionName": "minutes"})).await;
    drop(world.stream("").await);
    control.until_type("session_removed").await.unwrap();
    let reader = world.stream("").await;
    control.until_type("session_added").await.unwrap();
    drop(reader);
    control.until_type("session_removed").await.unwrap();
    let expected = [
        format!(r#"{{"type":"session_renamed","sessionId":"{session}","sessionName":"minutes"}}"#),
        format!(r#"{{"type":"session_removed","sessionId":"{session}"}}"#),
        format!(
            r#"{{"type":"session_added","session":{{"sessionId":"{session}","sessionName":"minutes","isStreaming":false,"live":true}}}}"#
        ),
        format!(r#"{{"type":"session_removed","sessionId":"{session}"}}"#),
    ]
    .map(|data| format!("event: message\ndata: {data}\n\n"));
    assert_eq!(frames(&control)[1..], expected);
}

#[tokio::test]
async fn a_ping_comes_every_15_seconds_whatever_else_is_sent() {
    let world = World::echo().await;
    let mut session = stream(&world, &world.events_path(""), &[]).await;
    let mut control = stream(&world, "/events", &[]).await;
    session.next().await.unwrap().unwrap();
    control.next().await.unwrap().unwrap();
    let first = Instant::now();
    // Frames all the time, up to the ping.
    world.prompt("!sleep 1000\n!repeat 15 x ").await;
    let limit = Duration::from_secs(18);
    for stream in [&mut session, &mut control] {
        stream.until_bytes(b": ping\n\n", limit).await.unwrap();
        let after = first.elapsed();
        assert!(after > Duration::from_millis(14_500) && after < Duration::from_secs(17), "a ping after {after:?}");
    }
    let pings: Vec<String> = [&session, &control].into_iter().flat_map(frames).filter(|frame| frame.starts_with(':')).collect();
    assert_eq!(pings, [": ping\n\n", ": ping\n\n"]);
    assert!(frames(&session).iter().filter(|frame| id_of(frame).is_some()).count() > 10, "there were frames before it");
}
