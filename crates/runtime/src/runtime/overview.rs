//! The agent and all its sessions at one moment.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use wolli_protocol::ids::SessionId;
use wolli_protocol::resource::DiagnosticKind;
use wolli_protocol::state::{AgentState, SessionSummary};

use super::open::Runtime;
use super::sessions::{CONFINEMENT, SessionError};
use crate::session::StoredSession;

/// What this process knows of a session that it has opened.
struct Opened {
    name: Option<String>,
    is_streaming: bool,
}

impl Runtime {
    /// A session that cannot be listed must not go without a word: whoever misses it learns which file to mend.
    pub(super) fn note_strangers(&self, files: &[PathBuf]) {
        for path in files {
            let message = "the file is not listed: no session header can be read from its first line".to_owned();
            self.note_session(DiagnosticKind::Warning, message, path);
        }
    }

    /// The agent and all its sessions, newest first.
    ///
    /// # Errors
    /// The sessions folder cannot be read.
    pub async fn agent_state(&self) -> Result<AgentState, SessionError> {
        let read = self.blocking(|runtime| {
            let (stored, unsaved, strangers) = {
                let mut listing = runtime.listing.lock().unwrap_or_else(PoisonError::into_inner);
                (listing.refresh_names(), listing.take_unsaved(), listing.take_strangers())
            };
            runtime.note_strangers(&strangers);
            (stored, unsaved, runtime.services.agent.refresh().public_object())
        });
        let (stored, unsaved, config) = read.await?;
        if let Some((path, content)) = unsaved {
            // Nobody waits for it, and nothing is lost without it.
            self.tasks().spawn_blocking(move || {
                if let Err(error) = wolli_home::atomic::replace(&path, &content) {
                    tracing::debug!(%error, "the index of sessions was not written");
                }
            });
        }
        let stored = stored.map_err(SessionError::Listing)?;
        let (mut opened, live) = (self.opened(), self.resident());
        let summarize = |stored: &StoredSession| {
            let is_live = live.contains(&stored.id);
            let (session_name, is_streaming) = match opened.remove(&stored.id) {
                // It has been in memory, so this is newer than what the file was last seen with.
                Some(Opened { name, is_streaming }) => (name, is_live && is_streaming),
                None => (stored.name.clone(), false),
            };
            SessionSummary {
                session_id: stored.id.clone(),
                session_name,
                created_at: Some(stored.created_at.clone()),
                is_streaming,
                live: is_live,
                tags: stored.tags.clone(),
            }
        };
        let sessions = stored.iter().map(summarize).collect();
        let cwd = self.services.agent.home().path().to_string_lossy().into_owned();
        Ok(AgentState { config, cwd, sessions, confinement: Some(CONFINEMENT.into()) })
    }

    fn opened(&self) -> HashMap<SessionId, Opened> {
        let state = |hub: &Arc<crate::hub::Hub>| {
            let opened = hub.with_state(|state| Opened { name: state.session_name.clone(), is_streaming: state.is_streaming });
            (hub.session_id().clone(), opened)
        };
        self.services.hubs.all().iter().map(state).collect()
    }

    fn resident(&self) -> std::collections::HashSet<SessionId> {
        let slots = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot whose lock is taken is about to hold an open session.
        let resident = slots
            .iter()
            .filter(|(_, slot)| slot.try_lock().map_or(true, |handle| handle.as_ref().is_some_and(|handle| !handle.is_closed())));
        resident.map(|(id, _)| id.clone()).collect()
    }
}
