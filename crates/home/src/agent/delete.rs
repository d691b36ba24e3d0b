//! Deleting an agent.
//!
//! Invariant: a home is first renamed to a name that no agent can have, and so a half-deleted home is never listed or served.
//! A home that is a symbolic link loses the link; what it points to is not ours to delete.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::file::{AgentError, io_error};
use crate::lock::{Holder, HomeLock, LockError};
use crate::paths::{AgentName, Root};
use crate::token;

/// Homes on their way out; the dot keeps them from being agents.
const DELETED_PREFIX: &str = ".deleted-";
/// Random bytes in the name of such a home.
const DELETED_RANDOM_BYTES: usize = 8;

/// Deletes the home of an agent that no daemon serves; one that is shutting down is waited for, at most `draining_limit`. Also
/// removes what earlier deletions left.
pub fn delete(root: &Root, name: &AgentName, draining_limit: Duration) -> Result<(), AgentError> {
    let home = root.agent(name);
    let path = home.path();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(AgentError::Missing { name: name.clone(), path: path.to_owned() });
        }
        Err(e) => return Err(io_error("delete", path)(e)),
    };
    if fs::metadata(path).is_ok_and(|target| target.is_dir()) {
        let us = Holder::this_process(Path::new("deletion"), env!("CARGO_PKG_VERSION"), SystemTime::now());
        // Kept until the home is gone from its place: a daemon that starts now finds nothing to lock.
        let lock = HomeLock::acquire(&home.daemon_lock(), us, draining_limit).map_err(|source| match source {
            LockError::Held { .. } | LockError::StillDraining { .. } => AgentError::Served { name: name.clone(), source },
            LockError::Io { path, source } => AgentError::Io { action: "lock", path, source },
        })?;
        let moved = move_away(root, path)?;
        drop(lock);
        let removed = if found.is_symlink() { fs::remove_file(&moved) } else { remove(&moved) };
        removed.map_err(|source| AgentError::Remains { name: name.clone(), rest: moved, source })?;
    } else {
        // A dangling link or a file in the place of a home.
        fs::remove_file(path).map_err(io_error("delete", path))?;
    }
    sweep(root);
    Ok(())
}

fn move_away(root: &Root, home: &Path) -> Result<std::path::PathBuf, AgentError> {
    let moved = root.agents().join(format!("{DELETED_PREFIX}{}", token::random_hex(DELETED_RANDOM_BYTES)?));
    fs::rename(home, &moved).map_err(io_error("move away", home))?;
    drop(crate::atomic::sync_folder(&root.agents()));
    Ok(moved)
}

/// Takes `agent.json` first, for wolli 0.0.2 lists any folder that has one.
fn remove(moved: &Path) -> io::Result<()> {
    drop(fs::remove_file(moved.join("agent.json")));
    fs::remove_dir_all(moved)
}

/// Removes homes whose deletion was cut short; what cannot be removed stays for the next time.
fn sweep(root: &Root) {
    for entry in fs::read_dir(root.agents()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(DELETED_PREFIX) {
            drop(remove(&entry.path()));
        }
    }
}
