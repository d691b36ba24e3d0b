//! The Unix socket beside the TCP port: its file, who may have left one there, and its removal.
//!
//! Invariants: the folder is ours alone and the file is 0600; a file is replaced only if nobody answers on it; what is removed at the
//! end is our own file and not a successor's. Without a socket the daemon serves TCP alone.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use wolli_home::atomic::{self, FILE_MODE};

/// A socket file of ours; removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("the folder {0} belongs to somebody else, or is open to others")]
    Folder(PathBuf),
    #[error("somebody answers on {0}")]
    InUse(PathBuf),
    #[error("{0} is in the way: it is no socket")]
    NotASocket(PathBuf),
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Listens on `path`. Needs a tokio runtime.
pub(crate) async fn listen(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |action| {
        let path = path.to_owned();
        move |source| SocketError::Io { action, path, source }
    };
    if let Some(folder) = path.parent() {
        atomic::create_folder(folder).map_err(failed("create the folder of"))?;
        check_folder(folder)?;
    }
    remove_stale(path).await?;
    let listener = UnixListener::bind(path).map_err(failed("listen on"))?;
    // The folder lets nobody else in, also before this.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(FILE_MODE)).map_err(failed("protect"))?;
    let identity = identity(path).map_err(failed("look at"))?;
    Ok((listener, SocketFile { path: path.to_owned(), identity }))
}

fn check_folder(folder: &Path) -> Result<(), SocketError> {
    let ours = std::fs::symlink_metadata(folder).is_ok_and(|metadata| {
        metadata.is_dir() && metadata.uid() == rustix::process::getuid().as_raw() && metadata.permissions().mode() & 0o077 == 0
    });
    if ours { Ok(()) } else { Err(SocketError::Folder(folder.to_owned())) }
}

async fn remove_stale(path: &Path) -> Result<(), SocketError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(SocketError::NotASocket(path.to_owned())),
        Err(source) => return Err(SocketError::Io { action: "look at", path: path.to_owned(), source }),
    }
    // A queue that is full is somebody's, too.
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused || error.kind() == io::ErrorKind::NotFound => {}
        Ok(_) | Err(_) => return Err(SocketError::InUse(path.to_owned())),
    }
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(SocketError::Io { action: "remove the stale socket", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wolli/a.sock");
        (folder, path)
    }

    #[tokio::test]
    async fn the_file_is_private_and_goes_with_its_owner() {
        let (_folder, path) = place();
        let (_listener, file) = listen(&path).await.unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(file.path(), path);
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_file_is_replaced_and_a_live_one_is_not() {
        let (_folder, path) = place();
        let (listener, file) = listen(&path).await.unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::InUse(_))));
        std::mem::forget(file);
        drop(listener);
        let (_listener, _file) = listen(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_successors_file_stays() {
        let (_folder, path) = place();
        let (_first_listener, first) = listen(&path).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let (_second_listener, second) = listen(&path).await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_is_not_ours_is_left_alone() {
        let (_folder, path) = place();
        atomic::create_folder(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");

        std::fs::remove_file(&path).unwrap();
        std::fs::set_permissions(path.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(listen(&path).await, Err(SocketError::Folder(_))));
    }
}
