//! Which sessions an agent has: the headers of the files below `sessions/`, newest first.
//!
//! Only first lines are read, and each only once: a header never changes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use wolli_protocol::ids::SessionId;

use super::line::parse_header;
use super::remove::{finish_removal, is_condemned, remove_session};

/// Bytes of a first line that are read at most; a longer one is no header of ours.
const HEADER_BYTES: u64 = 64 << 10;

/// A session that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    pub id: SessionId,
    /// ISO time of creation.
    pub created_at: String,
    pub path: PathBuf,
}

/// The stored sessions of one agent, with the headers that were read before.
#[derive(Debug)]
pub struct Listing {
    root: PathBuf,
    /// By path; `None` for a file that is no session.
    headers: HashMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    /// Length of the file when its header was found bad; such a file is looked at again when it has changed.
    length: u64,
    session: Option<StoredSession>,
}

impl Listing {
    /// `root` is the agent's `sessions` folder.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root, headers: HashMap::new() }
    }

    /// Every session in every folder below the root, newest first. Files that are no sessions are left out. Blocking.
    ///
    /// # Errors
    /// The root cannot be read; that it does not exist is an empty list.
    pub fn refresh(&mut self) -> std::io::Result<Vec<StoredSession>> {
        let mut seen = HashMap::with_capacity(self.headers.len());
        for folder in folders(&self.root)? {
            // A folder that vanished or is closed to us hides its own sessions only.
            let Ok(files) = std::fs::read_dir(&folder) else { continue };
            for file in files.flatten() {
                let path = file.path();
                if is_condemned(&path) {
                    // Nobody waits for it; it is tried again with the next list.
                    let _ = finish_removal(&path);
                    continue;
                }
                if path.extension().is_none_or(|extension| extension != "jsonl") {
                    continue;
                }
                let known = match self.headers.remove(&path) {
                    Some(known) if known.session.is_some() || file_length(&path) == known.length => known,
                    _ => Known { length: file_length(&path), session: read_header(&path) },
                };
                seen.insert(path, known);
            }
        }
        self.headers = seen;
        let mut sessions: Vec<StoredSession> = self.headers.values().filter_map(|known| known.session.clone()).collect();
        sessions.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| b.path.cmp(&a.path)));
        let mut ids = std::collections::HashSet::new();
        sessions.retain(|session| ids.insert(session.id.clone()));
        Ok(sessions)
    }

    /// The file of a session, looked up on disk only if it is not known. Blocking.
    pub fn find(&mut self, id: &SessionId) -> Option<StoredSession> {
        let known = self.headers.values().filter_map(|known| known.session.as_ref()).find(|session| session.id == *id);
        if let Some(known) = known
            && known.path.exists()
        {
            return Some(known.clone());
        }
        self.refresh().ok()?.into_iter().find(|session| session.id == *id)
    }
}

impl Listing {
    /// Removes every file of a session; it is not listed any more. Blocking.
    ///
    /// # Errors
    /// What was not removed is listed as before.
    pub(crate) fn remove(&mut self, id: &SessionId) -> std::io::Result<()> {
        self.refresh()?;
        let of_session = |known: &Known| known.session.as_ref().is_some_and(|session| session.id == *id);
        let paths: Vec<PathBuf> = self.headers.iter().filter(|(_, known)| of_session(known)).map(|(path, _)| path.clone()).collect();
        for path in paths {
            remove_session(&path)?;
            self.headers.remove(&path);
        }
        Ok(())
    }
}

/// The root itself and the folders directly below it.
fn folders(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let below = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    Ok(std::iter::once(root.to_owned()).chain(below).collect())
}

fn file_length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn read_header(path: &Path) -> Option<StoredSession> {
    let file = wolli_home::reading::open(path).ok()?;
    let mut line = Vec::new();
    BufReader::new(file.take(HEADER_BYTES)).read_until(b'\n', &mut line).ok()?;
    let header = parse_header(line.trim_ascii_end()).ok()?;
    Some(StoredSession { id: header.id.into(), created_at: header.timestamp, path: path.to_owned() })
}
