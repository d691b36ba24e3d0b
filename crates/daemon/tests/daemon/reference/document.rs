//! The whole document, and its text.

use serde_json::{Map, Value, json};
use wolli_daemon::{ENDPOINTS, VERSION};

use super::components::Components;
use super::operations;

/// The document as the types and the table of routes say it.
///
/// # Panics
/// When a route of the table is not described.
pub(super) fn document() -> Value {
    let mut schemas = Components::new();
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let described = operations::describe(endpoint.method, endpoint.path, &mut schemas);
        let mut operation = described.unwrap_or_else(|| panic!("{} {} is not described", endpoint.method, endpoint.path));
        if endpoint.needs_token {
            operations::guard(&mut operation);
        } else {
            operation["security"] = json!([]);
        }
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.to_lowercase()] = operation;
    }
    paths.sort_keys();
    schemas.add(
        "Error",
        json!({
            "description": "Why a request was not served, for people.",
            "type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"],
        }),
    );
    let responses: Map<String, Value> =
        operations::RESPONSES.iter().map(|name| ((*name).to_owned(), operations::response(name).1)).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "wolli agent daemon",
            "version": VERSION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "One daemon serves one agent, on a port of the loopback interface and on a Unix socket. JSON in, JSON and server-sent events \
                out. `HEAD` is answered as `GET` without a body; every other method of a path is unknown (404, text). Clients ignore fields, frames \
                and values that they do not know.",
        },
        "servers": [{
            "url": "http://127.0.0.1:{port}",
            "variables": {"port": {"default": "20000", "description": "The `port` of the agent's agent.json."}},
        }],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The `token` of the agent's agent.json."}},
            "parameters": {"SessionId": {
                "name": "id", "in": "path", "required": true, "schema": {"type": "string"},
                "description": "The session's id, percent-coded; opaque.",
            }},
            "responses": responses,
            "schemas": schemas.finish(),
        },
    })
}

/// The document's text: one line for each path and each component, so that a change shows what it changed and no more.
pub(super) fn render(document: &Value) -> String {
    let mut text = String::new();
    write(&mut text, document, 3);
    text.push('\n');
    text
}

/// Breaks lines between the members of the outer `levels` objects that hold objects.
fn write(text: &mut String, value: &Value, levels: usize) {
    match value {
        Value::Object(members) if levels > 0 && members.values().any(Value::is_object) => {
            text.push_str("{\n");
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    text.push_str(",\n");
                }
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                let levels = if name.starts_with('/') { 0 } else { levels - 1 };
                write(text, member, levels);
            }
            text.push_str("\n}");
        }
        other => text.push_str(&other.to_string()),
    }
}
