//! JSON files with one object (`auth.json`, `approvals.json`, `integrations.json`, the stores), read and changed under their lock.
//!
//! Invariants: a change is made to what is in the file at that moment; what we do not understand in it stays, in its place; a file
//! that is no JSON object is an error that names it, and is never overwritten. A blank file (a full disk under wolli 0.0.2 leaves
//! such) has nothing to lose and counts as absent. Not here: what the keys mean.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::{LOCK_WAIT, LockFolder, LockFolderError};
use crate::atomic::{self, WriteError};
use crate::json;
use crate::reading::{self, is_blank};

/// Why a map was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum MapFileError {
    /// The file exists but cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else than a JSON object; it is left as it is.
    #[error("{path} is not a JSON object ({problem}); it was left unchanged")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The lock was not got, or was lost.
    #[error(transparent)]
    Lock(#[from] LockFolderError),
    /// The new content was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What tells one content of a file from the next, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

/// A JSON object in a file.
#[derive(Debug, Clone)]
pub struct MapFile {
    path: PathBuf,
    initial: Map<String, Value>,
}

impl MapFile {
    /// A map that is empty at first.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), initial: Map::new() }
    }

    /// A map that is `initial` at first.
    pub fn with_initial(path: impl Into<PathBuf>, initial: Map<String, Value>) -> Self {
        Self { path: path.into(), initial }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes when the file does; `None` if there is none. For reading again only when another process wrote.
    pub fn stamp(&self) -> Option<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(&self.path).ok()?;
        Some(Stamp { modified: found.modified().ok(), bytes: found.len(), inode: found.ino() })
    }

    /// The map as it is; the initial one if the file is absent or blank. Takes the lock only if the file is blank or torn, for wolli
    /// 0.0.2 may be in the middle of writing it.
    pub fn read(&self) -> Result<Map<String, Value>, MapFileError> {
        match self.parse()? {
            Found::Map(map) => Ok(map),
            Found::Nothing => Ok(self.initial.clone()),
            Found::Blank | Found::Other(_) => {
                let _lock = LockFolder::acquire(&self.path, LOCK_WAIT)?;
                self.read_under_lock()
            }
        }
    }

    /// Writes the initial map if there is no file, or a blank one.
    pub fn create_if_missing(&self) -> Result<(), MapFileError> {
        match reading::read(&self.path) {
            Ok(Some(content)) if !is_blank(&content) => Ok(()),
            _ => self.lock(LOCK_WAIT)?.commit_if_blank(),
        }
    }

    /// Changes the map under the lock; returns what `change` does. Nothing is written if nothing changes.
    pub fn update<T>(&self, change: impl FnOnce(&mut Map<String, Value>) -> T) -> Result<T, MapFileError> {
        let mut locked = self.lock(LOCK_WAIT)?;
        let before = locked.map.clone();
        let result = change(&mut locked.map);
        if locked.map != before {
            locked.commit()?;
        }
        Ok(result)
    }

    /// Reads the map and keeps the lock, for changes that need more than a moment, such as the refresh of a token.
    pub fn lock(&self, limit: Duration) -> Result<LockedMap, MapFileError> {
        let lock = LockFolder::acquire(&self.path, limit)?;
        let map = self.read_under_lock()?;
        Ok(LockedMap { map, path: self.path.clone(), lock })
    }

    fn read_under_lock(&self) -> Result<Map<String, Value>, MapFileError> {
        match self.parse()? {
            Found::Map(map) => Ok(map),
            Found::Nothing | Found::Blank => Ok(self.initial.clone()),
            Found::Other(problem) => Err(MapFileError::Content { path: self.path.clone(), problem }),
        }
    }

    fn parse(&self) -> Result<Found, MapFileError> {
        let read = reading::read(&self.path).map_err(|source| MapFileError::Read { path: self.path.clone(), source })?;
        Ok(match read {
            None => Found::Nothing,
            Some(text) if is_blank(&text) => Found::Blank,
            Some(text) => match json::object(&text) {
                Ok(map) => Found::Map(map),
                Err(problem) => Found::Other(problem),
            },
        })
    }
}

/// What is in a file.
enum Found {
    Nothing,
    Blank,
    Map(Map<String, Value>),
    Other(String),
}

/// A map whose file is locked until this is dropped.
#[derive(Debug)]
pub struct LockedMap {
    /// The content; changes count when they are committed.
    pub map: Map<String, Value>,
    path: PathBuf,
    lock: LockFolder,
}

impl LockedMap {
    /// Writes the map: two spaces of indentation, no newline at the end. Fails if the lock was lost meanwhile.
    pub fn commit(&self) -> Result<(), MapFileError> {
        self.lock.check()?;
        let text = serde_json::to_vec_pretty(&self.map).map_err(|e| WriteError::Write { path: self.path.clone(), source: e.into() })?;
        atomic::write(&self.path, &text)?;
        Ok(())
    }

    fn commit_if_blank(&self) -> Result<(), MapFileError> {
        match reading::read(&self.path) {
            Ok(Some(content)) if !is_blank(&content) => Ok(()),
            _ => self.commit(),
        }
    }
}
