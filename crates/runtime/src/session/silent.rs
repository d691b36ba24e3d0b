//! Changes that write entries without a frame: messages from outside, the name, the model. The caller shows them.
//!
//! Idle: written at once. During a run: kept in the sidecar, and written when the turn ends, so that they never stand between a tool
//! call and its result. Either way the answer comes when the disk has it. The name alone is written at once always: it is not part of
//! the conversation. Invariant: what `get_state` tells of an entry changes when the entry is in the file.

use std::future::Future;

use wolli_protocol::entry::EntryBody;
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, TextContent};

use super::actor::{Actor, Phase, QueueReply};
use super::append::NewEntry;
use super::handle::{CommandError, Reply};
use super::writer::{Durability, StoreError};
use crate::clock::now_millis;
use crate::limits::DEFERRED_ENTRIES;

/// Answers the command once it is known whether the disk has what it asked for.
pub(super) type Answer = Box<dyn FnOnce(Result<(), CommandError>) + Send>;

impl Actor {
    pub(super) fn append_message(&mut self, message: Message, reply: Reply<()>) {
        let entry = NewEntry::message(EntryId::generate(), message, None);
        self.store_silently(vec![entry], reply, ());
    }

    pub(super) fn seed_assistant_message(&mut self, text: String, reply: Reply<AssistantMessage>) {
        let mut message = AssistantMessage::begin(&self.settings.model, now_millis());
        message.content.push(AssistantBlock::Text(TextContent { text, text_signature: None }));
        let entry = NewEntry::message(EntryId::generate(), Message::Assistant(message.clone()), None);
        self.store_silently(vec![entry], reply, message);
    }

    pub(super) fn rename(&mut self, name: &str, reply: Reply<()>) {
        let name = name.trim().to_owned();
        let entry = NewEntry::new(EntryBody::SessionInfo { name: Some(name.clone()) });
        let hub = std::sync::Arc::clone(&self.hub);
        // During a run the newest entry is the run's affair.
        let leaf = matches!(self.phase, Phase::Idle).then(|| entry.id.clone());
        let stored = self.journal.append_then(vec![entry], Durability::Synced, move || {
            hub.update(|state| state.session_name = Some(name).filter(|name| !name.is_empty()));
            if leaf.is_some() {
                hub.set_leaf(leaf);
            }
        });
        self.answer_when(stored, QueueReply::Stored(answer(reply, ())));
    }

    /// Writes entries now when idle, else at the end of the turn; `value` is sent when they are safe.
    pub(super) fn store_silently<T: Send + 'static>(&mut self, entries: Vec<NewEntry>, reply: Reply<T>, value: T) {
        let answer = answer(reply, value);
        if matches!(self.phase, Phase::Idle) {
            self.write_deferred();
            let stored = self.write(entries, Durability::Synced);
            self.answer_when(stored, QueueReply::Stored(answer));
        } else if self.deferred.len() + entries.len() > DEFERRED_ENTRIES {
            answer(Err(CommandError::TooManyChanges(self.deferred.len())));
        } else {
            let ids = entries.iter().map(|entry| entry.id.clone()).collect();
            self.deferred.push(entries);
            let stored = self.journal.store_sidecar(self.sidecar());
            self.sidecar_stale = false;
            self.answer_when(stored, QueueReply::Deferred { ids, answer });
        }
    }

    /// Writes what waited for the end of the turn.
    pub(super) fn write_deferred(&mut self) {
        let entries = self.deferred.take();
        if entries.is_empty() {
            return;
        }
        let stored = self.write(entries, Durability::Written);
        self.answer_when(stored, QueueReply::Flushed);
    }

    /// What waited is in the file now, or waits on; the sidecar has it until the next one is made.
    pub(super) fn flushed(&mut self, stored: Result<(), CommandError>) {
        self.deferred.written(stored.is_ok());
        self.sidecar_stale = true;
        if let Err(error) = stored {
            tracing::error!(%error, "a change of the session was not stored; it stays beside the session file");
            self.hub.tell_error(format!("a change of the session was not stored; it stays beside the session file: {error}"));
        }
    }

    /// The change is safe beside the file, unless the disk refused it; one that went into the file meanwhile counts.
    pub(super) fn put_off(&mut self, ids: &[EntryId], stored: Result<(), CommandError>) -> Result<(), CommandError> {
        if stored.is_err() && self.deferred.remove(ids) { stored } else { Ok(()) }
    }

    fn write(&self, entries: Vec<NewEntry>, durability: Durability) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let hub = std::sync::Arc::clone(&self.hub);
        let leaf = entries.last().map(|entry| entry.id.clone());
        let messages = entries.iter().filter(|entry| matches!(entry.body, EntryBody::Message { .. })).count() as u64;
        self.journal.append_then(entries, durability, move || {
            hub.update(|state| state.message_count += messages);
            hub.set_leaf(leaf);
        })
    }
}

fn answer<T: Send + 'static>(reply: Reply<T>, value: T) -> Answer {
    // The caller may have gone; what it asked for happens all the same.
    Box::new(move |stored| drop(reply.send(stored.map(|()| value))))
}
