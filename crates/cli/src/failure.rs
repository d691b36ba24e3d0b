//! Why a command failed: the text that a person reads, and the exit status.
//!
//! Invariant: every error of the libraries becomes a text and a status here and nowhere else. A text says what happened and, where
//! there is something to do, what that is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wolli_client::ClientError;
use wolli_home::agent::AgentError;
use wolli_home::config::ConfigError;
use wolli_home::environment::HomeUnknown;
use wolli_home::paths::InvalidAgentName;

use crate::status;

/// What a command ends with when it does not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("Unknown agent \"{0}\". Create it with: wolli new {0}")]
    UnknownAgent(String),
    /// As above, where creating it would be no help.
    #[error("Unknown agent \"{0}\".")]
    NoSuchAgent(String),
    #[error(transparent)]
    Name(#[from] InvalidAgentName),
    #[error("\"{0}\" is a command of wolli and cannot be the name of a new agent. Choose another name.")]
    ReservedName(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("Failed to delete agent \"{name}\": {reason}")]
    Delete { name: String, reason: String },
    /// The service manager's part of it; the text says what to do.
    #[error("{0}")]
    Service(String),
    #[error("{}", config_text(.0))]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Home(#[from] HomeUnknown),
    #[error("Which agent? Usage: wolli {0}<agent> [--print <message>...]")]
    NoAgent(&'static str),
    #[error("Print mode needs a message: wolli {0} --print \"<message>\"")]
    NoMessage(String),
    #[error("Inline messages need --print: wolli {0} --print \"<message>\" (or run wolli {0} for interactive chat)")]
    InlineMessage(String),
    #[error("Which message? Usage: wolli prompt {0} <message>..., or --file <file>, or - for stdin")]
    WhatToSay(String),
    #[error("The message is empty.")]
    EmptyMessage,
    #[error("cannot read the message from stdin: {0}")]
    Stdin(io::Error),
    #[error("cannot start the program's own runtime: {0} (is the machine out of memory or processes?)")]
    Start(io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The turn ended in an error; the model gave this reason.
    #[error("{0}")]
    Model(String),
    /// The turn was aborted.
    #[error("{0}")]
    Aborted(String),
    #[error("\"{typed}\" is the beginning of several ids:{lines}\nType more of it.")]
    Ambiguous { typed: String, lines: String },
    /// A file that the person named, with what is wrong.
    #[error("{0}")]
    File(String),
    /// The turn asks something that this program leaves to a person.
    #[error(
        "The agent asks: {question}\nIt waits for a person. Answer in a chat: wolli chat {agent} --session {session}\n(Unless it is an \
         approval that waits for longer, the question ends as cancelled when nobody is attached.)"
    )]
    Waits { agent: String, session: String, question: String },
    #[error("The model gave no answer.")]
    NoAnswer,
    #[error("No answer within {} s; gave up.", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("cannot write to stdout: {0}")]
    Output(#[from] io::Error),
    /// The question was answered with no.
    #[error("")]
    Cancelled,
    #[error("Interrupted.")]
    Interrupted,
    #[error("Terminated.")]
    Terminated,
}

impl Failure {
    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Agent(AgentError::Invalid { .. }) | Self::Configuration(_) | Self::Home(_) | Self::Client(ClientError::NoHome(_)) => {
                status::CONFIGURATION
            }
            Self::Client(ClientError::Home(error)) if matches!(**error, AgentError::Invalid { .. }) => status::CONFIGURATION,
            Self::NoAgent(_) | Self::WhatToSay(_) => status::USAGE,
            Self::Waits { .. } => status::WAITS,
            Self::Client(
                ClientError::Unreachable { .. }
                | ClientError::Untrusted { .. }
                | ClientError::NotHealthy { .. }
                | ClientError::Start { .. },
            ) => status::UNREACHABLE,
            Self::Client(ClientError::Unauthorized { .. }) => status::UNAUTHORISED,
            Self::Model(_) => status::TURN_FAILED,
            Self::Aborted(_) => status::TURN_ABORTED,
            // Whoever read our output has enough of it.
            Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Interrupted => status::INTERRUPTED,
            Self::Terminated => status::TERMINATED,
            Self::UnknownAgent(_)
            | Self::NoSuchAgent(_)
            | Self::Name(_)
            | Self::ReservedName(_)
            | Self::Agent(_)
            | Self::Delete { .. }
            | Self::Service(_)
            | Self::NoMessage(_)
            | Self::InlineMessage(_)
            | Self::EmptyMessage
            | Self::Stdin(_)
            | Self::Start(_)
            | Self::Client(_)
            | Self::Ambiguous { .. }
            | Self::File(_)
            | Self::NoAnswer
            | Self::TimedOut(_)
            | Self::Output(_)
            | Self::Cancelled => status::FAILURE,
        }
    }

    /// What stderr says; nothing when all has been said or nobody listens.
    pub(crate) fn text(&self) -> Option<String> {
        let text = match self {
            Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => return None,
            Self::Agent(AgentError::Invalid { path, .. }) => {
                format!("{self}\nThe agent cannot be used until that is repaired{}.", hint_of_copies(path))
            }
            Self::Client(error) => format!("{self}{}", advice(error)),
            _ => self.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

/// What a person can do about it.
fn advice(error: &ClientError) -> &'static str {
    match error {
        ClientError::HandOver { .. } => "\nThe agent goes on as it was started. Try again with: wolli restart <agent>",
        ClientError::NotHealthy { .. } | ClientError::Start { .. } => {
            "\nThe agent cannot be reached until its daemon runs. Its log is logs/daemon.log in the agent's home; \
             `wolli daemon <agent>` starts it in the foreground."
        }
        ClientError::Untrusted { .. } => {
            "\nThe token was not sent. Another program may have the agent's port: stop it, or change `port` in agent.json."
        }
        ClientError::Unauthorized { .. } => {
            "\nThe daemon was started with another token: is WOLLI_DAEMON_TOKEN set here or there? Restart the daemon after a change of agent.json."
        }
        ClientError::UnknownSession { .. } => "\n`wolli sessions list <agent>` lists the sessions that there are.",
        ClientError::Interrupted { .. } | ClientError::Unreachable { .. } => "\nThe daemon may have been stopped; try again.",
        ClientError::Name(_)
        | ClientError::NoHome(_)
        | ClientError::Home(_)
        | ClientError::NotStopped { .. }
        | ClientError::Service { .. }
        | ClientError::NoSession(_)
        | ClientError::Command(_)
        | ClientError::BadAnswer { .. }
        | ClientError::Closed => "",
    }
}

fn hint_of_copies(path: &Path) -> String {
    let mut copy = path.as_os_str().to_owned();
    copy.push(".last-good");
    let copy = PathBuf::from(copy);
    if copy.exists() { format!("; {} was no help, for it is damaged too", copy.display()) } else { String::new() }
}

fn config_text(error: &ConfigError) -> String {
    let mut text = String::from("bad configuration:");
    for diagnostic in &error.0 {
        text.push_str("\n  ");
        text.push_str(&diagnostic.to_string());
    }
    text.push_str("\nA daemon starts all the same, without these values. Correct or remove the lines; every key is in `wolli config`.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_scripts_and_people_know() {
        for (failure, text) in [
            (Failure::UnknownAgent("x".into()), "Unknown agent \"x\". Create it with: wolli new x"),
            (Failure::NoSuchAgent("x".into()), "Unknown agent \"x\"."),
            (Failure::NoMessage("x".into()), "Print mode needs a message: wolli x --print \"<message>\""),
            (
                Failure::InlineMessage("x".into()),
                "Inline messages need --print: wolli x --print \"<message>\" (or run wolli x for interactive chat)",
            ),
            (Failure::Delete { name: "x".into(), reason: "why".into() }, "Failed to delete agent \"x\": why"),
        ] {
            assert_eq!(failure.text().as_deref(), Some(text));
            assert_eq!(failure.status(), 1);
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = Failure::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.status(), failure.text()), (0, None));
        assert_eq!(Failure::Output(io::Error::from(io::ErrorKind::StorageFull)).status(), 1);
    }
}
