//! Tools as every provider takes them: valid names, each once, and a schema that is an object schema.
//!
//! A name that providers would refuse is rewritten; [`ToolNames`] turns it back when the model calls the tool.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use wolli_protocol::message::JsonObject;

use crate::request::ToolSpec;

/// Longest tool name that all providers take.
const NAME_LIMIT: usize = 64;

/// A tool that is ready to be written for a provider.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WireTool<'a> {
    pub(crate) name: String,
    pub(crate) description: &'a str,
    /// An object schema.
    pub(crate) schema: JsonObject,
}

/// From names on the wire to the names of the tools, for those that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolNames(HashMap<String, String>);

impl ToolNames {
    /// The tool that the model means by `name`.
    pub(crate) fn original(&self, name: &str) -> String {
        self.0.get(name).map_or(name, String::as_str).to_owned()
    }
}

/// The tools for the wire and the way back to their names. The second tool of a name is left out.
pub(crate) fn wire_tools<'a>(
    tools: &'a [ToolSpec],
    mut relaxed: impl FnMut(usize, &str, &ToolSpec) -> bool,
) -> (Vec<WireTool<'a>>, ToolNames) {
    let mut seen = HashSet::new();
    let mut names = ToolNames::default();
    let mut wire: Vec<WireTool<'a>> = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = wire_name(&tool.name);
        if !seen.insert(name.clone()) {
            tracing::warn!(tool = %tool.name, "a second tool of this name is not offered to the model");
            continue;
        }
        if name != tool.name {
            names.0.insert(name.clone(), tool.name.clone());
        }
        let schema = if relaxed(wire.len(), &name, tool) { empty_schema() } else { object_schema(&tool.parameters) };
        wire.push(WireTool { name, description: &tool.description, schema });
    }
    (wire, names)
}

/// The name of a tool as all providers take it: letters, digits, `_` and `-`, one to 64 of them.
pub(crate) fn wire_name(name: &str) -> String {
    let name: String =
        name.chars().take(NAME_LIMIT).map(|it| if it.is_ascii_alphanumeric() || matches!(it, '_' | '-') { it } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn empty_schema() -> JsonObject {
    object_schema(&Value::Null)
}

/// The schema with what every provider asks for: `type` is `object`, `properties` is an object.
fn object_schema(parameters: &Value) -> JsonObject {
    let mut schema = parameters.as_object().cloned().unwrap_or_default();
    if schema.get("type") != Some(&json!("object")) {
        if !schema.contains_key("properties") {
            // A schema of another type can describe no arguments.
            schema = JsonObject::new();
        }
        schema.insert("type".into(), json!("object"));
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".into(), json!({}));
    }
    if schema.get("required").is_some_and(|required| !is_string_list(required)) {
        schema.remove("required");
    }
    schema
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}
