//! One agent: its daemon's life, its control stream, its sessions.

mod control;
mod frames;
mod sessions;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::{Method, StatusCode};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wolli_home::environment::Environment;
use wolli_home::paths::AgentName;
use wolli_protocol::command::Command;
use wolli_protocol::event::ControlEvent;
use wolli_protocol::ids::SessionId;
use wolli_protocol::state::{AgentState, Health, SessionState, SessionSummary};

use crate::error::ClientError;
use crate::link::{self, LinkState, refusal};
use crate::service;
use crate::session::{self, SessionHandle, SessionInner};
use crate::spawn::{self, DaemonProgram};
use crate::transport::{Body, Daemon, Failure, Transport};
pub use control::Lifecycle;
use control::{ControlFeed, ControlShared};
pub use frames::{Frame, FrameOptions, Frames};

/// How long a plain read may take.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// How long a first `hello` may take. A daemon that starts lets requests wait for 10 s, and a session may be large.
const ATTACH_LIMIT: Duration = Duration::from_secs(30);

/// How long the daemon may take to say that it will stop.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// A handle of one agent. Cheap to clone; all handles share the control stream and the sessions.
#[derive(Clone, Debug)]
pub struct Agent(pub(crate) Arc<AgentInner>);

#[derive(Debug)]
pub(crate) struct AgentInner {
    pub(crate) transport: Transport,
    program: Option<DaemonProgram>,
    environment: Environment,
    /// Cancelled when the last handle is gone or one was closed; every stream's token is its child.
    token: CancellationToken,
    pub(crate) tasks: TaskTracker,
    control: Arc<ControlShared>,
    control_state: watch::Sender<LinkState>,
    /// Two callers of `connect` start one daemon and one control stream.
    connecting: tokio::sync::Mutex<bool>,
    sessions: Mutex<HashMap<SessionId, Weak<SessionInner>>>,
}

impl Drop for AgentInner {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl AgentInner {
    pub(crate) fn new(daemon: Daemon, program: Option<DaemonProgram>, environment: Environment) -> Self {
        Self {
            transport: Transport::new(daemon),
            program,
            environment,
            token: CancellationToken::new(),
            tasks: TaskTracker::new(),
            control: Arc::new(ControlShared::new()),
            control_state: watch::Sender::new(LinkState::Connecting),
            connecting: tokio::sync::Mutex::new(false),
            sessions: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) fn name(&self) -> &AgentName {
        self.transport.daemon().home.name()
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<SessionInner>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The daemon says that a session has another name.
    fn rename(&self, session: &SessionId, name: &str) {
        if let Some(session) = self.sessions().get(session).and_then(Weak::upgrade) {
            session.rename(name);
        }
    }
}

impl Agent {
    #[must_use]
    pub fn name(&self) -> &AgentName {
        self.0.name()
    }

    /// Finds the agent's daemon, or starts it and waits for it, and follows its control stream. Opens no session.
    /// Does nothing if that was done before and the stream goes on.
    ///
    /// # Errors
    /// When the daemon does not become healthy within [`START_LIMIT`](crate::START_LIMIT), or refuses this client.
    pub async fn connect(&self) -> Result<(), ClientError> {
        let mut following = self.0.connecting.lock().await;
        if self.0.is_closed() {
            return Err(ClientError::Closed);
        }
        let live = matches!(*self.0.control_state.borrow(), LinkState::Live);
        if *following && live {
            return Ok(());
        }
        spawn::ensure_running(&self.0.transport, self.0.program.as_ref(), &self.0.environment).await?;
        if !*following || matches!(*self.0.control_state.borrow(), LinkState::Ended(_)) {
            self.0.control_state.send_replace(LinkState::Connecting);
            let feed = ControlFeed::new(Arc::clone(&self.0.control), Arc::downgrade(&self.0));
            let (transport, token) = (self.0.transport.clone(), self.0.token.child_token());
            self.0.tasks.spawn(link::run(transport, feed, self.0.control_state.clone(), token));
            *following = true;
        }
        drop(following);
        until_live(self.name(), &self.0.control_state).await
    }

    /// What the control stream last said of the agent; none before [`connect`](Self::connect).
    #[must_use]
    pub fn state(&self) -> Option<AgentState> {
        self.0.control.state.borrow().clone()
    }

    /// Follows [`state`](Self::state).
    #[must_use]
    pub fn watch_state(&self) -> watch::Receiver<Option<AgentState>> {
        self.0.control.state.subscribe()
    }

    /// Follows how the control stream is.
    #[must_use]
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.0.control_state.subscribe()
    }

    /// Notices of sessions that come, go and are renamed, from now on; dropping it stops them.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        Lifecycle { events: self.0.control.events.subscribe(), link: self.0.control_state.subscribe() }
    }

    /// Asks the daemon for the agent and all its sessions, newest first.
    ///
    /// # Errors
    /// When it cannot be reached, or refuses.
    pub async fn read_state(&self) -> Result<AgentState, ClientError> {
        let path = "/sessions";
        for attempt in 0.. {
            let sent = self.0.transport.send(Method::GET, path, Body::None, Some(READ_LIMIT)).await;
            let answer = match sent {
                Ok(answer) => answer,
                Err(Failure::NotSent(error)) => return Err(error),
                // Reading changes nothing, so a connection that broke is no reason to fail.
                Err(Failure::Interrupted(_)) if attempt == 0 => continue,
                Err(Failure::Interrupted(problem)) => {
                    return Err(ClientError::Unreachable { agent: self.name().clone(), problem });
                }
            };
            if answer.status == StatusCode::UNAUTHORIZED && attempt == 0 {
                self.0.transport.forget_connections();
                continue;
            }
            let bad = |problem: String| ClientError::BadAnswer { request: path.into(), problem };
            if answer.status != StatusCode::OK {
                return Err(refusal(&self.0.transport, path, &answer, || bad("404".into())));
            }
            return serde_json::from_slice(&answer.body).map_err(|error| bad(error.to_string()));
        }
        Err(ClientError::Closed)
    }

    /// The agent's sessions, newest first.
    ///
    /// # Errors
    /// See [`read_state`](Self::read_state).
    pub async fn list_sessions(&self) -> Result<Vec<SessionSummary>, ClientError> {
        Ok(self.read_state().await?.sessions)
    }

    /// The sessions that have all of these tags with these values, newest first.
    ///
    /// # Errors
    /// See [`read_state`](Self::read_state).
    pub async fn find_sessions(&self, tags: &[(&str, &str)]) -> Result<Vec<SessionSummary>, ClientError> {
        let mut sessions = self.list_sessions().await?;
        sessions.retain(|session| tags.iter().all(|(tag, value)| session.tags.get(*tag).is_some_and(|found| found == value)));
        Ok(sessions)
    }

    /// A handle of that session, with its stream attached, which makes the session live. All handles of a session share
    /// one stream; it ends with the last of them.
    ///
    /// # Errors
    /// When there is no such session, the daemon refuses this client, or it cannot be reached for 30 s.
    pub async fn session(&self, id: &SessionId) -> Result<SessionHandle, ClientError> {
        let inner = {
            let mut sessions = self.0.sessions();
            sessions.retain(|_, session| session.strong_count() > 0);
            let open = sessions.get(id).and_then(Weak::upgrade).filter(|session| !session.has_ended());
            match open {
                Some(session) => session,
                None if self.0.is_closed() => return Err(ClientError::Closed),
                None => {
                    let session = session::open(&self.0, id.clone(), self.0.token.child_token());
                    sessions.insert(id.clone(), Arc::downgrade(&session));
                    session
                }
            }
        };
        inner.ready().await?;
        Ok(SessionHandle(inner))
    }

    /// The session that was made last.
    ///
    /// # Errors
    /// When there is none, and as [`session`](Self::session).
    pub async fn latest_session(&self) -> Result<SessionHandle, ClientError> {
        let id = self.any_session().await?;
        self.session(&id).await
    }

    /// Makes a session beside the others; gives its state back. Open it with [`session`](Self::session).
    ///
    /// # Errors
    /// When the agent is still forming, and when the daemon cannot be reached.
    pub async fn create_session(&self) -> Result<SessionState, ClientError> {
        self.agent_command(&Command::CreateSession).await
    }

    /// Marks the agent as deployed and makes a fresh session; gives its state back. Where there is a service manager the daemon
    /// installs the agent as a service, and gives way to it before this returns; handles go on by themselves. Again is fine, and only
    /// makes another session.
    ///
    /// # Errors
    /// The daemon's: then the agent is what it was before. [`ClientError::HandOver`] if it is deployed, and the service did not start: the
    /// daemon goes on without it.
    pub async fn deploy(&self) -> Result<SessionState, ClientError> {
        let home = &self.0.transport.daemon().home;
        // Whoever serves an agent that was deployed long ago is in nobody's way.
        let is_first = wolli_home::agent::load(home).is_ok_and(|agent| agent.document.deployed_at().is_none_or(str::is_empty));
        let state = self.agent_command(&Command::Deploy).await?;
        if is_first
            && self.is_service()
            && let Err(error) = self.restart().await
        {
            return Err(ClientError::HandOver { agent: self.name().clone(), problem: error.to_string() });
        }
        Ok(state)
    }

    /// Whether the agent is installed as a service of this user. Asks the disk alone.
    #[must_use]
    pub fn is_service(&self) -> bool {
        service::is_installed(&self.0.environment, &self.0.transport.daemon().home)
    }

    /// What the daemon says of itself, with its version, program and build.
    ///
    /// # Errors
    /// When it cannot be reached, or refuses.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let path = "/health";
        // A connection that was kept may lead to a process that is about to end.
        self.0.transport.forget_connections();
        let answer = self.0.transport.send(Method::GET, path, Body::None, Some(READ_LIMIT)).await.map_err(|failure| match failure {
            Failure::NotSent(error) => error,
            Failure::Interrupted(problem) => ClientError::Unreachable { agent: self.name().clone(), problem },
        })?;
        serde_json::from_slice(&answer.body).map_err(|error| ClientError::BadAnswer { request: path.into(), problem: error.to_string() })
    }

    /// Sends a command that concerns the whole agent. It is posted to the latest session; where there is none, any name will do.
    async fn agent_command<T: serde::de::DeserializeOwned>(&self, command: &Command) -> Result<T, ClientError> {
        let session = self.posting_place().await?;
        session::command(&self.0.transport, &session, command, false, None).await
    }

    async fn posting_place(&self) -> Result<SessionId, ClientError> {
        match self.any_session().await {
            Err(ClientError::NoSession(_)) => Ok(SessionId::from("none")),
            session => session,
        }
    }

    async fn any_session(&self) -> Result<SessionId, ClientError> {
        let sessions = self.list_sessions().await?;
        sessions.into_iter().next().map(|session| session.session_id).ok_or_else(|| ClientError::NoSession(self.name().clone()))
    }

    /// Asks the daemon to stop, and waits until it has. One that does not run is stopped. A service is not started again by its manager
    /// until somebody asks, or the machine starts.
    ///
    /// # Errors
    /// When it still answers after [`START_LIMIT`](crate::START_LIMIT).
    pub async fn stop(&self) -> Result<(), ClientError> {
        let asked = async {
            let session = self.posting_place().await?;
            session::command::<serde_json::Value>(&self.0.transport, &session, &Command::Shutdown, false, Some(STOP_LIMIT)).await
        };
        // Whatever came of it, what counts is whether the daemon still answers.
        if let Ok(Err(error)) = tokio::time::timeout(STOP_LIMIT, asked).await {
            tracing::debug!(%error, "the request to stop had no answer");
        }
        spawn::wait_for_stop(&self.0.transport).await
    }

    /// Starts the daemon if none answers, and waits until it does: by its service if there is one, else detached.
    ///
    /// # Errors
    /// When it does not answer within [`START_LIMIT`](crate::START_LIMIT).
    pub async fn start(&self) -> Result<Health, ClientError> {
        spawn::ensure_running(&self.0.transport, self.0.program.as_ref(), &self.0.environment).await
    }

    /// Starts a daemon of its own, detached from this program, whether there is a service or not.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_detached(&self) -> Result<Health, ClientError> {
        let program = self.0.program.as_ref().ok_or_else(|| ClientError::Unreachable {
            agent: self.name().clone(),
            problem: "there is no program to start its daemon with".into(),
        })?;
        spawn::start(&self.0.transport, program, &self.0.environment).await
    }

    /// Stops the daemon and starts it again. Handles go on by themselves. A service is restarted by its manager, and a daemon that was
    /// started beside it gives way to it.
    ///
    /// # Errors
    /// When it does not stop, or cannot be started.
    pub async fn restart(&self) -> Result<(), ClientError> {
        if self.is_service() {
            let home = &self.0.transport.daemon().home;
            return service::order(self.0.program.as_ref(), &self.0.environment, home, &["restart"]).await;
        }
        if self.0.program.is_some() {
            self.stop().await?;
        }
        self.start_detached().await.map(|_| ())
    }

    /// Waits for a daemon that did not start at `former`, which is the [`started_at`](Health::started_at) of the one that is to go. One that
    /// is about to leave may still answer.
    ///
    /// # Errors
    /// When none answers within [`START_LIMIT`](crate::START_LIMIT).
    pub async fn wait_for_successor(&self, former: Option<&str>) -> Result<Health, ClientError> {
        spawn::wait_for_other(&self.0.transport, former).await
    }

    /// Waits until the daemon answers, whoever started it.
    ///
    /// # Errors
    /// When it does not within [`START_LIMIT`](crate::START_LIMIT).
    pub async fn wait_for_health(&self) -> Result<(), ClientError> {
        spawn::wait_for_health(&self.0.transport).await.map(|_| ())
    }

    /// Ends all streams of this agent, those of its sessions too. The daemon goes on.
    pub fn close(&self) {
        self.0.token.cancel();
        self.0.transport.forget_connections();
    }
}

/// Waits until a link is live for the first time. It goes on trying after that was given up, until its handle is gone.
pub(crate) async fn until_live(agent: &AgentName, state: &watch::Sender<LinkState>) -> Result<(), ClientError> {
    let mut changes = state.subscribe();
    let reached = changes.wait_for(|state| matches!(state, LinkState::Live | LinkState::Ended(_)));
    if let Ok(reached) = tokio::time::timeout(ATTACH_LIMIT, reached).await {
        return match reached.as_deref() {
            Ok(LinkState::Ended(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(ClientError::Closed),
        };
    }
    let problem = match &*state.borrow() {
        LinkState::Waiting { problem, .. } => problem.clone(),
        _ => "its event stream does not begin".into(),
    };
    Err(ClientError::Unreachable { agent: agent.clone(), problem })
}

impl ControlShared {
    fn new() -> Self {
        Self { state: watch::Sender::new(None), events: broadcast::Sender::<ControlEvent>::new(control::CAPACITY) }
    }
}
