//! Sessions: their files, the tree of entries in them, and the actor that owns one while it is in memory.

mod actor;
mod append;
mod branch;
mod commands;
mod compact;
mod context;
mod deferred;
mod equipment;
mod file;
mod handle;
mod line;
mod listing;
mod queues;
mod read;
mod remove;
mod repair;
mod repeat;
mod sidecar;
mod silent;
mod window;
mod writer;

pub use crate::compaction::CompactionError;
pub use append::NewEntry;
pub use context::{ContextMessage, to_model_messages};
pub use file::{OpenFileError, SessionFile};
pub use handle::{ClearedQueues, CommandError, NewPrompt, SessionHandle, SubmitBehavior};
pub use listing::{Listing, StoredSession};
pub use read::{EntriesPage, MessageSource, PageError, read_entries, read_messages, read_page};
pub use repair::{Repaired, repair};
pub use writer::{Durability, Journal, StoreError};

#[cfg(test)]
mod tests;

pub(crate) use actor::{RunRequest, SessionParts, TurnSettings, open_session};
pub(crate) use context::context_message;
pub(crate) use file::{Restored, RestoredModel, initial_state};
pub(crate) use read::is_unfinished;
pub(crate) use sidecar::{QueuedMessage, Sidecar};
#[cfg(test)]
pub(crate) use window::PreviousCompaction;
pub(crate) use window::Window;
