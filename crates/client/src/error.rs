//! What can go wrong, in the words that reach a person.

use std::path::PathBuf;
use std::sync::Arc;

use wolli_home::agent::AgentError;
use wolli_home::environment::HomeUnknown;
use wolli_home::paths::{AgentName, InvalidAgentName};
use wolli_protocol::ids::SessionId;

/// Why a client's call failed. Cheap to clone, since all handles of a session are told.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Name(#[from] InvalidAgentName),
    #[error(transparent)]
    NoHome(#[from] HomeUnknown),
    /// The agent's files cannot be used.
    #[error(transparent)]
    Home(Arc<AgentError>),
    /// The daemon was started, or was there, and did not answer in time.
    #[error("Daemon at {base} did not become healthy within {seconds}s.{detail}")]
    NotHealthy {
        base: String,
        seconds: u64,
        /// Empty, or a line break and what the daemon printed.
        detail: String,
    },
    /// The daemon still answers although it was asked to stop.
    #[error("Daemon at {base} did not shut down within {seconds}s.")]
    NotStopped { base: String, seconds: u64 },
    /// The daemon's program cannot be started, or ended at once.
    #[error("cannot start the daemon ({program}): {problem}")]
    Start { program: PathBuf, problem: String },
    /// The agent is a service, and its manager did not do what was asked of it.
    #[error("the service of \"{agent}\" does not {order}: {problem}")]
    Service { agent: AgentName, order: String, problem: String },
    /// The agent was deployed, and the daemon that did it should have given way to the service.
    #[error("\"{agent}\" is deployed, but its service did not take over: {problem}")]
    HandOver { agent: AgentName, problem: String },
    /// Nobody answers where the daemon should be.
    #[error("daemon of \"{agent}\" cannot be reached: {problem}")]
    Unreachable { agent: AgentName, problem: String },
    /// Somebody answers who is not the agent's daemon; the token was not sent.
    #[error("what answers for \"{agent}\" is not its daemon: {problem}")]
    Untrusted { agent: AgentName, problem: String },
    /// The daemon does not take the token.
    #[error("daemon of \"{agent}\" refuses the token of agent.json")]
    Unauthorized { agent: AgentName },
    #[error("No session \"{session}\" for agent \"{agent}\"")]
    UnknownSession { agent: AgentName, session: SessionId },
    #[error("No session for agent \"{0}\".")]
    NoSession(AgentName),
    /// The daemon refused a command; this is its text.
    #[error("{0}")]
    Command(String),
    /// The connection broke while the daemon worked on it, so it may have happened or not.
    #[error("connection broke before the answer to {command}; it may have been carried out")]
    Interrupted { command: &'static str },
    /// An answer that no daemon gives.
    #[error("unexpected answer to {request}: {problem}")]
    BadAnswer { request: String, problem: String },
    /// The handle was closed.
    #[error("connection is closed")]
    Closed,
}

impl From<AgentError> for ClientError {
    fn from(error: AgentError) -> Self {
        Self::Home(Arc::new(error))
    }
}

impl ClientError {
    /// Another attempt cannot help: the answer was explicit.
    pub(crate) const fn is_final(&self) -> bool {
        !matches!(self, Self::Unreachable { .. } | Self::Untrusted { .. } | Self::BadAnswer { .. } | Self::NotHealthy { .. })
    }
}
