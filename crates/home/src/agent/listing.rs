//! Listing agents.
//!
//! Invariant: one unreadable home hides no other, and is reported rather than passed over.

use std::fs;
use std::io;

use super::file::{AgentError, Loaded, io_error, load};
use crate::paths::{AgentHome, AgentName, Root};

/// The agents below a root.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be loaded, by name.
    pub agents: Vec<(AgentHome, Loaded)>,
    /// Folders that have an `agent.json` which cannot be used, by name.
    pub unreadable: Vec<Unreadable>,
}

/// A folder that is no usable agent.
#[derive(Debug)]
pub struct Unreadable {
    /// The folder's name.
    pub name: String,
    /// What is wrong.
    pub error: AgentError,
}

/// Lists the direct sub-folders of `agents/` (not links) that hold an `agent.json`. No folder means no agents.
pub fn list(root: &Root) -> Result<Listing, AgentError> {
    let agents = root.agents();
    let entries = match fs::read_dir(&agents) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
        Err(e) => return Err(io_error("read", &agents)(e)),
    };
    let mut listing = Listing::default();
    for entry in entries {
        let entry = entry.map_err(io_error("read", &agents))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Names with a dot in front are ours: homes that are being deleted.
        if name.starts_with('.') || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let loaded = match name.parse::<AgentName>() {
            Ok(name) => {
                let home = root.agent(&name);
                load(&home).map(|loaded| (home, loaded))
            }
            Err(_) if !entry.path().join("agent.json").exists() => continue,
            Err(e) => Err(e.into()),
        };
        match loaded {
            Ok(agent) => listing.agents.push(agent),
            Err(AgentError::Missing { .. }) => {}
            Err(error) => listing.unreadable.push(Unreadable { name, error }),
        }
    }
    // In names of this alphabet byte order is the order of dictionaries.
    listing.agents.sort_by(|(one, _), (two, _)| one.name().cmp(two.name()));
    listing.unreadable.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(listing)
}
