//! Messages and their content blocks, as they stand in session files and cross the wire.
//!
//! Field order is the order of serialisation. Formats: session format version 3 of wolli 0.0.2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::number::Number;

/// Free-form JSON object with its key order kept.
pub type JsonObject = Map<String, Value>;

/// What a person or a tool can say: text or an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum UserBlock {
    #[serde(rename = "text")]
    Text(TextContent),
    #[serde(rename = "image")]
    Image(ImageContent),
}

/// What a model can say: text, thinking, or a call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum AssistantBlock {
    #[serde(rename = "text")]
    Text(TextContent),
    #[serde(rename = "thinking")]
    Thinking(ThinkingContent),
    #[serde(rename = "toolCall")]
    ToolCall(ToolCall),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextContent {
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_signature: Option<String>,
}

/// Thinking of a model. The signature is opaque and must be replayed byte for byte, and only to its own model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingContent {
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageContent {
    /// Base64 without a data-URL prefix.
    pub data: String,
    pub mime_type: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: JsonObject,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
}

impl UserBlock {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), text_signature: None })
    }
}

/// Content that is a plain string or a list of blocks. The daemon writes lists; both are read.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UserContent {
    Text(String),
    Blocks(Vec<UserBlock>),
}

impl<'de> Deserialize<'de> for UserContent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = UserContent;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string or a list of content blocks")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(UserContent::Text(text.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = items.next_element()? {
                    blocks.push(block);
                }
                Ok(UserContent::Blocks(blocks))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl UserContent {
    /// All text of the content, blocks joined without a separator.
    #[must_use]
    pub fn joined_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    UserBlock::Text(text) => Some(text.text.as_str()),
                    UserBlock::Image(_) => None,
                })
                .collect(),
        }
    }

    /// The content as blocks; a plain string becomes one text block.
    #[must_use]
    pub fn to_blocks(&self) -> Vec<UserBlock> {
        match self {
            Self::Text(text) => vec![UserBlock::text(text.clone())],
            Self::Blocks(blocks) => blocks.clone(),
        }
    }
}

/// Tokens and money of one model answer. `input` excludes cached tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub total_tokens: u64,
    pub cost: Cost,
}

/// US dollars per kind of token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub input: Number,
    pub output: Number,
    pub cache_read: Number,
    pub cache_write: Number,
    #[serde(default)]
    pub total: Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    Stop,
    Length,
    ToolUse,
    Error,
    Aborted,
}

impl StopReason {
    /// True for an answer that ended as a failure (`error`, `aborted`): its tool calls are not run.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Aborted)
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role")]
pub enum Message {
    #[serde(rename = "user")]
    User(UserMessage),
    #[serde(rename = "assistant")]
    Assistant(AssistantMessage),
    #[serde(rename = "toolResult")]
    ToolResult(ToolResultMessage),
    #[serde(rename = "bashExecution")]
    BashExecution(BashExecutionMessage),
    #[serde(rename = "custom")]
    Custom(CustomMessage),
    #[serde(rename = "branchSummary")]
    BranchSummary(BranchSummaryMessage),
    #[serde(rename = "compactionSummary")]
    CompactionSummary(CompactionSummaryMessage),
}

/// The `role` of every message.
const ROLES: [&str; 7] = ["user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary"];

impl Message {
    /// Reads a message that a client made. Fields that its role does not have are left out.
    ///
    /// # Errors
    /// Says what is missing or has another type; every message that is read can be stored, read back and sent to a model.
    pub fn from_client(object: JsonObject) -> Result<Self, String> {
        let role = object.get("role").and_then(Value::as_str).unwrap_or_default();
        if !ROLES.contains(&role) {
            return Err(format!("message.role must be one of {}", ROLES.join(", ")));
        }
        let role = role.to_owned();
        serde_json::from_value(Value::Object(object)).map_err(|error| format!("message is no {role} message: {error}"))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    pub content: UserContent,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

impl UserMessage {
    /// A message of one text block and the images after it.
    #[must_use]
    pub fn new(text: impl Into<String>, images: Vec<ImageContent>, timestamp: i64) -> Self {
        let mut blocks = vec![UserBlock::text(text)];
        blocks.extend(images.into_iter().map(UserBlock::Image));
        Self { content: UserContent::Blocks(blocks), timestamp }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    pub content: Vec<AssistantBlock>,
    pub api: String,
    pub provider: String,
    /// The id that was asked for.
    pub model: String,
    pub usage: Usage,
    pub stop_reason: StopReason,
    pub timestamp: i64,
    /// Set when the server reports another model than the one asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

impl AssistantMessage {
    /// An answer without content yet, as it stands when the provider begins to speak.
    #[must_use]
    pub fn begin(model: &crate::model::Model, timestamp: i64) -> Self {
        Self {
            content: Vec::new(),
            api: model.api.clone(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            timestamp,
            response_model: None,
            response_id: None,
            diagnostics: Vec::new(),
            error_message: None,
        }
    }

    /// The tool calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            AssistantBlock::ToolCall(call) => Some(call),
            AssistantBlock::Text(_) | AssistantBlock::Thinking(_) => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    pub tool_call_id: String,
    pub tool_name: String,
    pub content: Vec<UserBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub is_error: bool,
    pub timestamp: i64,
}

/// A command that a person ran in the terminal client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BashExecutionMessage {
    pub command: String,
    pub output: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    pub cancelled: bool,
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_output_path: Option<String>,
    pub timestamp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_from_context: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomMessage {
    pub custom_type: String,
    pub content: UserContent,
    pub display: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    pub timestamp: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummaryMessage {
    pub summary: String,
    pub from_id: String,
    pub timestamp: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummaryMessage {
    pub summary: String,
    pub tokens_before: u64,
    pub timestamp: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Message, ROLES};

    fn read(value: &Value) -> Result<Message, String> {
        Message::from_client(value.as_object().unwrap().clone())
    }

    #[test]
    fn messages_of_clients_are_checked() {
        let usage = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
        for good in [
            json!({"role": "user", "content": "text", "timestamp": 1}),
            json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}], "timestamp": 1}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "x"}], "api": "a", "provider": "p", "model": "m", "usage": usage,
                "stopReason": "stop", "timestamp": 1}),
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": [], "isError": false, "timestamp": 1}),
            json!({"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 0, "cancelled": false, "truncated": false, "timestamp": 1}),
            json!({"role": "custom", "customType": "note", "content": "x", "display": true, "timestamp": 1}),
            json!({"role": "branchSummary", "summary": "s", "fromId": "root", "timestamp": 1}),
            json!({"role": "compactionSummary", "summary": "s", "tokensBefore": 1, "timestamp": 1}),
        ] {
            let message = read(&good).unwrap();
            assert_eq!(serde_json::to_value(&message).unwrap(), good);
            assert!(ROLES.contains(&good["role"].as_str().unwrap()));
        }
        for (bad, problem) in [
            (json!({}), "message.role must be one of user, assistant,"),
            (json!({"role": 7}), "message.role must be one of"),
            (json!({"role": "User", "content": "x", "timestamp": 1}), "message.role must be one of"),
            (json!({"role": "user", "timestamp": 1}), "message is no user message: missing field `content`"),
            (json!({"role": "user", "content": "x"}), "message is no user message: missing field `timestamp`"),
            (json!({"role": "user", "content": 7, "timestamp": 1}), "a string or a list of content blocks"),
            (
                json!({"role": "user", "content": [{"type": "toolCall", "id": "c", "name": "n", "arguments": {}}], "timestamp": 1}),
                "toolCall",
            ),
            (json!({"role": "user", "content": [{"type": "image", "data": "AA=="}], "timestamp": 1}), "mimeType"),
            (json!({"role": "assistant", "content": "x", "timestamp": 1}), "message is no assistant message"),
            (
                json!({"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": "x", "isError": false, "timestamp": 1}),
                "toolResult",
            ),
            (
                json!({"role": "bashExecution", "command": "ls", "output": "a", "cancelled": "no", "truncated": false, "timestamp": 1}),
                "bashExecution",
            ),
        ] {
            let told = read(&bad).unwrap_err();
            assert!(told.contains(problem), "{bad}: {told}");
        }
    }
}
