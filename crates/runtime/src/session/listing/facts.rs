//! A session's name and tags, found in its file without reading messages: the lines that may hold them are told by a word in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::surrogates;

/// Bytes that are read in one go.
const CHUNK: u64 = 256 << 10;

/// A longer line holds no name and no tags: it is a message, and is passed over without being kept.
const LINE_BYTES: usize = 256 << 10;

/// The mark before the first byte of a file.
const NO_BYTES: u32 = 0x811c_9dc5;

/// What was found in the first `searched` bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Facts {
    /// Bytes of the file that were searched; less than its size while there is more to do.
    pub(super) searched: u64,
    /// Where the last line that was searched begins if its end was not there yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    open_line: Option<u64>,
    /// Tells whether the bytes before the place at which the search goes on are those that were there.
    mark: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tags: BTreeMap<String, String>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { searched: 0, open_line: None, mark: NO_BYTES, name: None, tags: BTreeMap::new() }
    }
}

impl Facts {
    /// Searches on in a file of `size` bytes, and reads at most `budget` of them; returns how many. One that cannot be read counts as
    /// searched: it has no name that anybody could know.
    pub(super) fn search(&mut self, path: &Path, size: u64, budget: u64) -> u64 {
        let Ok(file) = wolli_home::reading::open(path) else {
            self.searched = size;
            return 0;
        };
        if self.searched > size || self.mark != mark_before(&file, self.open_line.unwrap_or(self.searched)) {
            // It was not appended to, but written anew.
            *self = Self::default();
        }
        let mut read = 0;
        // What is left of the line that the chunk before ended in.
        let mut rest: Vec<u8> = Vec::new();
        let mut passing_over = false;
        let mut at = self.open_line.unwrap_or(self.searched);
        let mut line_start = at;
        let mut buffer = vec![0; usize::try_from(CHUNK.min(size.saturating_sub(at)).max(1)).unwrap_or(1)];
        while at < size && read < budget {
            let wanted = usize::try_from((size - at).min(CHUNK).min(budget - read)).unwrap_or(1);
            let count = match file.read_at(&mut buffer[..wanted], at) {
                Ok(count) if count > 0 => count,
                // Shorter than it was, or unreadable: the next look at the file sees to it.
                _ => {
                    at = size;
                    break;
                }
            };
            let chunk = &buffer[..count];
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', chunk) {
                let piece = &chunk[start..end];
                if !passing_over && rest.is_empty() {
                    self.line(piece);
                } else if !passing_over {
                    rest.extend_from_slice(piece);
                    self.line(&rest);
                }
                rest.clear();
                passing_over = false;
                start = end + 1;
                line_start = at + start as u64;
            }
            rest.extend_from_slice(&chunk[start..]);
            if rest.len() > LINE_BYTES {
                rest.clear();
                passing_over = true;
            }
            at += count as u64;
            read += count as u64;
        }
        self.searched = at;
        // A line that is passed over need not be read a second time to know that.
        self.open_line = (line_start < at && !passing_over).then_some(line_start);
        self.mark = mark_before(&file, self.open_line.unwrap_or(at));
        read
    }

    fn line(&mut self, line: &[u8]) {
        if memmem::find(line, b"\"session_info\"").is_none() && memmem::find(line, b"\"tags\"").is_none() {
            return;
        }
        match surrogates::from_json::<Entry>(line).map(|entry| entry.body) {
            Ok(EntryBody::SessionInfo { name }) => {
                self.name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            }
            Ok(EntryBody::Tags { tags }) => self.tags.extend(tags),
            _ => {}
        }
    }
}

/// A checksum of the few bytes before `place`.
fn mark_before(file: &File, place: u64) -> u32 {
    const BYTES: u64 = 64;
    let from = place.saturating_sub(BYTES);
    let mut bytes = vec![0; usize::try_from(place - from).unwrap_or(0)];
    if file.read_exact_at(&mut bytes, from).is_err() {
        return u32::MAX;
    }
    // FNV-1a: nobody tries to deceive it.
    bytes.iter().fold(NO_BYTES, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
