//! Everything between the command line and the first request, and the end of it all.

pub(crate) mod bind;
pub(crate) mod daemon;
pub(crate) mod notify;
pub(crate) mod prepare;
pub(crate) mod probe;
pub(crate) mod run;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod successor;

use std::net::SocketAddr;
use std::path::PathBuf;

use wolli_home::environment::HomeUnknown;
use wolli_home::lock::LockError;

use crate::exit::{self, ExitStatus};
use crate::log::LogFormat;

/// Who started the daemon and looks after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supervisor {
    /// Nobody, or one that can be told which statuses mean "do not start again".
    #[default]
    None,
    /// launchd, which starts again whatever did not end with 0.
    Launchd,
}

/// The command line of `wolli daemon`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The agent's name.
    pub agent: String,
    /// Instead of the port in `agent.json`.
    pub port: Option<u16>,
    pub log_format: LogFormat,
    pub supervisor: Supervisor,
}

/// Why a daemon did not start. The texts are for the person at the terminal or the reader of the journal.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("Unknown agent \"{0}\". Create it with: wolli new {0}")]
    UnknownAgent(String),
    #[error("{0}")]
    BadConfiguration(String),
    #[error(transparent)]
    HomeUnknown(#[from] HomeUnknown),
    #[error("cannot read the agent \"{agent}\": {source}")]
    Agent { agent: String, source: wolli_home::agent::AgentError },
    #[error("wolli daemon for \"{agent}\" is already running: {source}")]
    Held { agent: String, source: LockError },
    #[error("wolli daemon for \"{agent}\" cannot lock its home: {source}")]
    Lock { agent: String, source: LockError },
    #[error("wolli daemon for \"{agent}\" is already running: it answers on {address}")]
    AlreadyServed { agent: String, address: SocketAddr },
    #[error(
        "wolli daemon for \"{agent}\": port {port} already in use.\n\
         Another program listens there. End it, or give this agent another port: change \"port\" in {config}, or start the daemon with --port.",
        config = config.display()
    )]
    PortTaken { agent: String, port: u16, config: PathBuf },
    #[error("wolli daemon for \"{agent}\": cannot listen on {address}: {source}")]
    Bind { agent: String, address: SocketAddr, source: std::io::Error },
    #[error("the system refused what the daemon needs: {0}")]
    System(std::io::Error),
}

impl StartError {
    /// What the process ends with.
    #[must_use]
    pub fn status(&self, supervisor: Supervisor) -> ExitStatus {
        match self {
            Self::UnknownAgent(_) | Self::Agent { .. } | Self::Lock { .. } | Self::Bind { .. } | Self::System(_) => exit::FAILURE,
            Self::BadConfiguration(_) | Self::HomeUnknown(_) => exit::BAD_CONFIGURATION,
            Self::PortTaken { .. } => exit::PORT_TAKEN,
            Self::Held { .. } | Self::AlreadyServed { .. } => match supervisor {
                Supervisor::None => exit::ALREADY_RUNNING,
                Supervisor::Launchd => exit::SUCCESS,
            },
        }
    }
}
