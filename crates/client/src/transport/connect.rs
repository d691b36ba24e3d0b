//! Opens a connection and has the daemon prove itself on it.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use wolli_home::{agent, token};
use wolli_protocol::state::Health;

use super::{Transport, Trust};
use crate::error::ClientError;

/// How long connecting may take. Everything is on this machine or near it.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long `/health` may take; the daemon answers it before anything else.
const HEALTH_LIMIT: Duration = Duration::from_secs(2);

/// `/health` is a few hundred bytes; what sends more is something else.
const HEALTH_BYTES: usize = 64 * 1024;

/// Bytes of randomness in a nonce.
const NONCE_BYTES: usize = 16;

/// An open connection to the proven daemon.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// For the `Host` header.
    pub(super) host: HeaderValue,
    pub(super) token: SecretString,
}

impl Connection {
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Transport {
    /// Where the daemon listens on TCP, as an URL; for messages.
    pub(crate) async fn base(&self) -> String {
        match self.load().await {
            Ok((port, _)) => format!("http://{}", host_and_port(&self.daemon().host, port)),
            Err(_) => format!("http://{}", self.daemon().host),
        }
    }

    /// The port and the token, as they are in the file now.
    async fn load(&self) -> Result<(u16, SecretString), ClientError> {
        let home = self.daemon().home.clone();
        let loaded = tokio::task::spawn_blocking(move || agent::load(&home)).await;
        let loaded = loaded.map_err(|_| ClientError::Closed)??;
        let token = self.daemon().token.clone();
        Ok((loaded.document.port(), token.unwrap_or_else(|| SecretString::from(loaded.document.token()))))
    }

    fn unreachable(&self, problem: impl ToString) -> ClientError {
        ClientError::Unreachable { agent: self.daemon().home.name().clone(), problem: problem.to_string() }
    }

    fn untrusted(&self, problem: impl ToString) -> ClientError {
        ClientError::Untrusted { agent: self.daemon().home.name().clone(), problem: problem.to_string() }
    }

    /// A new connection whose other end is the agent's daemon.
    pub(super) async fn connect(&self) -> Result<Connection, ClientError> {
        let (port, token) = self.load().await?;
        if let Some(stream) = self.connect_socket().await {
            let sender = self.handshake(stream).await?;
            return Ok(Connection { sender, host: HeaderValue::from_static("localhost"), token });
        }
        let address = host_and_port(&self.daemon().host, port);
        let stream = timeout(CONNECT_LIMIT, TcpStream::connect((self.daemon().host.as_str(), port))).await;
        let stream = stream.map_err(|_| self.unreachable("no connection in time"))?.map_err(|error| self.unreachable(error))?;
        // Commands are small and somebody waits for each.
        let _ = stream.set_nodelay(true);
        let sender = self.handshake(stream).await?;
        let host = HeaderValue::from_str(&address).map_err(|error| self.unreachable(error))?;
        let mut connection = Connection { sender, host, token };
        self.prove(&mut connection).await?;
        Ok(connection)
    }

    /// The Unix socket, if a process of this user listens on it.
    async fn connect_socket(&self) -> Option<UnixStream> {
        if !self.daemon().is_here() {
            return None;
        }
        let path = self.daemon().socket.as_deref()?;
        let stream = timeout(CONNECT_LIMIT, UnixStream::connect(path)).await.ok()?.ok()?;
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == rustix::process::getuid().as_raw() => Some(stream),
            _ => {
                tracing::warn!(path = %Path::display(path), "socket of the agent belongs to another user; it is not used");
                None
            }
        }
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Full<Bytes>>, ClientError> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(error))?;
        self.0.tasks.spawn(async move {
            // How it ended reaches whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(sender)
    }

    /// Asks for the proof. The token has not been sent yet.
    async fn prove(&self, connection: &mut Connection) -> Result<(), ClientError> {
        let nonce = token::random_hex(NONCE_BYTES).map_err(|error| self.unreachable(error))?;
        let (status, health) = self.health_on(connection, &nonce).await?;
        let name = self.daemon().home.name().as_str();
        match health {
            Some(health) if status == StatusCode::OK && health.agent == name => match health.proof {
                Some(proof) if token::proves(connection.token.expose_secret(), &nonce, &proof) => Ok(()),
                None if self.daemon().trust == Trust::Name => Ok(()),
                None => Err(self.untrusted("it does not prove that it knows the token")),
                Some(_) => Err(self.untrusted("its proof is for another token")),
            },
            Some(health) if status == StatusCode::OK => Err(self.untrusted(format!("it says that it is \"{}\"", health.agent))),
            _ if status.is_server_error() => Err(self.unreachable(format!("/health answers {status}"))),
            _ => Err(self.untrusted(format!("/health answers {status}"))),
        }
    }

    async fn health_on(&self, connection: &mut Connection, nonce: &str) -> Result<(StatusCode, Option<Health>), ClientError> {
        let asked = async {
            let request = Request::get(format!("/health?nonce={nonce}")).header(HOST, &connection.host).body(Full::default());
            let answer = connection.sender.send_request(request.map_err(|error| self.unreachable(error))?).await;
            let (head, body) = answer.map_err(|error| self.unreachable(error))?.into_parts();
            let body = Limited::new(body, HEALTH_BYTES).collect().await.map_err(|error| self.unreachable(error))?;
            Ok((head.status, serde_json::from_slice(&body.to_bytes()).ok()))
        };
        timeout(HEALTH_LIMIT, asked).await.map_err(|_| self.unreachable("/health gives no answer"))?
    }

    /// What the proven daemon says of itself now: over a new connection, since one that was kept may lead to a process
    /// that is about to end.
    pub(crate) async fn health(&self) -> Result<Health, ClientError> {
        let mut connection = self.connect().await?;
        let nonce = token::random_hex(NONCE_BYTES).map_err(|error| self.unreachable(error))?;
        let (status, health) = self.health_on(&mut connection, &nonce).await?;
        let healthy = health.filter(|health| status == StatusCode::OK && health.status == "ok");
        let healthy = healthy.ok_or_else(|| self.unreachable(format!("/health answers {status}")))?;
        self.put_free(connection);
        Ok(healthy)
    }
}

fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
