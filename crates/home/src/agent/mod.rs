//! `agent.json`, and the life of an agent's home: create, load, change, list, delete.

mod create;
mod delete;
mod document;
mod file;
mod listing;
mod port;

#[cfg(test)]
mod tests;

pub use create::{NewAgent, create};
pub use delete::delete;
pub use document::{AgentDocument, Change};
pub use file::{AgentError, Loaded, load, update};
pub use listing::{Listing, Unreadable, list};
pub use port::{PORT_FIRST, PORT_LAST};
