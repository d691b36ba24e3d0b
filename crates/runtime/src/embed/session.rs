//! One session's verbs. Each makes the session resident if it is not; a handle costs nothing and keeps nothing in memory.

use std::fmt;

use wolli_protocol::dialog::{DialogAnswer, DialogReceipt};
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::{ImageContent, Message};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::resource::CompactResult;
use wolli_protocol::state::SessionState;

use super::subscription::Subscription;
use crate::dialogs::Rail;
use crate::hub::View;
use crate::runtime::{Runtime, SessionError};
use crate::session::{ClearedQueues, NewPrompt, read_messages};

/// A session of an engine. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    runtime: Runtime,
    id: SessionId,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Session").field(&self.id.as_str()).finish()
    }
}

impl Session {
    pub(super) fn new(runtime: Runtime, id: SessionId) -> Self {
        Self { runtime, id }
    }

    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Events from now on; the first update is the state that they start from. While a subscription lives the session stays resident.
    ///
    /// # Errors
    /// The session's file cannot be used.
    pub async fn subscribe(&self, view: View) -> Result<Subscription, SessionError> {
        Subscription::attach(self.runtime.clone(), self.id.clone(), view).await
    }

    /// Says something: starts a run when none is active, else waits for the run to stop. Returns when it is on disk.
    ///
    /// # Errors
    /// The queue is full, or the disk refused.
    pub async fn follow_up(&self, text: &str) -> Result<(), SessionError> {
        self.follow_up_with(text, Vec::new()).await
    }

    /// Like [`Session::follow_up`], with images.
    ///
    /// # Errors
    /// The queue is full, or the disk refused.
    pub async fn follow_up_with(&self, text: &str, images: Vec<ImageContent>) -> Result<(), SessionError> {
        self.runtime
            .with_session(&self.id, |session| {
                let (text, images) = (text.to_owned(), images.clone());
                async move { session.follow_up(text, images).await }
            })
            .await
    }

    /// Says something as a person at a client would: skills and templates are expanded, and a key makes a repeat harmless.
    ///
    /// # Errors
    /// A run is active and the prompt does not say what to do then, an unknown skill, a full queue, or the disk refused.
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<(), SessionError> {
        self.runtime.prompt(&self.id, prompt).await
    }

    /// Says something to the running turn: the model reads it after the current tool calls.
    ///
    /// # Errors
    /// No run is active, the queue is full, or the disk refused.
    pub async fn steer(&self, text: &str) -> Result<(), SessionError> {
        self.runtime
            .with_session(&self.id, |session| {
                let text = text.to_owned();
                async move { session.steer(text, Vec::new()).await }
            })
            .await
    }

    /// Empties the queues, cancels the run and waits until it has ended.
    ///
    /// # Errors
    /// The session's file cannot be used.
    pub async fn abort(&self) -> Result<ClearedQueues, SessionError> {
        self.runtime.with_session(&self.id, |session| async move { session.abort().await }).await
    }

    /// Returns when nothing runs.
    ///
    /// # Errors
    /// The session's file cannot be used.
    pub async fn wait_for_idle(&self) -> Result<(), SessionError> {
        self.runtime.with_session(&self.id, |session| async move { session.wait_for_idle().await }).await
    }

    /// Replaces the older part of the history by a summary of the model's; `instructions` say what it is to look at.
    ///
    /// # Errors
    /// A run is active, there is nothing to summarise, the model failed, or [`Session::abort_compaction`] came.
    pub async fn compact(&self, instructions: Option<&str>) -> Result<CompactResult, SessionError> {
        self.runtime
            .with_session(&self.id, |session| {
                let instructions = instructions.map(str::to_owned);
                async move { session.compact(instructions).await }
            })
            .await
    }

    /// Stops the compaction that goes on, if one does, whoever began it.
    ///
    /// # Errors
    /// The session's file cannot be used.
    pub async fn abort_compaction(&self) -> Result<(), SessionError> {
        self.runtime.with_session(&self.id, |session| async move { session.abort_compaction().await }).await
    }

    /// Adds a message to the history without a run: at once, or at the end of the turn that goes on. No event tells it.
    ///
    /// # Errors
    /// The disk refused.
    pub async fn append_message(&self, message: &Message) -> Result<(), SessionError> {
        self.runtime.append_message(&self.id, message).await
    }

    /// Switches the model from the next call on, and makes it the agent's default.
    ///
    /// # Errors
    /// The model is unknown or has no credentials, or the disk refused.
    pub async fn set_model(&self, provider: &str, model_id: &str) -> Result<Model, SessionError> {
        self.runtime.set_model(&self.id, provider, model_id).await
    }

    /// Switches the thinking level, clamped to the model; returns the level that is now set.
    ///
    /// # Errors
    /// The disk refused.
    pub async fn set_thinking_level(&self, level: ThinkingLevel) -> Result<ThinkingLevel, SessionError> {
        self.runtime.set_thinking_level(&self.id, level).await
    }

    /// Answers a question that a tool asked through its context; the updates of a subscription bring it. The first answer counts; the
    /// receipt says whether it was this one. With no subscription at all, questions end unanswered at once.
    #[must_use]
    pub fn answer_dialog(&self, answer: &DialogAnswer) -> DialogReceipt {
        self.runtime.answer_dialog(&self.id, Rail::Ui, &serde_json::to_value(answer).unwrap_or_default())
    }

    /// What the session is now.
    ///
    /// # Errors
    /// The session's file cannot be used.
    pub async fn state(&self) -> Result<SessionState, SessionError> {
        Ok(self.runtime.session(&self.id).await?.hub().state())
    }

    /// The messages that the model sees, oldest first.
    ///
    /// # Errors
    /// The session's file cannot be read.
    pub async fn messages(&self) -> Result<Vec<Message>, SessionError> {
        let session = self.runtime.session(&self.id).await?;
        let texts = self.runtime.read_file(std::sync::Arc::clone(session.path()), read_messages).await?;
        // One of a kind that this version does not know is in the file and not in the list.
        Ok(texts.iter().filter_map(|text| serde_json::from_str(text.get()).ok()).collect())
    }
}
