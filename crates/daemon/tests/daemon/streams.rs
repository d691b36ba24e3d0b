//! Event streams: headers, frames, keep-alive, resuming, and what is refused.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use wolli_daemon::Timing;

use crate::support::{Events, TestHome, quick};

#[tokio::test]
async fn a_session_stream_has_the_known_headers_and_bytes() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut client = daemon.connect().await;
    client.send(&format!("GET /sessions/{id}/events HTTP/1.1\r\n{}accept-encoding: gzip\r\n\r\n", daemon.owner())).await;
    let head = client.head().await;
    let mut lines: Vec<&str> = head.trim_end().lines().filter(|line| !line.to_lowercase().starts_with("date: ")).collect();
    assert_eq!(lines.remove(0), "HTTP/1.1 200 OK");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "cache-control: no-cache, no-transform",
            "connection: keep-alive",
            "content-type: text/event-stream",
            "transfer-encoding: chunked",
            "x-accel-buffering: no"
        ]
    );
    let hello = String::from_utf8(client.chunk().await.unwrap()).unwrap();
    assert!(hello.starts_with(&format!("event: hello\ndata: {{\"sessionId\":\"{id}\",")), "{hello}");
    assert!(hello.ends_with("}\n\n") && !hello.contains("\nid: ") && !hello.contains('\r'), "{hello}");

    let answer = daemon.command(&id, json!({"type": "prompt", "message": "one two"})).await;
    assert_eq!(answer, json!({"type": "response", "command": "prompt", "success": true}));
    let frame = client.until("\n\n").await;
    assert!(frame.ends_with("event: message\ndata: {\"type\":\"agent_start\"}\nid: 1\n\n"), "{frame}");
}

#[tokio::test]
async fn frames_arrive_numbered_and_a_cut_reader_resumes() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    daemon.command(&id, json!({"type": "prompt", "message": "one two three"})).await;
    let mut all = Vec::new();
    loop {
        let frame = events.next().await.unwrap();
        let last = frame.contains("\"type\":\"agent_end\"");
        all.push(frame);
        if last {
            break;
        }
    }
    drop(events);
    let ids: Vec<u64> = all.iter().skip(1).map(|frame| frame.rsplit_once("\nid: ").unwrap().1.parse().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());

    for cut in [0, 1, 3, ids.len()] {
        let mut client = daemon.connect().await;
        client.send(&format!("GET /sessions/{id}/events HTTP/1.1\r\n{}last-event-id: {cut}\r\n\r\n", daemon.owner())).await;
        client.head().await;
        let mut events = Events::new(client);
        let (name, hello) = events.event().await.unwrap();
        assert_eq!((name.as_str(), &hello["stream"]["resumed"], &hello["stream"]["gap"]), ("hello", &json!(true), &json!(false)));
        for frame in &all[1 + cut..] {
            assert_eq!(events.next().await.as_ref(), Some(frame), "byte for byte, after {cut}");
        }
    }
    let mut client = daemon.connect().await;
    client.send(&format!("GET /sessions/{id}/events HTTP/1.1\r\n{}last-event-id: x1\r\n\r\n", daemon.owner())).await;
    client.head().await;
    let (_, hello) = Events::new(client).event().await.unwrap();
    assert_eq!((&hello["stream"]["resumed"], &hello["stream"]["gap"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn both_streams_are_kept_alive_at_a_steady_pace_whatever_else_they_carry() {
    let keepalive = Duration::from_millis(200);
    let daemon = TestHome::new().start_with(Timing { keepalive, ..quick() }, &[]).await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 20\n!repeat 100 x "})).await;
    for path in ["/events".to_owned(), format!("/sessions/{id}/events")] {
        let mut events = Events::new(daemon.stream(&path).await);
        assert!(events.next().await.unwrap().starts_with("event: hello\n"));
        let first = Instant::now();
        for n in 1..=4_u32 {
            while events.next().await.unwrap() != ": ping" {}
            let elapsed = first.elapsed();
            assert!(elapsed >= keepalive * n - Duration::from_millis(50), "ping {n} of {path} after {elapsed:?}");
            assert!(elapsed < keepalive * (n + 3), "ping {n} of {path} after {elapsed:?}");
        }
    }
}

#[tokio::test]
async fn head_looks_and_does_not_stay() {
    let daemon = TestHome::new().start().await;
    let (id, _control) = daemon.session_at_rest().await;
    for (path, kind) in [
        ("/health".to_owned(), "application/json"),
        ("/sessions".to_owned(), "application/json"),
        ("/events".to_owned(), "text/event-stream"),
        (format!("/sessions/{id}/events"), "text/event-stream"),
        (format!("/sessions/{id}/entries"), "application/json"),
    ] {
        let mut client = daemon.connect().await;
        for _ in 0..2 {
            // The second one shows that the connection is in order after the first.
            client.send(&format!("HEAD {path} HTTP/1.1\r\n{}\r\n", daemon.owner())).await;
            let response = client.response_to("HEAD").await;
            assert_eq!((response.status(), response.header("content-type")), (200, Some(kind)), "{path}");
        }
    }
    let mut client = daemon.connect().await;
    client.send(&format!("HEAD /sessions/nope/events HTTP/1.1\r\n{}\r\n", daemon.owner())).await;
    assert_eq!(client.response_to("HEAD").await.status(), 404);
    assert_eq!(daemon.get("/sessions").await.json()["sessions"][0]["live"], false, "nobody made the session live");
}

#[tokio::test]
async fn what_cannot_be_attached_is_said_with_a_status() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    for (path, status, error) in [
        ("/sessions/nope/events".to_owned(), 404, "No session \"nope\" for agent \"scribe\""),
        ("/sessions/a%2F..%2Fb/events".to_owned(), 404, "No session \"a/../b\" for agent \"scribe\""),
        ("/sessions/nope/entries".to_owned(), 404, "No session \"nope\" for agent \"scribe\""),
        (format!("/sessions/{id}/events?view=whole"), 400, "unknown view \"whole\"; valid are delta, full and snapshot"),
        (
            format!("/sessions/{id}/events?include=usage,x"),
            400,
            "unknown word \"x\" in include; valid are compaction, retry, waiting, login_ui, usage, lifecycle and all",
        ),
        (format!("/sessions/{id}/events?after=nope"), 404, "No entry \"nope\" on the active branch"),
        (format!("/sessions/{id}/entries?after=nope"), 404, "No entry \"nope\" on the active branch"),
        (format!("/sessions/{id}/entries?limit=0"), 400, "limit must be a number from 1 to 10000"),
        (format!("/sessions/{id}/entries?limit=x"), 400, "limit must be a number from 1 to 10000"),
    ] {
        let response = daemon.get(&path).await;
        assert_eq!((response.status(), response.json()), (status, json!({ "error": error })), "{path}");
        assert_eq!(response.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn view_full_has_the_shapes_of_wolli_0_0_2() {
    let home = TestHome::new();
    home.configure("[events]\nview = \"full\"\n");
    let daemon = home.start().await;
    let id = daemon.session().await;
    let mut by_default = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    let mut asked = Events::new(daemon.stream(&format!("/sessions/{id}/events?view=delta")).await);
    by_default.event().await;
    asked.event().await;
    daemon.command(&id, json!({"type": "prompt", "message": "hello there"})).await;
    let full = by_default.until("message_update").await;
    assert!(full["message"].is_object() && full["assistantMessageEvent"]["partial"].is_object(), "{full}");
    let delta = asked.until("message_update").await;
    assert!(delta.get("message").is_none() && delta["assistantMessageEvent"].get("partial").is_none(), "{delta}");
    assert!(by_default.until("agent_end").await["messages"][0]["content"].is_array());
}

#[tokio::test]
async fn entries_come_in_pages() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "hello"})).await;
    daemon.command(&id, json!({"type": "wait_for_idle"})).await;
    let all = daemon.get(&format!("/sessions/{id}/entries")).await.json();
    let all = all["entries"].as_array().unwrap();
    let mut paged = Vec::new();
    let mut path = format!("/sessions/{id}/entries?limit=1");
    loop {
        let page = daemon.get(&path).await.json();
        paged.extend(page["entries"].as_array().unwrap().clone());
        match page.get("next") {
            Some(next) => path = format!("/sessions/{id}/entries?limit=1&after={}", next.as_str().unwrap()),
            None => break,
        }
    }
    assert!(all.len() >= 2);
    assert_eq!(&paged, all);
}

#[tokio::test]
async fn the_control_stream_tells_which_sessions_are_live() {
    let daemon = TestHome::new().start().await;
    let (id, _) = daemon.session_at_rest().await;
    let mut control = Events::new(daemon.stream("/events").await);
    let (name, hello) = control.event().await.unwrap();
    assert_eq!((name.as_str(), &hello["config"]["name"], &hello["config"]["token"]), ("hello", &json!("scribe"), &json!("")));
    let mut session = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    session.event().await;
    let added = control.until("session_added").await;
    assert_eq!(added, json!({"type": "session_added", "session": {"sessionId": id, "isStreaming": false, "live": true}}));
    // The client goes away; that is noticed at once and not at the next ping.
    drop(session);
    assert_eq!(control.until("session_removed").await, json!({"type": "session_removed", "sessionId": id}));
}

#[tokio::test]
async fn a_reader_that_closes_its_sending_side_is_gone() {
    let daemon = TestHome::new().start().await;
    let (id, mut control) = daemon.session_at_rest().await;
    let mut client = daemon.stream(&format!("/sessions/{id}/events")).await;
    client.chunk().await;
    control.until("session_added").await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    control.until("session_removed").await;
}
