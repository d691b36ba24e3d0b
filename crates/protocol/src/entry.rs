//! Lines of a session file (format version 3 of wolli 0.0.2) as `get_entries` and `/entries` give them.

use schemars::JsonSchema;
use serde::ser::{Error, SerializeMap};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::ids::EntryId;
use crate::message::{Message, UserContent};
use crate::model::ThinkingLevel;

/// The version that session files carry in their header.
pub const SESSION_VERSION: u64 = 3;

/// First line of a session file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionHeader {
    /// Always `session`.
    #[serde(rename = "type")]
    pub kind: String,
    pub version: u64,
    pub id: String,
    /// Creation time, ISO.
    pub timestamp: String,
    /// The workspace path.
    pub cwd: String,
    /// Absolute path of the file that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
}

/// One line after the header. `type` comes first in its JSON, then the fields that all kinds have.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub id: EntryId,
    /// `null` for the first entry of a branch.
    pub parent_id: Option<EntryId>,
    /// ISO time.
    pub timestamp: String,
    #[serde(flatten)]
    pub body: EntryBody,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A derived `flatten` would put the common fields before `type`.
        let body = serde_json::to_value(&self.body).map_err(S::Error::custom)?;
        let fields = body.as_object().ok_or_else(|| S::Error::custom("entry without fields"))?;
        let mut map = serializer.serialize_map(Some(fields.len() + 3))?;
        for (key, value) in fields {
            map.serialize_entry(key, value)?;
            if key == "type" {
                map.serialize_entry("id", &self.id)?;
                map.serialize_entry("parentId", &self.parent_id)?;
                map.serialize_entry("timestamp", &self.timestamp)?;
            }
        }
        map.end()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum EntryBody {
    Message {
        message: Message,
        /// The client's key of the prompt that made this entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    ThinkingLevelChange {
        thinking_level: ThinkingLevel,
    },
    ModelChange {
        provider: String,
        model_id: String,
    },
    ActiveToolsChange {
        active_tool_names: Vec<String>,
    },
    Compaction {
        summary: String,
        first_kept_entry_id: EntryId,
        tokens_before: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_hook: Option<bool>,
    },
    BranchSummary {
        /// An entry id, or `root`.
        from_id: String,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_hook: Option<bool>,
    },
    Custom {
        custom_type: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    CustomMessage {
        custom_type: String,
        content: UserContent,
        display: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    Label {
        target_id: EntryId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    SessionInfo {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Tags {
        tags: BTreeMap<String, String>,
    },
    /// The active position moved; never a parent, never listed.
    Leaf {
        target_id: Option<EntryId>,
    },
    /// A kind that this version does not know; kept in the file, ignored here.
    #[serde(other)]
    Unknown,
}
