//! Loading and changing `agent.json`, with the last good copy as a net.
//!
//! Invariants: the file is replaced whole, so that 0 bytes never appear; changes of two processes follow each other under an
//! operating-system lock, and none is lost; a damaged file that has any text in it is kept beside before it is replaced.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::document::AgentDocument;
use crate::atomic::{self, WriteError};
use crate::filelock::{CHANGE_WAIT, FileLock, FileLockError};
use crate::lock::LockError;
use crate::paths::{AgentHome, AgentName, InvalidAgentName};
use crate::reading::{self, Settled, is_blank};
use crate::token::NoRandomness;

/// Damaged files kept beside `agent.json`; the newest takes the place of the last one when all are used.
const BROKEN_KEPT: usize = 9;

/// What can go wrong with an agent's home.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] InvalidAgentName),
    /// Creating over an agent.
    #[error("Agent \"{0}\" already exists.")]
    Exists(AgentName),
    /// There is no such agent.
    #[error("Agent \"{name}\" does not exist: there is no {path}.")]
    Missing {
        /// The name that was asked for.
        name: AgentName,
        /// What was looked for.
        path: PathBuf,
    },
    /// The file and its last good copy are unusable.
    #[error("Invalid agent config at {path}: {problems}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// `<pointer or root>: <message>; ...`
        problems: String,
    },
    /// Every port that was drawn is in use.
    #[error("Could not allocate a free port for the agent.")]
    NoPort,
    /// No token could be made.
    #[error(transparent)]
    Token(#[from] NoRandomness),
    /// A file or folder cannot be used.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Another process is changing the file, and does not end.
    #[error(transparent)]
    Change(#[from] FileLockError),
    /// The agent is being served.
    #[error("agent \"{name}\" cannot be deleted: {source}")]
    Served {
        /// The agent.
        name: AgentName,
        /// Who serves it.
        source: LockError,
    },
    /// The agent is gone from the list, but files of it remain.
    #[error("agent \"{name}\" was removed from the list, but not all of its files could be deleted; the rest is in {rest}: {source}")]
    Remains {
        /// The agent.
        name: AgentName,
        /// Where the rest is.
        rest: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A loaded or changed `agent.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The content.
    pub document: AgentDocument,
    /// What the daemon must tell: that the file is damaged and the last good copy was used, or that no copy could be made.
    pub warnings: Vec<String>,
}

/// Reads `agent.json`; if it is blank, torn or invalid, its last good copy. Keeps the copy up to date.
pub fn load(home: &AgentHome) -> Result<Loaded, AgentError> {
    let (text, mut loaded) = read(home)?;
    if let Some(text) = text
        && reading::read(&home.last_good()).ok().flatten().as_deref() != Some(text.as_slice())
        && let Err(message) = refresh_last_good(home)
    {
        loaded.warnings.push(message);
    }
    Ok(loaded)
}

/// Applies `change` to what is in the file now, and writes it. Nothing is written if nothing changes.
///
/// If the file is damaged the change is made to the last good copy, and what had been in the file is kept in
/// `agent.json.broken-<n>`.
pub fn update(home: &AgentHome, change: impl FnOnce(&mut AgentDocument)) -> Result<Loaded, AgentError> {
    let path = home.config_json();
    if !path.exists() {
        return Err(missing(home));
    }
    let _guard = FileLock::acquire(&home.change_lock(), CHANGE_WAIT)?;
    let (text, mut loaded) = read(home)?;
    let before = loaded.document.clone();
    change(&mut loaded.document);
    if text.is_some() && loaded.document == before {
        return Ok(loaded);
    }
    if text.is_none() {
        keep_broken(home)?;
    }
    write(home, &loaded.document, &mut loaded.warnings)?;
    Ok(loaded)
}

/// Writes the file, then its copy; that the copy failed is no reason to say that the change did.
pub(super) fn write(home: &AgentHome, document: &AgentDocument, warnings: &mut Vec<String>) -> Result<(), WriteError> {
    let text = document.to_text();
    atomic::write(&home.config_json(), text.as_bytes())?;
    if let Err(e) = atomic::write(&home.last_good(), text.as_bytes()) {
        warnings.push(e.to_string());
    }
    Ok(())
}

/// The document, and the text of `agent.json` if that is where it came from.
fn read(home: &AgentHome) -> Result<(Option<Vec<u8>>, Loaded), AgentError> {
    let path = home.config_json();
    let problems = match reading::read_settled(&path, AgentDocument::parse) {
        Ok(None) => return Err(missing(home)),
        Ok(Some(Settled { content, parsed: Ok(document) })) => {
            return Ok((Some(content), Loaded { document, warnings: Vec::new() }));
        }
        Ok(Some(Settled { parsed: Err(problems), .. })) => problems,
        Err(source) => {
            return Err(AgentError::Io { action: "read", path, source });
        }
    };
    let last_good = home.last_good();
    match reading::read(&last_good) {
        Ok(Some(copy)) => match AgentDocument::parse(&copy) {
            Ok(document) => {
                let warning =
                    format!("Invalid agent config at {}: {problems}; using the last good copy, {}", path.display(), last_good.display());
                Ok((None, Loaded { document, warnings: vec![warning] }))
            }
            Err(_) => Err(AgentError::Invalid { path, problems }),
        },
        Ok(None) | Err(_) => Err(AgentError::Invalid { path, problems }),
    }
}

/// Copies `agent.json` as it is now. A process that is changing it makes the copy itself.
fn refresh_last_good(home: &AgentHome) -> Result<(), String> {
    match FileLock::acquire(&home.change_lock(), Duration::ZERO) {
        Ok(_guard) => match reading::read(&home.config_json()) {
            Ok(Some(text)) if AgentDocument::parse(&text).is_ok() => atomic::write(&home.last_good(), &text).map_err(|e| e.to_string()),
            _ => Ok(()),
        },
        Err(FileLockError::Busy { .. }) => Ok(()),
        Err(e) => Err(e.to_string()),
    }
}

/// Keeps the text of a damaged file, unless there is none in it.
fn keep_broken(home: &AgentHome) -> Result<(), AgentError> {
    let path = home.config_json();
    let text = reading::read(&path).map_err(|source| AgentError::Io { action: "read", path, source })?;
    if let Some(text) = text.filter(|text| !is_blank(text)) {
        let place = |n: usize| home.path().join(format!("agent.json.broken-{n}"));
        let free = (1..BROKEN_KEPT).map(place).find(|path| !path.exists());
        atomic::write(&free.unwrap_or_else(|| place(BROKEN_KEPT)), &text)?;
    }
    Ok(())
}

fn missing(home: &AgentHome) -> AgentError {
    AgentError::Missing { name: home.name().clone(), path: home.config_json() }
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    let path = path.to_owned();
    move |source| AgentError::Io { action, path, source }
}
