//! Reading session files without making their session live, and beside its writer.
//!
//! Lines are handed on as they stand in the file, so that what we do not know is kept. A last line without its
//! line break is being written and is left out. Blocking, but for [`MessageSource`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use wolli_home::reading;
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::Message;
use wolli_protocol::surrogates;

use super::branch::{self, Node};
use super::context::context_message;
use super::file::{OpenFileError, Recent, Scan, for_each_line, read_message, recent_ranges};
use super::line::{LineKind, parse_line};
use super::sidecar::Sidecar;
use crate::tasks::Tasks;

/// Bytes at the end of a session file in which [`is_unfinished`] looks for the last message. A larger message at the
/// end means that nothing is resumed by itself; the next prompt goes on all the same.
const TAIL_BYTES: u64 = 256 << 10;

/// True if the session's last message waits for the model, or messages wait in its queues. Reads the end of the file
/// only; what cannot be read is not unfinished.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let sidecar = Sidecar::load(path);
    if !sidecar.steer.is_empty() || !sidecar.follow_up.is_empty() {
        return true;
    }
    let Ok(file) = reading::open(path) else { return false };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let start = length.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; usize::try_from(length - start).unwrap_or_default()];
    if file.read_exact_at(&mut tail, start).is_err() {
        return false;
    }
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| parse_line(line.trim_ascii_end()).ok()?.kind.awaits_model()).unwrap_or(false)
}

/// A page of the active branch.
#[derive(Debug)]
pub struct EntriesPage {
    /// The entries' JSON as it stands in the file.
    pub entries: Vec<Box<RawValue>>,
    /// The last entry of this page if more follow; pass it as `after`.
    pub next: Option<EntryId>,
}

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("No entry \"{0}\" on the active branch")]
    UnknownEntry(String),
    #[error(transparent)]
    File(#[from] OpenFileError),
}

fn open(path: &Path) -> Result<(File, Scan), OpenFileError> {
    let io = |source| OpenFileError::Io { path: path.to_owned(), source };
    let file = reading::open(path).map_err(io)?;
    let scan = Scan::run(&file, path)?;
    Ok((file, scan))
}

/// JSON text of a line, with halves of characters (which clients in other languages cannot read) replaced; line breaks between tokens (which JSON allows) are taken out, since frames are lines.
fn raw(line: &[u8]) -> Option<Box<RawValue>> {
    let whole = surrogates::replace_lone(line);
    let text = std::str::from_utf8(whole.as_deref().unwrap_or(line)).ok()?;
    if text.contains('\r') {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        return serde_json::value::to_raw_value(&value).ok();
    }
    RawValue::from_string(text.to_owned()).ok()
}

fn read_lines(file: &File, path: &Path, nodes: &[&Node]) -> Result<Vec<Box<RawValue>>, OpenFileError> {
    let mut lines = Vec::with_capacity(nodes.len());
    for_each_line(file, nodes, |_, line| {
        lines.extend(raw(line));
        true
    })
    .map_err(|source| OpenFileError::Io { path: path.to_owned(), source })?;
    Ok(lines)
}

/// All entries in file order and of all branches, without the header and the moves of the position.
///
/// # Errors
/// The file cannot be read, or is no session file.
pub fn read_entries(path: &Path) -> Result<Vec<Box<RawValue>>, OpenFileError> {
    let (file, scan) = open(path)?;
    read_lines(&file, path, &scan.tree.nodes.iter().collect::<Vec<_>>())
}

/// The messages that the model sees, as JSON; those of `message` entries byte for byte, but for halves of characters.
///
/// # Errors
/// The file cannot be read, or is no session file.
pub fn read_messages(path: &Path) -> Result<Vec<Box<RawValue>>, OpenFileError> {
    #[derive(serde::Deserialize)]
    struct Holder {
        message: Box<RawValue>,
    }
    let (file, scan) = open(path)?;
    let mut messages = Vec::new();
    for_each_line(&file, &branch::visible(&scan.tree.branch()), |node, line| {
        let whole = surrogates::replace_lone(line);
        let line = whole.as_deref().unwrap_or(line);
        if matches!(node.kind, LineKind::Message { .. }) {
            messages.extend(serde_json::from_slice::<Holder>(line).ok().map(|holder| holder.message));
        } else if let Ok(entry) = serde_json::from_slice::<wolli_protocol::entry::Entry>(line) {
            let message = context_message(&entry.id, &entry.timestamp, &entry.body);
            messages.extend(message.and_then(|message| serde_json::value::to_raw_value(&*message.message).ok()));
        }
        true
    })
    .map_err(|source| OpenFileError::Io { path: path.to_owned(), source })?;
    Ok(messages)
}

/// The entries after `after` (or from the root) on the branch that ends at `leaf` (or at the active position), at
/// most `limit` of them and `max_bytes`, but at least one.
///
/// # Errors
/// `after` is not on that branch, or the file cannot be read.
pub fn read_page(path: &Path, after: Option<&str>, leaf: Option<&str>, limit: usize, max_bytes: usize) -> Result<EntriesPage, PageError> {
    let (file, scan) = open(path)?;
    let branch = leaf.map_or_else(|| scan.tree.branch(), |leaf| scan.tree.branch_to_id(leaf));
    let start = match after {
        None => 0,
        Some(after) => {
            let found = branch.iter().position(|node| *node.id == *after);
            found.map(|index| index + 1).ok_or_else(|| PageError::UnknownEntry(after.to_owned()))?
        }
    };
    let mut count = 0;
    let mut bytes = 0;
    for node in branch[start..].iter().take(limit) {
        bytes += usize::try_from(node.range.end - node.range.start).unwrap_or(usize::MAX);
        if count > 0 && bytes > max_bytes {
            break;
        }
        count += 1;
    }
    let page = &branch[start..start + count];
    let entries = read_lines(&file, path, page)?;
    let more = start + count < branch.len();
    let next = if more { page.last().map(|node| EntryId::from(&*node.id)) } else { None };
    Ok(EntriesPage { entries, next })
}

/// Finds messages by the id of their entry; for view `full`.
#[derive(Clone, Debug)]
pub struct MessageSource {
    path: PathBuf,
    recent: Recent,
    tasks: Tasks,
}

impl MessageSource {
    pub(crate) fn new(path: PathBuf, recent: Recent, tasks: Tasks) -> Self {
        Self { path, recent, tasks }
    }

    /// The messages of `ids`, in that order; `None` for one that is not there.
    pub async fn read(&self, ids: Vec<EntryId>) -> Vec<Option<Message>> {
        let path = self.path.clone();
        let recent = recent_ranges(&self.recent);
        let count = ids.len();
        let work = self.tasks.spawn_blocking(move || {
            let Ok((file, places)) = find(&path, &ids, recent) else { return vec![None; ids.len()] };
            ids.iter()
                .map(|id| places.iter().rev().find(|(place, _)| place == id).and_then(|(_, range)| read_message(&file, range)))
                .collect()
        });
        work.await.unwrap_or_else(|_| vec![None; count])
    }
}

type Places = Vec<(EntryId, std::ops::Range<u64>)>;

/// The remembered places if they hold every id, else those of the whole file.
fn find(path: &Path, ids: &[EntryId], recent: Places) -> Result<(File, Places), OpenFileError> {
    if ids.iter().all(|id| recent.iter().rev().any(|(place, _)| place == id)) {
        let file = reading::open(path).map_err(|source| OpenFileError::Io { path: path.to_owned(), source })?;
        return Ok((file, recent));
    }
    let (file, scan) = open(path)?;
    let places = scan.tree.nodes.iter().map(|node| (EntryId::from(&*node.id), node.range.clone())).collect();
    Ok((file, places))
}
