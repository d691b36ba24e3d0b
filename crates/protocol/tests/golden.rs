//! The bytes of every wire type: each line of a file in `golden/` is read as its type, written again and compared.
//!
//! The lines are written by hand from the wire contract, so a field that is renamed, reordered, added without a line or
//! printed as `null` is found. Every command, event and step has a line.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helper functions, too")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wolli_protocol::command::{Command, Response};
use wolli_protocol::dialog::{DialogAnswer, DialogReceipt, DialogRequest};
use wolli_protocol::entry::{Entry, SessionHeader};
use wolli_protocol::event::{ControlEvent, SessionEvent};
use wolli_protocol::login::LoginRequest;
use wolli_protocol::message::Message;
use wolli_protocol::model::Model;
use wolli_protocol::resource::{ResourceSummary, SlashCommandInfo, ToolInfo};
use wolli_protocol::snapshot::SnapshotFrame;
use wolli_protocol::state::{AgentState, Health, Hello, SessionState};

/// Checks each line of the golden file; gives them back as JSON.
fn check<T: Serialize + DeserializeOwned + JsonSchema + PartialEq + Debug>(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(!lines.is_empty(), "{name} has no lines");
    let schema = schemars::schema_for!(T);
    let defined = schema.as_value().to_string();
    for line in &lines {
        let value: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        assert_eq!(serde_json::to_string(&value).unwrap(), *line, "{name}");
        assert_eq!(serde_json::from_value::<T>(serde_json::from_str(line).unwrap()).unwrap(), value, "{name}, through a JSON tree");
        for key in serde_json::from_str::<Value>(line).unwrap().as_object().unwrap().keys() {
            assert!(defined.contains(&format!("\"{key}\"")), "the schema of {name} does not define {key}");
        }
    }
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn words(lines: &[Value], pointer: &str) -> BTreeSet<String> {
    lines.iter().filter_map(|line| Some(line.pointer(pointer)?.as_str()?.to_owned())).collect()
}

/// The names of an enum's variants, as serde lists them when it is given another.
fn variants<T: DeserializeOwned + Debug>(tag: &str) -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(serde_json::json!({tag: "?", "id": "x"})).unwrap_err().to_string();
    error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn messages() {
    let lines = check::<Message>("message");
    assert_eq!(words(&lines, "/role"), variants::<Message>("role"));
}

#[test]
fn events_in_both_views() {
    for view in ["event-delta", "event-full"] {
        let lines = check::<SessionEvent>(view);
        assert_eq!(words(&lines, "/type"), variants::<SessionEvent>("type"), "{view}");
        let steps = variants::<wolli_protocol::event::AssistantMessageEvent>("type");
        assert_eq!(words(&lines, "/assistantMessageEvent/type"), steps, "{view}");
    }
}

#[test]
fn control_events() {
    let lines = check::<ControlEvent>("control-event");
    assert_eq!(words(&lines, "/type"), variants::<ControlEvent>("type"));
}

#[test]
fn commands() {
    let lines = check::<Command>("command");
    assert_eq!(words(&lines, "/type"), Command::names().map(str::to_owned).collect());
    for line in lines {
        let command = Command::from_json(&line).unwrap();
        assert_eq!(serde_json::to_value(&command).unwrap(), line);
    }
}

#[test]
fn states_and_answers() {
    check::<Hello>("hello");
    check::<SnapshotFrame>("snapshot-frame");
    check::<SessionState>("session-state");
    check::<AgentState>("agent-state");
    check::<Health>("health");
    check::<Response>("response");
}

#[test]
fn dialogs() {
    let lines = check::<DialogRequest>("dialog-request");
    assert_eq!(words(&lines, "/method"), variants::<wolli_protocol::dialog::DialogMethod>("method"));
    let lines = check::<LoginRequest>("login-request");
    assert_eq!(words(&lines, "/method"), variants::<wolli_protocol::login::LoginMethod>("method"));
    check::<DialogAnswer>("dialog-answer");
    check::<DialogReceipt>("dialog-receipt");
}

#[test]
fn files_and_resources() {
    check::<Entry>("entry");
    check::<SessionHeader>("session-header");
    check::<Model>("model");
    check::<ResourceSummary>("resource");
    check::<ToolInfo>("tool-info");
    check::<SlashCommandInfo>("slash-command");
}

#[test]
fn the_schemas_of_the_wire_can_be_exported_together() {
    let mut generator = schemars::SchemaGenerator::default();
    generator.subschema_for::<SessionEvent>();
    generator.subschema_for::<ControlEvent>();
    generator.subschema_for::<Command>();
    generator.subschema_for::<Response>();
    generator.subschema_for::<Hello>();
    generator.subschema_for::<SessionState>();
    generator.subschema_for::<AgentState>();
    generator.subschema_for::<DialogAnswer>();
    let defined: BTreeSet<_> = generator.take_definitions(true).keys().cloned().collect();
    for name in ["Message", "Entry", "SessionState", "DialogRequest", "InFlight", "Model", "SessionEvent", "Hello"] {
        assert!(defined.contains(name), "{name} is not in {defined:?}");
    }
    // Two types of one name would be told apart by a number, and generated clients would show it.
    assert!(!defined.iter().any(|name| name.ends_with(|last: char| last.is_ascii_digit())), "{defined:?}");
}
