//! The network's faults, with an echo server behind it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{FaultProxy, Plan};
use crate::http::Connection;

/// A server that sends back what it gets.
async fn echo(tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn bytes_pass_and_ends_pass() {
    let mut tasks = JoinSet::new();
    let proxy = FaultProxy::start(echo(&mut tasks).await);
    proxy.plan(Plan { piece: Some(3), delay: Duration::from_millis(1), ..Plan::default() });
    let mut connection = Connection::open(proxy.address()).await.unwrap();
    connection.send("0123456789").await.unwrap();
    connection.half_close().await.unwrap();
    assert_eq!(connection.read_to_end().await.unwrap(), b"0123456789");
    let counts = proxy.wait_for_connections(|counts| counts.open == 0).await;
    assert_eq!(counts.accepted, 1);
}

#[tokio::test]
async fn cuts_come_at_their_byte() {
    let mut tasks = JoinSet::new();
    let proxy = FaultProxy::start(echo(&mut tasks).await);
    for reset in [false, true] {
        proxy.plan(Plan { cut_after: Some(4), reset, ..Plan::default() });
        let mut connection = Connection::open(proxy.address()).await.unwrap();
        connection.send("0123456789").await.unwrap();
        let got = connection.read_to_end().await.unwrap();
        // A reset may overtake bytes that were sent before it.
        assert!(got == b"0123" || (reset && b"0123".starts_with(&got)), "{got:?}");
    }
    proxy.plan(Plan { cut_request_after: Some(2), ..Plan::default() });
    let mut connection = Connection::open(proxy.address()).await.unwrap();
    connection.send("0123456789").await.unwrap();
    assert!(b"01".starts_with(&connection.read_to_end().await.unwrap()));
}

#[tokio::test]
async fn a_stall_keeps_the_connection() {
    let mut tasks = JoinSet::new();
    let proxy = FaultProxy::start(echo(&mut tasks).await);
    proxy.plan(Plan { stall_after: Some(4), ..Plan::default() });
    let mut connection = Connection::open(proxy.address()).await.unwrap();
    connection.send("0123456789").await.unwrap();
    assert_eq!(connection.read_exact(4).await.unwrap(), b"0123");
    assert!(timeout(Duration::from_millis(100), connection.read_exact(1)).await.is_err());
    assert_eq!(proxy.connections().open, 1);
    proxy.cut_all();
    assert_eq!(connection.read_to_end().await.unwrap(), b"");
}

#[tokio::test]
async fn the_network_goes_and_comes_back() {
    let mut tasks = JoinSet::new();
    let proxy = FaultProxy::start(echo(&mut tasks).await);
    let mut connection = Connection::open(proxy.address()).await.unwrap();
    proxy.freeze(true);
    connection.send("frozen").await.unwrap();
    assert!(timeout(Duration::from_millis(100), connection.read_exact(1)).await.is_err());
    proxy.freeze(false);
    assert_eq!(connection.read_exact(6).await.unwrap(), b"frozen");

    proxy.refuse(true);
    let mut refused = Connection::open(proxy.address()).await.unwrap();
    assert_eq!(refused.read_to_end().await.unwrap(), b"");
    proxy.refuse(false);
    let other = echo(&mut tasks).await;
    proxy.set_upstream(other);
    let mut again = Connection::open(proxy.address()).await.unwrap();
    again.send("x").await.unwrap();
    assert_eq!(again.read_exact(1).await.unwrap(), b"x");
}
