//! HTTP/1.1 to one agent's daemon: connections that proved who is at the other end, requests, event streams.
//!
//! Invariant: a request with the token is written only to a connection on which the daemon proved itself. Connections
//! that are free are kept for a few seconds and used again.

mod connect;
mod events;
mod request;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root};

use connect::Connection;
pub(crate) use events::{EventStream, SILENCE_LIMIT};
pub(crate) use request::{Answer, Body, Failure, encode_segment};

/// How long a free connection may be used again. Daemons close idle ones after 5 s; near that a request could meet the end.
const REUSE_LIMIT: Duration = Duration::from_secs(3);

/// Free connections that are kept; more are closed.
const KEPT_CONNECTIONS: usize = 4;

/// Which daemon: where it is and how it proves itself.
///
/// The Unix socket comes first: its path is the agent's own, and the system tells who listens there. Over TCP the daemon
/// is asked for a proof that it knows the token, on each new connection. `agent.json` is read anew for each connection,
/// so that another port or token is found.
#[derive(Clone, Debug)]
pub struct Daemon {
    pub(crate) home: AgentHome,
    /// `host` of `http://host:port`, for a loopback or other address.
    pub(crate) host: String,
    /// Instead of the token of `agent.json`.
    pub(crate) token: Option<secrecy::SecretString>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) trust: Trust,
    /// How long a stream may be without a sound before its connection counts as dead.
    pub(crate) silence_limit: Duration,
}

/// What a daemon has to show before it gets the token over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// A proof that it knows the token.
    #[default]
    Proof,
    /// The agent's name in `/health`, as daemons of wolli 0.0.2 show it. Any program of this machine could do that.
    Name,
}

impl Daemon {
    pub(crate) fn of(home: AgentHome, root: &Root, environment: &Environment) -> Self {
        let socket = wolli_home::paths::socket_path(environment.runtime_folder(), root, &home).ok();
        let host = match environment.daemon_host() {
            // Addresses to bind; a connection needs one of the machine's own.
            "0.0.0.0" => "127.0.0.1",
            "::" | "[::]" => "::1",
            host => host,
        };
        Self {
            home,
            host: host.trim_matches(['[', ']']).to_owned(),
            token: environment.daemon_token(),
            socket,
            trust: Trust::default(),
            silence_limit: SILENCE_LIMIT,
        }
    }
}

impl Daemon {
    /// It is meant to run on this machine; else a socket here would lead to another one.
    pub(crate) fn is_here(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Sends requests to one daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Transport(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    daemon: Daemon,
    free: Mutex<Vec<(Instant, Connection)>>,
    /// The tasks that drive connections; each ends with its connection.
    tasks: TaskTracker,
}

impl Transport {
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self(Arc::new(Inner { daemon, free: Mutex::default(), tasks: TaskTracker::new() }))
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        &self.0.daemon
    }

    /// A free connection that is still good.
    fn take_free(&self) -> Option<Connection> {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.retain(|(since, connection)| since.elapsed() < REUSE_LIMIT && !connection.is_closed());
        free.pop().map(|(_, connection)| connection)
    }

    fn put_free(&self, connection: Connection) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT_CONNECTIONS && !connection.is_closed() {
            free.push((Instant::now(), connection));
        }
    }

    /// Closes what is kept free, for example because the daemon is about to be replaced.
    pub(crate) fn forget_connections(&self) {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
