//! Where the Unix socket of an agent is.
//!
//! Invariant: daemon and client compute the same path from the same environment and home, however the home is spelt. The path
//! has at most 100 bytes, since systems stop at 104 or 108. Not here: making or opening the socket.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ring::digest;

use super::home::{AgentHome, Root};
use crate::token::hex;

/// Longest path of a socket.
pub const SOCKET_PATH_MAX_BYTES: usize = 100;

/// No allowed path for the socket is short enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the path of the agent's socket would have {bytes} bytes, and {SOCKET_PATH_MAX_BYTES} is the limit: {path} \
     (use a shorter XDG_RUNTIME_DIR or WOLLI_HOME)"
)]
pub struct SocketPathTooLong {
    /// The shortest path that was possible.
    pub path: PathBuf,
    /// Its length.
    pub bytes: usize,
}

/// `<runtime dir>/wolli-<uid>/<name>-<hash of the home>.sock`. What is too long is tried, in this order, with the root's `run`
/// folder in place of the runtime folder, then with the hash alone in both.
pub fn socket_path(runtime_folder: Option<&Path>, root: &Root, home: &AgentHome) -> Result<PathBuf, SocketPathTooLong> {
    let real = home.path().canonicalize().unwrap_or_else(|_| home.path().to_owned());
    let hash = hex(digest::digest(&digest::SHA256, real.as_os_str().as_bytes()).as_ref());
    let folders = runtime_folder.map(Path::to_owned).into_iter().chain([root.run()]);
    let folders: Vec<PathBuf> = folders.map(|folder| folder.join(format!("wolli-{}", rustix::process::getuid().as_raw()))).collect();

    let mut shortest: Option<PathBuf> = None;
    for file in [format!("{}-{}.sock", home.name(), &hash[..16]), format!("{}.sock", &hash[..16])] {
        for folder in &folders {
            let path = folder.join(&file);
            let bytes = path.as_os_str().len();
            if bytes <= SOCKET_PATH_MAX_BYTES {
                return Ok(path);
            }
            if shortest.as_ref().is_none_or(|known| bytes < known.as_os_str().len()) {
                shortest = Some(path);
            }
        }
    }
    let path = shortest.unwrap_or_default();
    Err(SocketPathTooLong { bytes: path.as_os_str().len(), path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(runtime: Option<&str>, root: &str, name: &str) -> Result<String, SocketPathTooLong> {
        let root = Root::new(root);
        let home = root.agent(&name.parse().unwrap());
        socket_path(runtime.map(Path::new), &root, &home).map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn places() {
        let user = format!("wolli-{}", rustix::process::getuid().as_raw());
        let first = path(Some("/run/user/1000"), "/h/.wolli", "scribe").unwrap();
        assert!(first.starts_with(&format!("/run/user/1000/{user}/scribe-")), "{first}");
        assert!(first.ends_with(".sock"));
        let second = path(None, "/h/.wolli", "scribe").unwrap();
        assert!(second.starts_with(&format!("/h/.wolli/run/{user}/scribe-")), "{second}");
    }

    #[test]
    fn another_home_has_another_socket() {
        assert_ne!(path(Some("/run"), "/a", "x"), path(Some("/run"), "/b", "x"));
        assert_eq!(path(Some("/run"), "/a", "x"), path(Some("/run"), "/a", "x"));
    }

    #[test]
    fn what_is_too_long_becomes_shorter() {
        let long_runtime = format!("/{}", "r".repeat(90));
        let fallen_back = path(Some(&long_runtime), "/h", "scribe").unwrap();
        assert!(fallen_back.starts_with("/h/run/"), "{fallen_back}");

        let long_name = "n".repeat(80);
        let hashed = path(Some("/run"), "/h", &long_name).unwrap();
        assert!(hashed.starts_with("/run/wolli-") && !hashed.contains("nn"), "{hashed}");

        for length in 0..120 {
            match path(Some(&format!("/{}", "r".repeat(length))), &format!("/{}", "h".repeat(length)), "scribe") {
                Ok(path) => assert!(path.len() <= SOCKET_PATH_MAX_BYTES),
                Err(e) => {
                    assert!(e.bytes > SOCKET_PATH_MAX_BYTES && e.bytes == e.path.as_os_str().len())
                }
            }
        }
    }

    #[test]
    fn impossible_lengths_are_an_error_that_says_what_to_do() {
        let error = path(Some(&format!("/{}", "r".repeat(95))), &format!("/{}", "h".repeat(120)), "x").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("100 is the limit: /rrr") && text.contains("shorter XDG_RUNTIME_DIR or WOLLI_HOME"), "{text}");
    }

    #[test]
    fn two_spellings_of_a_home_have_one_socket() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("real/agents/x")).unwrap();
        std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
        let of = |root: &str| path(Some("/run"), folder.path().join(root).to_str().unwrap(), "x").unwrap();
        assert_eq!(of("real"), of("link"));
    }
}
