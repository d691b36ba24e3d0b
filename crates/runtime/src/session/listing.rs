//! Which sessions an agent has: the files below `sessions/`, newest first, with their names and tags.
//!
//! Of a file only its first line is read when it is new, and what was appended since the last look for its name; both are kept in an
//! index file, so that they are read once and not once per process. A call costs what has changed: folders whose time of change is the
//! same are not read again, and of the files that are known a few are looked at per call, in turn, so that what another program did to
//! one is noticed after some calls. The index is derived: without it, or with a wrong one, everything is found again. Blocking.

mod facts;
mod index;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use wolli_protocol::ids::SessionId;

use self::facts::Facts;
use super::line::parse_header;
use super::remove::{finish_removal, is_condemned, remove_session};

/// Bytes of a first line that are read at most; a longer one is no header of ours.
const HEADER_BYTES: u64 = 64 << 10;

/// Bytes that one call reads at most to find names; the rest follows with later calls. A few milliseconds.
const FACTS_BYTES: u64 = 8 << 20;

/// Files that one call opens at most to find names.
const FACTS_FILES: usize = 512;

/// Known files that one call looks at to see whether another program changed them.
const CHECKED_FILES: usize = 32;

/// Files that are no sessions which are told at most.
const STRANGERS_MAX: usize = 100;

/// A folder that changed so recently may change again without a new time: clocks of file systems tick every few milliseconds.
const UNSETTLED: Duration = Duration::from_millis(100);

/// How often the index is written at most. What is found meanwhile is found again if the process ends.
const SAVE_PAUSE: Duration = Duration::from_secs(60);

/// A session that is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    pub id: SessionId,
    /// ISO time of creation.
    pub created_at: String,
    pub path: PathBuf,
    /// As it stands in the file; absent too as long as the file was not searched.
    pub name: Option<String>,
    pub tags: BTreeMap<String, String>,
}

/// The stored sessions of one agent.
#[derive(Debug)]
pub struct Listing {
    root: PathBuf,
    /// By path; the root is one of them.
    folders: BTreeMap<PathBuf, Folder>,
    /// The list as it was made last; absent when something has changed since.
    list: Option<Arc<[StoredSession]>>,
    /// Where the search for changed files goes on.
    turn: usize,
    /// The index was read, and what killed writers left was removed.
    begun: bool,
    /// The first look removes what killed writers left.
    sweeps: bool,
    /// Something was found that the index does not hold.
    unsaved: bool,
    saved_at: Option<Instant>,
    /// Files that look like sessions by their names alone, as of the last time that the list was made.
    strangers: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct Folder {
    /// Time of change as of which the names are known; absent when it has to be read again.
    modified: Option<SystemTime>,
    files: BTreeMap<OsString, Known>,
}

/// What a file looked like; another look means another content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    /// Nanoseconds since 1970.
    modified: i64,
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Self { size: metadata.len(), modified, inode: metadata.ino() }
    }

    /// The file as it was, and something appended.
    fn is_continued_by(&self, later: &Self) -> bool {
        self.inode == later.inode && self.size <= later.size
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    id: SessionId,
    created_at: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    stamp: Stamp,
    /// Absent for a file that is no session.
    header: Option<Header>,
    facts: Facts,
}

impl Known {
    fn read(path: &Path, stamp: Stamp) -> Self {
        Self { stamp, header: read_header(path), facts: Facts::default() }
    }

    /// The file was searched to its end.
    fn is_complete(&self) -> bool {
        self.header.is_none() || self.facts.searched == self.stamp.size
    }
}

impl Listing {
    /// `root` is the agent's `sessions` folder, which is ours alone. Nothing is read yet. The first look removes temporary files, so it has
    /// to come before anything is written.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            folders: BTreeMap::new(),
            list: None,
            turn: 0,
            begun: false,
            sweeps: true,
            unsaved: false,
            saved_at: None,
            strangers: Vec::new(),
        }
    }

    /// One for a single look while the process writes: it removes nothing that writers left.
    #[must_use]
    pub(crate) fn for_a_look(root: PathBuf) -> Self {
        Self { sweeps: false, ..Self::new(root) }
    }

    /// Every session in every folder below the root, newest first. Files that are no sessions are left out. Names are as far as they
    /// are known without a search.
    ///
    /// # Errors
    /// The root cannot be read; that it does not exist is an empty list.
    pub fn refresh(&mut self) -> std::io::Result<Arc<[StoredSession]>> {
        if !self.begun {
            self.folders = index::load(&self.root);
        }
        self.find_folders()?;
        self.begun = true;
        self.check_some();
        Ok(self.listed())
    }

    /// Like [`Listing::refresh`], after some search for names that are not known yet.
    ///
    /// # Errors
    /// As for [`Listing::refresh`].
    pub fn refresh_names(&mut self) -> std::io::Result<Arc<[StoredSession]>> {
        self.refresh()?;
        self.search();
        Ok(self.listed())
    }

    /// The file of a session, looked up on disk only if it is not known.
    pub fn find(&mut self, id: &SessionId) -> Option<StoredSession> {
        let known = if self.begun { self.listed().iter().find(|session| session.id == *id).cloned() } else { None };
        if let Some(known) = known.filter(|known| known.path.exists()) {
            return Some(known);
        }
        self.forget_times();
        self.refresh().ok()?.iter().find(|session| session.id == *id).cloned()
    }

    /// Takes over a name that was just written into a session's file.
    pub(crate) fn renamed(&mut self, path: &Path, name: Option<String>) {
        let Some(known) = self.known_mut(path) else { return };
        known.facts.name = name;
        self.list = None;
    }

    /// Removes every file of a session; it is not listed any more.
    ///
    /// # Errors
    /// What was not removed is listed as before.
    pub(crate) fn remove(&mut self, id: &SessionId) -> std::io::Result<()> {
        self.forget_times();
        self.refresh()?;
        for (path, folder) in &mut self.folders {
            let of_session = |known: &Known| known.header.as_ref().is_some_and(|header| header.id == *id);
            let names: Vec<OsString> = folder.files.iter().filter(|(_, known)| of_session(known)).map(|(name, _)| name.clone()).collect();
            for name in names {
                remove_session(&path.join(&name))?;
                folder.files.remove(&name);
                self.list = None;
                self.unsaved = true;
            }
        }
        Ok(())
    }

    /// The index as it is to be stored, and where, if it is time to.
    pub(crate) fn take_unsaved(&mut self) -> Option<(PathBuf, Vec<u8>)> {
        let rested = self.saved_at.is_none_or(|at| at.elapsed() >= SAVE_PAUSE);
        if !self.unsaved || !rested {
            return None;
        }
        self.unsaved = false;
        self.saved_at = Some(Instant::now());
        Some((index::path(&self.root), index::encode(&self.root, &self.folders)))
    }

    /// Files from which no session can be read, if the list was made anew since the last call; the first ones only.
    pub(crate) fn take_strangers(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.strangers)
    }

    fn known_mut(&mut self, path: &Path) -> Option<&mut Known> {
        self.folders.get_mut(path.parent()?)?.files.get_mut(path.file_name()?)
    }

    /// All folders are read again with the next look.
    fn forget_times(&mut self) {
        self.folders.values_mut().for_each(|folder| folder.modified = None);
    }

    /// Brings the known folders, the root and those directly below it, up to date.
    fn find_folders(&mut self) -> std::io::Result<()> {
        match self.root.metadata() {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.folders.clear();
                self.list = None;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let root = self.root.clone();
        if let Some(found) = self.read_folder(&root)? {
            self.folders.retain(|path, _| *path == root || found.contains(path));
            for path in found {
                self.folders.entry(path).or_default();
            }
            self.list = None;
        }
        let below: Vec<PathBuf> = self.folders.keys().filter(|path| **path != root).cloned().collect();
        for path in below {
            // A folder that vanished or is closed to us hides its own sessions only.
            if self.read_folder(&path).is_err() && self.folders.remove(&path).is_some() {
                self.list = None;
                self.forget_root();
            }
        }
        Ok(())
    }

    fn forget_root(&mut self) {
        if let Some(root) = self.folders.get_mut(&self.root) {
            root.modified = None;
        }
    }

    /// Reads the names in a folder if they may have changed; gives back the folders in it then.
    fn read_folder(&mut self, path: &Path) -> std::io::Result<Option<Vec<PathBuf>>> {
        let now = SystemTime::now();
        let modified = path.metadata()?.modified()?;
        let folder = self.folders.entry(path.to_owned()).or_default();
        if folder.modified == Some(modified) {
            return Ok(None);
        }
        let settled = now.duration_since(modified).is_ok_and(|age| age >= UNSETTLED);
        let mut before = std::mem::take(&mut folder.files);
        let (known, mut below) = (before.len(), Vec::new());
        let mut changed = false;
        for entry in std::fs::read_dir(path)?.flatten() {
            let name = entry.file_name();
            if !name.as_encoded_bytes().ends_with(b".jsonl") {
                let place = path.join(&name);
                if is_condemned(&place) {
                    // Nobody waits for it; it is tried again with the next look.
                    let _ = finish_removal(&place);
                } else if self.sweeps && !self.begun && wolli_home::atomic::is_temporary(&name) {
                    // Whoever wrote it is gone. What stays is in nobody's way.
                    let _ = std::fs::remove_file(&place);
                } else if path == self.root && place.is_dir() {
                    below.push(place);
                }
                continue;
            }
            let file = path.join(&name);
            let earlier = before.remove(&name);
            // What the index says of a file, and what was no session, is looked at; a header never changes.
            let trusted = self.begun && earlier.as_ref().is_some_and(|known| known.header.is_some());
            match (earlier, trusted) {
                (Some(known), true) => drop(folder.files.insert(name, known)),
                (earlier, _) => {
                    changed = true;
                    let Ok(metadata) = file.metadata() else { continue };
                    folder.files.insert(name, look_again(&file, earlier, Stamp::of(&metadata)));
                }
            }
        }
        changed |= !before.is_empty() || folder.files.len() != known;
        folder.modified = settled.then_some(modified);
        if changed {
            self.list = None;
            self.unsaved = true;
        }
        Ok(Some(below))
    }

    /// Looks at a few known files, others each time.
    fn check_some(&mut self) {
        let count: usize = self.folders.values().map(|folder| folder.files.len()).sum();
        let begin = if count == 0 { 0 } else { self.turn % count };
        let mut changed = false;
        let files =
            self.folders.iter_mut().flat_map(|(path, folder)| folder.files.iter_mut().map(move |(name, known)| (path, name, known)));
        for (path, name, known) in files.skip(begin).take(CHECKED_FILES) {
            let file = path.join(name);
            let Ok(stamp) = file.metadata().map(|metadata| Stamp::of(&metadata)) else { continue };
            if stamp != known.stamp {
                *known = look_again(&file, Some(known.clone()), stamp);
                changed = true;
            }
        }
        self.turn = if begin + CHECKED_FILES < count { begin + CHECKED_FILES } else { 0 };
        if changed {
            self.list = None;
            self.unsaved = true;
        }
    }

    /// Searches files that were not searched to their end, those with the least to read first.
    fn search(&mut self) {
        let incomplete = |folder: &Folder| folder.files.values().any(|known| !known.is_complete());
        if !self.folders.values().any(incomplete) {
            return;
        }
        let mut files: Vec<(PathBuf, &mut Known)> = self
            .folders
            .iter_mut()
            .flat_map(|(path, folder)| folder.files.iter_mut().map(move |(name, known)| (path.join(name), known)))
            .filter(|(_, known)| !known.is_complete())
            .collect();
        files.sort_by_key(|(_, known)| known.stamp.size - known.facts.searched.min(known.stamp.size));
        let mut budget = FACTS_BYTES;
        for (path, known) in files.into_iter().take(FACTS_FILES) {
            if budget == 0 {
                break;
            }
            budget -= known.facts.search(&path, known.stamp.size, budget);
        }
        self.list = None;
        self.unsaved = true;
    }

    fn listed(&mut self) -> Arc<[StoredSession]> {
        if let Some(list) = &self.list {
            return Arc::clone(list);
        }
        let stored = |path: &Path, name: &OsStr, known: &Known| {
            let Header { id, created_at } = known.header.clone()?;
            let Facts { name: title, tags, .. } = known.facts.clone();
            Some(StoredSession { id, created_at, path: path.join(name), name: title, tags })
        };
        let files = self.folders.iter().flat_map(|(path, folder)| folder.files.iter().map(move |(name, known)| (path, name, known)));
        let strangers = files.clone().filter(|(_, _, known)| known.header.is_none());
        self.strangers = strangers.take(STRANGERS_MAX).map(|(path, name, _)| path.join(name)).collect();
        let mut sessions: Vec<StoredSession> = files.filter_map(|(path, name, known)| stored(path, name, known)).collect();
        // Of two files of one session that with the given name is the session, whatever a copy is called.
        let ours = |session: &StoredSession| session.path.file_name().is_some_and(|name| is_named_after(name, &session.id));
        sessions.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| ours(b).cmp(&ours(a))).then_with(|| b.path.cmp(&a.path)));
        let mut ids = std::collections::HashSet::new();
        sessions.retain(|session| ids.insert(session.id.clone()));
        let list: Arc<[StoredSession]> = sessions.into();
        self.list = Some(Arc::clone(&list));
        list
    }
}

/// What is known of a file that has changed, or was never looked at in this process.
fn look_again(path: &Path, earlier: Option<Known>, stamp: Stamp) -> Known {
    match earlier {
        Some(known) if known.stamp == stamp && known.header.is_some() => known,
        Some(known) if known.header.is_some() && known.stamp.is_continued_by(&stamp) => Known { stamp, ..known },
        _ => Known::read(path, stamp),
    }
}

/// The file has the name that sessions are given, `<time>_<id>.jsonl`.
fn is_named_after(name: &OsStr, id: &SessionId) -> bool {
    let stem = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
    stem.and_then(|stem| stem.strip_suffix(id.as_str())).is_some_and(|time| time.ends_with('_'))
}

fn read_header(path: &Path) -> Option<Header> {
    let file = wolli_home::reading::open(path).ok()?;
    let mut line = Vec::new();
    BufReader::with_capacity(1024, file.take(HEADER_BYTES)).read_until(b'\n', &mut line).ok()?;
    let header = parse_header(line.trim_ascii_end()).ok()?;
    Some(Header { id: header.id.into(), created_at: header.timestamp })
}
