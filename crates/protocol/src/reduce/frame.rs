//! Reads the data of a frame, with room for what a newer daemon may send.

use serde::Deserialize;

use crate::event::SessionEvent;

/// Every `type` that [`SessionEvent`] knows.
const KNOWN: &[&str] = &[
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "queue_update",
    "model_update",
    "thinking_level_update",
    "scoped_models_update",
    "waiting",
    "retry",
    "compaction_start",
    "compaction_end",
    "usage",
    "extension_ui_request",
    "extension_ui_resolved",
    "login_ui_request",
];

/// What the data of a frame turned out to be.
#[derive(Debug)]
pub enum Reading {
    Event(Box<SessionEvent>),
    /// A type of a newer daemon, or no object at all; nothing to do.
    Unknown {
        kind: String,
    },
    /// A known type whose fields cannot be read.
    Malformed {
        kind: String,
        error: serde_json::Error,
    },
}

/// Reads the JSON text of one frame.
#[must_use]
pub fn read_event(data: &str) -> Reading {
    #[derive(Deserialize)]
    struct Type {
        #[serde(rename = "type", default)]
        kind: String,
    }
    let error = match serde_json::from_str::<SessionEvent>(data) {
        Ok(event) => return Reading::Event(Box::new(event)),
        Err(error) => error,
    };
    let kind = serde_json::from_str::<Type>(data).map(|object| object.kind).unwrap_or_default();
    if KNOWN.contains(&kind.as_str()) { Reading::Malformed { kind, error } } else { Reading::Unknown { kind } }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, Reading, read_event};

    #[test]
    fn every_known_type_is_an_event_and_no_other_is() {
        // The list of variants that serde itself gives.
        let error = serde_json::from_str::<crate::event::SessionEvent>(r#"{"type":"?"}"#).unwrap_err().to_string();
        let listed: Vec<_> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, KNOWN, "{error}");
    }

    #[test]
    fn unknown_types_are_told_from_broken_ones() {
        assert!(matches!(read_event(r#"{"type":"turn_start","more":1}"#), Reading::Event(_)));
        for (data, kind) in [(r#"{"type":"later_kind"}"#, "later_kind"), ("[]", ""), ("{}", ""), ("", ""), ("7", "")] {
            assert!(matches!(read_event(data), Reading::Unknown { kind: found } if found == kind), "{data}");
        }
        for data in [r#"{"type":"message_end"}"#, r#"{"type":"queue_update","steer":1}"#] {
            assert!(matches!(read_event(data), Reading::Malformed { .. }), "{data}");
        }
    }
}
