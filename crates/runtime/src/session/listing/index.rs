//! The index file: what is known of session files, so that the next process need not read them again.
//!
//! It is `sessions/index.json`. Everything in it can be found again; one that is damaged, foreign or gone is an empty one, and what it says
//! of a file counts only while the file looks as it did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::{Folder, Header, Known, Stamp, is_named_after, read_header};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Index {
    version: u32,
    /// By path below the root.
    files: BTreeMap<String, Indexed>,
}

#[derive(Serialize, Deserialize)]
struct Indexed {
    stamp: Stamp,
    header: Header,
    facts: Facts,
}

pub(super) fn path(root: &Path) -> PathBuf {
    root.join("index.json")
}

/// What the index says, with every folder still to be read.
pub(super) fn load(root: &Path) -> BTreeMap<PathBuf, Folder> {
    let mut folders: BTreeMap<PathBuf, Folder> = BTreeMap::new();
    let Ok(Some(content)) = wolli_home::reading::read(&path(root)) else { return folders };
    let index = match serde_json::from_slice::<Index>(&content) {
        Ok(index) if index.version == VERSION => index,
        Ok(_) => return folders,
        Err(error) => {
            tracing::debug!(%error, "the index of sessions is made anew");
            return folders;
        }
    };
    for (place, Indexed { stamp, header, facts }) in index.files {
        let file = root.join(place);
        // Names that lead elsewhere are nobody's session.
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { continue };
        if folder != root && folder.parent() != Some(root) {
            continue;
        }
        // A wrong id would hide a session for good: only one that the file's name confirms is taken unread.
        let header = if is_named_after(name, &header.id) { Some(header) } else { read_header(&file) };
        let known = Known { stamp, header, facts };
        folders.entry(folder.to_owned()).or_default().files.insert(name.to_owned(), known);
    }
    folders
}

/// The text of the index. Files whose names are no Unicode are left out.
pub(super) fn encode(root: &Path, folders: &BTreeMap<PathBuf, Folder>) -> Vec<u8> {
    let mut files = BTreeMap::new();
    for (path, folder) in folders {
        let Ok(place) = path.strip_prefix(root) else { continue };
        for (name, known) in &folder.files {
            if let (Some(header), Some(place)) = (&known.header, place.join(name).to_str()) {
                files.insert(place.to_owned(), Indexed { stamp: known.stamp, header: header.clone(), facts: known.facts.clone() });
            }
        }
    }
    // Strings and numbers always serialise.
    serde_json::to_vec(&Index { version: VERSION, files }).unwrap_or_default()
}
