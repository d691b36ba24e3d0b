//! A temporary home with an agent, a daemon that serves it in this process, and a client that sees every byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wolli_daemon::{Daemon, ExitStatus, Options, Prepared, Stop, Timing};
use wolli_home::agent::{self, NewAgent};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct TestHome {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) home: AgentHome,
    pub(crate) token: String,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("wolli").tempdir().unwrap();
        let root = Root::new(folder.path().join("root"));
        let new = NewAgent { name: "scribe".parse().unwrap(), model: None };
        let (home, loaded) = agent::create(&root, new, SystemTime::now()).unwrap();
        let token = loaded.document.token().to_owned();
        Self { folder, home, token }
    }

    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(path("run")).unwrap();
        vec![
            ("HOME".into(), path("user")),
            ("WOLLI_HOME".into(), path("root")),
            ("XDG_RUNTIME_DIR".into(), path("run")),
            ("PATH".into(), "/usr/bin:/bin".into()),
        ]
    }

    pub(crate) fn environment(&self, more: &[(&str, &str)]) -> Environment {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(more.chain(self.variables()), self.folder.path())
    }

    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.home.config_toml(), toml).unwrap();
    }

    pub(crate) fn options(&self) -> Options {
        Options { agent: "scribe".into(), port: Some(0), ..Options::default() }
    }

    pub(crate) async fn start(self) -> TestDaemon {
        self.start_with(quick(), &[]).await
    }

    pub(crate) async fn start_with(self, timing: Timing, variables: &[(&str, &str)]) -> TestDaemon {
        let prepared = Prepared::load(&self.options(), self.environment(variables)).unwrap();
        let lock = prepared.lock().unwrap();
        let daemon = Daemon::start(prepared, lock, timing).await.unwrap();
        let (address, stop) = (daemon.address(), daemon.stop());
        let tasks = tokio_util::task::TaskTracker::new();
        let ended = tasks.spawn(daemon.finish());
        TestDaemon { home: self, address, stop, ended }
    }
}

/// Time limits that tests can wait for.
pub(crate) fn quick() -> Timing {
    Timing { grace: Duration::from_secs(1), drain: Duration::from_millis(500), ..Timing::default() }
}

pub(crate) struct TestDaemon {
    pub(crate) home: TestHome,
    pub(crate) address: SocketAddr,
    pub(crate) stop: Stop,
    pub(crate) ended: JoinHandle<ExitStatus>,
}

impl TestDaemon {
    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        let root = Root::new(self.home.folder.path().join("root"));
        wolli_home::paths::socket_path(Some(&self.home.folder.path().join("run")), &root, &self.home.home).unwrap()
    }

    pub(crate) async fn connect_unix(&self) -> Client<UnixStream> {
        Client::new(UnixStream::connect(self.socket_path()).await.unwrap())
    }

    /// Headers of a request by the agent's owner.
    pub(crate) fn owner(&self) -> String {
        format!("host: {}\r\nauthorization: Bearer {}\r\n", self.address, self.home.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        let mut client = self.connect().await;
        client.send(&format!("GET {path} HTTP/1.1\r\n{}\r\n", self.owner())).await;
        client.response().await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Response {
        let mut client = self.connect().await;
        client.send(&self.post_text(path, body)).await;
        client.response().await
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> String {
        format!("POST {path} HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", self.owner(), body.len())
    }

    /// Answer to a command for session `id`.
    pub(crate) async fn command(&self, id: &str, body: Value) -> Value {
        self.post(&format!("/sessions/{id}/control"), &body.to_string()).await.json()
    }

    /// The id of the newest session.
    pub(crate) async fn session(&self) -> String {
        self.get("/sessions").await.json()["sessions"][0]["sessionId"].as_str().unwrap().to_owned()
    }

    /// The id of the newest session, which is not in memory; and the control stream that told so.
    pub(crate) async fn session_at_rest(&self) -> (String, Events) {
        let id = self.session().await;
        let mut control = Events::new(self.stream("/events").await);
        control.event().await;
        let mut session = Events::new(self.stream(&format!("/sessions/{id}/events")).await);
        session.event().await;
        drop(session);
        control.until("session_removed").await;
        (id, control)
    }

    /// An open stream, after its headers.
    pub(crate) async fn stream(&self, path: &str) -> Client<TcpStream> {
        let mut client = self.connect().await;
        client.send(&format!("GET {path} HTTP/1.1\r\n{}\r\n", self.owner())).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        client
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    /// Status line and headers, without the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One connection, byte by byte.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) received: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, received: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// More bytes; 0 at the end.
    async fn more(&mut self) -> usize {
        tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.received)).await.expect("nothing came").unwrap_or(0)
    }

    /// Takes everything up to and including `mark`.
    pub(crate) async fn until(&mut self, mark: &str) -> String {
        loop {
            if let Some(at) = self.received.windows(mark.len()).position(|window| window == mark.as_bytes()) {
                let taken: Vec<u8> = self.received.drain(..at + mark.len()).collect();
                return String::from_utf8(taken).unwrap();
            }
            assert!(self.more().await > 0, "the connection ended before {mark:?}; there was {:?}", String::from_utf8_lossy(&self.received));
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            assert!(self.more().await > 0, "the connection ended in a body");
        }
        self.received.drain(..length).collect()
    }

    /// Everything until the other side closes.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more().await > 0 {}
        std::mem::take(&mut self.received)
    }

    pub(crate) async fn head(&mut self) -> String {
        self.until("\r\n\r\n").await
    }

    /// The data of one chunk; `None` for the last one.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
        let mut data = self.exactly(size + 2).await;
        data.truncate(size);
        (size > 0).then_some(data)
    }

    pub(crate) async fn response(&mut self) -> Response {
        self.response_to("GET").await
    }

    pub(crate) async fn response_to(&mut self, method: &str) -> Response {
        let head = self.head().await;
        let mut response = Response { head: head.trim_end().to_owned(), body: Vec::new() };
        if method == "HEAD" {
            return response;
        }
        if response.header("transfer-encoding") == Some("chunked") {
            while let Some(data) = self.chunk().await {
                response.body.extend(data);
            }
        } else if let Some(length) = response.header("content-length") {
            response.body = self.exactly(length.parse().unwrap()).await;
        }
        response
    }
}

/// The events of a chunked stream.
pub(crate) struct Events {
    pub(crate) client: Client<TcpStream>,
    text: String,
}

impl Events {
    pub(crate) fn new(client: Client<TcpStream>) -> Self {
        Self { client, text: String::new() }
    }

    /// The next frame or comment, without its empty line; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            self.text.push_str(std::str::from_utf8(&self.client.chunk().await?).unwrap());
        }
    }

    /// The data of the next frame that is no comment, with its event name.
    pub(crate) async fn event(&mut self) -> Option<(String, Value)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = tokio::time::timeout_at(deadline, self.next()).await.expect("no event came")?;
            if frame.starts_with(':') {
                continue;
            }
            let name = frame.lines().find_map(|line| line.strip_prefix("event: ")).unwrap().to_owned();
            let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            return Some((name, serde_json::from_str(data).unwrap()));
        }
    }

    /// Skips to the first event of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let (_, data) = self.event().await.unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if data["type"] == kind {
                return data;
            }
        }
    }
}
