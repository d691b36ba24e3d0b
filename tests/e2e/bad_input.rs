//! Whatever is sent, the answer is the documented one, and the daemon serves the next.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::http::{Connection, Response};

use crate::support::{World, count};

/// The daemon still serves: an open route, a guarded one and a command.
async fn still_serves(world: &World, after: &str) {
    assert_eq!(world.agent.stranger().get("/health").await.unwrap().json()["status"], "ok", "after {after}");
    assert_eq!(world.state().await["isStreaming"], false, "after {after}");
}

async fn control(world: &World, body: &[u8]) -> Response {
    let path = format!("/sessions/{}/control", world.session);
    world.client().send("POST", &path, &[], Some(body)).await.unwrap()
}

#[tokio::test]
async fn bodies_that_are_no_command_get_an_error_that_names_it() {
    let world = World::echo().await;
    let malformed = r#"{"type":"response","command":"unknown","success":false,"error":"Malformed JSON body."}"#;
    let bodies: &[&[u8]] =
        &[b"", b"{", b"nope", b"{\"type\":\"get_state\"", b"{\"type\":\"\xff\xfe\"}", b"\xff\xff", b"{} {}", b"\0", b"[1,"];
    for body in bodies {
        let answer = control(&world, body).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, malformed), "{:?}", String::from_utf8_lossy(body));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    // Deeper than anything that is parsed recursively.
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(control(&world, deep.as_bytes()).await.json()["success"], false);

    for (body, error) in [
        ("null", "Unknown command: undefined"),
        ("7", "Unknown command: undefined"),
        ("\"get_state\"", "Unknown command: undefined"),
        ("[]", "Unknown command: undefined"),
        ("{}", "Unknown command: undefined"),
        (r#"{"type":"reboot"}"#, "Unknown command: reboot"),
        (r#"{"type":"Prompt","message":"x"}"#, "Unknown command: Prompt"),
        (r#"{"type":"prompt"}"#, "Invalid prompt: message must be a string"),
        (r#"{"type":"prompt","message":7}"#, "Invalid prompt: message must be a string"),
        (r#"{"type":"prompt","message":null}"#, "Invalid prompt: message must be a string"),
        (r#"{"type":"set_model","provider":"x"}"#, "Invalid set_model: modelId must be a string"),
        (r#"{"type":"set_model","provider":"no","modelId":"such"}"#, "Model not found: no/such"),
        (
            r#"{"type":"set_thinking_level","level":"deep"}"#,
            "Invalid set_thinking_level: level must be one of off, minimal, low, medium, high, xhigh",
        ),
    ] {
        let answer = control(&world, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{body}");
        let json = answer.json();
        assert_eq!((&json["success"], &json["error"]), (&json!(false), &json!(error)), "{body}");
        assert_eq!(json["type"], "response", "{body}");
    }
    for body in [r#"{"type":"prompt","message":"x","images":[{"type":"image"}]}"#, r#"{"type":"prompt","message":"x","images":7}"#] {
        let json = control(&world, body.as_bytes()).await.json();
        assert!(json["error"].as_str().is_some_and(|text| text.starts_with("Invalid prompt: ")), "{body}: {json}");
    }
    // A leading byte-order mark is no mistake, and unknown fields are none either.
    let answer = control(&world, "\u{feff}{\"type\":\"get_state\",\"more\":1}".as_bytes()).await;
    assert_eq!(answer.json()["success"], true);
    assert_eq!(world.messages().await, Vec::<Value>::new(), "something of it was stored");
    still_serves(&world, "bad bodies").await;
}

#[tokio::test]
async fn the_id_comes_back_as_it_was_sent() {
    let world = World::echo().await;
    for id in [json!("r1"), json!(7), json!(1.5), json!(null), json!(""), json!({"a": [1]}), json!(true)] {
        for kind in ["get_state", "no_such_command", "prompt"] {
            let answer = world.command(json!({"type": kind, "id": id})).await;
            assert_eq!((answer.get("id"), &answer["command"]), (Some(&id), &json!(kind)), "{answer}");
        }
    }
    let answer = world.command(json!({"type": "get_state"})).await;
    assert_eq!(answer.get("id"), None);
}

#[tokio::test]
async fn sessions_that_do_not_exist_are_said_not_to() {
    let world = World::echo().await;
    let client = world.client();
    // What stands in the path, and the id that it means.
    let ids = [
        ("nope", "nope"),
        ("..", ".."),
        ("%2e%2e", ".."),
        ("..%2F..%2Fagent.json", "../../agent.json"),
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", "../../etc/passwd"),
        ("a%20b", "a b"),
        ("%00", "\0"),
        ("%C3%A9", "é"),
        ("01a22c23-8147-7950-bb4c-250a3c650591", "01a22c23-8147-7950-bb4c-250a3c650591"),
    ];
    for (path, id) in ids {
        let error = format!("No session \"{id}\" for agent \"a\"");
        let answer = client.command(path, &json!({"type": "get_state", "id": 1})).await.unwrap();
        assert_eq!(answer, json!({"id": 1, "type": "response", "command": "get_state", "success": false, "error": error}), "{path}");
        for route in ["events", "entries"] {
            let answer = client.get(&format!("/sessions/{path}/{route}")).await.unwrap();
            assert_eq!((answer.status, answer.json()), (404, json!({"error": error})), "{path}/{route}");
        }
        let answer = client.post(&format!("/sessions/{path}/ui-response"), &json!({"id": "x", "cancelled": true})).await.unwrap();
        assert_eq!((answer.status, &answer.json()["success"]), (200, &json!(true)), "{path}");
    }
    // An id may be written in percent signs throughout.
    let encoded: String = world.session.bytes().map(|byte| format!("%{byte:02x}")).collect();
    assert_eq!(client.command(&encoded, &json!({"type": "get_state"})).await.unwrap()["data"]["sessionId"], world.session);
    let odd = ["%", "%zz", "%c3", "%ff%fe"];
    for path in odd {
        let answer = client.get(&format!("/sessions/{path}/events")).await.unwrap();
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
    }
    for path in
        ["/sessions/", "/sessions//events", "/sessions/x", "/sessions/x/y/events", "/sessions/x/events/", "/nope", "/Health", "/health/"]
    {
        let answer = client.get(path).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (404, "404 Not Found"), "{path}");
    }
    still_serves(&world, "unknown sessions").await;
}

#[tokio::test]
async fn bearers_are_checked_before_anything_else_is() {
    let world = World::echo().await;
    let stranger = world.agent.stranger();
    let token = &world.agent.token;
    let absent: (u16, &str, &str) = (401, "Bearer realm=\"\"", "Unauthorized");
    let odd = (400, "Bearer error=\"invalid_request\"", "Bad Request");
    let wrong = (401, "Bearer error=\"invalid_token\"", "Unauthorized");
    let (half, twice) = (&token[..32], format!("Bearer {token} {token}"));
    let cases = [
        (None, absent),
        (Some(String::new()), absent),
        (Some("Bearer".into()), odd),
        (Some("Bearer ".into()), odd),
        (Some(format!("Basic {token}")), odd),
        (Some(token.clone()), odd),
        (Some(twice), odd),
        (Some(format!("Bearer {half}!")), odd),
        (Some(format!("Bearer {half}")), wrong),
        (Some(format!("Bearer {token}0")), wrong),
        (Some("Bearer x".into()), wrong),
    ];
    let session = &world.session;
    let routes = [
        ("GET", "/events".to_owned()),
        ("GET", format!("/events?token={token}")),
        ("GET", "/sessions".to_owned()),
        ("OPTIONS", "/sessions".to_owned()),
        ("GET", format!("/sessions/{session}/events")),
        ("GET", format!("/sessions/{session}/entries")),
        ("POST", format!("/sessions/{session}/control")),
        ("POST", format!("/sessions/{session}/ui-response")),
        ("DELETE", format!("/sessions/{session}")),
        ("GET", "/sessions/no/such/route".to_owned()),
    ];
    for (header, (status, challenge, text)) in &cases {
        for (method, path) in &routes {
            let headers: Vec<_> = header.iter().map(|value| ("Authorization", value.as_str())).collect();
            let body = (*method == "POST").then_some(&b"{\"type\":\"shutdown\"}"[..]);
            let answer = stranger.send(method, path, &headers, body).await.unwrap();
            let found = (answer.status, answer.header("www-authenticate").unwrap_or_default(), answer.text());
            assert_eq!(found, (*status, *challenge, (*text).to_owned()), "{method} {path} {header:?}");
            assert_eq!(answer.header("content-type"), Some("text/plain;charset=UTF-8"));
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    for scheme in ["bearer", "BEARER  ", "Bearer    "] {
        let value = format!("{scheme} {token}");
        assert_eq!(stranger.send("GET", "/sessions", &[("Authorization", &value)], None).await.unwrap().status, 200, "{scheme:?}");
    }
    still_serves(&world, "wrong tokens").await;
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_sent_away_from_every_route() {
    let world = World::echo().await;
    let (token, port) = (&world.agent.token, world.agent.port);
    let ask = async |host: Option<&str>, origin: Option<&str>, path: &str| {
        let mut lines = vec![format!("GET {path} HTTP/1.1"), format!("Authorization: Bearer {token}"), "Connection: close".to_owned()];
        lines.extend(host.map(|host| format!("Host: {host}")));
        lines.extend(origin.map(|origin| format!("Origin: {origin}")));
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        connection.send(lines.join("\r\n") + "\r\n\r\n").await.unwrap();
        connection.read_response().await.unwrap()
    };
    for path in ["/health", "/sessions", "/events", "/nope", "/"] {
        for host in ["evil.example", "evil.example:7777", "127.0.0.1.evil.example", "localhost.", "", "localhost@evil.example"] {
            let answer = ask(Some(host), None, path).await;
            assert_eq!(answer.status, 421, "{path} {host}");
            assert!(answer.text().contains("security") && answer.text().contains("hosts"), "{}", answer.text());
        }
        assert_eq!(ask(None, None, path).await.status, 421, "{path} without a host");
        for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "file://", "http://127.0.0.1.evil.example"] {
            let answer = ask(Some(&format!("127.0.0.1:{port}")), Some(origin), path).await;
            assert_eq!(answer.status, 403, "{path} {origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
    for host in [format!("127.0.0.1:{port}"), "localhost".to_owned(), format!("[::1]:{port}"), format!("LOCALHOST:{port}")] {
        assert_eq!(ask(Some(&host), None, "/health").await.status, 200, "{host}");
    }
    let own = format!("127.0.0.1:{port}");
    assert_eq!(ask(Some(&own), Some(&format!("http://{own}")), "/sessions").await.status, 200);
    still_serves(&world, "foreign hosts").await;
}

#[tokio::test]
async fn positions_that_are_none_give_a_gap_and_no_replay() {
    let world = World::echo().await;
    let mut keeper = world.reader("").await;
    world.prompt("one two").await;
    keeper.run_end().await;
    let last = keeper.view.last_id().unwrap().0;
    let attach = async |value: &str| {
        let mut stream = world.client().events(&world.events_path(""), &[("Last-Event-ID", value)]).await.unwrap();
        stream.next_json().await.unwrap()
    };
    for value in ["-1", "1e1", "0x9", "3.5", "abc", "NaN", "99999999999999999999999", "1 2", "1,2", "%31", &(last + 1).to_string()] {
        let hello = attach(value).await;
        assert_eq!((&hello["stream"]["resumed"], &hello["stream"]["gap"]), (&json!(false), &json!(true)), "{value}: {hello}");
    }
    for value in ["0", "007", &last.to_string(), "  3  "] {
        let hello = attach(value).await;
        assert_eq!((&hello["stream"]["resumed"], &hello["stream"]["gap"]), (&json!(true), &json!(false)), "{value}: {hello}");
    }
    for query in ["?view=snapshots", "?view=", "?include=nope", "?view=delta&include=usage,nope"] {
        let answer = world.client().get(&world.events_path(query)).await.unwrap();
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["error"].is_string(), "{query}");
    }
    let answer = world.client().get(&world.events_path("?after=no-such-entry")).await.unwrap();
    assert_eq!(answer.status, 404);
    let answer = world.client().get(&format!("/sessions/{}/entries?limit=none", world.session)).await.unwrap();
    assert_eq!(answer.status, 400);
    still_serves(&world, "odd positions").await;
}

#[tokio::test]
async fn bodies_beyond_the_limit_are_refused_by_name() {
    let world = World::echo().await;
    let path = format!("/sessions/{}/control", world.session);
    let limit: u64 = 32 << 20;
    // Announced: nothing of it needs to be sent.
    let mut connection = Connection::open(world.agent.address()).await.unwrap();
    let length = (limit + 1).to_string();
    connection.send(world.client().request_bytes("POST", &path, &[("Content-Length", &length)], None)).await.unwrap();
    let answer = connection.read_response().await.unwrap();
    assert_eq!(answer.status, 413);
    assert!(answer.json()["error"].as_str().unwrap().contains("limits"), "{}", answer.text());

    // In pieces that never end.
    let mut connection = Connection::open(world.agent.address()).await.unwrap();
    connection.send(world.client().request_bytes("POST", &path, &[("Transfer-Encoding", "chunked")], None)).await.unwrap();
    let piece = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    for _ in 0..33 {
        // The refusal may come before all was sent.
        if connection.send(&piece).await.is_err() {
            break;
        }
    }
    assert_eq!(connection.read_response().await.unwrap().status, 413);

    // Just below, it is a command like any other.
    let body = json!({"type": "get_state", "padding": "x".repeat((limit - 1000) as usize)}).to_string();
    assert_eq!(control(&world, body.as_bytes()).await.json()["success"], true);
    still_serves(&world, "large bodies").await;
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_harms_nobody() {
    let world = World::echo().await;
    let mut reader = world.reader("").await;
    let head = |extra: &str| format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n").into_bytes();
    let many: String = (0..10_000).map(|number| format!("X-{number}: y\r\n")).collect();
    let requests: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("no version", b"GET /health\r\n\r\n".to_vec()),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("10,000 headers", head(&many)),
        ("a long header", head(&format!("X: {}\r\n", "y".repeat(1 << 20)))),
        ("a long path", [b"GET /".to_vec(), vec![b'a'; 1 << 20], b" HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()].concat()),
        ("two lengths", b"POST /sessions/x/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab".to_vec()),
        ("a bad length", b"POST /sessions/x/control HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n".to_vec()),
        ("a bad chunk", format!("POST /sessions/x/control HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", world.agent.token).into_bytes()),
        ("a line break in a name", head("Bad\nName: x\r\n")),
    ];
    for (name, bytes) in requests {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        // It may be refused while it is still being sent.
        let _ = connection.send(&bytes).await;
        let answer = connection.read_to_end().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&answer);
        let refused = answer.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.0 4");
        assert!(refused, "{name}: {text}");
        still_serves(&world, name).await;
    }
    world.prompt("still here").await;
    reader.run_end().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_starts_nothing() {
    let world = World::echo().await;
    let path = format!("/sessions/{}/control", world.session);
    let body = json!({"type": "prompt", "message": "half of a thought"}).to_string();
    for sent in [0, 10, body.len() - 1] {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        let length = body.len().to_string();
        connection.send(world.client().request_bytes("POST", &path, &[("Content-Length", &length)], None)).await.unwrap();
        connection.send(&body.as_bytes()[..sent]).await.unwrap();
        connection.half_close().await.unwrap();
        let answer = String::from_utf8_lossy(&connection.read_to_end().await.unwrap()).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    assert_eq!(world.messages().await, Vec::<Value>::new());
    still_serves(&world, "half bodies").await;
}

#[tokio::test]
async fn many_slow_heads_keep_nobody_out() {
    let world = World::echo().await;
    let mut slow = Vec::new();
    for number in 0..200 {
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        connection.send(&b"GET /health HTTP/1.1\r\nHost: local"[..number % 30]).await.unwrap();
        slow.push(connection);
    }
    let answered = tokio::time::timeout(Duration::from_secs(2), still_serves(&world, "slow heads")).await;
    assert!(answered.is_ok(), "slow heads keep others waiting");
    // One of them gets to its end after all.
    let mut late = Connection::open(world.agent.address()).await.unwrap();
    for piece in [&b"GET /hea"[..], b"lth HTTP/1.1\r\nHos", b"t: localhost\r\n", b"\r\n"] {
        late.send(piece).await.unwrap();
        still_serves(&world, "a piece of a head").await;
    }
    assert_eq!(late.read_response().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    if count(0, 1) == 0 {
        // It takes the whole minute that a head may take.
        return;
    }
    let world = World::echo().await;
    let mut slow = Connection::open(world.agent.address()).await.unwrap();
    slow.send("GET /health HTTP/1.1\r\nHost: loc").await.unwrap();
    let started = std::time::Instant::now();
    while started.elapsed() < Duration::from_secs(75) {
        if let Ok(rest) = slow.read_to_end().await {
            assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
            return;
        }
    }
    panic!("it is still open");
}
