//! Lock folders: how wolli 0.0.2 keeps processes apart on `auth.json`, `approvals.json`, `integrations.json` and the stores.
//!
//! To hold `<file>` is to have made the folder `<file>.lock`; its time of change is refreshed while it is held, and a lock that was
//! not refreshed for 10 s belongs to nobody. In addition an operating-system lock on `.<file>.guard` keeps our own processes apart
//! without any race when a stale folder is taken over; it ends with its holder.
//! Invariant: a lock that was lost (this process was stopped for long) is noticed before anything is written.
//! Not here: the content of the files, see [`map_file`].

pub mod map_file;

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::atomic::{self, FOLDER_MODE, follow_links, parent};
use crate::filelock::{FileLock, FileLockError};
use crate::pause::Patience;

#[cfg(test)]
mod tests;

/// A lock that was not refreshed for so long is stale; fixed by wolli 0.0.2.
pub const STALE_AFTER: Duration = Duration::from_secs(10);
/// How often a held lock is refreshed; fixed by wolli 0.0.2.
const REFRESH_EVERY: Duration = Duration::from_secs(5);
/// Longer than a stale lock lives, so that one left by a dead process never makes a caller fail.
pub const LOCK_WAIT: Duration = Duration::from_secs(12);
/// How often a stale folder is removed in one wait; more means that others are faster each time.
const TAKEOVERS: usize = 16;

/// Why a file was not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockFolderError {
    /// Another process holds the lock.
    #[error("{path} is locked by another process for more than {} s", waited.as_secs())]
    Busy {
        /// The lock folder.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// The lock was taken from us while we held it: this process stood still for longer than a lock lives.
    #[error("the lock {0} was lost while it was held")]
    Lost(PathBuf),
    /// The lock folder cannot be made or removed.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The lock folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The guard of our own processes cannot be taken.
    #[error(transparent)]
    Guard(#[from] FileLockError),
}

/// A held lock folder; released when dropped.
#[derive(Debug)]
pub struct LockFolder {
    folder: PathBuf,
    identity: (u64, u64),
    lost: Arc<AtomicBool>,
    /// Dropped to end the refresher, which has nothing else to receive.
    stop: Option<SyncSender<()>>,
    refresher: Option<JoinHandle<()>>,
    _guard: FileLock,
}

impl LockFolder {
    /// Locks `file`, which need not exist; its folder is made if need be. Waits at most `limit`.
    pub fn acquire(file: &Path, limit: Duration) -> Result<Self, LockFolderError> {
        let failed = |path: &Path, source| LockFolderError::Io { path: path.to_owned(), source };
        // The lock is on the file that is meant, whichever link leads to it.
        let file = follow_links(file).map_err(|e| failed(file, e))?;
        atomic::create_folder(parent(&file)).map_err(|e| failed(&file, e))?;
        let started = Instant::now();
        let guard = FileLock::acquire(&beside(&file, ".", ".guard"), limit)?;

        let folder = beside(&file, "", ".lock");
        let mut patience = Patience::new(limit.saturating_sub(started.elapsed()));
        let mut unchanged: Option<(SystemTime, Instant)> = None;
        let mut takeovers = 0;
        loop {
            match DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
                Ok(()) => return Self::hold(folder.clone(), guard).map_err(|e| failed(&folder, e)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(&folder, e)),
            }
            let changed = match fs::symlink_metadata(&folder).and_then(|found| found.modified()) {
                Ok(changed) => changed,
                // Released just now.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed(&folder, e)),
            };
            if takeovers < TAKEOVERS && is_stale(changed, &mut unchanged) {
                takeovers += 1;
                match fs::remove_dir(&folder) {
                    Ok(()) => continue,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(failed(&folder, e)),
                }
            }
            if !patience.pause() {
                return Err(LockFolderError::Busy { path: folder, waited: limit });
            }
        }
    }

    /// An error if the lock is no longer ours. Call it before writing what was computed under the lock.
    pub fn check(&self) -> Result<(), LockFolderError> {
        if self.lost.load(Ordering::Acquire) || identity(&self.folder).ok() != Some(self.identity) {
            return Err(LockFolderError::Lost(self.folder.clone()));
        }
        Ok(())
    }

    fn hold(folder: PathBuf, guard: FileLock) -> io::Result<Self> {
        let identity = identity(&folder)?;
        let lost = Arc::new(AtomicBool::new(false));
        // Room for nothing is enough: the sender is only ever dropped.
        let (stop, stopped) = sync_channel::<()>(0);
        let refresher = thread::Builder::new().name("lock-refresh".to_owned()).spawn({
            let (folder, lost) = (folder.clone(), Arc::clone(&lost));
            move || {
                while stopped.recv_timeout(REFRESH_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if refresh(&folder, identity).is_err() {
                        lost.store(true, Ordering::Release);
                        return;
                    }
                }
            }
        });
        match refresher {
            Ok(refresher) => Ok(Self { folder, identity, lost, stop: Some(stop), refresher: Some(refresher), _guard: guard }),
            Err(e) => {
                drop(fs::remove_dir(&folder));
                Err(e)
            }
        }
    }
}

impl Drop for LockFolder {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(refresher) = self.refresher.take() {
            drop(refresher.join());
        }
        // Somebody else's lock in our place is not ours to remove.
        if self.check().is_ok() {
            drop(fs::remove_dir(&self.folder));
        }
    }
}

/// Sets the folder's time of change to now, if it is still the one that we made.
fn refresh(folder: &Path, ours: (u64, u64)) -> io::Result<()> {
    let open = File::open(folder)?;
    let found = open.metadata()?;
    if (found.dev(), found.ino()) != ours {
        return Err(io::ErrorKind::NotFound.into());
    }
    open.set_modified(SystemTime::now())
}

fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(folder)?;
    Ok((found.dev(), found.ino()))
}

/// By the wall clock, as wolli 0.0.2 judges; and by our own watching, since a clock that was set back would keep a dead lock alive.
fn is_stale(changed: SystemTime, unchanged: &mut Option<(SystemTime, Instant)>) -> bool {
    if SystemTime::now().duration_since(changed).is_ok_and(|age| age > STALE_AFTER) {
        return true;
    }
    match unchanged {
        Some((seen, since)) if *seen == changed => since.elapsed() > STALE_AFTER,
        _ => {
            *unchanged = Some((changed, Instant::now()));
            false
        }
    }
}

/// `<prefix><file name><suffix>` in the folder of `file`.
fn beside(file: &Path, prefix: &str, suffix: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(file.file_name().unwrap_or_default());
    name.push(suffix);
    file.with_file_name(name)
}
