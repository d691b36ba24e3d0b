//! Everything one agent is and does: its sessions, turns, tools and memory. Owns the home on disk.
//!
//! | module | owns |
//! |---|---|
//! | [`runtime`] | opens a home, hands out sessions, shuts down in order |
//! | [`session`] | session files, the tree in them, the actor of a resident session |
//! | [`service`] | the port to service managers |
//! | [`embed`] | the engine for programs that want it in their own process |
//! | `turn` | one run: model calls and tool calls until nothing is left to do |
//! | `compaction` | a summary in place of the older part of a history |
//! | [`dialogs`] | questions to the people at a session |
//! | [`hub`] | the log of each session, and its readers |
//! | [`resources`] | skills and prompt templates of the home |
//! | [`tools`] | the built-in tools |
//! | [`prompt`] | the system prompt and the memory files in it |
//!
//! Not here: HTTP, the terminal, service managers.

pub mod agent;
pub mod clock;
mod compaction;
pub mod dialogs;
pub mod embed;
pub mod hub;
pub mod limits;
pub mod prompt;
pub mod resources;
pub mod runtime;
pub mod service;
pub mod session;
pub mod tasks;
pub mod tools;
mod turn;
mod usage;
