//! The tools of one session, in order, and the way of one call through them.
//!
//! Invariant: no two tools of a set have one name.

use std::collections::HashSet;
use std::sync::Arc;

use wolli_protocol::message::JsonObject;

use super::context::{ToolContext, ToolOutput};
use super::spec::{Execution, Tool, ToolSpec};
use super::{arguments, bash, deploy, edit, find, grep, ls, memory, read, write};

/// How far the agent is, which decides which built-in tools a session gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The agent is not deployed yet: it has `deploy`.
    Forming,
    Deployed,
}

/// Why a set cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    #[error("Duplicate tool name(s): {}", .0.join(", "))]
    DuplicateNames(Vec<String>),
}

/// An ordered registry. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolSet {
    tools: Arc<[Arc<dyn Tool>]>,
}

/// A call that may run.
#[derive(Debug, Clone)]
pub struct Prepared {
    tool: Arc<dyn Tool>,
    arguments: JsonObject,
}

impl ToolSet {
    /// The built-in tools, then `more`.
    ///
    /// # Errors
    /// If two have one name.
    pub fn new(stage: Stage, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let deploy: Option<Arc<dyn Tool>> = (stage == Stage::Forming).then(|| deploy::tool());
        let tools = [Some(memory::tool()), deploy]
            .into_iter()
            .flatten()
            .chain([read::tool(), write::tool(), edit::tool(), ls::tool(), grep::tool(), find::tool(), bash::tool()])
            .chain(more);
        Self::from_tools(tools)
    }

    /// Exactly these tools.
    ///
    /// # Errors
    /// If two have one name.
    pub fn from_tools(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let tools: Arc<[Arc<dyn Tool>]> = tools.into_iter().collect();
        let (mut seen, mut twice) = (HashSet::new(), Vec::new());
        for name in tools.iter().map(|tool| &tool.spec().name) {
            if !seen.insert(name) && !twice.contains(name) {
                twice.push(name.clone());
            }
        }
        if twice.is_empty() { Ok(Self { tools }) } else { Err(ToolSetError::DuplicateNames(twice)) }
    }

    /// Those of the tools whose names are in `names`, in the order of this set; unknown names are ignored.
    #[must_use]
    pub fn only(&self, names: &[String]) -> Self {
        Self { tools: self.tools.iter().filter(|tool| names.contains(&tool.spec().name)).cloned().collect() }
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.specs().map(|spec| spec.name.as_str())
    }

    /// All specs, in order.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| tool.spec())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// Whether a batch of calls of these tools may run at the same time.
    pub fn execution<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Execution {
        let is_sequential = |name| self.get(name).is_some_and(|tool| tool.spec().execution == Execution::Sequential);
        if names.into_iter().any(is_sequential) { Execution::Sequential } else { Execution::Parallel }
    }

    /// Looks the tool up, repairs and checks the arguments.
    ///
    /// # Errors
    /// The result for the model.
    pub fn prepare(&self, name: &str, mut arguments: JsonObject) -> Result<Prepared, ToolOutput> {
        let tool = self.get(name).ok_or_else(|| ToolOutput::error(format!("Tool {name} not found")))?;
        tool.fix_up(&mut arguments);
        arguments::check(name, &tool.spec().parameters, &mut arguments).map_err(ToolOutput::error)?;
        Ok(Prepared { tool: Arc::clone(tool), arguments })
    }
}

impl Prepared {
    pub fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    /// The arguments after coercion.
    #[must_use]
    pub fn arguments(&self) -> &JsonObject {
        &self.arguments
    }

    /// Runs the call; ends soon after `context.cancel` is cancelled. Dropping the future aborts it.
    pub async fn run(self, context: &ToolContext) -> ToolOutput {
        if context.cancel.is_cancelled() {
            return ToolOutput::error(super::ToolFailure::Aborted.to_string());
        }
        self.tool.run(self.arguments, context).await.unwrap_or_else(ToolOutput::from)
    }
}

/// The arguments as the tool's own type. They fit the schema, so a failure is a fault of the schema; it is told, not a panic.
pub(super) fn typed<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T, super::ToolFailure> {
    serde_json::from_value(arguments.into()).map_err(|error| super::ToolFailure::Text(format!("Invalid arguments: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tools::testing::{Home, object};

    #[test]
    fn names_in_order() {
        let forming = ToolSet::new(Stage::Forming, []).unwrap();
        let names: Vec<&str> = forming.names().collect();
        assert_eq!(names, ["memory", "deploy", "read", "write", "edit", "ls", "grep", "find", "bash"]);
        let deployed = ToolSet::new(Stage::Deployed, []).unwrap();
        assert_eq!(deployed.names().count(), 8);
        assert!(deployed.get("deploy").is_none());
        assert_eq!(deployed.only(&["bash".into(), "nope".into(), "read".into()]).names().collect::<Vec<_>>(), ["read", "bash"]);
    }

    #[test]
    fn duplicates_are_refused() {
        let error = ToolSet::new(Stage::Deployed, [read::tool(), bash::tool(), bash::tool()]).unwrap_err();
        assert_eq!(error.to_string(), "Duplicate tool name(s): read, bash");
    }

    #[test]
    fn sequential_tools_make_a_sequential_batch() {
        let set = ToolSet::new(Stage::Forming, []).unwrap();
        assert_eq!(set.execution(["read", "bash", "nope"]), Execution::Parallel);
        assert_eq!(set.execution(["read", "memory"]), Execution::Sequential);
        assert_eq!(set.execution(["deploy"]), Execution::Sequential);
    }

    #[test]
    fn parameters_are_the_known_ones() {
        let set = ToolSet::new(Stage::Forming, []).unwrap();
        let described: Vec<String> = set
            .specs()
            .map(|spec| {
                let is_required = |name: &String| spec.parameters["required"].as_array().is_some_and(|names| names.contains(&json!(name)));
                let properties = spec.parameters["properties"].as_object().unwrap();
                let names: Vec<String> =
                    properties.keys().map(|name| if is_required(name) { format!("{name}*") } else { name.clone() }).collect();
                assert!(properties.values().all(|schema| schema["description"].is_string()), "{} describes its parameters", spec.name);
                assert!(!spec.description.is_empty() && !spec.snippet.is_empty());
                format!("{}: {}", spec.name, names.join(" "))
            })
            .collect();
        assert_eq!(
            described,
            [
                "memory: file* op* content match",
                "deploy: purpose* soul*",
                "read: path* offset limit",
                "write: path* content*",
                "edit: path* edits*",
                "ls: path limit",
                "grep: pattern* path glob ignoreCase literal context limit",
                "find: pattern* path limit",
                "bash: command* timeout target",
            ]
        );
    }

    #[tokio::test]
    async fn unknown_tools_bad_arguments_and_aborts_are_results() {
        let set = ToolSet::new(Stage::Deployed, []).unwrap();
        let unknown = set.prepare("nope", JsonObject::new()).unwrap_err();
        assert_eq!(unknown, ToolOutput::error("Tool nope not found"));
        assert_eq!(unknown.details, Some(json!({})));
        let bad = set.prepare("read", object(json!({"path": {"x": 1}}))).unwrap_err();
        assert!(bad.is_error);
        let home = Home::new();
        let context = home.context();
        context.cancel.cancel();
        for (name, arguments) in [
            ("read", json!({"path": "a"})),
            ("write", json!({"path": "a", "content": "x"})),
            ("edit", json!({"path": "a", "edits": [{"oldText": "a", "newText": "b"}]})),
            ("ls", json!({})),
            ("grep", json!({"pattern": "x"})),
            ("find", json!({"pattern": "*"})),
            ("bash", json!({"command": "echo x > a"})),
            ("memory", json!({"file": "MEMORY", "op": "add", "content": "x"})),
        ] {
            let output = set.prepare(name, object(arguments)).unwrap().run(&context).await;
            assert_eq!(output, ToolOutput::error("Operation aborted"), "{name}");
        }
        assert_eq!(std::fs::read_dir(home.path("")).unwrap().count(), 0);
    }

    #[test]
    fn every_tool_survives_any_kind_of_argument() {
        let set = ToolSet::new(Stage::Forming, []).unwrap();
        for spec in set.specs() {
            for value in [Value::Null, json!(true), json!(-1.5), json!("x"), json!([]), json!({}), json!([{"oldText": 1}])] {
                let keys = spec.parameters["properties"].as_object().unwrap().keys();
                let arguments: JsonObject = keys.map(|key| (key.clone(), value.clone())).collect();
                if let Ok(prepared) = set.prepare(&spec.name, arguments) {
                    assert!(super::super::arguments::check(&spec.name, &spec.parameters, &mut prepared.arguments().clone()).is_ok());
                }
            }
        }
    }
}
