//! A session file opened as its owner opens it, repaired, and closed again. Blocking.
//!
//! For who looks after files of sessions that nobody has in memory. Not here: what is wrong and what is done about it
//! ([`super::file`]).

use std::path::Path;

use wolli_protocol::ids::EntryId;

use super::file::{OpenFileError, SessionFile};

/// What a session file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Messages that the model sees.
    pub message_count: u64,
    /// The active position.
    pub leaf: Option<EntryId>,
    /// What was wrong with the file and what was done about it; empty if nothing was.
    pub diagnostics: Vec<String>,
}

/// Moves a torn end of the file aside and completes a last line that lacks its end; every other line stays as it is. Only for
/// files of sessions that are not in memory.
///
/// # Errors
/// The file cannot be read or written, or is no session file; then it is as it was.
pub fn repair(path: &Path) -> Result<Repaired, OpenFileError> {
    let (_, restored) = SessionFile::open(path)?;
    Ok(Repaired { message_count: restored.message_count, leaf: restored.leaf, diagnostics: restored.diagnostics })
}
