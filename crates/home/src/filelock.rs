//! A short operating-system lock on a side file, for read-change-write of files that are replaced by renaming.
//!
//! The file itself cannot carry the lock, since each write gives its path a new inode. The side file is never removed: removing
//! it would let two processes lock two different inodes.
//! Invariant: the lock ends with its holder, whatever ends the holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::atomic::FILE_MODE;
use crate::pause::Patience;

/// Longest wait for another process's read-change-write, which takes milliseconds: longer means that it is stopped or stuck.
pub(crate) const CHANGE_WAIT: Duration = Duration::from_secs(10);

/// Why a side file could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum FileLockError {
    /// Another process kept the lock for the whole wait.
    #[error("{path} is locked by another process for more than {} s", waited.as_secs())]
    Busy {
        /// The side file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// The side file could not be opened or locked.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The side file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Holds the lock until dropped.
#[derive(Debug)]
pub(crate) struct FileLock(#[expect(dead_code, reason = "kept open: closing it releases the lock")] File);

impl FileLock {
    /// Takes the lock, waiting at most `limit`.
    pub(crate) fn acquire(path: &Path, limit: Duration) -> Result<Self, FileLockError> {
        let failed = |source| FileLockError::Io { path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let mut patience = Patience::new(limit);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => {
                    if !patience.pause() {
                        return Err(FileLockError::Busy { path: path.to_owned(), waited: limit });
                    }
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
    }
}

/// Opens (and if need be creates, 0600) a file that carries a lock; never truncates it, and never follows a link: tools can make
/// links in a home, and what they point to would be overwritten with our record.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(flags).open(path)
}
