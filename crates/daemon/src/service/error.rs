//! Why a service could not be installed, started or asked about: what happened, and what to do about it.

use std::io;
use std::path::PathBuf;

use wolli_home::atomic::WriteError;

/// Why a service manager did not do what it was asked to. The state is what it was before, unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(
        "there is no service manager to install \"{agent}\" with: {reason}\n\
         Without one the agent is started by whoever needs it: wolli <agent>, or wolli start <agent>."
    )]
    NoManager { agent: String, reason: &'static str },
    /// The manager does not answer us.
    #[error("{manager} cannot be reached: {problem}\n{advice}")]
    Unreachable { manager: &'static str, problem: String, advice: String },
    #[error("cannot call {program}: {problem}")]
    Program { program: String, problem: String },
    /// It was called and said no.
    #[error("{command} failed for \"{agent}\": {problem}")]
    Refused { command: String, agent: String, problem: String },
    #[error("{command} did not end within {seconds} s for \"{agent}\"")]
    TimedOut { command: String, agent: String, seconds: u64 },
    #[error("the service of \"{agent}\" is not installed. Install it with: wolli service install {agent}")]
    NotInstalled { agent: String },
    #[error("{unit} is masked: {path} hides it. Unmask it with: systemctl --user unmask {unit}", path = path.display())]
    Masked { unit: String, path: PathBuf },
    #[error("cannot tell where service definitions are: HOME is not set")]
    NoHome,
    #[error("cannot {action} {path}: {source}", path = path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It failed, and so did the way back.
    #[error("{error}\nWhat was done before that could not be undone: {undoing}")]
    NotUndone { error: Box<ServiceError>, undoing: Box<ServiceError> },
}
