//! From frames to the state of a session: the fold that every client shares.
//!
//! [`SessionView`] takes in `hello` and the frames after it, of either view, and of daemons of wolli 0.0.2, whose
//! `hello` has no position. Invariant: every numbered frame counts once and in order; one that was seen before changes
//! nothing, one that is missing is an error. A message that ended stands in the transcript once, by its entry id.
//! A delta costs its own length. Not here: sockets, reconnecting, anything that a person sees.

mod frame;
mod streaming;
mod view;

pub use crate::state::Queues;
pub use frame::{Reading, read_event};
pub use streaming::{StreamingBlock, StreamingMessage};
pub use view::{Applied, Attached, ReduceError, SessionView, ToolProgress, TranscriptItem};

#[cfg(test)]
pub(crate) mod tests;
