//! A daemon that serves: from the bound port to the released lock.
//!
//! Order of the start: port, `/health`, then the agent. Order of the end: no new connections and a lock that says "draining", runs
//! (with a grace), streams, socket file, lock. Each step has a limit, and all together stay below ten seconds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wolli_home::lock::HomeLock;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};
use wolli_runtime::embed::Ports;
use wolli_runtime::runtime::{Inputs, Runtime};
use wolli_runtime::tasks::Tasks;

use super::prepare::Prepared;
use super::socket::{self, SocketFile};
use super::successor::Successor;
use super::{StartError, bind};
use crate::api::events::{Defaults, Pace};
use crate::api::health::{Identity, build_id};
use crate::api::opening::Opening;
use crate::api::service::Service;
use crate::exit::ExitStatus;
use crate::http::access::{Access, Transport};
use crate::http::hosts::AllowedHosts;
use crate::server::accept::{self, Listener, Room, Work};
use crate::server::connection::{self, Endings};
use crate::server::limits::Timing;
use crate::server::transport::Socket;
use crate::service::DeployedService;
use crate::stop::{Stop, StopReason};

/// A daemon that serves. Ends only by [`Daemon::finish`].
#[derive(Debug)]
pub struct Daemon {
    agent: String,
    host: String,
    address: SocketAddr,
    stop: Stop,
    timing: Timing,
    lock: HomeLock,
    socket: Option<SocketFile>,
    tasks: Tasks,
    opening: watch::Receiver<Opening>,
    opener: JoinHandle<()>,
    endings: Endings,
    /// Ends event streams that are still there when the runtime has ended.
    end_streams: CancellationToken,
    successor: Successor,
}

impl Daemon {
    /// Takes the port and answers `/health`; the agent is loaded behind it. Needs a tokio runtime.
    ///
    /// # Errors
    /// The port cannot be had.
    pub async fn start(prepared: Prepared, mut lock: HomeLock, timing: Timing) -> Result<Self, StartError> {
        let tcp = bind::tcp(&prepared).await?;
        let address = tcp.local_addr().map_err(StartError::System)?;
        let (unix, socket) = unix_socket(&prepared, &mut lock).await;
        let (agent, host) = (prepared.home.name().as_str().to_owned(), prepared.host.clone());

        let successor = Successor::of(&prepared);
        let stop = Stop::default();
        let end_streams = CancellationToken::new();
        let endings = Endings { drain: CancellationToken::new(), cut: CancellationToken::new() };
        let tasks = Tasks::new();
        let (opened, opening) = watch::channel(Opening::Loading);
        let service = Arc::new(Service {
            identity: Identity {
                agent: agent.clone(),
                started_at: prepared.started_at_text.clone(),
                build_id: build_id(&prepared.executable),
                executable: prepared.executable.clone(),
            },
            access: Access::new(AllowedHosts::new(&prepared.host, &prepared.configuration.values.security.hosts), prepared.token.clone()),
            opening: opening.clone(),
            defaults: Defaults::of(&prepared.configuration.values.events),
            pace: Pace { keepalive: timing.keepalive, end: end_streams.clone() },
            body_limit: prepared.configuration.values.limits.body,
            timing,
            stop: stop.clone(),
        });
        let room = Room::new();
        for (listener, transport) in [(Some(Listener::Tcp(tcp)), Transport::Tcp), (unix.map(Listener::Unix), Transport::Unix)] {
            let Some(listener) = listener else { continue };
            let start = starter(&tasks, &service, transport, &endings);
            let accepting = accept::accept(listener, room.clone(), timing.write_stall, endings.drain.clone(), start);
            drop(tasks.spawn("accept", accepting));
        }
        let opener = tasks.spawn("open", open(inputs(prepared), opened, stop.clone()));
        Ok(Self { agent, host, address, stop, timing, lock, socket, tasks, opening, opener, endings, end_streams, successor })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The line that says so.
    #[must_use]
    pub fn announcement(&self) -> String {
        let host = if self.host.contains(':') && !self.host.starts_with('[') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("wolli daemon for \"{}\" listening on http://{host}:{}", self.agent, self.address.port())
    }

    /// The way to end it.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Follows how far the agent is.
    pub(crate) fn opening(&self) -> watch::Receiver<Opening> {
        self.opening.clone()
    }

    /// Serves until it is to stop, then ends everything in order.
    pub async fn finish(mut self) -> ExitStatus {
        let reason = self.stop.wanted().await;
        tracing::info!(?reason, "stopping");
        let started = std::time::Instant::now();
        // The record tells a successor to wait. Without it the successor gives up, and its supervisor tries again.
        if let Err(error) = self.lock.set_draining() {
            tracing::warn!(%error, "the lock could not be marked");
        }
        self.endings.drain.cancel();
        self.end_runtime().await;
        self.end_streams.cancel();
        let drained = tokio::select! {
            () = self.tasks.finished() => true,
            () = tokio::time::sleep(self.timing.drain) => false,
            () = self.stop.hurried() => false,
        };
        if !drained {
            tracing::debug!(connections = self.tasks.len(), "cut off");
            self.endings.cut.cancel();
        }
        drop(self.socket.take());
        // The record says "draining" until the lock goes, so whoever is started now waits for it.
        self.successor.order(reason).await;
        tracing::info!(elapsed = ?started.elapsed(), "stopped");
        drop(self.lock);
        reason.status()
    }

    /// Ends runs and everything that belongs to them, within the grace period or at once.
    async fn end_runtime(&mut self) {
        let opening = self.opening.borrow().clone();
        let runtime = match opening {
            Opening::Open(runtime) => runtime,
            // What is being loaded has no work to finish.
            Opening::Loading | Opening::Failed(_) => {
                self.opener.abort();
                return;
            }
        };
        let grace = tokio::select! {
            biased;
            () = runtime.shutdown(self.timing.grace) => return,
            () = self.stop.hurried() => Duration::ZERO,
        };
        tracing::info!("a second signal: no more waiting");
        runtime.shutdown(grace).await;
    }
}

async fn unix_socket(prepared: &Prepared, lock: &mut HomeLock) -> (Option<tokio::net::UnixListener>, Option<SocketFile>) {
    let Some(path) = prepared.socket_path() else { return (None, None) };
    match socket::listen(&path).await {
        Ok((listener, file)) => {
            if let Err(error) = lock.set_socket(Some(file.path().to_string_lossy().into_owned())) {
                tracing::warn!(%error, "the socket's place was not recorded");
            }
            (Some(listener), Some(file))
        }
        Err(error) => {
            tracing::warn!(%error, "no Unix socket; TCP alone");
            (None, None)
        }
    }
}

/// Starts the task of each connection.
fn starter(tasks: &Tasks, service: &Arc<Service>, transport: Transport, endings: &Endings) -> impl Fn(Work) + Send + Sync + 'static {
    let (tasks, service, endings) = (tasks.clone(), Arc::clone(service), endings.clone());
    move |work| {
        let (service, endings) = (Arc::clone(&service), endings.clone());
        drop(match work {
            Work::Serve(socket, place) => tasks.spawn("connection", async move {
                serve(socket, service, transport, &endings).await;
                drop(place);
            }),
            Work::Refuse(socket, place) => tasks.spawn("refusal", async move {
                accept::refuse(socket).await;
                drop(place);
            }),
        });
    }
}

async fn serve(socket: Socket, service: Arc<Service>, transport: Transport, endings: &Endings) {
    let timing = service.timing;
    connection::serve(socket, &timing, endings, |request, activity| Arc::clone(&service).answer(request, transport, activity)).await;
}

fn inputs(prepared: Prepared) -> Inputs {
    let Prepared { root, shared, home, agent, environment, configuration, .. } = prepared;
    let service = Arc::new(DeployedService::new(&environment, &root, &home));
    for warning in &agent.warnings {
        tracing::warn!("{warning}");
    }
    let diagnostics = configuration.diagnostics.iter().map(|diagnostic| {
        tracing::warn!("{diagnostic}");
        ResourceDiagnostic::new(DiagnosticKind::Error, &diagnostic.message, Some(&diagnostic.path))
    });
    Inputs {
        config_files: vec![root.config(), home.config_toml()],
        root,
        shared,
        home,
        agent,
        environment,
        diagnostics: diagnostics.collect(),
        config: configuration.values,
        ports: Ports { service, at_rest: Some(wolli_exec::memory::give_back), ..Ports::default() },
    }
}

async fn open(inputs: Inputs, opened: watch::Sender<Opening>, stop: Stop) {
    match Runtime::open(inputs).await {
        Ok(runtime) => {
            opened.send_replace(Opening::Open(Arc::new(runtime)));
            tracing::info!("the agent is loaded");
        }
        Err(error) => {
            tracing::error!(%error, "the agent cannot be loaded");
            opened.send_replace(Opening::Failed(error.to_string().into()));
            stop.request(StopReason::Failure);
        }
    }
}
