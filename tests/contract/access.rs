//! Answers outside of the command envelope, with every byte of their heads and bodies.

use serde_json::json;
use wolli_testkit::http::Connection;

use crate::support::World;
use crate::wire::{expect_bytes, owner};

/// Headers that every answer with a body of known length has, in their order.
fn whole(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\ncontent-length: {length}\r\ndate: DATE\r\n\r\n{body}"
    )
}

/// A refusal: its challenge, and a body in one chunk.
fn refusal(status: &str, challenge: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain;charset=UTF-8\r\nwww-authenticate: {challenge}\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\ntransfer-encoding: chunked\r\ndate: DATE\r\n\r\n{length:X}\r\n{body}\r\n0\r\n\r\n"
    )
}

#[tokio::test]
async fn the_three_failures_of_a_bearer_have_these_bytes() {
    let world = World::echo().await;
    let (address, token) = (world.agent.address(), &world.agent.token);
    let missing = refusal("401 Unauthorized", "Bearer realm=\"\"", "Unauthorized");
    let malformed = refusal("400 Bad Request", "Bearer error=\"invalid_request\"", "Bad Request");
    let wrong = refusal("401 Unauthorized", "Bearer error=\"invalid_token\"", "Unauthorized");
    let not_found = whole("404 Not Found", "text/plain; charset=UTF-8", "404 Not Found");
    let session = &world.session;
    for (line, authorization, expected) in [
        ("GET /sessions", None, &missing),
        ("GET /sessions", Some(""), &missing),
        ("GET /events", None, &missing),
        ("OPTIONS /sessions", None, &missing),
        ("GET /sessions/x/y/z", None, &missing),
        ("GET /sessions/", None, &missing),
        ("GET /sessions/x/events", None, &missing),
        ("GET /sessions", Some("Bearer "), &malformed),
        ("GET /sessions", Some("Bearer"), &malformed),
        ("GET /sessions", Some("Bearer a b"), &malformed),
        ("GET /sessions", Some("Bearer gr\u{fc}n"), &malformed),
        ("GET /sessions", Some("Bearer =x"), &malformed),
        ("GET /sessions", Some("Token abc"), &malformed),
        ("GET /sessions", Some("Bearer 00"), &wrong),
        ("GET /sessions", Some("bEARER a.b_c~d+e/f-g=="), &wrong),
        ("GET /sessions", Some("Bearer      00"), &wrong),
        ("GET /events", Some("Bearer 00"), &wrong),
        // Who may ask is settled before what is asked for.
        ("GET /sessions/x/y/z", Some("OWNER"), &not_found),
        ("OPTIONS /sessions", Some("OWNER"), &not_found),
        ("PUT /sessions", Some("OWNER"), &not_found),
        ("POST /events", Some("OWNER"), &not_found),
        ("GET /sessions/", Some("OWNER"), &not_found),
        ("GET /sessions//events", Some("OWNER"), &not_found),
        ("GET /Sessions", Some("OWNER"), &not_found),
        ("GET /events/", None, &not_found),
        ("GET /health/", None, &not_found),
        ("PUT /health", None, &not_found),
        ("GET /", None, &not_found),
    ] {
        let authorization = authorization.map(|value| value.replace("OWNER", &format!("Bearer {token}")));
        let header = authorization.map(|value| format!("authorization: {value}\r\n")).unwrap_or_default();
        expect_bytes(&world, &format!("{line} HTTP/1.1\r\nhost: {address}\r\n{header}\r\n"), expected).await;
    }
    // Both spellings that a client may use for the right one.
    for spelling in ["bearer", "BEARER", "Bearer   "] {
        let request = format!("GET /sessions/{session}/entries HTTP/1.1\r\nhost: {address}\r\nauthorization: {spelling} {token}\r\n\r\n");
        expect_bytes(&world, &request, &whole("200 OK", "application/json", "{\"entries\":[]}")).await;
    }
}

#[tokio::test]
async fn health_has_these_bytes_for_strangers() {
    let mut world = World::echo().await;
    let started = world.daemon.ready().await.unwrap()["startedAt"].as_str().unwrap().to_owned();
    let body = format!(r#"{{"status":"ok","agent":"a","pid":{},"startedAt":"{started}"}}"#, world.daemon.pid());
    for path in ["/health", "/health?", "/health?what=ever"] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", world.agent.address());
        expect_bytes(&world, &request, &whole("200 OK", "application/json", &body)).await;
    }
    let written: Vec<&str> = started.split(['-', 'T', ':', '.', 'Z']).collect();
    assert_eq!(written.iter().map(|digits| digits.len()).collect::<Vec<_>>(), [4, 2, 2, 2, 2, 2, 3, 0], "{started}");
}

#[tokio::test]
async fn the_agent_and_its_sessions_have_these_bytes() {
    let world = World::echo().await;
    let created = world.agent_state().await["sessions"][0]["createdAt"].as_str().unwrap().to_owned();
    let (home, session, port) = (world.agent.home.display(), &world.session, world.agent.port);
    let body = [
        r#"{"config":{"schemaVersion":2,"name":"a","purpose":"be tested","createdAt":"2026-03-01T08:00:00.000Z","deployedAt":null,"#,
        &format!(r#""port":{port},"token":"","settings":{{"defaultModel":"echo/demo"}}}},"cwd":"{home}","#),
        &format!(
            r#""sessions":[{{"sessionId":"{session}","createdAt":"{created}","isStreaming":false,"live":true}}],"confinement":"none"}}"#
        ),
    ]
    .concat();
    for path in ["/sessions", "/sessions?limit=0", "/sessions?x"] {
        expect_bytes(&world, &format!("{}\r\n", owner(&world, "GET", path)), &whole("200 OK", "application/json", &body)).await;
    }
    assert_eq!(session.len(), 36);
    assert_eq!((&session[14..15], session.to_lowercase().as_str()), ("7", session.as_str()), "a lower-case UUID of version 7");
}

#[tokio::test]
async fn a_config_says_at_once_what_stands_in_its_file() {
    let world = World::echo().await;
    let path = world.agent.home.join("agent.json");
    let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["purpose"] = json!("keep minutes");
    config["added"] = json!({"by": "hand"});
    std::fs::write(&path, config.to_string()).unwrap();
    let state = world.agent_state().await;
    assert_eq!((&state["config"]["purpose"], &state["config"]["added"]), (&json!("keep minutes"), &json!({"by": "hand"})));
    let hello = world.client().events("/events", &[]).await.unwrap().next_json().await.unwrap();
    assert_eq!(hello, state);
}

#[tokio::test]
async fn an_unknown_session_has_these_bytes_on_every_route() {
    let world = World::echo().await;
    let body = r#"{"error":"No session \"a/b\" for agent \"a\""}"#;
    for route in ["events", "events?view=full", "entries"] {
        let request = format!("{}\r\n", owner(&world, "GET", &format!("/sessions/a%2Fb/{route}")));
        expect_bytes(&world, &request, &whole("404 Not Found", "application/json", body)).await;
    }
    let command = r#"{"id":[],"type":"get_state"}"#;
    let head = owner(&world, "POST", "/sessions/a%2Fb/control");
    let body = r#"{"id":[],"type":"response","command":"get_state","success":false,"error":"No session \"a/b\" for agent \"a\""}"#;
    let request = format!("{head}content-length: {}\r\n\r\n{command}", command.len());
    expect_bytes(&world, &request, &whole("200 OK", "application/json", body)).await;
}

#[tokio::test]
async fn a_stream_begins_with_these_bytes_before_its_first_frame() {
    let world = World::echo().await;
    let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\nconnection: keep-alive\r\nx-accel-buffering: no\r\ntransfer-encoding: chunked\r\ndate: DATE\r\n\r\n";
    for path in ["/events".to_owned(), world.events_path("")] {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        connection.send(format!("{}accept: */*\r\naccept-encoding: gzip, deflate\r\n\r\n", owner(&world, "GET", &path))).await.unwrap();
        let (_, head) = connection.read_head().await.unwrap();
        assert_eq!(crate::wire::without_date(std::str::from_utf8(&head).unwrap()), expected, "{path}");
    }
}
