//! The Unix socket beside the port.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use wolli_home::paths::socket_path;

use super::Patient;
use super::finding::{Finding, Remedy, word};

const CHECK: &str = "socket";

/// A listener on this machine takes a connection at once.
const LIMIT: Duration = Duration::from_secs(2);

/// What stands in the socket's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Facts {
    /// The reason.
    NoPlace(String),
    /// The folder is not ours alone; whether it is ours at all.
    OpenFolder {
        folder: PathBuf,
        ours: bool,
    },
    /// Nobody answers on it.
    Stale(PathBuf),
    NotASocket(PathBuf),
    Fine,
}

pub(super) async fn gather(patient: &Patient, is_held: bool) -> Facts {
    let path = match socket_path(patient.environment.runtime_folder(), &patient.root, &patient.home) {
        Ok(path) => path,
        Err(error) => return Facts::NoPlace(error.to_string()),
    };
    if let Some(folder) = path.parent()
        && let Ok(metadata) = folder.symlink_metadata()
    {
        let ours = metadata.is_dir() && metadata.uid() == rustix::process::getuid().as_raw();
        if !ours || metadata.mode() & 0o077 != 0 {
            return Facts::OpenFolder { folder: folder.to_owned(), ours };
        }
    }
    match path.symlink_metadata() {
        Ok(metadata) if !metadata.file_type().is_socket() => Facts::NotASocket(path),
        // Who holds the home may be about to listen.
        Ok(_) if !is_held && is_stale(&path).await => Facts::Stale(path),
        Ok(_) | Err(_) => Facts::Fine,
    }
}

/// Whether nobody answers: a queue that is full is somebody's.
pub(super) async fn is_stale(path: &Path) -> bool {
    let answer = tokio::time::timeout(LIMIT, UnixStream::connect(path)).await;
    matches!(answer, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

pub(super) fn findings(_: &Patient, facts: &Facts) -> Vec<Finding> {
    const TCP_ALONE: &str = "The daemon works without its Unix socket, over TCP alone.";
    let finding = match facts {
        Facts::Fine => return Vec::new(),
        Facts::NoPlace(reason) => {
            Finding::warning(CHECK, "no_place", reason.clone()).means(TCP_ALONE).fix("export XDG_RUNTIME_DIR=/run/user/$(id -u)")
        }
        Facts::OpenFolder { folder, ours: true } => {
            Finding::warning(CHECK, "socket_folder_open", format!("the folder of the socket, {}, is open to other users", folder.display()))
                .means(TCP_ALONE)
                .fix(format!("chmod go-rwx {}", word(folder)))
                .remedy(Remedy::Restrict(folder.clone()))
        }
        Facts::OpenFolder { folder, ours: false } => {
            Finding::warning(CHECK, "socket_folder_foreign", format!("{} is not a folder of yours", folder.display()))
                .means(format!("{TCP_ALONE} Somebody else made it, perhaps to be taken for the daemon."))
                .fix(format!("sudo mv {0} {0}.old", word(folder)))
        }
        Facts::NotASocket(path) => {
            Finding::warning(CHECK, "socket_blocked", format!("{} is in the socket's place and is no socket", path.display()))
                .means(TCP_ALONE)
                .fix(format!("mv {0} {0}.old", word(path)))
        }
        Facts::Stale(path) => Finding::warning(CHECK, "socket_stale", format!("nobody answers on the socket {}", path.display()))
            .means("A daemon that was killed left it. The next one takes its place; until then clients try it in vain.")
            .fix(format!("rm {}", word(path)))
            .remedy(Remedy::RemoveSocket(path.clone())),
    };
    vec![finding]
}
