//! Questions to the people who are attached to a session, and notices for them.
//!
//! The open questions of a session are part of its log, so that raising one, answering it, attaching and leaving happen in one order
//! for everybody. Invariants: a question is settled once, by whoever comes first, and everyone is told; none is open while
//! nobody is attached; none outlives the future that asked it. Not here: who asks what, and what an answer means.

mod answer;
mod login;
mod open;
mod port;

pub use answer::Rail;
pub use login::LoginDialogs;
pub use port::{Dialogs, Patience};

pub(crate) use answer::{Outcome, answered_id};
pub(crate) use open::{NewDialog, OpenDialog, OpenDialogs, UNKNOWN};

#[cfg(test)]
mod tests;
