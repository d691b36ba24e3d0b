//! One session file: created, opened with repair, and appended to. Blocking.
//!
//! Invariant: the file ends with a whole line after every operation, also after one that failed. Only the owner
//! of a resident session holds one; readers use [`super::read`].

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use wolli_protocol::entry::{EntryBody, SESSION_VERSION, SessionHeader};
use wolli_protocol::ids::{EntryId, SessionId};
use wolli_protocol::message::Message;
use wolli_protocol::model::ThinkingLevel;
use wolli_protocol::state::SessionState;
use wolli_protocol::surrogates;

use super::append::NewEntry;
use super::branch::{self, Node, Tree};
use super::context::{ContextMessage, context_message};
use super::line::{LineKind, parse_header, parse_line};
use super::sidecar::Sidecar;
use super::window::Window;
use crate::limits::IDEMPOTENCY_KEYS;

/// Entries whose place in the file is remembered, so that view `full` finds the messages of a turn without a search.
const RECENT_ENTRIES: usize = 1024;

/// Why a session file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenFileError {
    #[error("Invalid JSONL session file {}: {reason}", path.display())]
    Invalid { path: PathBuf, reason: &'static str },
    #[error("cannot open the session file {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// Where the newest entries stand in the file; shared with readers.
pub(crate) type Recent = Arc<Mutex<VecDeque<(EntryId, Range<u64>)>>>;

/// The model that a session used last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestoredModel {
    pub(crate) provider: String,
    pub(crate) id: String,
    /// A person set it, as opposed to an answer that happened to come from it.
    pub(crate) chosen: bool,
}

/// What opening a file tells about the session.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) name: Option<String>,
    pub(crate) message_count: u64,
    pub(crate) model: Option<RestoredModel>,
    pub(crate) level: Option<ThinkingLevel>,
    pub(crate) interrupted: bool,
    pub(crate) leaf: Option<EntryId>,
    pub(crate) sidecar: Sidecar,
    /// Keys of prompts that are in the file, oldest first.
    pub(crate) idempotency_keys: Vec<String>,
    /// What was wrong with the file and what was done about it.
    pub(crate) diagnostics: Vec<String>,
}

/// An open session file with its position.
#[derive(Debug)]
pub struct SessionFile {
    file: File,
    path: PathBuf,
    length: u64,
    leaf: Option<EntryId>,
    /// The visible messages; built when first asked for.
    context: Option<Vec<ContextMessage>>,
    recent: Recent,
    /// A sync failed: what is on disk is not known any more, so nothing more is written until the file is opened again.
    broken: Option<String>,
    /// A power cut may take the end of the file.
    pub(super) unsynced: bool,
    /// Bytes that an append may write before it fails.
    #[cfg(test)]
    pub(super) room: Option<usize>,
}

impl SessionFile {
    /// Creates the file with its header line in `folder` (which is created too); on return it is on disk.
    ///
    /// # Errors
    /// Names the path; no half-written file stays behind.
    pub(crate) fn create(folder: &Path, id: &SessionId, created: &str, cwd: &str) -> Result<(Self, Sidecar), OpenFileError> {
        let stamp: String = created.chars().map(|character| if matches!(character, ':' | '.') { '-' } else { character }).collect();
        let path = folder.join(format!("{stamp}_{id}.jsonl"));
        let io = |source| OpenFileError::Io { path: path.clone(), source };
        wolli_home::atomic::create_folder(folder).map_err(io)?;
        let header = SessionHeader {
            kind: "session".into(),
            version: SESSION_VERSION,
            id: id.to_string(),
            timestamp: created.to_owned(),
            cwd: cwd.to_owned(),
            parent_session: None,
        };
        let mut line = serde_json::to_vec(&header).map_err(|error| io(std::io::Error::other(error)))?;
        line.push(b'\n');
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path).map_err(io)?;
        let sidecar = Sidecar::first();
        let written = file
            .write_all(&line)
            .and_then(|()| file.sync_data())
            .and_then(|()| sidecar.store(&path))
            .and_then(|()| wolli_home::atomic::sync_folder(folder));
        if let Err(error) = written {
            // Best effort: an empty session file is skipped by every reader anyway.
            let _ = std::fs::remove_file(&path);
            return Err(io(error));
        }
        let length = line.len() as u64;
        Ok((
            Self {
                file,
                path,
                length,
                leaf: None,
                context: Some(Vec::new()),
                recent: Recent::default(),
                broken: None,
                unsynced: false,
                #[cfg(test)]
                room: None,
            },
            sidecar,
        ))
    }

    /// Opens the file, moves a torn tail aside, and reads the tree.
    ///
    /// # Errors
    /// The file cannot be read, or its header is not one.
    pub(crate) fn open(path: &Path) -> Result<(Self, Restored), OpenFileError> {
        let io = |source| OpenFileError::Io { path: path.to_owned(), source };
        let file = wolli_home::reading::open_with(OpenOptions::new().read(true).append(true), path).map_err(io)?;
        let mut scan = Scan::run(&file, path)?;
        let mut length = scan.length;
        if let Some(tail) = scan.torn.take() {
            length = repair_tail(&file, path, &tail, &mut scan).map_err(io)?;
        }
        let branch = scan.tree.branch();
        let leaf = scan.tree.leaf_id().map(EntryId::from);
        let mut sidecar = Sidecar::load(path);
        // Delivered before a crash: the entry is there, the queue was not rewritten any more.
        sidecar.steer.retain(|queued| !scan.tree.contains(queued.entry_id.as_str()));
        sidecar.follow_up.retain(|queued| !scan.tree.contains(queued.entry_id.as_str()));
        sidecar.deferred.retain(|entry| !scan.tree.contains(entry.id.as_str()));
        let mut model = branch::last_model(&branch).map(|(provider, id, chosen)| RestoredModel { provider, id, chosen });
        let mut level = branch::last_level(&branch).and_then(ThinkingLevel::parse);
        // What was chosen in a run that did not end is the newest choice, though no entry yet.
        for waiting in &sidecar.deferred {
            match &waiting.body {
                EntryBody::ModelChange { provider, model_id } => {
                    model = Some(RestoredModel { provider: provider.clone(), id: model_id.clone(), chosen: true });
                }
                EntryBody::ThinkingLevelChange { thinking_level } => level = Some(*thinking_level),
                _ => {}
            }
        }
        let restored = Restored {
            name: scan.tree.name.clone(),
            message_count: branch::visible(&branch).len() as u64,
            model,
            level,
            interrupted: branch::is_interrupted(&branch),
            leaf: leaf.clone(),
            sidecar,
            idempotency_keys: scan.idempotency_keys(),
            diagnostics: scan.diagnostics,
        };
        let recent = branch.iter().rev().take(RECENT_ENTRIES).rev().map(|node| (EntryId::from(&*node.id), node.range.clone())).collect();
        let recent = Arc::new(Mutex::new(recent));
        Ok((
            Self {
                file,
                path: path.to_owned(),
                length,
                leaf,
                context: None,
                recent,
                broken: None,
                // Whoever wrote it may have been killed before a sync.
                unsynced: true,
                #[cfg(test)]
                room: None,
            },
            restored,
        ))
    }

    /// Writes at the end. In tests the disk may have room for a few bytes only.
    fn write_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        #[cfg(test)]
        if let Some(room) = self.room.filter(|room| *room < bytes.len()) {
            self.file.write_all(&bytes[..room])?;
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(bytes)
    }

    /// Removes a session that was just created and that nobody has seen.
    pub(crate) fn discard(self) {
        // Best effort: what stays is an empty session.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(super::sidecar::sidecar_path(&self.path));
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn recent(&self) -> Recent {
        Arc::clone(&self.recent)
    }

    /// Appends entries, each the child of the one before; all or none of them. `sync` waits for the disk.
    ///
    /// # Errors
    /// Nothing of it is in the file then, unless the sync failed, which ends all writing to this file.
    pub(crate) fn append(&mut self, entries: &[NewEntry], sync: bool) -> std::io::Result<()> {
        if let Some(reason) = &self.broken {
            return Err(std::io::Error::other(format!("the session file was given up after a failed sync ({reason})")));
        }
        if self.file.metadata()?.nlink() == 0 {
            // It would go nowhere. Opening the session again says the same, so nothing is promised meanwhile.
            return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "the session file was deleted"));
        }
        let mut bytes = Vec::new();
        let mut ranges = Vec::with_capacity(entries.len());
        let mut parent = self.leaf.clone();
        for entry in entries {
            let start = self.length + bytes.len() as u64;
            let line = entry.line(parent.as_ref().map(EntryId::as_str)).map_err(std::io::Error::other)?;
            ranges.push((entry.id.clone(), start..start + line.len() as u64 - 1));
            bytes.extend_from_slice(&line);
            parent = Some(entry.id.clone());
        }
        if let Err(error) = self.write_bytes(&bytes) {
            // A full disk leaves half a line: take it back, so that the next append does not glue to it.
            if let Err(undo) = self.file.set_len(self.length) {
                self.broken = Some(format!("{error}; taking it back failed too: {undo}"));
            }
            return Err(error);
        }
        self.unsynced = true;
        if sync {
            self.sync()?;
        }
        self.length += bytes.len() as u64;
        self.leaf = parent;
        if let Ok(mut recent) = self.recent.lock() {
            recent.extend(ranges);
            let surplus = recent.len().saturating_sub(RECENT_ENTRIES);
            recent.drain(..surplus);
        }
        if let Some(context) = &mut self.context {
            for entry in entries {
                // A compaction changes what is visible before it; the next look reads the file again.
                if matches!(entry.body, EntryBody::Compaction { .. } | EntryBody::Leaf { .. }) {
                    self.context = None;
                    break;
                }
                context.extend(context_message(&entry.id, &entry.timestamp, &entry.body));
            }
        }
        Ok(())
    }

    /// Waits until everything written is on disk.
    ///
    /// # Errors
    /// The file is given up: after a failed sync nobody knows what is on disk, and asking again would lie.
    pub(crate) fn sync(&mut self) -> std::io::Result<()> {
        self.file.sync_data().inspect_err(|error| self.broken = Some(error.to_string()))?;
        self.unsynced = false;
        Ok(())
    }

    /// Replaces the sidecar; on return it is on disk. So is the file before it: what a sidecar has no longer was accepted, and stands there.
    ///
    /// # Errors
    /// The sidecar is what it was, or, if its folder could not be synced, one of the two.
    pub(crate) fn store_sidecar(&mut self, sidecar: &Sidecar) -> std::io::Result<()> {
        if self.unsynced {
            self.sync()?;
        }
        sidecar.store(&self.path)
    }

    /// The messages that the model sees, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn context(&mut self) -> std::io::Result<Vec<ContextMessage>> {
        if let Some(context) = &self.context {
            return Ok(context.clone());
        }
        let scan = Scan::run(&self.file, &self.path).map_err(std::io::Error::other)?;
        let branch = scan.tree.branch();
        let mut context = Vec::new();
        for_each_line(&self.file, &branch::visible(&branch), |_, line| {
            // A message of a kind that we do not know is kept in the file and left out of the context.
            if let Ok(entry) = surrogates::from_json::<wolli_protocol::entry::Entry>(line) {
                context.extend(context_message(&entry.id, &entry.timestamp, &entry.body));
            }
            true
        })?;
        self.context = Some(context.clone());
        Ok(context)
    }
}

impl SessionFile {
    /// What a compaction works on.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn window(&self) -> std::io::Result<Window> {
        let scan = Scan::run(&self.file, &self.path).map_err(std::io::Error::other)?;
        super::window::read(&self.file, &scan.tree.branch())
    }
}

/// The text before a file's missing end of line, or whatever a crash left there.
struct TornTail {
    range: Range<u64>,
    /// It is a whole entry that lacks only its line break.
    whole: bool,
}

/// One pass over a session file.
pub(super) struct Scan {
    pub(super) tree: Tree,
    /// End of the last whole line.
    length: u64,
    torn: Option<TornTail>,
    pub(super) diagnostics: Vec<String>,
}

impl Scan {
    /// Reads the whole file with memory bounded by its largest line and the tree.
    pub(super) fn run(file: &File, path: &Path) -> Result<Self, OpenFileError> {
        let io = |source| OpenFileError::Io { path: path.to_owned(), source };
        let invalid = |reason| OpenFileError::Invalid { path: path.to_owned(), reason };
        let mut file = file;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 {
            return Err(invalid("missing session header"));
        }
        if line.last() != Some(&b'\n') && parse_header(trim(&line)).is_err() {
            return Err(invalid("missing session header"));
        }
        parse_header(trim(&line)).map_err(invalid)?;
        let mut scan = Self { tree: Tree::default(), length: 0, torn: None, diagnostics: Vec::new() };
        let mut offset = read as u64;
        if line.last() == Some(&b'\n') {
            scan.length = offset;
        } else {
            scan.torn = Some(TornTail { range: 0..offset, whole: true });
            return Ok(scan);
        }
        let mut number = 1;
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line).map_err(io)? as u64;
            if read == 0 {
                return Ok(scan);
            }
            let start = offset;
            offset += read;
            let text = trim(&line);
            let whole_line = line.last() == Some(&b'\n');
            if text.is_empty() && whole_line {
                scan.length = offset;
                continue;
            }
            number += 1;
            let parsed = parse_line(text);
            if !whole_line {
                scan.torn = Some(TornTail { range: start..offset, whole: parsed.is_ok() });
                if let Ok(entry) = parsed {
                    scan.tree.push(entry, start..start + text.len() as u64);
                }
                return Ok(scan);
            }
            scan.length = offset;
            match parsed {
                Ok(entry) => {
                    if scan.tree.contains(&entry.id) {
                        scan.diagnostics.push(format!("line {number} repeats the entry id {} and was skipped", entry.id));
                    } else if !scan.tree.push(entry, start..start + text.len() as u64) {
                        scan.diagnostics
                            .push(format!("line {number} names an entry that is not there; the nearest earlier one took its place"));
                    }
                }
                Err(reason) => scan.diagnostics.push(format!("line {number} {reason} and was skipped")),
            }
        }
    }

    fn idempotency_keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self
            .tree
            .nodes
            .iter()
            .filter_map(|node| match &node.kind {
                LineKind::Message { idempotency_key: Some(key), .. } => Some(key.clone()),
                _ => None,
            })
            .collect();
        keys.drain(..keys.len().saturating_sub(IDEMPOTENCY_KEYS));
        keys
    }
}

fn trim(line: &[u8]) -> &[u8] {
    line.trim_ascii_end()
}

/// Makes the file end with a whole line: completes a whole entry, else moves the fragment to `<file>.torn-<n>`.
/// Returns the new length.
fn repair_tail(file: &File, path: &Path, tail: &TornTail, scan: &mut Scan) -> std::io::Result<u64> {
    if tail.whole {
        let mut file = file;
        file.write_all(b"\n")?;
        file.sync_data()?;
        scan.diagnostics.push("the last line lacked its end and was completed".into());
        return Ok(tail.range.end + 1);
    }
    let (aside, mut target) = create_aside(path)?;
    let mut source = file;
    source.seek(SeekFrom::Start(tail.range.start))?;
    std::io::copy(&mut source.take(tail.range.end - tail.range.start), &mut target)?;
    target.sync_all()?;
    file.set_len(tail.range.start)?;
    file.sync_data()?;
    let name = aside.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    scan.diagnostics.push(format!("the last line was torn; its {} bytes were moved to {name}", tail.range.end - tail.range.start));
    Ok(tail.range.start)
}

fn create_aside(path: &Path) -> std::io::Result<(PathBuf, File)> {
    let mut number = 1_u32;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".torn-{number}"));
        let aside = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside) {
            Ok(file) => return Ok((aside, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 10_000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Hands each node's line to `visit` until it returns false. Neighbouring lines are read together.
pub(super) fn for_each_line(file: &File, nodes: &[&Node], mut visit: impl FnMut(&Node, &[u8]) -> bool) -> std::io::Result<()> {
    /// Lines up to this many bytes apart or long are read in one go.
    const CHUNK: u64 = 1 << 20;
    let mut rest = nodes;
    let mut buffer = Vec::new();
    while let Some(first) = rest.first() {
        let start = first.range.start;
        let mut end = first.range.end;
        let mut count = 1;
        while let Some(next) = rest.get(count) {
            if next.range.start < end || next.range.end - start > CHUNK {
                break;
            }
            end = next.range.end;
            count += 1;
        }
        buffer.resize(usize::try_from(end - start).map_err(std::io::Error::other)?, 0);
        file.read_exact_at(&mut buffer, start)?;
        for node in &rest[..count] {
            let from = usize::try_from(node.range.start - start).map_err(std::io::Error::other)?;
            let to = usize::try_from(node.range.end - start).map_err(std::io::Error::other)?;
            if !visit(node, &buffer[from..to]) {
                return Ok(());
            }
        }
        rest = &rest[count..];
    }
    Ok(())
}

/// The messages at `ranges` of the file; `None` for one that is no message.
pub(super) fn read_message(file: &File, range: &Range<u64>) -> Option<Message> {
    let mut buffer = vec![0; usize::try_from(range.end - range.start).ok()?];
    file.read_exact_at(&mut buffer, range.start).ok()?;
    let entry: wolli_protocol::entry::Entry = surrogates::from_json(&buffer).ok()?;
    match entry.body {
        EntryBody::Message { message, .. } => Some(message),
        _ => None,
    }
}

/// A copy of the remembered places.
pub(super) fn recent_ranges(recent: &Recent) -> Vec<(EntryId, Range<u64>)> {
    recent.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

/// The state of a session that was just opened or created.
pub(crate) fn initial_state(id: SessionId, path: &Path, restored: Option<&Restored>, confinement: &str) -> SessionState {
    SessionState {
        session_id: id,
        model: None,
        thinking_level: ThinkingLevel::Off,
        scoped_models: Vec::new(),
        is_streaming: false,
        session_name: restored.and_then(|restored| restored.name.clone()),
        session_file: Some(path.to_string_lossy().into_owned()),
        message_count: restored.map_or(0, |restored| restored.message_count),
        pending_message_count: 0,
        confinement: Some(confinement.to_owned()),
    }
}
