//! One exchange over TCP or the Unix socket: bytes out, then one answer after the other, each of them checked as HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long an answer may take, and the end of a connection whose other half is closed. Far above what anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Where the daemon listens.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Stands in the head of an answer that is a stream.
const STREAM: &[u8] = b"text/event-stream";

fn has_begun_a_stream(received: &[u8]) -> bool {
    received.windows(STREAM.len()).any(|window| window == STREAM)
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) struct Socket {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
}

/// An answer as far as it is looked at.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_json(&self) -> bool {
        self.head.to_lowercase().contains("\r\ncontent-type: application/json")
    }
}

impl Socket {
    pub(super) async fn open(place: &Place) -> Self {
        let stream: Box<dyn Stream> = match place {
            Place::Tcp(address) => Box::new(TcpStream::connect(address).await.unwrap()),
            Place::Unix(path) => Box::new(UnixStream::connect(path).await.unwrap()),
        };
        Self { stream, received: Vec::new() }
    }

    /// Writes and reads at once: who asks for much and takes no answer in is not served on. The daemon may refuse and close meanwhile,
    /// and what stands behind the request for a stream waits for the stream's end.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        let Self { stream, received } = self;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sending = writer.write_all(bytes);
        tokio::pin!(sending);
        let deadline = tokio::time::sleep(LIMIT);
        tokio::pin!(deadline);
        let mut open = true;
        loop {
            tokio::select! {
                _ = &mut sending => return,
                read = reader.read_buf(received), if open => open = read.is_ok_and(|count| count > 0),
                () = &mut deadline => {
                    assert!(has_begun_a_stream(received), "the daemon takes nothing in; so far {:?}", received.escape_ascii().to_string());
                    return;
                }
            }
        }
    }

    pub(super) async fn half_close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// More bytes; false at the end, however it came.
    async fn more(&mut self) -> bool {
        let read = timeout(LIMIT, self.stream.read_buf(&mut self.received)).await;
        let read = read.unwrap_or_else(|_| panic!("no answer within {LIMIT:?}; so far {:?}", self.received.escape_ascii().to_string()));
        read.is_ok_and(|count| count > 0)
    }

    async fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.received.windows(mark.len()).position(|window| window == mark) {
                return Some(self.received.drain(..at + mark.len()).collect());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.received.len() < length {
            if !self.more().await {
                return None;
            }
        }
        Some(self.received.drain(..length).collect())
    }

    /// The next answer; of a stream its first frame. Nothing if the connection ends instead.
    pub(super) async fn answer(&mut self, method: &str) -> Option<Answer> {
        let head = String::from_utf8(self.until(b"\r\n\r\n").await?).unwrap();
        assert!(head.starts_with("HTTP/1."), "{head}");
        let status: u16 = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        if status == 100 {
            return Box::pin(self.answer(method)).await;
        }
        let lower = head.to_lowercase();
        let length = lower.split_once("\r\ncontent-length: ").and_then(|(_, rest)| rest.split("\r\n").next()?.parse::<usize>().ok());
        let mut body = Vec::new();
        if method != "HEAD" {
            if lower.contains("\r\ntransfer-encoding: chunked") {
                loop {
                    let size = self.until(b"\r\n").await?;
                    let size = usize::from_str_radix(String::from_utf8(size).unwrap().trim_end(), 16).unwrap();
                    let data = self.exactly(size + 2).await?;
                    body.extend_from_slice(&data[..size]);
                    if size == 0 || (lower.contains("event-stream") && body.windows(2).any(|pair| pair == b"\n\n")) {
                        break;
                    }
                }
            } else if let Some(length) = length {
                body = self.exactly(length).await?;
            }
        }
        Some(Answer { status, head, body })
    }

    /// All until the daemon ends the connection, or until it begins a stream: one whose reader sent more than it should have goes
    /// on until the reader is gone altogether.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let read = async {
            let mut looked_at = 0;
            while !has_begun_a_stream(&self.received[looked_at..]) {
                looked_at = self.received.len().saturating_sub(STREAM.len());
                if !self.more().await {
                    break;
                }
            }
        };
        let ended = timeout(LIMIT, read).await;
        assert!(ended.is_ok(), "a half-closed connection does not end: {:?}", self.received.escape_ascii().to_string());
        std::mem::take(&mut self.received)
    }
}
