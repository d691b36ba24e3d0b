//! What a tool is: its description for the model, and how it is run.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use wolli_protocol::message::JsonObject;
use wolli_protocol::resource::{SourceInfo, ToolInfo};

use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;

/// Whether calls of one answer may run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    Parallel,
    /// One such call in an answer makes all calls of that answer run one after another.
    Sequential,
}

/// What the model, clients and the system prompt are told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    /// For people.
    pub label: String,
    /// For the model, with the definition.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// One line for the list of tools in the system prompt.
    pub snippet: String,
    /// Advice for the system prompt; equal lines of several tools are said once.
    pub guidelines: Vec<String>,
    pub execution: Execution,
}

impl ToolSpec {
    /// The entry of this (built-in) tool in lists for clients.
    #[must_use]
    pub fn info(&self) -> ToolInfo {
        ToolInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            prompt_guidelines: (!self.guidelines.is_empty()).then(|| self.guidelines.clone()),
            source_info: SourceInfo::builtin(&self.name),
        }
    }
}

/// A running call.
pub type ToolFuture<'a> = BoxFuture<'a, Result<ToolOutput, ToolFailure>>;

/// A tool: built in, or of a tool server.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Repairs arguments that models are known to get wrong, before they are checked.
    fn fix_up(&self, _arguments: &mut JsonObject) {}

    /// Runs a call whose arguments fit the schema. Ends soon after `context.cancel` is cancelled. Dropping the future aborts the call.
    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a>;
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tool({})", self.spec().name)
    }
}

/// A spec of a built-in tool, from texts.
pub(super) fn builtin(
    name: &str,
    label: &str,
    execution: Execution,
    description: &str,
    parameters: Value,
    snippet: &str,
    guidelines: &[&str],
) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        label: label.to_owned(),
        description: description.to_owned(),
        parameters,
        snippet: snippet.to_owned(),
        guidelines: guidelines.iter().map(|&line| line.to_owned()).collect(),
        execution,
    }
}
