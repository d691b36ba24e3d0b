//! The agent's own record: `agent.json` as the runtime sees and changes it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wolli_home::agent::{self, AgentDocument, AgentError, Change};
use wolli_home::paths::AgentHome;

use crate::tools::{AgentFiles, Stage};

/// The agent's home and the newest content of its `agent.json`. Every method that touches the file is blocking.
#[derive(Debug)]
pub struct Agent {
    home: AgentHome,
    document: Mutex<AgentDocument>,
}

impl Agent {
    #[must_use]
    pub fn new(home: AgentHome, document: AgentDocument) -> Self {
        Self { home, document: Mutex::new(document) }
    }

    #[must_use]
    pub fn home(&self) -> &AgentHome {
        &self.home
    }

    fn lock(&self) -> MutexGuard<'_, AgentDocument> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content as it was last read or written.
    #[must_use]
    pub fn document(&self) -> AgentDocument {
        self.lock().clone()
    }

    /// How far the agent is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        if self.lock().deployed_at().is_none() { Stage::Forming } else { Stage::Deployed }
    }

    /// Reads the file again, since other programs change it too; an unreadable one leaves the last content.
    pub fn refresh(&self) -> AgentDocument {
        match agent::load(&self.home) {
            Ok(loaded) => self.lock().clone_from(&loaded.document),
            Err(error) => tracing::warn!(%error, "agent.json was not read again"),
        }
        self.document()
    }

    /// Changes the file under its lock.
    ///
    /// # Errors
    /// The file could not be read or written; nothing changed then.
    pub fn change(&self, change: Change) -> Result<(), AgentError> {
        let loaded = agent::update(&self.home, |document| document.apply(change))?;
        self.lock().clone_from(&loaded.document);
        Ok(())
    }
}

impl Agent {
    /// Changes the file under its lock, as `decide` says from what is in it then; false if it says nothing.
    ///
    /// # Errors
    /// The file could not be read or written; nothing changed then.
    pub fn change_by(&self, decide: impl FnOnce(&AgentDocument) -> Option<Change>) -> Result<bool, AgentError> {
        let mut changed = false;
        let loaded = agent::update(&self.home, |document| {
            if let Some(change) = decide(document) {
                document.apply(change);
                changed = true;
            }
        })?;
        self.lock().clone_from(&loaded.document);
        Ok(changed)
    }
}

impl AgentFiles for Agent {
    fn set_purpose(&self, purpose: &str) -> Result<(), String> {
        self.change(Change::Purpose(purpose.to_owned())).map_err(|error| error.to_string())
    }
}
