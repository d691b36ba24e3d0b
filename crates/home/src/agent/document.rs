//! The content of `agent.json`: a JSON object of which we know some keys and keep all.
//!
//! Invariant: an [`AgentDocument`] is valid; unknown keys and the order of keys survive every change. Pure: no file is touched.

use std::fmt;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::clock::iso_time;
use crate::json;
use crate::reading::is_blank;

/// A valid `agent.json`.
#[derive(Clone, PartialEq)]
pub struct AgentDocument {
    object: Map<String, Value>,
    port: u16,
}

/// One change of `agent.json`, applied to what is in the file at that moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Marks the agent as deployed since this time, if it is still forming.
    Deploy(SystemTime),
    /// The one-line purpose.
    Purpose(String),
    /// `settings.defaultModel`: `provider/id`.
    DefaultModel(String),
    /// `settings.defaultThinkingLevel`.
    DefaultThinkingLevel(String),
    /// `settings.enabledModels`; `None` removes the key.
    EnabledModels(Option<Vec<String>>),
    /// `settings.plugins`.
    Plugins(Vec<Value>),
    /// `settings.compaction.enabled`.
    CompactionEnabled(bool),
    /// `settings.terminal.clearOnShrink`.
    ClearOnShrink(bool),
}

impl AgentDocument {
    /// Parses and checks; the error lists every problem as `<pointer or root>: <message>; ...`.
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        if is_blank(content) {
            return Err("root: the file is blank".to_owned());
        }
        json::object(content).map_err(|problem| format!("root: {problem}")).and_then(Self::check)
    }

    /// Checks the keys that must be there and their types.
    pub(crate) fn check(object: Map<String, Value>) -> Result<Self, String> {
        let mut problems = Vec::new();
        let mut expect = |key: &str, required: bool, kind: &str, good: fn(&Value) -> bool| match object.get(key) {
            Some(value) if good(value) => {}
            Some(_) => problems.push(format!("/{key}: must be {kind}")),
            None if required => problems.push(format!("root: must have required property {key}")),
            None => {}
        };
        expect("schemaVersion", true, "number", Value::is_number);
        expect("name", true, "string", Value::is_string);
        expect("purpose", true, "string", Value::is_string);
        expect("createdAt", true, "string", Value::is_string);
        expect("port", true, "an integer from 1 to 65535", |value| as_port(value).is_some());
        expect("token", true, "string", Value::is_string);
        expect("deployedAt", false, "string or null", |value| value.is_string() || value.is_null());
        expect("settings", false, "object", Value::is_object);
        match object.get("port").and_then(as_port) {
            Some(port) if problems.is_empty() => Ok(Self { object, port }),
            _ => Err(problems.join("; ")),
        }
    }

    /// The name as it stands in the file; the folder's name is what counts.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// The one-line purpose; empty while the agent is forming.
    pub fn purpose(&self) -> &str {
        self.text("purpose")
    }

    /// ISO time of creation.
    pub fn created_at(&self) -> &str {
        self.text("createdAt")
    }

    /// ISO time of deployment; `None` while forming.
    pub fn deployed_at(&self) -> Option<&str> {
        Some(self.text("deployedAt")).filter(|at| !at.is_empty())
    }

    /// The daemon's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The bearer token: a secret.
    pub fn token(&self) -> &str {
        self.text("token")
    }

    /// The agent's own tier of settings.
    pub fn settings(&self) -> Option<&Map<String, Value>> {
        self.object.get("settings").and_then(Value::as_object)
    }

    /// The whole object, token included.
    pub fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// The object as clients may see it: the token is `""`.
    pub fn public_object(&self) -> Map<String, Value> {
        let mut object = self.object.clone();
        object.insert("token".to_owned(), Value::String(String::new()));
        object
    }

    /// The text of the file: two spaces of indentation, a newline at the end.
    pub fn to_text(&self) -> String {
        // A map of strings and values that came from JSON always serialises.
        let mut text = serde_json::to_string_pretty(&self.object).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Applies one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Deploy(at) => {
                if self.deployed_at().is_none() {
                    self.set("deployedAt", Value::String(iso_time(at)));
                }
            }
            Change::Purpose(purpose) => self.set("purpose", Value::String(purpose)),
            Change::DefaultModel(model) => self.set_setting("defaultModel", Value::String(model)),
            Change::DefaultThinkingLevel(level) => self.set_setting("defaultThinkingLevel", Value::String(level)),
            Change::EnabledModels(Some(models)) => self.set_setting("enabledModels", models.into()),
            Change::EnabledModels(None) => {
                if let Some(settings) = self.object.get_mut("settings").and_then(Value::as_object_mut) {
                    // A plain removal would put the last key into the gap.
                    settings.shift_remove("enabledModels");
                }
            }
            Change::Plugins(plugins) => self.set_setting("plugins", plugins.into()),
            Change::CompactionEnabled(enabled) => self.change_settings(|settings| {
                change_at(settings, "compaction", |compaction| set(compaction, "enabled", enabled.into()));
            }),
            Change::ClearOnShrink(clear) => self.change_settings(|settings| {
                change_at(settings, "terminal", |terminal| set(terminal, "clearOnShrink", clear.into()));
            }),
        }
    }

    fn text(&self, key: &str) -> &str {
        self.object.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn set(&mut self, key: &str, value: Value) {
        set(&mut self.object, key, value);
    }

    fn set_setting(&mut self, key: &str, value: Value) {
        self.change_settings(|settings| set(settings, key, value));
    }

    fn change_settings(&mut self, change: impl FnOnce(&mut Map<String, Value>)) {
        change_at(&mut self.object, "settings", change);
    }
}

impl fmt::Debug for AgentDocument {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentDocument").field(&self.public_object()).finish()
    }
}

fn set(object: &mut Map<String, Value>, key: &str, value: Value) {
    object.insert(key.to_owned(), value);
}

/// Changes the object below `key`, in its place; whatever else is there gives way to an object.
fn change_at(object: &mut Map<String, Value>, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut inner = match object.get_mut(key).map(Value::take) {
        Some(Value::Object(inner)) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    set(object, key, Value::Object(inner));
}

/// JavaScript knows one kind of number: 33911.0 is a port too.
pub(super) fn as_port(value: &Value) -> Option<u16> {
    let number = value.as_f64()?;
    let port = number as u16;
    (port != 0 && f64::from(port) == number).then_some(port)
}
