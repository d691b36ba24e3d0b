//! Raw HTTP/1.1 over one connection: whole requests as bytes, one at a time, answers without copies.
//!
//! Not here: event streams (see `readers`), and anything that a measurement does not need.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::scan::unchunk;

/// No single request of a measurement takes longer on a machine that works.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const ANSWER_MAX_BYTES: usize = 64 << 20;
/// First size of the buffer: a state answer fits.
const BUFFER_BYTES: usize = 16 << 10;

/// Where a server is and what it asks for.
#[derive(Debug, Clone)]
pub struct Target {
    /// TCP address.
    pub address: SocketAddr,
    /// Bearer token; empty for none.
    pub token: String,
}

impl Target {
    /// The bytes of a request without body.
    pub fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n", self.address, self.token).into_bytes()
    }

    /// The bytes of a request with a JSON body.
    pub fn post(&self, path: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len(),
        )
        .into_bytes()
    }

    /// The bytes of a command for a session.
    pub fn command(&self, session: &str, command: &Value) -> Vec<u8> {
        self.post(&format!("/sessions/{session}/control"), command)
    }

    /// The bytes that attach a reader to a session.
    pub fn attach(&self, session: &str, view: &str) -> Vec<u8> {
        self.get(&format!("/sessions/{session}/events?view={view}"))
    }

    /// Reads a JSON answer over a connection of its own.
    pub async fn get_json(&self, path: &str) -> Result<Value> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.exchange(&self.get(path)).await?;
        if answer.status != 200 {
            bail!("GET {path} answered {}: {}", answer.status, String::from_utf8_lossy(answer.body));
        }
        serde_json::from_slice(answer.body).with_context(|| format!("GET {path} did not answer JSON"))
    }

    /// Sends a command over a connection of its own and returns its `data`.
    pub async fn control(&self, session: &str, command: &Value) -> Result<Value> {
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.exchange(&self.command(session, command)).await?;
        let value: Value = serde_json::from_slice(answer.body)
            .with_context(|| format!("{command} answered {}: {}", answer.status, String::from_utf8_lossy(answer.body)))?;
        if value["success"] != Value::Bool(true) {
            bail!("{command} failed: {value}");
        }
        Ok(value["data"].clone())
    }
}

/// An answer that lies in the connection's buffer.
#[derive(Debug)]
pub struct Answer<'a> {
    /// HTTP status.
    pub status: u16,
    /// The body, without chunk framing.
    pub body: &'a [u8],
}

/// One keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    /// Connects, without delay of small writes.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("failed to connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(BUFFER_BYTES), body: Vec::new() })
    }

    /// Sends a request and reads its answer. Not cancel-safe: after a drop the connection is of no use.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        timeout(REQUEST_LIMIT, self.exchange_unlimited(request)).await.context("no answer in time")?
    }

    async fn exchange_unlimited(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break Head::parse(&self.buffer[..end], end + 4)?;
            }
            self.read_more().await?;
        };
        match head.length {
            Some(length) => {
                let end = head.body_start + length;
                while self.buffer.len() < end {
                    self.read_more().await?;
                }
                Ok(Answer { status: head.status, body: &self.buffer[head.body_start..end] })
            }
            None => {
                while !self.buffer[head.body_start..].ends_with(b"0\r\n\r\n") {
                    self.read_more().await?;
                }
                self.body = unchunk(&self.buffer[head.body_start..]).0;
                Ok(Answer { status: head.status, body: &self.body })
            }
        }
    }

    async fn read_more(&mut self) -> Result<()> {
        if self.buffer.len() > ANSWER_MAX_BYTES {
            bail!("answer is larger than {ANSWER_MAX_BYTES} bytes");
        }
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("connection ended inside an answer: {:?}", String::from_utf8_lossy(&self.buffer));
        }
        Ok(())
    }
}

/// What is needed of an answer's head.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_start: usize,
    /// `None`: chunked.
    length: Option<usize>,
}

impl Head {
    fn parse(head: &[u8], body_start: usize) -> Result<Self> {
        let text = std::str::from_utf8(head).context("head of the answer is not text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).context("answer has no status")?;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                return Ok(Self { status, body_start, length: Some(value.trim().parse().context("content-length is not a number")?) });
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                return Ok(Self { status, body_start, length: None });
            }
        }
        bail!("answer has neither a length nor chunks")
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn heads() {
        let parse = |head: &str| Head::parse(head.as_bytes(), 9).ok();
        assert_eq!(parse("HTTP/1.1 200 OK\r\nContent-Length: 12"), Some(Head { status: 200, body_start: 9, length: Some(12) }));
        assert_eq!(parse("HTTP/1.1 401 X\r\nTransfer-Encoding: chunked"), Some(Head { status: 401, body_start: 9, length: None }));
        for bad in ["", "HTTP/1.1 abc", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK\r\ncontent-length: x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn two_answers_on_one_connection_that_come_in_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target { address: listener.local_addr().unwrap(), token: "secret".to_owned() };
        let request = target.command("s1", &serde_json::json!({"type": "get_state"}));
        let expected = request.len();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = vec![0; expected];
            for answer in [
                &b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\":\"b\"}"[..],
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n \r\n8\r\n{\"a\":12}\r\n0\r\n\r\n",
            ] {
                stream.read_exact(&mut got).await.unwrap();
                for piece in answer.chunks(3) {
                    stream.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            got
        };
        let client = async {
            let mut connection = Connection::open(target.address).await.unwrap();
            assert_eq!(connection.exchange(&request).await.unwrap().body, b"{\"a\":\"b\"}");
            assert_eq!(connection.exchange(&request).await.unwrap().body, b" {\"a\":12}");
            assert!(connection.exchange(&request).await.is_err(), "the server is gone");
        };
        let (got, ()) = tokio::join!(server, client);
        assert_eq!(got, request);
        assert!(String::from_utf8(got).unwrap().contains("authorization: Bearer secret\r\n"));
    }
}
