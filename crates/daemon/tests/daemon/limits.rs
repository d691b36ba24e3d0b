//! What bad or slow clients can do to the daemon: nothing.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpSocket;
use tokio::time::Instant;
use wolli_daemon::Timing;

use crate::support::{Client, Events, TestHome, quick};

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_by_name() {
    let home = TestHome::new();
    home.configure("[limits]\nbody = \"64KiB\"\n");
    let daemon = home.start().await;
    let id = daemon.session().await;
    let path = format!("/sessions/{id}/control");
    // Announced: refused before it is sent.
    let mut client = daemon.connect().await;
    client.send(&format!("POST {path} HTTP/1.1\r\n{}content-length: 65537\r\n\r\n", daemon.owner())).await;
    let response = client.response().await;
    assert_eq!(response.status(), 413);
    assert_eq!(response.json(), json!({"error": "the body is larger than 65536 bytes; the limit is \"body\" in [limits] of config.toml"}));
    // Not announced: refused when it is reached, and the answer arrives although more was sent.
    let mut client = daemon.connect().await;
    client.send(&format!("POST {path} HTTP/1.1\r\n{}transfer-encoding: chunked\r\n\r\n", daemon.owner())).await;
    for _ in 0..5 {
        client.send(&format!("4000\r\n{}\r\n", "x".repeat(0x4000))).await;
    }
    assert_eq!(client.response().await.status(), 413);
    // Just within it.
    let text = format!("{{\"type\":\"get_dialogs\",\"x\":\"{}\"}}", "x".repeat(65536 - 29));
    assert_eq!(text.len(), 65536);
    assert_eq!(daemon.post(&path, &text).await.json()["success"], true);
}

#[tokio::test]
async fn malformed_http_hurts_nobody_else() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    events.event().await;
    for garbage in [
        "\r\n\r\n\0\0\0\0 \r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /health HTTP/1.1\r\nbad header\r\n\r\n",
        "POST /sessions/x/control HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
        "POST /sessions/x/control HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        "\u{16}\u{3}\u{1}\u{2}hello over TLS",
    ] {
        let mut client = daemon.connect().await;
        client.send(garbage).await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{garbage:?}: {answer}");
    }
    let mut client = daemon.connect().await;
    client.send(&format!("GET /health HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(200_000))).await;
    assert_eq!(client.response().await.status(), 431);
    assert_eq!(daemon.command(&id, json!({"type": "prompt", "message": "still there?"})).await["success"], true);
    events.until("agent_end").await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_answered_or_closed_at_once() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut client = daemon.connect().await;
    client.send(&format!("POST /sessions/{id}/control HTTP/1.1\r\n{}content-length: 100\r\n\r\n{{", daemon.owner())).await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap();
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn slow_requests_are_ended() {
    let timing = Timing { request_head: Duration::from_millis(200), request_body: Duration::from_millis(200), ..quick() };
    let daemon = TestHome::new().start_with(timing, &[]).await;
    let id = daemon.session().await;
    let started = Instant::now();
    let mut client = daemon.connect().await;
    client.send("GET /health HTTP/1.1\r\nhost: local").await;
    assert_eq!(client.rest().await, b"");
    let mut client = daemon.connect().await;
    client.send(&format!("POST /sessions/{id}/control HTTP/1.1\r\n{}content-length: 100\r\n\r\n{{", daemon.owner())).await;
    let response = client.response().await;
    assert_eq!((response.status(), response.header("connection")), (408, Some("close")));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_connection_at_rest_is_closed_and_a_busy_one_is_not() {
    let daemon = TestHome::new().start_with(Timing { idle: Duration::from_millis(300), ..quick() }, &[]).await;
    let mut client = daemon.connect().await;
    let request = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", daemon.address);
    // Longer than the limit in all, each pause shorter: requests that are answered in no time count as well.
    for _ in 0..4 {
        client.send(&request).await;
        assert_eq!(client.response().await.status(), 200);
        tokio::time::timeout(Duration::from_millis(150), client.stream.readable()).await.unwrap_err();
    }
    let (id, mut events) = daemon.session_at_rest().await;
    client.send(&request).await;
    assert_eq!(client.response().await.status(), 200);
    let started = Instant::now();
    assert_eq!(client.rest().await, b"");
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(250) && elapsed < Duration::from_secs(5), "{elapsed:?}");
    // The stream has been quiet for as long, and is still there.
    daemon.command(&id, json!({"type": "get_state"})).await;
    events.until("session_added").await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_dropped_and_delays_nobody() {
    let daemon = TestHome::new().start_with(Timing { write_stall: Duration::from_millis(300), ..quick() }, &[]).await;
    let id = daemon.session().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    let mut stalled = Client::new(socket.connect(daemon.address).await.unwrap());
    stalled.send(&format!("GET /sessions/{id}/events HTTP/1.1\r\n{}\r\n", daemon.owner())).await;
    stalled.head().await;
    let mut control = Events::new(daemon.stream("/events").await);
    control.event().await;

    // Far more than every buffer on the way.
    let mut reader = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    reader.event().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!repeat 60000 abcdefgh "})).await;
    reader.until("agent_end").await;
    // The others leave; once the stalled one is dropped as well the session leaves memory.
    drop(reader);
    control.until("session_removed").await;
    let rest = stalled.rest().await;
    assert!(rest.len() < 8 << 20, "{}", rest.len());
}

#[tokio::test]
async fn a_session_that_is_opened_by_many_at_once_is_opened_once() {
    let daemon = TestHome::new().start().await;
    let (id, mut control) = daemon.session_at_rest().await;
    let asked = (0..50).map(|_| daemon.command(&id, json!({"type": "get_state"})));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer["success"], true);
    }
    control.until("session_added").await;
    daemon.command(&id, json!({"type": "rename_session", "targetSessionId": id, "sessionName": "x"})).await;
    let (_, next) = control.event().await.unwrap();
    assert_eq!(next["type"], "session_renamed", "no second session_added");
}

#[tokio::test]
async fn readers_that_come_and_go_leave_nothing_behind() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    // Keeps the session in memory.
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    events.event().await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    for round in 0..100 {
        let mut readers = Vec::new();
        for path in [format!("/sessions/{id}/events"), "/events".to_owned(), format!("/sessions/{id}/events?view=full")] {
            let mut reader = Events::new(daemon.stream(&path).await);
            reader.event().await;
            readers.push(reader);
        }
        if round % 2 == 0 {
            // Half of them close their sending side first and linger.
            for reader in &mut readers {
                tokio::io::AsyncWriteExt::shutdown(&mut reader.client.stream).await.unwrap();
            }
        }
    }
    let deadline = Instant::now() + crate::support::PATIENCE;
    // The look itself uses a connection, whose ends may be on their way out.
    while descriptors() > before + 4 {
        assert!(Instant::now() < deadline, "{} descriptors, {before} before", descriptors());
        daemon.get("/health").await;
    }
    assert_eq!(daemon.command(&id, json!({"type": "get_state"})).await["success"], true);
}

#[tokio::test]
async fn an_answer_that_is_still_being_read_is_not_a_connection_at_rest() {
    let daemon = TestHome::new().start_with(Timing { idle: Duration::from_millis(100), ..quick() }, &[]).await;
    let id = daemon.session().await;
    let text = "y".repeat(8 << 20);
    daemon.command(&id, json!({"type": "seed_assistant_message", "text": text})).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client::new(socket.connect(daemon.address).await.unwrap());
    client.send(&daemon.post_text(&format!("/sessions/{id}/control"), r#"{"type":"get_messages"}"#)).await;
    client.head().await;
    let pause = std::future::pending::<()>();
    tokio::time::timeout(Duration::from_millis(500), pause).await.unwrap_err();
    let rest = client.rest().await;
    assert!(rest.len() > text.len() && rest.ends_with(b"]}}"), "{} bytes", rest.len());
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_an_answer_and_an_end() {
    let daemon = TestHome::new().start().await;
    let mut client = daemon.connect().await;
    client.send("GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.contains("\"status\":\"ok\""), "{answer}");
    let mut client = daemon.connect().await;
    client.send("GET /events HTTP/1.0\r\nhost: localhost\r\n\r\n").await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.ends_with("\r\n\r\nUnauthorized"), "{answer}");
}

#[tokio::test]
async fn a_client_that_asks_to_close_is_closed() {
    let daemon = TestHome::new().start().await;
    let mut client = daemon.connect().await;
    client.send("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: Close\r\n\r\n").await;
    assert_eq!(client.response().await.header("connection"), Some("close"));
    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn requests_that_are_sent_ahead_are_answered_in_order() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut client = daemon.connect().await;
    let path = format!("/sessions/{id}/control");
    let ahead: String = (0..20).map(|n| daemon.post_text(&path, &format!(r#"{{"id":{n},"type":"get_state"}}"#))).collect();
    client.send(&ahead).await;
    for n in 0..20 {
        assert_eq!(client.response().await.json()["id"], n);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_socket_is_left_to_programs_that_are_started() {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let daemon = TestHome::new().start().await;
    let mut events = Events::new(daemon.stream("/events").await);
    events.event().await;
    let mut sockets = 0;
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        if !std::fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:")) {
            continue;
        }
        let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", path.file_name().unwrap().to_str().unwrap())) else {
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        assert!(u32::from_str_radix(flags, 8).unwrap() & CLOSE_ON_EXEC != 0, "{path:?}: {info}");
        sockets += 1;
    }
    assert!(sockets >= 4, "two listeners and both ends of a connection, not {sockets}");
}
