//! Whole-file writes and private folders.
//!
//! A write goes to a temporary file in the same folder, which is synced, renamed over the target, and then the folder is synced.
//! What survives:
//! - a crash or power loss at any moment leaves the old content or the new one, whole; never a mixture and never 0 bytes. It may
//!   leave a temporary file behind, which [`sweep_temporaries`] removes;
//! - a failure (full disk, quota, read-only) leaves the old file whole and no temporary file;
//! - after `Ok` the new content survives power loss. [`WriteError::Folder`] means: new content is in place, but may not survive it.
//!
//! Files are 0600 and new folders 0700, set explicitly and not left to the umask. A target that is a symbolic link stays one: the
//! file that it points to is replaced (but see [`replace`]). What is no regular file is never replaced. Hard links to the old content are not followed. Not here: locks.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[cfg(test)]
mod tests;

/// Mode of every file that we write.
pub const FILE_MODE: u32 = 0o600;
/// Mode of every folder that we create.
pub const FOLDER_MODE: u32 = 0o700;

const TEMPORARY_PREFIX: &str = ".wolli-";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// A write takes far less; an older temporary file belongs to a writer that is gone.
const TEMPORARY_LIFE: Duration = Duration::from_secs(600);
/// As many as the kernel itself follows.
const LINKS_FOLLOWED: usize = 40;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The old file is untouched, and nothing was left behind.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The new content is in place, but the folder could not be synced: it may be lost with the power.
    #[error("{path} was written, but its folder could not be synced: {source}")]
    Folder {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The steps of a write, in order; tests fail or end the process before each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Create,
    Fill,
    Sync,
    Rename,
    SyncFolder,
}

/// Replaces the content of `path` by `content`, atomically and durably, with mode 0600.
pub fn write(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let target = follow_links(path).map_err(|source| WriteError::Write { path: path.to_owned(), source })?;
    write_in_steps(&target, content, &mut |_| Ok(()))
}

/// Like [`write()`], but a symbolic link at `path` is itself replaced and never followed. For files in folders in which tools of the
/// agent write: a link that a tool made must not lead a write of ours out of the home.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    write_in_steps(path, content, &mut |_| Ok(()))
}

fn write_in_steps(path: &Path, content: &[u8], before: &mut dyn FnMut(Step) -> io::Result<()>) -> Result<(), WriteError> {
    let failed = |source| WriteError::Write { path: path.to_owned(), source };
    let folder = parent(path);
    refuse_special(path).map_err(failed)?;

    let filled = (|| {
        before(Step::Create)?;
        let mut temporary = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .suffix(TEMPORARY_SUFFIX)
            .permissions(Permissions::from_mode(FILE_MODE))
            .tempfile_in(folder)?;
        before(Step::Fill)?;
        temporary.as_file().set_permissions(Permissions::from_mode(FILE_MODE))?;
        temporary.write_all(content)?;
        before(Step::Sync)?;
        temporary.as_file().sync_all()?;
        before(Step::Rename)?;
        // A failed rename gives the temporary file back, and dropping it removes it.
        temporary.persist(path).map_err(|e| e.error)?;
        Ok(())
    })();
    filled.map_err(failed)?;

    before(Step::SyncFolder).and_then(|()| sync_folder(folder)).map_err(|source| WriteError::Folder { path: path.to_owned(), source })
}

/// A rename would put a plain file in the place of a device, a pipe or a socket, for whoever else uses it.
fn refuse_special(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() && !found.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file, and is left as it is"))
        }
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Creates an empty file (0600) if there is none; what exists is left as it is.
pub fn create_if_missing(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => write(path, content),
        Err(source) => Err(WriteError::Write { path: path.to_owned(), source }),
    }
}

/// Makes the entries of a folder durable. File systems that cannot sync a folder are not an error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

/// Creates a folder and what is missing above it, each 0700. Folders that exist are left as they are.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let above = parent(folder);
    create_folder(above)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        // The umask can only have taken bits away from the owner: give them back.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?,
        // Somebody else was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        Err(e) => return Err(e),
    }
    sync_folder(above)
}

/// Creates a folder like [`create_folder`], or takes the rights of group and others from one that exists (for homes made by
/// wolli 0.0.2, which are 0755 and hold a readable token).
pub fn make_private(folder: &Path) -> io::Result<()> {
    create_folder(folder)?;
    let mode = fs::metadata(folder)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

/// Removes the temporary files that writers left in `folder` when they were killed; returns how many.
pub fn sweep_temporaries(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_temporary(&name) {
            continue;
        }
        let Ok(found) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if found.is_file() && age.is_some_and(|age| age > TEMPORARY_LIFE) && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// True for the name of a temporary file of [`write()`]. Whoever knows that no writer is at work may remove such files at any age.
pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(TEMPORARY_PREFIX) && name.ends_with(TEMPORARY_SUFFIX))
}

/// The folder that holds `path`; never empty.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

/// The file that `path` means, through symbolic links, whether it exists or not.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_FOLLOWED {
        match fs::read_link(&path) {
            Ok(next) => path = parent(&path).join(next),
            // Not a link, or nothing there yet.
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links"))
}
