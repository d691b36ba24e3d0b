//! The end: answers are written, streams end cleanly, nothing keeps answering, nothing is left behind.

use std::time::Duration;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use wolli_daemon::{StopReason, exit};

use crate::support::{Events, TestHome};

#[tokio::test]
async fn the_shutdown_command_is_acknowledged_and_the_port_is_free_afterwards() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut session = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    let mut control = Events::new(daemon.stream("/events").await);
    session.event().await;
    control.event().await;
    let socket = daemon.socket_path();
    // A pooled connection, used once and kept.
    let mut pooled = daemon.connect().await;
    let health = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", daemon.address);
    pooled.send(&health).await;
    pooled.response().await;

    let response = daemon.post(&format!("/sessions/{id}/control"), r#"{"type":"shutdown"}"#).await;
    assert_eq!(response.text(), r#"{"type":"response","command":"shutdown","success":true}"#);
    assert_eq!(pooled.rest().await, b"", "closed, not answering");
    // To the final chunk; a cut would be an error.
    while control.event().await.is_some() {}
    while session.event().await.is_some() {}
    assert_eq!(daemon.ended.await.unwrap(), exit::SUCCESS);
    assert!(!socket.exists());
    assert!(TcpStream::connect(daemon.address).await.is_err());
    TcpListener::bind(daemon.address).await.unwrap();
    assert!(wolli_home::lock::holder(&daemon.home.home.daemon_lock()).unwrap().is_none());
}

#[tokio::test]
async fn signals_have_their_statuses() {
    for (reason, status) in [(StopReason::Interrupt, exit::INTERRUPTED), (StopReason::Terminate, exit::TERMINATED)] {
        let daemon = TestHome::new().start().await;
        daemon.session().await;
        daemon.stop.request(reason);
        assert_eq!(daemon.ended.await.unwrap(), status);
    }
}

#[tokio::test]
async fn a_run_is_ended_and_its_end_is_told() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 100\n!repeat 10000 x "})).await;
    events.until("message_update").await;
    let started = Instant::now();
    daemon.stop.request(StopReason::Terminate);
    events.until("agent_end").await;
    while events.event().await.is_some() {}
    assert_eq!(daemon.ended.await.unwrap(), exit::TERMINATED);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn clients_that_never_close_do_not_hold_it_up() {
    let daemon = TestHome::new().start().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(daemon.connect().await);
        let mut half = daemon.connect().await;
        half.send("POST /sessions/x/control HTTP/1.1\r\n").await;
        idle.push(half);
    }
    let started = Instant::now();
    daemon.stop.request(StopReason::Terminate);
    daemon.ended.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
