//! One line of a session file, read as far as the tree needs it.
//!
//! Message bodies are skipped over here: opening a session of a hundred thousand entries must not build them all.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use wolli_protocol::entry::{SESSION_VERSION, SessionHeader};

/// Why a line is not an entry. Texts are those of wolli 0.0.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("is not valid JSON")]
    NotJson,
    #[error("is not a valid session entry")]
    NotEntry,
    #[error("is missing entry type")]
    MissingType,
    #[error("is missing entry id")]
    MissingId,
    #[error("has invalid parentId")]
    InvalidParent,
    #[error("is missing timestamp")]
    MissingTimestamp,
    #[error("has invalid targetId")]
    InvalidTarget,
}

/// What kind of entry a line is, with what the tree needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Message {
        role: MessageRole,
        idempotency_key: Option<String>,
    },
    ModelChange {
        provider: String,
        model_id: String,
    },
    ThinkingLevelChange {
        level: String,
    },
    Compaction {
        first_kept: String,
    },
    /// A summary of another branch; an empty one adds nothing to the context.
    BranchSummary {
        empty: bool,
    },
    CustomMessage,
    SessionInfo {
        name: Option<String>,
    },
    Leaf {
        target: Option<String>,
    },
    /// Everything that neither the context nor the position depends on.
    Other,
}

impl LineKind {
    /// For a message of the turn: whether the model has to speak after it.
    pub(super) fn awaits_model(&self) -> Option<bool> {
        match self {
            Self::Message { role, .. } => match role {
                MessageRole::User | MessageRole::ToolResult => Some(true),
                MessageRole::Assistant { calls_tools } => Some(*calls_tools),
                // Put there by a person or a program, whatever the turn was at.
                MessageRole::Other => None,
            },
            _ => None,
        }
    }
}

/// Who speaks, as far as it says whether a turn is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageRole {
    User,
    /// `true` if it stopped to call tools.
    Assistant {
        calls_tools: bool,
    },
    ToolResult,
    Other,
}

/// One entry. What every line has is borrowed from it: a large file has a hundred thousand of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) parent: Option<Cow<'a, str>>,
    pub(super) kind: LineKind,
    /// Provider and id of the model that an answer came from.
    pub(super) model: Option<(Cow<'a, str>, Cow<'a, str>)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLine<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    parent_id: Option<Option<Cow<'a, str>>>,
    #[serde(borrow, default)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    target_id: Option<Option<Cow<'a, str>>>,
    #[serde(borrow, default)]
    message: Option<RawMessage<'a>>,
    #[serde(borrow, default)]
    idempotency_key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    provider: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking_level: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    first_kept_entry_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    summary: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMessage<'a> {
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    provider: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
}

/// Tells a key that holds `null` from one that is absent.
#[expect(clippy::option_option, reason = "absent, null and a value are three things here")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Cow<'de, str>>>, D::Error> {
    Option::<Cow<'de, str>>::deserialize(deserializer).map(Some)
}

/// Reads one entry line (without its line break).
pub(super) fn parse_line(line: &[u8]) -> Result<Line<'_>, LineError> {
    let text = std::str::from_utf8(line).map_err(|_| LineError::NotJson)?;
    let raw: RawLine<'_> = match serde_json::from_str(text) {
        Ok(raw) if text.trim_start().starts_with('{') => raw,
        // A list would be read as the fields in order.
        Ok(_) => return Err(LineError::NotEntry),
        Err(error) if error.is_data() => return Err(LineError::NotEntry),
        Err(_) => return Err(LineError::NotJson),
    };
    let kind = raw.kind.ok_or(LineError::MissingType)?;
    let id = raw.id.filter(|id| !id.is_empty()).ok_or(LineError::MissingId)?;
    // An empty parent also ends the walk.
    let parent = raw.parent_id.ok_or(LineError::InvalidParent)?.filter(|parent| !parent.is_empty());
    if raw.timestamp.is_none_or(|timestamp| timestamp.is_empty()) {
        return Err(LineError::MissingTimestamp);
    }
    let mut model = None;
    let kind = match kind.as_ref() {
        "message" => {
            let message = raw.message.ok_or(LineError::NotEntry)?;
            let role = role(&message);
            if matches!(role, MessageRole::Assistant { .. }) {
                model = message.provider.zip(message.model);
            }
            LineKind::Message { role, idempotency_key: raw.idempotency_key.map(Cow::into_owned) }
        }
        "model_change" => match (raw.provider, raw.model_id) {
            (Some(provider), Some(model_id)) => LineKind::ModelChange { provider: provider.into_owned(), model_id: model_id.into_owned() },
            _ => LineKind::Other,
        },
        "thinking_level_change" => {
            raw.thinking_level.map_or(LineKind::Other, |level| LineKind::ThinkingLevelChange { level: level.into_owned() })
        }
        "compaction" => LineKind::Compaction { first_kept: raw.first_kept_entry_id.unwrap_or_default().into_owned() },
        "branch_summary" => LineKind::BranchSummary { empty: raw.summary.is_none_or(|summary| summary.is_empty()) },
        "custom_message" => LineKind::CustomMessage,
        "session_info" => LineKind::SessionInfo { name: raw.name.map(Cow::into_owned) },
        "leaf" => LineKind::Leaf { target: raw.target_id.ok_or(LineError::InvalidTarget)?.map(Cow::into_owned) },
        _ => LineKind::Other,
    };
    Ok(Line { id, parent, kind, model })
}

fn role(message: &RawMessage<'_>) -> MessageRole {
    match message.role.as_deref() {
        Some("user") => MessageRole::User,
        Some("assistant") => MessageRole::Assistant { calls_tools: message.stop_reason.as_deref() == Some("toolUse") },
        Some("toolResult") => MessageRole::ToolResult,
        _ => MessageRole::Other,
    }
}

/// Reads the first line of a session file; the error is the reason in the words of wolli 0.0.2.
pub(super) fn parse_header(line: &[u8]) -> Result<SessionHeader, &'static str> {
    const INVALID: &str = "first line is not a valid session header";
    let value: serde_json::Value = serde_json::from_slice(line).map_err(|_| INVALID)?;
    if value.get("type").and_then(serde_json::Value::as_str) != Some("session") {
        return Err(INVALID);
    }
    if value.get("version").and_then(serde_json::Value::as_u64) != Some(SESSION_VERSION) {
        return Err("unsupported session version");
    }
    for (key, reason) in [
        ("id", "session header is missing id"),
        ("timestamp", "session header is missing timestamp"),
        ("cwd", "session header is missing cwd"),
    ] {
        if value.get(key).and_then(serde_json::Value::as_str).is_none_or(str::is_empty) {
            return Err(reason);
        }
    }
    if value.get("parentSession").is_some_and(|parent| !parent.is_string()) {
        return Err("session header parentSession must be a string");
    }
    serde_json::from_value(value).map_err(|_| INVALID)
}

#[cfg(test)]
mod tests {
    use super::{LineError, LineKind, MessageRole, parse_header, parse_line};

    #[test]
    fn lines_are_read_as_far_as_needed() {
        let line = br#"{"type":"message","id":"01a22c23","parentId":null,"timestamp":"t","message":{"role":"assistant","content":[{"type":"text","text":"x"}],"provider":"p","model":"m","stopReason":"toolUse"}}"#;
        let line = parse_line(line).unwrap();
        assert_eq!((line.parent, line.model), (None, Some(("p".into(), "m".into()))));
        assert_eq!(line.kind, LineKind::Message { role: MessageRole::Assistant { calls_tools: true }, idempotency_key: None });
        let leaf = parse_line(br#"{"type":"leaf","id":"a","parentId":"b","timestamp":"t","targetId":null}"#).unwrap();
        assert_eq!(leaf.kind, LineKind::Leaf { target: None });
        let unknown = parse_line(br#"{"type":"later","id":"a","parentId":"","timestamp":"t"}"#).unwrap();
        assert_eq!((unknown.kind, unknown.parent), (LineKind::Other, None));
    }

    #[test]
    fn each_defect_has_its_reason() {
        for (line, error) in [
            (&b"{\"type\":\"mess"[..], LineError::NotJson),
            (b"\0\0\0", LineError::NotJson),
            (b"{\"type\":\"x\",\"id\":\"a\",\"parentId\":null,\"timestamp\":\"\xff\"}", LineError::NotJson),
            (b"[1]", LineError::NotEntry),
            (br#"{"id":"a"}"#, LineError::MissingType),
            (br#"{"type":"x","parentId":null}"#, LineError::MissingId),
            (br#"{"type":"x","id":"","parentId":null}"#, LineError::MissingId),
            (br#"{"type":"x","id":"a","timestamp":"t"}"#, LineError::InvalidParent),
            (br#"{"type":"x","id":"a","parentId":null}"#, LineError::MissingTimestamp),
            (br#"{"type":"leaf","id":"a","parentId":null,"timestamp":"t"}"#, LineError::InvalidTarget),
            (br#"{"type":"message","id":"a","parentId":null,"timestamp":"t"}"#, LineError::NotEntry),
        ] {
            assert_eq!(parse_line(line).unwrap_err(), error, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn headers_are_checked() {
        let good = br#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/w"}"#;
        assert_eq!(parse_header(good).unwrap().id, "s");
        for (line, reason) in [
            (&b"x"[..], "first line is not a valid session header"),
            (br#"{"type":"session","version":2,"id":"s","timestamp":"t","cwd":"/w"}"#, "unsupported session version"),
            (br#"{"type":"session","version":3,"timestamp":"t","cwd":"/w"}"#, "session header is missing id"),
            (
                br#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/w","parentSession":null}"#,
                "session header parentSession must be a string",
            ),
        ] {
            assert_eq!(parse_header(line).unwrap_err(), reason);
        }
    }
}
