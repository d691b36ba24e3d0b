//! A summary in place of the older part of a history, so that a conversation can go on for ever.
//!
//! `need` says when, `cut` where, `conversation` and `prompts` what the model is told, `files` which files are remembered, `plan` puts
//! these together, and `job` does it. Not here: what a run and a client's command make of it.

mod conversation;
mod counts;
mod cut;
mod estimate;
mod files;
mod job;
pub(crate) mod need;
mod plan;
mod prompts;
mod summary;

pub(crate) use counts::Counts;
pub use job::CompactionError;
pub(crate) use job::{Counted, Job, Planned, end_event, guessed_tokens, sizes_text};
