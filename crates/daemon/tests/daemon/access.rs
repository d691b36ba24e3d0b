//! Who may ask, with the exact bytes of every answer.

use crate::support::TestHome;

struct Case {
    request: &'static str,
    status: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
}

#[tokio::test]
async fn refusals_have_the_known_bytes() {
    let daemon = TestHome::new().start().await;
    const TEXT: &str = "text/plain;charset=UTF-8";
    let no_token = |request| Case {
        request,
        status: "401 Unauthorized",
        headers: &[("www-authenticate", "Bearer realm=\"\""), ("content-type", TEXT), ("transfer-encoding", "chunked")],
        body: "Unauthorized",
    };
    let malformed = |request| Case {
        request,
        status: "400 Bad Request",
        headers: &[("www-authenticate", "Bearer error=\"invalid_request\""), ("content-type", TEXT), ("transfer-encoding", "chunked")],
        body: "Bad Request",
    };
    let wrong = |request| Case {
        request,
        status: "401 Unauthorized",
        headers: &[("www-authenticate", "Bearer error=\"invalid_token\""), ("content-type", TEXT), ("transfer-encoding", "chunked")],
        body: "Unauthorized",
    };
    let not_found = |request| Case {
        request,
        status: "404 Not Found",
        headers: &[("content-type", "text/plain; charset=UTF-8"), ("content-length", "13")],
        body: "404 Not Found",
    };
    let cases = [
        no_token("GET /events HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("GET /sessions HTTP/1.1\r\nhost: HOST\r\nauthorization: \r\n\r\n"),
        no_token("GET /sessions?token=TOKEN HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("GET /events?access_token=TOKEN HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("OPTIONS /sessions HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("DELETE /sessions/x/whatever HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("GET /sessions/ HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("GET /sessions/x/entries HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        no_token("POST /sessions/x/control HTTP/1.1\r\nhost: HOST\r\ncontent-length: 2\r\n\r\n{}"),
        no_token("POST /sessions/x/ui-response HTTP/1.1\r\nhost: HOST\r\ncontent-length: 2\r\n\r\n{}"),
        no_token("POST /sessions/x/login-response HTTP/1.1\r\nhost: HOST\r\ncontent-length: 2\r\n\r\n{}"),
        malformed("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer \r\n\r\n"),
        malformed("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: BearerTOKEN\r\n\r\n"),
        malformed("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: Basic dXNlcjpwYXNz\r\n\r\n"),
        malformed("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: TOKEN\r\n\r\n"),
        malformed("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer TOKEN x\r\n\r\n"),
        wrong("GET /events HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer 00\r\n\r\n"),
        wrong("GET /sessions HTTP/1.1\r\nhost: HOST\r\nauthorization: bearer TOKEN0\r\n\r\n"),
        not_found("GET / HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        not_found("GET /events/ HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        not_found("POST /health HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        not_found("OPTIONS /health HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        not_found("GET /Health HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        not_found("GET /sessions/ HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer TOKEN\r\n\r\n"),
        not_found("GET /sessions/x HTTP/1.1\r\nhost: HOST\r\nauthorization: bearer   TOKEN\r\n\r\n"),
        not_found("OPTIONS /sessions HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer TOKEN\r\n\r\n"),
        not_found("GET /sessions/x/control HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer TOKEN\r\n\r\n"),
        not_found("PUT /sessions/x/control HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer TOKEN\r\n\r\n"),
    ];
    for case in cases {
        let request = case.request.replace("HOST", &daemon.address.to_string()).replace("TOKEN", &daemon.home.token);
        let mut client = daemon.connect().await;
        client.send(&request).await;
        let response = client.response().await;
        assert_eq!(response.head.lines().next(), Some(format!("HTTP/1.1 {}", case.status).as_str()), "{}", case.request);
        for (name, value) in case.headers {
            assert_eq!(response.header(name), Some(*value), "{name} of {}", case.request);
        }
        assert_eq!(response.text(), case.body, "{}", case.request);
        assert!(!response.head.to_lowercase().contains("access-control"), "{}", response.head);
        if response.header("transfer-encoding").is_some() {
            assert_eq!(response.header("content-length"), None);
        }
    }
}

#[tokio::test]
async fn foreign_names_and_pages_are_turned_away_from_every_path() {
    let daemon = TestHome::new().start().await;
    let port = daemon.address.port();
    for path in ["/health", "/", "/events", "/sessions", "/sessions/x/control", "/nothing"] {
        for host in ["evil.example", "evil.example:7777", "127.0.0.1.evil.example", "localhost.", "0.0.0.0"] {
            let mut client = daemon.connect().await;
            client.send(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\n\r\n", daemon.home.token)).await;
            let response = client.response().await;
            assert_eq!(response.status(), 421, "{path} {host}");
            assert!(response.text().contains("\"hosts\" in [security] of config.toml"), "{}", response.text());
        }
        let mut client = daemon.connect().await;
        client.send(&format!("GET {path} HTTP/1.1\r\n\r\n")).await;
        assert_eq!(client.response().await.status(), 421, "no host for {path}");
        for origin in ["https://evil.example", "null", "http://localhost:1", "file://"] {
            for method in ["GET", "OPTIONS"] {
                let mut client = daemon.connect().await;
                client.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost:{port}\r\norigin: {origin}\r\n\r\n")).await;
                let response = client.response().await;
                assert_eq!(response.status(), 403, "{method} {path} {origin}");
                assert!(!response.head.to_lowercase().contains("access-control"), "{}", response.head);
            }
        }
    }
    for host in [format!("localhost:{port}"), "LOCALHOST".into(), "127.0.0.1".into(), format!("[::1]:{port}"), "localhost:9999".into()] {
        let mut client = daemon.connect().await;
        client.send(&format!("GET /health HTTP/1.1\r\nhost: {host}\r\norigin: http://{}\r\n\r\n", host.to_lowercase())).await;
        assert_eq!(client.response().await.status(), 200, "{host}");
    }
}

#[tokio::test]
async fn configured_names_count() {
    let home = TestHome::new();
    home.configure("[security]\nhosts = [\"agent.example\"]\n");
    let daemon = home.start().await;
    for (host, status) in [("agent.example", 200), ("Agent.Example:443", 200), ("www.agent.example", 421)] {
        let mut client = daemon.connect().await;
        client.send(&format!("GET /health HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
        assert_eq!(client.response().await.status(), status, "{host}");
    }
}

#[tokio::test]
async fn a_refused_body_is_not_read_and_the_answer_arrives() {
    let daemon = TestHome::new().start().await;
    let mut client = daemon.connect().await;
    client.send(&format!("POST /sessions/x/control HTTP/1.1\r\nhost: {}\r\ncontent-length: 20000000\r\n\r\n", daemon.address)).await;
    // Answered although not one byte of the body was sent.
    let response = client.response().await;
    assert_eq!((response.status(), response.header("connection")), (401, Some("close")));

    let mut client = daemon.connect().await;
    client
        .send(&format!(
            "POST /sessions/x/control HTTP/1.1\r\nhost: {}\r\nexpect: 100-continue\r\ncontent-length: 20\r\n\r\n",
            daemon.address
        ))
        .await;
    assert_eq!(client.response().await.status(), 401, "no 100 for a stranger");
}

#[tokio::test]
async fn the_unix_socket_asks_for_the_token_but_for_no_name() {
    use std::os::unix::fs::PermissionsExt;
    let daemon = TestHome::new().start().await;
    assert_eq!(daemon.socket_path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for (request, status) in [
        ("GET /health HTTP/1.1\r\nhost: anything\r\n\r\n".to_owned(), 200),
        ("GET /health HTTP/1.1\r\n\r\n".to_owned(), 200),
        ("GET /sessions HTTP/1.1\r\n\r\n".to_owned(), 401),
        (format!("GET /sessions HTTP/1.1\r\nauthorization: Bearer {}\r\n\r\n", daemon.home.token), 200),
    ] {
        let mut client = daemon.connect_unix().await;
        client.send(&request).await;
        assert_eq!(client.response().await.status(), status, "{request}");
    }
    let record = std::fs::read_to_string(daemon.home.home.daemon_lock()).unwrap();
    assert!(record.contains(daemon.socket_path().to_str().unwrap()), "{record}");
}

#[tokio::test]
async fn health_tells_strangers_nothing_and_proves_itself() {
    let daemon = TestHome::new().start().await;
    let mut client = daemon.connect().await;
    client.send(&format!("GET /health?nonce=n1 HTTP/1.1\r\nhost: {}\r\n\r\n", daemon.address)).await;
    let response = client.response().await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("keep-alive"), Some("timeout=5"));
    let health = response.json();
    let keys: Vec<&str> = health.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["status", "agent", "pid", "startedAt", "proof"]);
    assert_eq!((&health["status"], &health["agent"]), (&"ok".into(), &"scribe".into()));
    assert!(wolli_home::token::proves(&daemon.home.token, "n1", health["proof"].as_str().unwrap()));
    assert!(!response.text().contains(&daemon.home.token));

    let health = daemon.get("/health").await.json();
    let keys: Vec<&str> = health.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["status", "agent", "pid", "startedAt", "version", "executable", "buildId"]);
}

#[tokio::test]
async fn the_token_is_never_on_the_wire() {
    let daemon = TestHome::new().start().await;
    let state = daemon.get("/sessions").await;
    assert_eq!(state.json()["config"]["token"], "");
    assert!(!state.text().contains(&daemon.home.token));
}
