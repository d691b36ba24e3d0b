//! What an agent and a session are at one moment: snapshots, and the `hello` that opens a stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::answer::UsageTotals;
use crate::dialog::DialogRequest;
use crate::entry::Entry;
use crate::event::{ToolResult, with_roles};
use crate::ids::{EntryId, FrameId, SessionId};
use crate::message::{AssistantMessage, JsonObject, Message, UserMessage};
use crate::model::{Model, ThinkingLevel};

/// `GET /health`. The proof is for callers that sent a nonce, what follows it for bearers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`.
    pub status: String,
    pub agent: String,
    pub pid: u32,
    /// ISO time.
    pub started_at: String,
    /// HMAC-SHA-256 of the caller's nonce under the agent's token, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// The version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The program's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// Tells builds of one version apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

/// `GET /sessions`, and the `hello` of the control stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentState {
    /// The content of `agent.json`, unknown keys included; `token` is empty.
    pub config: JsonObject,
    /// The agent's home, absolute; tools work there.
    pub cwd: String,
    /// All stored sessions, newest first.
    pub sessions: Vec<SessionSummary>,
    /// How commands are confined; `none` when they run with the user's own rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// ISO time; there in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// A run or a compaction is active.
    pub is_streaming: bool,
    /// Loaded in memory.
    pub live: bool,
    /// What programs marked the session with; there in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// One session at one moment; `get_state`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    pub session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    pub thinking_level: ThinkingLevel,
    pub scoped_models: Vec<ScopedModel>,
    pub is_streaming: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// Length of the list that `get_messages` gives.
    pub message_count: u64,
    /// Messages in the three queues.
    pub pending_message_count: u64,
    /// How commands are confined; `none` when they run with the user's own rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScopedModel {
    pub model: Model,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
}

/// First frame of a session's stream.
///
/// `inFlight` and `entries` are there after a fresh attach or a gap; a resumed stream brings them as frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    #[serde(flatten)]
    pub state: SessionState,
    /// Absent from daemons of wolli 0.0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamPosition>,
    #[serde(default)]
    pub dialogs: Vec<DialogRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// What waits in the queues, if anything does; there when `inFlight` may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// Entries after the one that the client named, on the active branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Entry>>,
    /// More entries follow; read them from `/entries`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries_truncated: Option<bool>,
    /// What the session and the agent have used; for readers that include `usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotals>,
}

/// The three queues of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Queues {
    #[serde(serialize_with = "with_roles")]
    #[schemars(with = "Vec<Message>")]
    pub steer: Vec<UserMessage>,
    #[serde(serialize_with = "with_roles")]
    #[schemars(with = "Vec<Message>")]
    pub follow_up: Vec<UserMessage>,
    pub next_turn: Vec<Message>,
}

impl Queues {
    /// Messages in all of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steer.len() + self.follow_up.len() + self.next_turn.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where a stream stands in the session's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamPosition {
    /// Oldest frame that can still be replayed; `lastId + 1` when there is none.
    pub first_id: FrameId,
    /// Newest frame; `hello` describes the session as of it.
    pub last_id: FrameId,
    /// The frames after the client's `Last-Event-ID` follow.
    pub resumed: bool,
    /// The client asked for frames that are gone.
    pub gap: bool,
}

/// What is being produced right now, as of `stream.lastId`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The entry that the message will become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::event::with_role")]
    #[schemars(with = "Option<crate::message::Message>")]
    pub message: Option<AssistantMessage>,
    /// For tool calls whose arguments still stream: content index to the JSON text so far. A reader that attached
    /// in the middle adds later fragments to it; `message` shows it parsed as far as it goes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub argument_texts: BTreeMap<String, String>,
    /// Tools that run, in the order of their start.
    pub tools: Vec<RunningTool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningTool {
    pub tool_call_id: String,
    pub tool_name: String,
    pub args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_result: Option<ToolResult>,
}

/// Why a session makes no progress at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub kind: WaitingKind,
    /// ISO time.
    pub since: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WaitingKind {
    Approval,
    Dialog,
    RateLimit,
    Retry,
    Compaction,
    Tool,
    Login,
    /// A run was cut off by the end of the process; the next prompt goes on.
    Resume,
}
