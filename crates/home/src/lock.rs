//! The exclusive lock on an agent's home: one daemon per home.
//!
//! The lock is an operating-system lock on `daemon.lock`, and so it ends with its holder, whatever ends the holder; what the file
//! says about a holder is for people and for successors, and is never taken as proof that somebody lives. A record that a killed
//! holder left is taken over at once. The file is never removed: removing it would let two daemons lock two different inodes.
//! Not here: deciding what to do when the home is taken.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::filelock;
use crate::pause::Patience;

#[cfg(test)]
mod tests;

/// A refusal is final only after this: a look by [`holder`] takes the lock for an instant, and a new holder needs an instant to
/// write its record.
const CERTAINTY: Duration = Duration::from_millis(250);
/// A record is some hundred bytes; more is not one.
const RECORD_MAX_BYTES: u64 = 64 * 1024;
/// How often a lock may turn out to be on a file that was moved away meanwhile.
const MOVES: usize = 8;

/// Who holds a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// When it took the home; ISO 8601, UTC.
    pub started_at: String,
    /// The program that it runs.
    pub executable: String,
    /// The version of that program.
    pub version: String,
    /// It is finishing, and will give the home up by itself.
    #[serde(default)]
    pub draining: bool,
    /// The Unix socket that it answers on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
}

impl Holder {
    /// The record of this process, which is not draining and has no socket yet.
    pub fn this_process(executable: &Path, version: &str, now: SystemTime) -> Self {
        Self {
            pid: std::process::id(),
            started_at: crate::clock::iso_time(now),
            executable: executable.to_string_lossy().into_owned(),
            version: version.to_owned(),
            draining: false,
            socket: None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, started_at, executable, version, draining, socket: _ } = self;
        let draining = if *draining { ", shutting down" } else { "" };
        write!(f, "process {pid} ({executable}, version {version}, since {started_at}{draining})")
    }
}

/// Why a home was not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody serves the home.
    #[error("{path} is held by {}", describe(holder.as_deref()))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who it is, if the record can be read.
        holder: Option<Box<Holder>>,
    },
    /// The holder said that it is shutting down, and did not within the limit.
    #[error("{path} is still held, after {} s of waiting, by {}", waited.as_secs(), describe(Some(holder)))]
    StillDraining {
        /// The lock file.
        path: PathBuf,
        /// Who it is.
        holder: Box<Holder>,
        /// How long we waited.
        waited: Duration,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn describe(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "a process that left no record".to_owned(), Holder::to_string)
}

/// The lock, held until dropped or until the process ends.
#[derive(Debug)]
pub struct HomeLock {
    file: File,
    path: PathBuf,
    holder: Holder,
    left_behind: Option<Holder>,
}

impl HomeLock {
    /// Takes the lock on `path` (the home's `daemon.lock`) and records `holder`. A holder that is draining is waited for, at most
    /// `draining_limit`; one that is not makes this fail within a second.
    pub fn acquire(path: &Path, holder: Holder, draining_limit: Duration) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let mut certainty = Patience::new(CERTAINTY);
        let mut draining = Patience::new(draining_limit);
        let mut moves = 0;
        loop {
            let file = filelock::open(path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, path).map_err(failed)? => {
                    let left_behind = read_record(&file);
                    let lock = Self { file, path: path.to_owned(), holder, left_behind };
                    lock.record().map_err(failed)?;
                    return Ok(lock);
                }
                // The home was moved or deleted between opening and locking.
                Ok(()) => {
                    moves += 1;
                    if moves > MOVES {
                        return Err(failed(io::Error::other("it keeps being replaced")));
                    }
                }
                Err(TryLockError::WouldBlock) => match read_record(&file) {
                    Some(current) if current.draining => {
                        if !draining.pause() {
                            return Err(LockError::StillDraining {
                                path: path.to_owned(),
                                holder: Box::new(current),
                                waited: draining_limit,
                            });
                        }
                        // Whoever comes after it gets the whole time again.
                        certainty = Patience::new(CERTAINTY);
                    }
                    current => {
                        if !certainty.pause() {
                            return Err(LockError::Held { path: path.to_owned(), holder: current.map(Box::new) });
                        }
                    }
                },
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }

    /// The record of a holder that ended without giving the lock up (it was killed); worth one line in the log.
    pub fn left_behind(&self) -> Option<&Holder> {
        self.left_behind.as_ref()
    }

    /// Our own record.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells successors that the home will be free soon.
    pub fn set_draining(&mut self) -> io::Result<()> {
        self.holder.draining = true;
        self.record()
    }

    /// Tells clients where the Unix socket is.
    pub fn set_socket(&mut self, socket: Option<String>) -> io::Result<()> {
        self.holder.socket = socket;
        self.record()
    }

    /// Writes the record in place, since a new file would not carry the lock. Content first and length after, so that a reader
    /// always finds one whole record at the start.
    fn record(&self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.holder)?;
        text.push(b'\n');
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for HomeLock {
    /// Leaves no record behind, for it would look like that of a killed holder.
    fn drop(&mut self) {
        drop(self.file.set_len(0));
    }
}

/// Who holds the lock on `path` now; `None` if nobody does, and `Some(None)` if the holder's record cannot be read.
pub fn holder(path: &Path) -> Result<Option<Option<Holder>>, LockError> {
    let failed = |source| LockError::Io { path: path.to_owned(), source };
    let file = match crate::reading::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_record(&file))),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// The record at the start of the file; what follows it is the rest of a longer, older one.
fn read_record(mut file: &File) -> Option<Holder> {
    use std::io::Seek;
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(RECORD_MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
}

/// Whether `path` still names the open file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
