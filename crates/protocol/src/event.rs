//! Events of a session, in the two views that clients can ask for.
//!
//! One type serves both views. In view `delta` a frame costs bytes in proportion to what is new: updates carry
//! only the addition, and the end of a turn names its messages by entry id. In view `full` the same events carry
//! whole messages, as wolli 0.0.2 sent them. The optional fields below are the difference.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::dialog::{DialogRequest, DialogResolved};
use crate::ids::EntryId;
use crate::login::LoginRequest;
use crate::message::{AssistantMessage, Message, ToolCall, Usage, UserBlock, UserMessage};
use crate::model::{Model, ThinkingLevel};
use crate::resource::CompactResult;
use crate::state::{ScopedModel, SessionSummary, Waiting};

/// One frame of a session's stream after `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum SessionEvent {
    AgentStart,
    /// The run ended; `messages` is what it added, in order.
    AgentEnd {
        messages: Vec<MessageOrReference>,
    },
    TurnStart,
    /// One model answer and its tool results (in call order) are complete.
    TurnEnd {
        message: MessageOrReference,
        tool_results: Vec<MessageOrReference>,
    },
    MessageStart {
        message: Message,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry_id: Option<EntryId>,
    },
    MessageUpdate {
        assistant_message_event: AssistantMessageEvent,
        /// View `full`: the whole message so far.
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        message: Option<AssistantMessage>,
    },
    /// The message is final and in the session file.
    MessageEnd {
        message: Message,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry_id: Option<EntryId>,
    },
    ToolExecutionStart {
        tool_call_id: String,
        tool_name: String,
        /// As the model gave them, before validation.
        args: Value,
    },
    ToolExecutionUpdate {
        tool_call_id: String,
        tool_name: String,
        /// View `full`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Value>,
        /// View `full`: the whole result so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partial_result: Option<ToolResult>,
        /// View `delta`: text added since the last update.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        appended: Option<String>,
        /// View `delta`: bytes of output left out before `appended`; a reader drops what it has collected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<u64>,
    },
    ToolExecutionEnd {
        tool_call_id: String,
        tool_name: String,
        result: ToolResult,
        is_error: bool,
    },
    /// Full contents of the three queues.
    QueueUpdate {
        #[serde(serialize_with = "with_roles")]
        #[schemars(with = "Vec<Message>")]
        steer: Vec<UserMessage>,
        #[serde(serialize_with = "with_roles")]
        #[schemars(with = "Vec<Message>")]
        follow_up: Vec<UserMessage>,
        next_turn: Vec<Message>,
    },
    ModelUpdate {
        model: Model,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous_model: Option<Model>,
        source: ModelSource,
    },
    ThinkingLevelUpdate {
        level: ThinkingLevel,
        previous_level: ThinkingLevel,
    },
    ScopedModelsUpdate {
        scoped_models: Vec<ScopedModel>,
    },
    /// Notice (`include=waiting`): what the session waits for; `null` when nothing.
    Waiting {
        waiting: Option<Waiting>,
    },
    /// Notice (`include=retry`): a model request failed before it said anything and will be sent again.
    Retry {
        attempt: u32,
        max: u32,
        /// ISO time of the next attempt.
        until: String,
        reason: String,
    },
    /// Notice (`include=compaction`): the older part of the history is being replaced by a summary.
    CompactionStart {
        reason: CompactionReason,
    },
    /// Notice (`include=compaction`). With `result` it succeeded, with `aborted` it was cancelled, with `errorMessage` it failed; with
    /// none of them there was nothing to do.
    CompactionEnd {
        reason: CompactionReason,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<CompactResult>,
        aborted: bool,
        /// The request that did not fit is asked again, in a run without a new prompt.
        will_retry: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// Notice (`include=usage`), after each request to a model that used something: what it used, and the sums with it.
    Usage {
        /// `provider/id`.
        model: String,
        answer: Usage,
        session: Usage,
        /// Of the agent, on this day where the daemon runs.
        today: Usage,
        /// Of the agent.
        total: Usage,
    },
    ExtensionUiRequest(DialogRequest),
    ExtensionUiResolved(DialogResolved),
    /// Notice (`include=login_ui`), in place of the dialog that it is to the other clients.
    LoginUiRequest(LoginRequest),
}

/// Writes user messages with their `role`, as every message on the wire has one.
///
/// # Errors
/// The serializer's.
pub fn with_roles<S: Serializer>(messages: &[UserMessage], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithRole<'a> {
        role: &'static str,
        #[serde(flatten)]
        message: &'a UserMessage,
    }
    serializer.collect_seq(messages.iter().map(|message| WithRole { role: "user", message }))
}

/// Writes an answer with its `role`, as every message on the wire has one.
///
/// # Errors
/// The serializer's.
pub fn with_role<S: Serializer>(message: &Option<AssistantMessage>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithRole<'a> {
        role: &'static str,
        #[serde(flatten)]
        message: &'a AssistantMessage,
    }
    message.as_ref().map(|message| WithRole { role: "assistant", message }).serialize(serializer)
}

/// Writes a tool call with its `type`, as every block on the wire has one.
fn with_type<S: Serializer>(tool_call: &ToolCall, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithType<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        tool_call: &'a ToolCall,
    }
    WithType { kind: "toolCall", tool_call }.serialize(serializer)
}

/// Why a history is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompactionReason {
    /// A client asked for it.
    Manual,
    /// The context came close to what the model takes.
    Threshold,
    /// The provider refused the context as too long.
    Overflow,
}

/// Who changed the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelSource {
    Set,
    Restore,
}

/// A whole message (view `full`) or the entry that holds it (view `delta`: `{"entryId": "..."}`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MessageOrReference {
    Reference(EntryReference),
    Message(Box<Message>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryReference {
    pub entry_id: EntryId,
}

impl From<EntryId> for MessageOrReference {
    fn from(entry_id: EntryId) -> Self {
        Self::Reference(EntryReference { entry_id })
    }
}

impl<'de> Deserialize<'de> for MessageOrReference {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let value = Value::deserialize(deserializer)?;
        if value.get("role").is_some() {
            serde_json::from_value(value).map(Self::Message).map_err(D::Error::custom)
        } else {
            serde_json::from_value(value).map(Self::Reference).map_err(D::Error::custom)
        }
    }
}

/// What a tool gave back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub content: Vec<UserBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminate: Option<bool>,
}

impl ToolResult {
    /// One text block and nothing else.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![UserBlock::text(text)], details: None, terminate: None }
    }
}

/// One step of a streaming answer. `contentIndex` counts the blocks of the message.
///
/// Bounds nest: `X_start`, its deltas, `X_end` for one index before the next block starts, except for
/// providers that end all blocks together when the stream ends. `partial` is there in view `full` only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AssistantMessageEvent {
    TextStart {
        content_index: usize,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    TextDelta {
        content_index: usize,
        delta: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    TextEnd {
        content_index: usize,
        content: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    ThinkingStart {
        content_index: usize,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    ThinkingDelta {
        content_index: usize,
        delta: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    ThinkingEnd {
        content_index: usize,
        content: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    /// View `delta` says which call began; in view `full` that stands in `partial`.
    ToolcallStart {
        content_index: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    /// `delta` is a fragment of the JSON text of the arguments.
    ToolcallDelta {
        content_index: usize,
        delta: String,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
    ToolcallEnd {
        content_index: usize,
        #[serde(serialize_with = "with_type")]
        #[schemars(with = "crate::message::AssistantBlock")]
        tool_call: ToolCall,
        #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "with_role")]
        #[schemars(with = "Option<Message>")]
        partial: Option<AssistantMessage>,
    },
}

impl AssistantMessageEvent {
    #[must_use]
    pub const fn content_index(&self) -> usize {
        match self {
            Self::TextStart { content_index, .. }
            | Self::TextDelta { content_index, .. }
            | Self::TextEnd { content_index, .. }
            | Self::ThinkingStart { content_index, .. }
            | Self::ThinkingDelta { content_index, .. }
            | Self::ThinkingEnd { content_index, .. }
            | Self::ToolcallStart { content_index, .. }
            | Self::ToolcallDelta { content_index, .. }
            | Self::ToolcallEnd { content_index, .. } => *content_index,
        }
    }
}

/// Frames of the agent's control stream after its `hello`. Clients of wolli 0.0.2 take every type that is
/// not one of the first two for a rename, so no type is ever added here for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ControlEvent {
    /// A session became resident.
    SessionAdded {
        session: SessionSummary,
    },
    /// A session is no longer resident; its file stays.
    SessionRemoved {
        session_id: crate::ids::SessionId,
    },
    SessionRenamed {
        session_id: crate::ids::SessionId,
        session_name: String,
    },
    /// Only for clients that include `lifecycle`: the session and its file are gone.
    SessionDeleted {
        session_id: crate::ids::SessionId,
    },
}
