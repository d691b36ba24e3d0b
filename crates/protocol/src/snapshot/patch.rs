//! What differs between two snapshots, and how a difference is taken in. Pure.
//!
//! Invariant: every field of a snapshot is in the list below; one that was not would go over from one run to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shape::UniversalSnapshot;
use crate::message::JsonObject;

/// A step from one snapshot to another. `full` stands for itself; else the texts grow, then `set` overwrites, with `null` for
/// what was cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotPatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Box<UniversalSnapshot>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub set: JsonObject,
}

/// A patch that a newer or broken daemon sent.
#[derive(Debug, thiserror::Error)]
#[error("patch sets {key} to what it cannot be: {error}")]
pub struct PatchError {
    pub key: String,
    pub error: serde_json::Error,
}

macro_rules! fields {
    ($($name:ident $field:ident $key:literal,)*) => {
        /// A field of a snapshot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field { $($name,)* }

        impl Field {
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(super) const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            fn differs(self, a: &UniversalSnapshot, b: &UniversalSnapshot) -> bool {
                match self { $(Self::$name => a.$field != b.$field,)* }
            }

            /// The value for `set`; `null` for an absent one.
            pub(super) fn value(self, snapshot: &UniversalSnapshot) -> Value {
                // Our shapes have nothing that JSON cannot say.
                match self { $(Self::$name => serde_json::to_value(&snapshot.$field).unwrap_or(Value::Null),)* }
            }

            fn assign(self, snapshot: &mut UniversalSnapshot, value: Value) -> Result<(), serde_json::Error> {
                match self { $(Self::$name => snapshot.$field = serde_json::from_value(value)?,)* }
                Ok(())
            }
        }

        /// Fails to compile when a field is missing from the list.
        #[cfg(test)]
        pub(super) fn every_field_is_listed(snapshot: &UniversalSnapshot) {
            let UniversalSnapshot { $($field: _,)* } = snapshot;
        }
    };
}

fields! {
    Phase phase "phase",
    TaskId task_id "taskId",
    SessionId session_id "sessionId",
    Agent agent "agent",
    Model model "model",
    Effort effort "effort",
    Prompt prompt "prompt",
    Text text "text",
    Reasoning reasoning "reasoning",
    Activity activity "activity",
    Plan plan "plan",
    ToolCalls tool_calls "toolCalls",
    SubAgents sub_agents "subAgents",
    Usage usage "usage",
    Artifacts artifacts "artifacts",
    Interactions interactions "interactions",
    Queued queued "queued",
    Compaction compaction "compaction",
    Error error "error",
    Incomplete incomplete "incomplete",
    Anchor anchor "anchor",
    StartedAt started_at "startedAt",
    UpdatedAt updated_at "updatedAt",
}

impl SnapshotPatch {
    /// A patch that stands for itself.
    #[must_use]
    pub fn full(snapshot: UniversalSnapshot) -> Self {
        Self { full: Some(Box::new(snapshot)), ..Self::default() }
    }

    /// Changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.full.is_none() && self.append_text.is_none() && self.append_reasoning.is_none() && self.set.is_empty()
    }

    pub(super) fn set(&mut self, field: Field, snapshot: &UniversalSnapshot) {
        self.set.insert(field.key().to_owned(), field.value(snapshot));
    }
}

/// What turns `previous` into `next`. Never a `full` one.
#[must_use]
pub fn diff(previous: &UniversalSnapshot, next: &UniversalSnapshot) -> SnapshotPatch {
    let mut patch = SnapshotPatch::default();
    for field in Field::ALL.iter().copied() {
        let append = match field {
            Field::Text => Some((&previous.text, &next.text, &mut patch.append_text)),
            Field::Reasoning => Some((&previous.reasoning, &next.reasoning, &mut patch.append_reasoning)),
            _ => None,
        };
        let Some((before, after, append)) = append else {
            if field.differs(previous, next) {
                patch.set(field, next);
            }
            continue;
        };
        // Absent text is empty text.
        let (before, after) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        match after.strip_prefix(before) {
            Some("") => {}
            Some(suffix) => *append = Some(suffix.to_owned()),
            None => patch.set(field, next),
        }
    }
    patch
}

/// Takes a patch in. Without a snapshot it starts from the empty one. Keys that this version does not know are passed over.
///
/// # Errors
/// A key has a value of another kind.
pub fn apply(previous: Option<UniversalSnapshot>, patch: SnapshotPatch) -> Result<UniversalSnapshot, PatchError> {
    if let Some(full) = patch.full {
        return Ok(*full);
    }
    let mut snapshot = previous.unwrap_or_default();
    if let Some(text) = patch.append_text {
        snapshot.text.get_or_insert_default().push_str(&text);
    }
    if let Some(text) = patch.append_reasoning {
        snapshot.reasoning.get_or_insert_default().push_str(&text);
    }
    for (key, value) in patch.set {
        if let Some(field) = Field::ALL.iter().find(|field| field.key() == key) {
            field.assign(&mut snapshot, value).map_err(|error| PatchError { key, error })?;
        }
    }
    Ok(snapshot)
}
