//! What people put into an agent's home for it: skills and prompt templates; and what is there that we do not load.
//!
//! Invariant: `Resources` is complete when it exists and never changes; a reload makes another. Loading never fails: what is wrong is a
//! diagnostic. Everything that reads files is blocking and bounded. Not here: sessions, and when a reload happens.

mod filters;
mod front_matter;
mod ignored;
mod invocation;
mod load;
mod placeholders;
pub(crate) mod plugins;
mod scan;
mod skill;
mod template;
mod text;
mod unsupported;

pub use invocation::InvocationError;
pub(crate) use load::{Places, Resources};
