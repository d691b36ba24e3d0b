//! What others hold of a resident session: its mailbox, its log, and where its file is.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::{AssistantMessage, ImageContent, Message};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::resource::CompactResult;
use wolli_protocol::state::ScopedModel;

use super::read::MessageSource;
use super::writer::StoreError;
use crate::compaction::CompactionError;
use crate::dialogs::Dialogs;
use crate::hub::Hub;
use crate::limits::IDEMPOTENCY_KEY_BYTES;
use crate::tools::ToolSet;

/// What to do with a prompt while a run is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitBehavior {
    /// Deliver after the current turn's tool calls.
    Steer,
    /// Deliver when the run would otherwise stop.
    FollowUp,
}

/// A prompt as a client gave it.
#[derive(Clone, Debug, Default)]
pub struct NewPrompt {
    pub text: String,
    pub images: Vec<ImageContent>,
    pub behavior: Option<SubmitBehavior>,
    /// A repeat with the same key gets the first answer and starts nothing.
    pub idempotency_key: Option<String>,
}

/// Why a command did not happen. The texts go to clients; those of wolli 0.0.2 are kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandError {
    #[error("Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.")]
    Ambiguous,
    #[error("the session is at work; abort its run first")]
    Busy,
    #[error("Cannot steer while idle")]
    SteerWhileIdle,
    #[error("the queue is full ({0} messages wait); wait for the run or clear the queue")]
    QueueFull(usize),
    #[error("Invalid prompt: idempotencyKey must have at most {IDEMPOTENCY_KEY_BYTES} bytes")]
    KeyTooLong,
    #[error("{0} changes of the session wait for the end of the turn already; try again when it is over")]
    TooManyChanges(usize),
    #[error("the session is overloaded: {0} commands wait already; try again")]
    Overloaded(usize),
    #[error("compact() requires idle harness")]
    CompactWhileBusy,
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session left memory while the command was on its way; asking again opens it.
    #[error("the session is closed")]
    Closed,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, CommandError>>;

/// What an actor does for others.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        prompt: NewPrompt,
        reply: Reply<()>,
    },
    /// Whether a prompt with this key was accepted.
    Repeat {
        key: String,
        reply: Reply<bool>,
    },
    Steer {
        text: String,
        images: Vec<ImageContent>,
        reply: Reply<()>,
    },
    FollowUp {
        text: String,
        images: Vec<ImageContent>,
        reply: Reply<()>,
    },
    Abort {
        reply: Reply<ClearedQueues>,
    },
    Compact {
        instructions: Option<String>,
        reply: Reply<CompactResult>,
    },
    AbortCompaction {
        reply: Reply<()>,
    },
    ClearQueue {
        reply: Reply<ClearedQueues>,
    },
    WaitForIdle {
        reply: Reply<()>,
    },
    SetModel {
        model: Box<Model>,
        reply: Reply<()>,
    },
    SetThinkingLevel {
        level: ThinkingLevel,
        reply: Reply<ThinkingLevel>,
    },
    SeedAssistantMessage {
        text: String,
        reply: Reply<AssistantMessage>,
    },
    AppendMessage {
        message: Box<Message>,
        reply: Reply<()>,
    },
    Rename {
        name: String,
        reply: Reply<()>,
    },
    /// What a reload brought.
    Equip {
        tools: Arc<ToolSet>,
        reply: Reply<()>,
    },
    SetScopedModels {
        models: Vec<ScopedModel>,
        reply: Reply<()>,
    },
    Tools {
        reply: Reply<Arc<ToolSet>>,
    },
    /// Leaves memory for good, if nothing is at work.
    Retire {
        reply: Reply<()>,
    },
}

/// What was taken out of the queues, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClearedQueues {
    pub steer: Vec<Message>,
    pub follow_up: Vec<Message>,
}

/// A resident session. Cheap to clone; holding one does not keep the session in memory.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    id: SessionId,
    mailbox: mpsc::Sender<Command>,
    hub: Arc<Hub>,
    path: Arc<Path>,
    messages: MessageSource,
    /// Cancelled when the actor has ended and its file is closed.
    ended: CancellationToken,
}

impl SessionHandle {
    pub(crate) fn new(
        id: SessionId,
        mailbox: mpsc::Sender<Command>,
        hub: Arc<Hub>,
        path: Arc<Path>,
        messages: MessageSource,
        ended: CancellationToken,
    ) -> Self {
        Self { id, mailbox, hub, path, messages, ended }
    }

    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session's log and state.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Asks and tells the people at the session. Questions end when the session leaves memory.
    #[must_use]
    pub fn dialogs(&self) -> Dialogs {
        Dialogs::new(Arc::clone(&self.hub), self.ended.clone())
    }

    /// The session file.
    #[must_use]
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Finds messages by entry id.
    #[must_use]
    pub fn messages(&self) -> &MessageSource {
        &self.messages
    }

    /// True once the session is leaving memory.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Returns when the session has left memory and its file is closed.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Starts a run or queues the prompt; returns once its entry or its place in the queue is on disk and the
    /// run is registered, not when the run ends.
    ///
    /// Cancel-safe: dropping the future does not withdraw the prompt.
    ///
    /// # Errors
    /// A run is active and the prompt does not say what to do then; the disk refused; see [`CommandError`].
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<(), CommandError> {
        self.call(|reply| Command::Prompt { prompt, reply }).await
    }

    /// Whether a prompt with this key was accepted before; waits for one that is about to be. Cancel-safe.
    ///
    /// # Errors
    /// The one that was about to be accepted was refused, or the session is closed or overloaded.
    pub async fn is_repeat(&self, key: String) -> Result<bool, CommandError> {
        self.call(|reply| Command::Repeat { key, reply }).await
    }

    /// Queues a message for delivery after the current turn. Cancel-safe like [`SessionHandle::prompt`].
    ///
    /// # Errors
    /// No run is active, the queue is full, or the disk refused.
    pub async fn steer(&self, text: String, images: Vec<ImageContent>) -> Result<(), CommandError> {
        self.call(|reply| Command::Steer { text, images, reply }).await
    }

    /// Queues a message for when the run would stop; starts a run when none is active. Cancel-safe like [`SessionHandle::prompt`].
    ///
    /// # Errors
    /// The queue is full, or the disk refused.
    pub async fn follow_up(&self, text: String, images: Vec<ImageContent>) -> Result<(), CommandError> {
        self.call(|reply| Command::FollowUp { text, images, reply }).await
    }

    /// Empties the queues, cancels the run and waits until it has ended.
    ///
    /// # Errors
    /// The session is closed or overloaded.
    pub async fn abort(&self) -> Result<ClearedQueues, CommandError> {
        self.call(|reply| Command::Abort { reply }).await
    }

    /// Puts a summary in place of the older part of the history; returns when that is on disk. `instructions` say what the summary
    /// should look at above all. Cancel-safe: dropping the future does not stop it.
    ///
    /// # Errors
    /// A run or a compaction is active, there is nothing to summarise, the model gave no summary, or it was cancelled.
    pub async fn compact(&self, instructions: Option<String>) -> Result<CompactResult, CommandError> {
        self.call(|reply| Command::Compact { instructions, reply }).await
    }

    /// Stops the compaction that goes on, if one does, whoever began it.
    ///
    /// # Errors
    /// The session is closed or overloaded.
    pub async fn abort_compaction(&self) -> Result<(), CommandError> {
        self.call(|reply| Command::AbortCompaction { reply }).await
    }

    /// Empties the queues without touching the run.
    ///
    /// # Errors
    /// The session is closed or overloaded, or the disk refused.
    pub async fn clear_queue(&self) -> Result<ClearedQueues, CommandError> {
        self.call(|reply| Command::ClearQueue { reply }).await
    }

    /// Returns when no run and no compaction is active. A failed run is an ended run.
    ///
    /// # Errors
    /// The session is closed or overloaded.
    pub async fn wait_for_idle(&self) -> Result<(), CommandError> {
        self.call(|reply| Command::WaitForIdle { reply }).await
    }

    /// Switches the model from the next model call on. The caller has checked that the model can be used.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub async fn set_model(&self, model: Model) -> Result<(), CommandError> {
        self.call(|reply| Command::SetModel { model: Box::new(model), reply }).await
    }

    /// Switches the thinking level, clamped to the model; returns the level that is now set.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub async fn set_thinking_level(&self, level: ThinkingLevel) -> Result<ThinkingLevel, CommandError> {
        self.call(|reply| Command::SetThinkingLevel { level, reply }).await
    }

    /// Writes a message as if the model had said it, without a frame; the caller shows it.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub async fn seed_assistant_message(&self, text: String) -> Result<AssistantMessage, CommandError> {
        self.call(|reply| Command::SeedAssistantMessage { text, reply }).await
    }

    /// Adds a message to the conversation, without a run and without a frame. Returns when it is safe on disk: in the file, or, while a
    /// run is active, beside it until the turn ends.
    ///
    /// Cancel-safe: dropping the future does not withdraw the message.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub async fn append_message(&self, message: Message) -> Result<(), CommandError> {
        self.call(|reply| Command::AppendMessage { message: Box::new(message), reply }).await
    }

    /// Makes the session leave memory although readers are attached. It takes no command any more when this returns; wait for
    /// [`SessionHandle::ended`] before touching its file.
    ///
    /// # Errors
    /// [`CommandError::Busy`] while something is at work, and nothing happened; or the session is overloaded or closed already.
    pub(crate) async fn retire(&self) -> Result<(), CommandError> {
        self.call(|reply| Command::Retire { reply }).await
    }

    /// Sets the session's name.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub async fn rename(&self, name: String) -> Result<(), CommandError> {
        self.call(|reply| Command::Rename { name, reply }).await
    }

    /// Gives the session these tools from its next turn on, and looks up its model again. Cancel-safe: dropping the future does not
    /// withdraw it.
    ///
    /// # Errors
    /// The disk refused, or the session is closed or overloaded.
    pub(crate) async fn equip(&self, tools: Arc<ToolSet>) -> Result<(), CommandError> {
        self.call(|reply| Command::Equip { tools, reply }).await
    }

    /// Sets the models that the session switches between, for as long as it is resident.
    ///
    /// # Errors
    /// The session is closed or overloaded.
    pub async fn set_scoped_models(&self, models: Vec<ScopedModel>) -> Result<(), CommandError> {
        self.call(|reply| Command::SetScopedModels { models, reply }).await
    }

    /// The tools of the session's next turn.
    ///
    /// # Errors
    /// The session is closed or overloaded.
    pub async fn tools(&self) -> Result<Arc<ToolSet>, CommandError> {
        self.call(|reply| Command::Tools { reply }).await
    }

    /// Hands a command over without waiting for room, then waits for its answer.
    async fn call<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.try_send(command(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandError::Overloaded(crate::limits::SESSION_MAILBOX),
            mpsc::error::TrySendError::Closed(_) => CommandError::Closed,
        })?;
        answer.await.map_err(|_| CommandError::Closed)?
    }
}
