//! Deleting and renaming sessions, whether they are in memory or not.

use std::sync::{Arc, PoisonError};

use wolli_protocol::entry::EntryBody;
use wolli_protocol::event::ControlEvent;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Message;
use wolli_protocol::resource::DiagnosticKind;

use super::open::Runtime;
use super::sessions::{REOPEN_ATTEMPTS, SessionError};
use crate::limits::SESSION_NAME_BYTES;
use crate::session::{CommandError, NewEntry, SessionFile, StoreError, StoredSession};

impl Runtime {
    /// Deletes a session and its files. One that is in memory leaves it first, which ends the streams of its readers. Whoever wants to
    /// open the session meanwhile waits, and is told that there is none. The last session of an agent can be deleted, too.
    ///
    /// Not cancel-safe: once begun, let it finish.
    ///
    /// # Errors
    /// There is no such session; it is at work; or the disk refused, and the session is there as before.
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), SessionError> {
        if self.token.is_cancelled() {
            return Err(SessionError::ShuttingDown);
        }
        let slot = self.slots.slot(id);
        let mut place = slot.lock().await;
        self.stored_session(id).await?;
        if let Some(session) = place.as_ref() {
            match session.retire().await {
                // It was leaving by itself.
                Ok(()) | Err(CommandError::Closed) => {}
                Err(error) => return Err(error.into()),
            }
            session.ended().await;
            *place = None;
        }
        let wanted = id.clone();
        let listing = Arc::clone(&self.listing);
        let removed = self.blocking(move |_| listing.lock().unwrap_or_else(PoisonError::into_inner).remove(&wanted)).await?;
        removed.map_err(SessionError::Delete)?;
        // Only now: if the disk refused, readers can come back to where they were.
        self.services.hubs.forget(id);
        self.services.control.announce(&ControlEvent::SessionDeleted { session_id: id.clone() });
        Ok(())
    }

    /// Names a session and tells the control stream. One that is not in memory stays out of it.
    ///
    /// # Errors
    /// There is no such session, its file cannot be used, or the disk refused.
    pub async fn rename_session(&self, id: &SessionId, name: &str) -> Result<(), SessionError> {
        if name.trim().len() > SESSION_NAME_BYTES {
            return Err(SessionError::NameTooLong);
        }
        for _ in 0..REOPEN_ATTEMPTS {
            let slot = self.slots.slot(id);
            let mut place = slot.lock().await;
            if let Some(session) = place.as_ref().filter(|session| !session.is_closed()).cloned() {
                drop(place);
                match session.rename(name.to_owned()).await {
                    // It left memory meanwhile.
                    Err(CommandError::Closed) => continue,
                    renamed => renamed?,
                }
            } else {
                if let Some(leaving) = place.take() {
                    // Its writer may still be at work; two must never have one file.
                    leaving.ended().await;
                }
                if self.token.is_cancelled() {
                    return Err(SessionError::ShuttingDown);
                }
                let stored = self.stored_session(id).await?;
                let name = name.trim().to_owned();
                // The lock of the place is held, so nobody opens the file meanwhile.
                self.blocking(move |runtime| runtime.rename_stored(&stored, name)).await??;
            }
            self.services.control.announce(&ControlEvent::SessionRenamed { session_id: id.clone(), session_name: name.to_owned() });
            return Ok(());
        }
        Err(SessionError::Command(CommandError::Closed))
    }

    /// Writes the name into the file of a session that is not in memory. Blocking.
    fn rename_stored(&self, stored: &StoredSession, name: String) -> Result<(), SessionError> {
        let (mut file, restored) = SessionFile::open(&stored.path)?;
        for diagnostic in restored.diagnostics {
            self.note_session(DiagnosticKind::Warning, diagnostic, &stored.path);
        }
        let entry = NewEntry::new(EntryBody::SessionInfo { name: Some(name.clone()) });
        file.append(&[entry], true).map_err(|error| {
            let (path, reason) = (stored.path.to_string_lossy().into_owned(), error.to_string());
            SessionError::Command(CommandError::Store(StoreError::Write { path, reason }))
        })?;
        let name = Some(name).filter(|name| !name.is_empty());
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).renamed(&stored.path, name.clone());
        if let Some(hub) = self.services.hubs.get(&stored.id) {
            hub.update(|state| state.session_name = name);
        }
        Ok(())
    }

    /// Adds a message to a session without a run and without a frame.
    ///
    /// # Errors
    /// There is no such session, its file cannot be used, or the disk refused.
    pub async fn append_message(&self, id: &SessionId, message: &Message) -> Result<(), SessionError> {
        self.with_session(id, |session| {
            let message = message.clone();
            async move { session.append_message(message).await }
        })
        .await
    }
}
