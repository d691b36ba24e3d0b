//! Making an agent.
//!
//! Invariant: `agent.json` is written last, so that a half-made home is never an agent; two agents made at once have two ports.

use std::fs;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use super::document::AgentDocument;
use super::file::{AgentError, Loaded, io_error, write};
use super::port;
use crate::atomic;
use crate::clock::iso_time;
use crate::filelock::{CHANGE_WAIT, FileLock};
use crate::paths::{AgentHome, AgentName, Root};
use crate::token;

/// Written into new files; any number is read.
const SCHEMA_VERSION: u64 = 2;

/// What an agent is born with.
#[derive(Debug, Clone)]
pub struct NewAgent {
    /// Its name.
    pub name: AgentName,
    /// Its default model, `provider/id`.
    pub model: Option<String>,
}

/// Makes the home of a new agent, with a port, a token, empty memory files and a forming `agent.json`. Files that are already
/// in the home are kept; an `agent.json`, valid or not, is an error.
pub fn create(root: &Root, new: NewAgent, now: SystemTime) -> Result<(AgentHome, Loaded), AgentError> {
    let home = root.agent(&new.name);
    let agents = root.agents();
    atomic::create_folder(&agents).map_err(io_error("create", &agents))?;
    let _guard = FileLock::acquire(&root.creation_lock(), CHANGE_WAIT)?;
    if fs::symlink_metadata(home.config_json()).is_ok() {
        return Err(AgentError::Exists(new.name));
    }
    let document = document(root, &new, now)?;

    let is_new = fs::symlink_metadata(home.path()).is_err();
    let made = make(&home, &document);
    if made.is_err() && is_new {
        // A home that we made and could not finish is worth nothing; if it stays, the next attempt uses it.
        drop(fs::remove_dir_all(home.path()));
    }
    made.map(|loaded| (home, loaded))
}

fn make(home: &AgentHome, document: &AgentDocument) -> Result<Loaded, AgentError> {
    atomic::make_private(home.path()).map_err(io_error("create", home.path()))?;
    for folder in [home.sessions(), home.workspace()] {
        atomic::make_private(&folder).map_err(io_error("create", &folder))?;
    }
    for file in [home.soul(), home.memory(), home.user()] {
        atomic::create_if_missing(&file, b"")?;
    }
    let mut warnings = Vec::new();
    write(home, document, &mut warnings)?;
    Ok(Loaded { document: document.clone(), warnings })
}

fn document(root: &Root, new: &NewAgent, now: SystemTime) -> Result<AgentDocument, AgentError> {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    set("schemaVersion", SCHEMA_VERSION.into());
    set("name", new.name.as_str().into());
    set("purpose", "".into());
    set("createdAt", iso_time(now).into());
    set("deployedAt", Value::Null);
    set("port", port::draw(root)?.into());
    set("token", token::generate()?.into());
    if let Some(model) = &new.model {
        set("settings", json!({ "defaultModel": model }));
    }
    AgentDocument::check(object).map_err(|problems| AgentError::Invalid { path: root.agent(&new.name).config_json(), problems })
}
