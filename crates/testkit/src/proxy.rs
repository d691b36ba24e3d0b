//! A network between a client and a server that cuts, stalls and delays where the test says.
//!
//! Invariant: bytes that pass are the bytes that came, in order. Not here: HTTP; it counts bytes and nothing else.

mod pump;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::background::Background;
use pump::carry;

#[cfg(test)]
mod tests;

/// What happens to one connection. Bytes are counted per direction from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Ends the connection after that many bytes from the server.
    pub cut_after: Option<u64>,
    /// Ends the connection after that many bytes from the client.
    pub cut_request_after: Option<u64>,
    /// Lets nothing more through from the server after that many bytes; the connection stays.
    pub stall_after: Option<u64>,
    /// Holds every piece from the server that long.
    pub delay: Duration,
    /// The server's bytes go on in pieces of this size.
    pub piece: Option<usize>,
    /// Cuts are resets.
    pub reset: bool,
}

/// A proxy on a free port of 127.0.0.1.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: Background,
}

#[derive(Debug)]
struct Shared {
    settings: Mutex<Settings>,
    /// Counts [`FaultProxy::cut_all`]; connections that began before a rise end.
    cuts: watch::Sender<u64>,
    /// Nothing passes while it is true.
    frozen: watch::Sender<bool>,
    connections: watch::Sender<Counts>,
}

/// Connections of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub accepted: u64,
    pub open: u64,
}

#[derive(Debug)]
struct Settings {
    upstream: SocketAddr,
    /// For the next connections, in order; then the default one.
    plans: std::collections::VecDeque<Plan>,
    default: Plan,
    refuse: bool,
}

impl Shared {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProxy {
    /// Passes everything on to `upstream` until it is told otherwise.
    ///
    /// # Panics
    /// When the machine has no loopback.
    #[must_use]
    #[track_caller]
    pub fn start(upstream: SocketAddr) -> Self {
        let settings = Settings { upstream, plans: std::collections::VecDeque::new(), default: Plan::default(), refuse: false };
        let shared = Arc::new(Shared {
            settings: Mutex::new(settings),
            cuts: watch::Sender::new(0),
            frozen: watch::Sender::new(false),
            connections: watch::Sender::new(Counts::default()),
        });
        match Self::listen(&shared) {
            Ok((address, server)) => Self { address, shared, _server: server },
            Err(error) => panic!("no proxy: {error}"),
        }
    }

    fn listen(shared: &Arc<Shared>) -> std::io::Result<(SocketAddr, Background)> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::clone(shared);
        let server = Background::start("proxy", move || serve(listener, shared))?;
        Ok((address, server))
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends later connections to another server.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.shared.settings().upstream = upstream;
    }

    /// The plan of one connection to come, behind those that were given before.
    pub fn plan(&self, plan: Plan) {
        self.shared.settings().plans.push_back(plan);
    }

    /// The plan of all connections to come that have none of their own.
    pub fn plan_all(&self, plan: Plan) {
        self.shared.settings().default = plan;
    }

    /// Nothing goes wrong with connections to come. Those that are open keep their plans.
    pub fn heal(&self) {
        let mut settings = self.shared.settings();
        settings.plans.clear();
        settings.default = Plan::default();
        settings.refuse = false;
        drop(settings);
        self.freeze(false);
    }

    /// Ends all connections that are open now.
    pub fn cut_all(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Ends new connections at once while it is on.
    pub fn refuse(&self, on: bool) {
        self.shared.settings().refuse = on;
    }

    /// Holds all bytes of all connections back while it is on; connections stay.
    pub fn freeze(&self, on: bool) {
        self.shared.frozen.send_replace(on);
    }

    #[must_use]
    pub fn connections(&self) -> Counts {
        *self.shared.connections.borrow()
    }

    /// Waits until the counts are as the test wants them.
    ///
    /// # Panics
    /// When they are not until [`crate::DEADLINE`].
    pub async fn wait_for_connections(&self, wanted: impl Fn(Counts) -> bool) -> Counts {
        let mut connections = self.shared.connections.subscribe();
        let waited = tokio::time::timeout(crate::DEADLINE, connections.wait_for(|counts| wanted(*counts))).await;
        match waited {
            Ok(Ok(counts)) => *counts,
            _ => panic!("connections are {:?}", self.connections()),
        }
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                shared.connections.send_modify(|counts| counts.accepted += 1);
                let (upstream, plan) = {
                    let mut settings = shared.settings();
                    if settings.refuse {
                        continue;
                    }
                    let plan = settings.plans.pop_front().unwrap_or_else(|| settings.default.clone());
                    (settings.upstream, plan)
                };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    shared.connections.send_modify(|counts| counts.open += 1);
                    if let Ok(server) = TcpStream::connect(upstream).await {
                        carry(client, server, &plan, &shared).await;
                    }
                    shared.connections.send_modify(|counts| counts.open -= 1);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
