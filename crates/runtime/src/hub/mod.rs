//! One ordered log of events per session, and readers that are cursors on it.
//!
//! The hub numbers each event, encodes it once, keeps it in a ring and folds it into the session's state, all
//! under one short lock. A reader that attaches takes the state and its place in the log in that same lock, so that
//! nothing is told twice and nothing falls between. Publishing never waits for readers: one that falls off the
//! ring loses its connection, not its data.
//!
//! Not here: sockets, files, and who may read.

mod attach;
mod dialogs;
mod frame;
mod full;
mod live;
mod log;
mod pack;
mod snapshot;
#[cfg(test)]
pub(crate) mod testing;

pub use attach::{Attach, Attached, Batch, Cursor, CursorEnd};
pub use frame::{Include, View};
pub use log::Hub;

#[cfg(test)]
mod tests;
