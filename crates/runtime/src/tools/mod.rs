//! The built-in tools and the registry through which a turn calls any tool.
//!
//! A call goes `ToolSet::prepare` (look-up, fix-up, coercion, validation) and then `Prepared::run`. Both never panic on what a model sends and
//! give every failure as a [`ToolOutput`]. All file work happens on blocking threads that watch for an abort.
//! Not here: approvals, hooks, events, the session; tools see only their [`ToolContext`].

mod arguments;
mod atomic;
mod bash;
mod blocking;
mod collation;
mod context;
mod control;
mod deploy;
mod edit;
mod environment;
mod failure;
mod find;
mod grep;
mod image;
mod locks;
mod ls;
mod memory;
mod path;
mod read;
mod report;
mod search;
mod set;
mod spec;
mod write;

#[cfg(test)]
mod testing;

pub use context::{AgentFiles, BackgroundCommands, ToolContext, ToolOutput, ToolUpdate, ToolUpdates};
pub use control::ControlState;
pub use environment::tool_environment;
pub use failure::ToolFailure;
pub use set::{Prepared, Stage, ToolSet, ToolSetError};
pub use spec::{Execution, Tool, ToolFuture, ToolSpec};
