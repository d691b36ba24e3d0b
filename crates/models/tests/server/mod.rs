//! A raw TCP server that plays one scripted reply per request, byte for byte.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

/// What the server does with one request.
pub(crate) enum Reply {
    /// Status, headers and body at once.
    Status(String),
    /// A chunked body, one chunk a piece, properly ended.
    Stream(Vec<String>),
    /// The same, each piece when the gate lets it through.
    Gated(Vec<String>, Arc<Semaphore>),
    /// Pieces, then the connection breaks.
    Cut(Vec<String>),
    /// Nothing, or the headers and pieces, then silence.
    Stall(Option<Vec<String>>),
    /// An error status whose body never ends.
    StallInError(u16),
    Close,
}

/// Lets pieces of a [`Reply::Gated`] through.
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }
}

impl Reply {
    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Self::Status(format!("HTTP/1.1 {status} Some Reason\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
    }

    pub(crate) fn stream(pieces: &[String]) -> Self {
        Self::Stream(pieces.to_vec())
    }

    pub(crate) fn gated(pieces: &[String]) -> (Self, Gate) {
        let gate = Arc::new(Semaphore::new(0));
        (Self::Gated(pieces.to_vec(), Arc::clone(&gate)), Gate(gate))
    }

    pub(crate) fn cut(pieces: &[String]) -> Self {
        Self::Cut(pieces.to_vec())
    }

    pub(crate) fn stall(pieces: Option<&[String]>) -> Self {
        Self::Stall(pieces.map(<[String]>::to_vec))
    }

    pub(crate) const fn stall_in_error(status: u16) -> Self {
        Self::StallInError(status)
    }

    pub(crate) const fn close() -> Self {
        Self::Close
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Recorded {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Recorded>>,
    connections: AtomicUsize,
    asked: Notify,
    closed: Notify,
}

pub(crate) struct Server {
    address: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the test owns the task and ends it")]
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Seen::default());
        let replies = Arc::new(Mutex::new(replies.into_iter()));
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((socket, _)) = listener.accept().await {
                    seen.connections.fetch_add(1, Ordering::SeqCst);
                    let (seen, replies) = (Arc::clone(&seen), Arc::clone(&replies));
                    connections.spawn(async move {
                        let _ = serve(socket, &seen, || replies.lock().unwrap().next()).await;
                        seen.closed.notify_one();
                    });
                }
            }
        });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// A request is there.
    pub(crate) async fn asked(&self) {
        self.seen.asked.notified().await;
    }

    /// A connection was closed by the client, or served.
    pub(crate) async fn closed(&self) {
        self.seen.closed.notified().await;
    }
}

async fn serve(mut socket: TcpStream, seen: &Seen, next: impl Fn() -> Option<Reply>) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut socket, &mut buffer).await? {
        seen.requests.lock().unwrap().push(request);
        seen.asked.notify_one();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        match next() {
            None | Some(Reply::Close) => return Ok(()),
            Some(Reply::Status(bytes)) => socket.write_all(bytes.as_bytes()).await?,
            Some(Reply::Stream(pieces)) => {
                socket.write_all(head.as_bytes()).await?;
                for piece in pieces {
                    socket.write_all(chunk(&piece).as_bytes()).await?;
                }
                socket.write_all(b"0\r\n\r\n").await?;
            }
            Some(Reply::Gated(pieces, gate)) => {
                socket.write_all(head.as_bytes()).await?;
                for piece in pieces {
                    gate.acquire().await.unwrap().forget();
                    socket.write_all(chunk(&piece).as_bytes()).await?;
                }
                socket.write_all(b"0\r\n\r\n").await?;
            }
            Some(Reply::Cut(pieces)) => {
                socket.write_all(head.as_bytes()).await?;
                for piece in pieces {
                    socket.write_all(chunk(&piece).as_bytes()).await?;
                }
                return Ok(());
            }
            Some(Reply::Stall(pieces)) => {
                if let Some(pieces) = pieces {
                    socket.write_all(head.as_bytes()).await?;
                    for piece in pieces {
                        socket.write_all(chunk(&piece).as_bytes()).await?;
                    }
                }
                return until_closed(&mut socket).await;
            }
            Some(Reply::StallInError(status)) => {
                socket.write_all(format!("HTTP/1.1 {status} Broken\r\ncontent-length: 1000\r\n\r\nhalf a text").as_bytes()).await?;
                return until_closed(&mut socket).await;
            }
        }
    }
    Ok(())
}

async fn until_closed(socket: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while socket.read(&mut rest).await? > 0 {}
    Ok(())
}

fn chunk(piece: &str) -> String {
    format!("{:x}\r\n{piece}\r\n", piece.len())
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Recorded>> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.trim_end().lines();
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    let length: usize =
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length")).map_or(0, |(_, value)| value.parse().unwrap());
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    Ok(Some(Recorded { line, headers, body }))
}

/// Named events, one a piece.
pub(crate) fn events(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

/// An answer of one text block: `message_start`, block start, the deltas, block stop, `message_delta`, `message_stop`.
pub(crate) fn anthropic_text(deltas: &[&str]) -> Vec<String> {
    let mut all = vec![
        json!({"type": "message_start", "message": {"id": "m", "model": "claude-test", "usage": {"input_tokens": 3, "output_tokens": 0}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    ];
    all.extend(
        deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": delta}})),
    );
    all.push(json!({"type": "content_block_stop", "index": 0}));
    all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}));
    all.push(json!({"type": "message_stop"}));
    events(&all)
}
