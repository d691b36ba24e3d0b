//! Accepting connections, within a bound.

use std::io;
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::limits::{ACCEPT_PAUSE, CONNECTIONS, LINGER, REFUSALS};
use super::transport::Socket;

/// Where connections come from.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Socket::Tcp(stream)),
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

/// How many connections there may be; one for all listeners.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self::of(CONNECTIONS, REFUSALS)
    }

    pub(crate) fn of(connections: usize, refusals: usize) -> Self {
        Self { connections: Arc::new(Semaphore::new(connections)), refusals: Arc::new(Semaphore::new(refusals)) }
    }
}

/// Accepts until `stop`; dropping the listener then frees the port. Each connection is handed to `start` with its place, which it
/// keeps until it ends.
pub(crate) async fn accept<F>(listener: Listener, room: Room, write_stall: std::time::Duration, stop: CancellationToken, start: F)
where
    F: Fn(Work),
{
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) if concerns_one_connection(&error) => continue,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "no connection can be accepted at the moment");
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => continue,
                }
            }
        };
        if std::mem::take(&mut failing) {
            tracing::info!("connections are accepted again");
        }
        prepare(&socket, write_stall);
        if let Ok(place) = Arc::clone(&room.connections).try_acquire_owned() {
            start(Work::Serve(socket, Place(place)));
        } else if let Ok(place) = Arc::clone(&room.refusals).try_acquire_owned() {
            tracing::warn!("too many connections");
            start(Work::Refuse(socket, Place(place)));
        }
    }
}

/// A place among the connections; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] tokio::sync::OwnedSemaphorePermit);

/// What to do with a connection, in a task of its own.
#[derive(Debug)]
pub(crate) enum Work {
    Serve(Socket, Place),
    Refuse(Socket, Place),
}

/// The peer was gone before we looked; the next one may be fine.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted | io::ErrorKind::PermissionDenied
    )
}

fn prepare(socket: &Socket, write_stall: std::time::Duration) {
    let Socket::Tcp(stream) = socket else { return };
    // Both are improvements of a socket that works without them.
    let _ = SockRef::from(stream).set_tcp_nodelay(true);
    // A peer that vanished acknowledges nothing: the kernel ends the connection without our having to try.
    #[cfg(target_os = "linux")]
    if let Ok(limit) = u32::try_from(write_stall.as_millis()) {
        let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, limit);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = write_stall;
}

/// Says that there is no room, and closes.
pub(crate) async fn refuse(mut socket: Socket) {
    const BODY: &str = r#"{"error":"the daemon has too many connections; close some or try again later"}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let farewell = async {
        let mut rest = tokio::io::sink();
        match &mut socket {
            Socket::Tcp(stream) => {
                stream.write_all(text.as_bytes()).await?;
                stream.shutdown().await?;
                tokio::io::copy(stream, &mut rest).await
            }
            Socket::Unix(stream) => {
                stream.write_all(text.as_bytes()).await?;
                stream.shutdown().await?;
                tokio::io::copy(stream, &mut rest).await
            }
        }
    };
    // The client that does not listen gets no more than this.
    let _ = tokio::time::timeout(LINGER, farewell).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn beyond_the_bound_clients_are_told_and_a_place_that_is_left_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let served = Arc::new(Mutex::new(Vec::new()));
        let tasks = tokio_util::task::TaskTracker::new();
        let start = {
            let (served, tasks) = (Arc::clone(&served), tasks.clone());
            move |work| match work {
                Work::Serve(socket, place) => served.lock().unwrap().push((socket, place)),
                Work::Refuse(socket, place) => {
                    tasks.spawn(async move {
                        refuse(socket).await;
                        drop(place);
                    });
                }
            }
        };
        let accepting =
            tasks.spawn(accept(Listener::Tcp(listener), Room::of(2, 1), std::time::Duration::from_secs(30), stop.clone(), start));
        let answer = async |mut client: TcpStream| {
            let mut text = String::new();
            client.read_to_string(&mut text).await.map(|_| text)
        };
        let first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let refused = answer(TcpStream::connect(address).await.unwrap()).await.unwrap();
        assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n") && refused.contains("\r\nconnection: close\r\n"), "{refused}");
        assert!(refused.ends_with("try again later\"}"), "{refused}");

        assert_eq!(served.lock().unwrap().len(), 2);
        served.lock().unwrap().remove(0);
        drop(first);
        let mut third = TcpStream::connect(address).await.unwrap();
        let quiet = tokio::time::timeout(std::time::Duration::from_millis(50), third.read_u8()).await;
        assert!(quiet.is_err(), "served, and so not told anything yet");
        stop.cancel();
        accepting.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "the port is free");
    }
}
