//! One TCP connection: exact bytes out, exact bytes in.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::message::{BodyKind, ChunkDecoder, Head, MAX_HEAD, Response, head_end};
use crate::DEADLINE;

/// A connection whose every wait ends at [`DEADLINE`].
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Came in and was not asked for yet.
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = timeout(DEADLINE, TcpStream::connect(address)).await.context("no connection in time")??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Connects with the smallest receive buffer that the system gives, so that a peer that writes stalls as soon as
    /// this side stops reading.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn open_with_small_buffer(address: SocketAddr) -> Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_recv_buffer_size(1)?; // the system rounds it up to its minimum
        let stream = timeout(DEADLINE, socket.connect(address)).await.context("no connection in time")??;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Takes a connection that a listener accepted, for servers in tests.
    #[must_use]
    pub const fn of(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// This side's address.
    ///
    /// # Errors
    /// When the socket is gone.
    pub fn local_address(&self) -> Result<SocketAddr> {
        Ok(self.stream.local_addr()?)
    }

    /// Writes these bytes and nothing else.
    ///
    /// # Errors
    /// When the peer is gone or takes nothing in.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        timeout(DEADLINE, self.stream.write_all(bytes.as_ref())).await.context("peer takes nothing in")??;
        Ok(())
    }

    /// Ends this side's direction; the other one stays open.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn half_close(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    /// Drops the connection with a reset instead of an orderly end.
    ///
    /// # Errors
    /// When the socket cannot be set up for it.
    pub fn reset(self) -> Result<()> {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO))?;
        Ok(())
    }

    /// Reads once more; false at the end of the stream.
    pub(super) async fn fill(&mut self, limit: Duration) -> Result<bool> {
        let read = timeout(limit, self.stream.read_buf(&mut self.buffer));
        let count = read.await.with_context(|| format!("nothing came; so far {:?}", String::from_utf8_lossy(&self.buffer)))??;
        Ok(count > 0)
    }

    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Waits until the peer ends the connection, however long that takes; what it sends is dropped.
    pub async fn closed(&mut self) {
        while let Ok(1..) = self.stream.read(&mut [0; 1024]).await {}
    }

    /// Everything until the peer ends the connection. A reset counts as an end.
    ///
    /// # Errors
    /// When the peer does not end it.
    pub async fn read_to_end(&mut self) -> Result<Vec<u8>> {
        loop {
            match self.fill(DEADLINE).await {
                Ok(true) => {}
                Ok(false) => return Ok(self.take_buffer()),
                Err(error) if is_reset(&error) => return Ok(self.take_buffer()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Exactly the next `count` bytes.
    ///
    /// # Errors
    /// When the stream ends before.
    pub async fn read_exact(&mut self, count: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < count {
            ensure!(self.fill(DEADLINE).await?, "stream ended after {} of {count} bytes", self.buffer.len());
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// The head of the next message, and its bytes.
    ///
    /// # Errors
    /// When there is none.
    pub async fn read_head(&mut self) -> Result<(Head, Vec<u8>)> {
        let end = loop {
            if let Some(end) = head_end(&self.buffer) {
                break end;
            }
            ensure!(self.buffer.len() < MAX_HEAD, "head without an end");
            ensure!(self.fill(DEADLINE).await?, "stream ended in a head: {:?}", String::from_utf8_lossy(&self.buffer));
        };
        let bytes: Vec<u8> = self.buffer.drain(..end).collect();
        Ok((Head::parse(&bytes)?, bytes))
    }

    /// The next response.
    ///
    /// # Errors
    /// When it is none, or not whole.
    pub async fn read_response(&mut self) -> Result<Response> {
        let (head, _) = self.read_head().await?;
        let status = head.status()?;
        let body = if matches!(status, 100..=199 | 204 | 304) { Vec::new() } else { self.read_body(head.body_kind(false)?).await? };
        Ok(Response { status, head, body })
    }

    /// The body of the message whose head was read.
    ///
    /// # Errors
    /// When it is not whole.
    pub async fn read_body(&mut self, kind: BodyKind) -> Result<Vec<u8>> {
        match kind {
            BodyKind::Length(length) => self.read_exact(length).await,
            BodyKind::ToEnd => self.read_to_end().await,
            BodyKind::Chunked => {
                let mut decoder = ChunkDecoder::default();
                let mut body = Vec::new();
                loop {
                    let bytes = self.take_buffer();
                    let used = decoder.feed(&bytes, &mut body)?;
                    if decoder.is_done() {
                        self.buffer = bytes[used..].to_vec();
                        return Ok(body);
                    }
                    if !self.fill(DEADLINE).await? {
                        bail!("stream ended in a chunked body: {:?}", String::from_utf8_lossy(&body));
                    }
                }
            }
        }
    }
}

fn is_reset(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}
