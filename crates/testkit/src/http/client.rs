//! Requests as a client of the daemon makes them, one connection each.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::Value;

use super::connection::Connection;
use super::events::EventStream;
use super::message::Response;

/// Where a daemon listens, and the token to show.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub token: Option<String>,
}

impl Client {
    #[must_use]
    pub fn new(address: SocketAddr, token: Option<&str>) -> Self {
        Self { address, token: token.map(str::to_owned) }
    }

    /// The bytes of a request: `Host`, the token, the extra headers, and the body with its length.
    #[must_use]
    pub fn request_bytes(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), format!("Host: {}", self.address)];
        lines.extend(self.token.iter().map(|token| format!("Authorization: Bearer {token}")));
        lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        lines.extend(body.map(|body| format!("Content-Length: {}", body.len())));
        let mut bytes = (lines.join("\r\n") + "\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }

    /// One request on a connection of its own.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Result<Response> {
        let mut connection = Connection::open(self.address).await?;
        connection.send(self.request_bytes(method, path, headers, body)).await?;
        connection.read_response().await.with_context(|| format!("{method} {path}"))
    }

    /// # Errors
    /// See [`send`](Self::send).
    pub async fn get(&self, path: &str) -> Result<Response> {
        self.send("GET", path, &[], None).await
    }

    /// # Errors
    /// See [`send`](Self::send).
    pub async fn post(&self, path: &str, body: &Value) -> Result<Response> {
        self.send("POST", path, &[("Content-Type", "application/json")], Some(body.to_string().as_bytes())).await
    }

    /// A command of a session; gives the whole answer.
    ///
    /// # Errors
    /// See [`send`](Self::send).
    pub async fn command(&self, session: &str, command: &Value) -> Result<Value> {
        Ok(self.post(&format!("/sessions/{session}/control"), command).await?.json())
    }

    /// A command that must succeed; gives its data, or null.
    ///
    /// # Errors
    /// When it fails; the message has the answer.
    pub async fn succeed(&self, session: &str, command: &Value) -> Result<Value> {
        let mut answer = self.command(session, command).await?;
        anyhow::ensure!(answer["success"] == true, "{command} gave {answer}");
        Ok(answer["data"].take())
    }

    /// Opens an event stream.
    ///
    /// # Errors
    /// When the answer is not 200.
    pub async fn events(&self, path: &str, headers: &[(&str, &str)]) -> Result<EventStream> {
        let mut connection = Connection::open(self.address).await?;
        connection.send(self.request_bytes("GET", path, headers, None)).await?;
        EventStream::begin(connection).await.with_context(|| format!("GET {path}"))
    }
}
