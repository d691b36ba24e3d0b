//! Commands of `POST /sessions/:id/control`: their fields, their check, and the answer's envelope.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::SessionId;
use crate::message::{ImageContent, JsonObject};
use crate::model::ThinkingLevel;

/// A checked command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Command {
    /// Gives the agent something to do. Answers when the prompt is on disk and its run has begun, not when the run ends. While a run is
    /// active, `streamingBehavior` must say where the prompt goes.
    Prompt {
        message: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageContent>,
        /// While a run is active: `steer` or `followUp`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streaming_behavior: Option<String>,
        /// A repeat with the same key gets the first answer and starts nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<String>,
    },
    /// Queues a message that goes in after the running tools, before the next model call. Refused while the session is idle.
    Steer {
        message: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageContent>,
    },
    /// Queues a message that goes in when the run would stop; on an idle session it starts a run.
    FollowUp {
        message: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageContent>,
    },
    /// Stops the run and empties both queues. Answers when the run has ended.
    Abort,
    /// Shortens the context to a summary and the latest messages. Answers when that is done.
    Compact {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        custom_instructions: Option<String>,
    },
    /// Stops a compaction that is under way; succeeds also when there is none.
    AbortCompaction,
    /// Answers when nothing runs any more, queued messages included; at once if nothing does.
    WaitForIdle,
    /// Empties both queues and leaves the run alone.
    ClearQueue,
    /// Makes a new session. Refused while the agent is forming.
    CreateSession,
    /// Reads everything anew that the agent is made of.
    Reload,
    /// Ends the birth of a forming agent. Answers with the state of a fresh session.
    Deploy,
    /// Ends the daemon, after this answer is out.
    Shutdown,
    /// The session at this moment, as in `hello`.
    GetState,
    /// The conversation as the model sees it.
    GetMessages,
    /// What can be called with a slash.
    GetCommands,
    /// The whole session file, all branches.
    GetEntries,
    /// How much the agent has, and what was wrong while it was loaded.
    GetResourceSummary,
    /// The tools of the session, and which of them the model may call.
    GetToolInfo,
    /// The services that the agent is connected to.
    GetIntegrationInfo,
    /// The skills that were found.
    GetSkills,
    /// The plugins that are configured.
    GetPlugins,
    /// The files that stand in the system prompt.
    GetContextInfo,
    /// Adds an answer that no model gave. No frame tells of it.
    SeedAssistantMessage { text: String },
    /// Adds a message to the conversation without a run. No frame tells of it.
    AppendMessage { message: JsonObject },
    /// Installs a plugin, then reloads.
    InstallPlugin { source: String },
    /// Removes a plugin, then reloads.
    RemovePlugin { source: String },
    /// Updates one plugin, or all, then reloads.
    UpdatePlugins {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// Sets up the integrations of a plugin, with dialogs on this session.
    OnboardPlugin { source: String },
    /// How hard the model thinks from now on; also the default of later sessions. A level that the model does not have is replaced by
    /// one near it.
    SetThinkingLevel { level: ThinkingLevel },
    /// Which model answers from now on; also the default of later sessions.
    SetModel { provider: String, model_id: String },
    /// Models whose provider has credentials.
    GetAvailableModels,
    /// Which models this session switches between: patterns, or none for all.
    SetScopedModels { enabled_model_ids: Vec<String> },
    /// Which models later sessions switch between; without the field the setting is removed.
    SetEnabledModels {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        enabled_models: Option<Vec<String>>,
    },
    /// Logs in to a provider, with dialogs on this session. Answers when the flow has ended.
    Login { provider: String, auth_type: AuthType },
    /// Ends the open dialogs of a login.
    LoginCancel,
    /// Forgets the stored credential of a provider.
    Logout { provider: String },
    /// Providers that one can log in to.
    GetLoginProviders {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        auth_type: Option<AuthType>,
    },
    /// Providers whose credential is stored.
    GetLogoutProviders,
    /// Renames a session of the agent: this one, or another.
    RenameSession { target_session_id: SessionId, session_name: String },
    /// Deletes a session of the agent and its file.
    DeleteSession { target_session_id: SessionId },
    /// Questions that are open.
    GetDialogs,
    /// Tokens and money.
    GetUsage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    Oauth,
    ApiKey,
}

/// Why a request is no command. The text goes to the client as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("Unknown command: {0}")]
    Unknown(String),
    #[error("Invalid {command}: {field} must be {expected}")]
    Field { command: &'static str, field: String, expected: &'static str },
    #[error("Invalid {command}: {problem}")]
    Shape { command: &'static str, problem: String },
}

/// What a field of a command must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Texts,
    Object,
    Images,
    Level,
    AuthType,
}

impl Kind {
    const fn expected(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Texts => "an array of strings",
            Self::Object => "an object",
            Self::Images => "an array of images ({\"type\":\"image\",\"data\":<base64>,\"mimeType\":<string>})",
            Self::Level => "one of off, minimal, low, medium, high, xhigh",
            Self::AuthType => "\"oauth\" or \"api_key\"",
        }
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Texts => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            Self::Object => value.is_object(),
            Self::Images => value.as_array().is_some_and(|items| {
                items
                    .iter()
                    .all(|item| item.get("data").is_some_and(Value::is_string) && item.get("mimeType").is_some_and(Value::is_string))
            }),
            Self::Level => value.as_str().and_then(ThinkingLevel::parse).is_some(),
            Self::AuthType => matches!(value.as_str(), Some("oauth" | "api_key")),
        }
    }
}

struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
}

const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

/// Every command with the fields that are checked before anything happens.
const COMMANDS: &[(&str, &[Field])] = &[
    (
        "prompt",
        &[
            required("message", Kind::Text),
            optional("images", Kind::Images),
            optional("streamingBehavior", Kind::Text),
            optional("idempotencyKey", Kind::Text),
        ],
    ),
    ("steer", &[required("message", Kind::Text), optional("images", Kind::Images)]),
    ("follow_up", &[required("message", Kind::Text), optional("images", Kind::Images)]),
    ("abort", &[]),
    ("compact", &[optional("customInstructions", Kind::Text)]),
    ("abort_compaction", &[]),
    ("wait_for_idle", &[]),
    ("clear_queue", &[]),
    ("create_session", &[]),
    ("reload", &[]),
    ("deploy", &[]),
    ("shutdown", &[]),
    ("get_state", &[]),
    ("get_messages", &[]),
    ("get_commands", &[]),
    ("get_entries", &[]),
    ("get_resource_summary", &[]),
    ("get_tool_info", &[]),
    ("get_integration_info", &[]),
    ("get_skills", &[]),
    ("get_plugins", &[]),
    ("get_context_info", &[]),
    ("seed_assistant_message", &[required("text", Kind::Text)]),
    ("append_message", &[required("message", Kind::Object)]),
    ("install_plugin", &[required("source", Kind::Text)]),
    ("remove_plugin", &[required("source", Kind::Text)]),
    ("update_plugins", &[optional("source", Kind::Text)]),
    ("onboard_plugin", &[required("source", Kind::Text)]),
    ("set_thinking_level", &[required("level", Kind::Level)]),
    ("set_model", &[required("provider", Kind::Text), required("modelId", Kind::Text)]),
    ("get_available_models", &[]),
    ("set_scoped_models", &[required("enabledModelIds", Kind::Texts)]),
    ("set_enabled_models", &[optional("enabledModels", Kind::Texts)]),
    ("login", &[required("provider", Kind::Text), required("authType", Kind::AuthType)]),
    ("login_cancel", &[]),
    ("logout", &[required("provider", Kind::Text)]),
    ("get_login_providers", &[optional("authType", Kind::AuthType)]),
    ("get_logout_providers", &[]),
    ("rename_session", &[required("targetSessionId", Kind::Text), required("sessionName", Kind::Text)]),
    ("delete_session", &[required("targetSessionId", Kind::Text)]),
    ("get_dialogs", &[]),
    ("get_usage", &[]),
];

impl Command {
    /// The `type` of every command.
    pub fn names() -> impl Iterator<Item = &'static str> {
        COMMANDS.iter().map(|(name, _)| *name)
    }

    /// Reads a request body. Unknown fields are ignored; `null` counts as absent.
    ///
    /// # Errors
    /// Names the first field that is missing or has another type; nothing has happened then.
    pub fn from_json(body: &Value) -> Result<Self, CommandError> {
        let kind = body.get("type").and_then(Value::as_str);
        let Some((name, fields)) = kind.and_then(|kind| COMMANDS.iter().find(|(name, _)| *name == kind)) else {
            let shown = match body.get("type") {
                None => "undefined".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            return Err(CommandError::Unknown(shown));
        };
        let mut checked = JsonObject::new();
        checked.insert("type".into(), Value::String((*name).to_owned()));
        for field in *fields {
            match body.get(field.name) {
                None | Some(Value::Null) if !field.required => {}
                Some(value) if field.kind.accepts(value) => {
                    checked.insert(field.name.to_owned(), value.clone());
                }
                _ => return Err(CommandError::Field { command: name, field: field.name.to_owned(), expected: field.kind.expected() }),
            }
        }
        serde_json::from_value(Value::Object(checked)).map_err(|error| CommandError::Shape { command: name, problem: error.to_string() })
    }
}

/// Answer to a command. HTTP status is 200 in both cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    /// Echo of the request's `id`, whatever JSON it is; `Some(Value::Null)` prints `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Always `response`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Echo of the request's `type`, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Value>,
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Response {
    /// The success arm for `request`.
    #[must_use]
    pub fn success(request: &Value, data: Option<Value>) -> Self {
        Self { success: true, data, ..Self::failure(request, String::new()) }.without_error()
    }

    /// The error arm for `request`.
    #[must_use]
    pub fn failure(request: &Value, error: String) -> Self {
        Self {
            id: request.get("id").cloned(),
            kind: "response".into(),
            command: request.get("type").cloned(),
            success: false,
            data: None,
            error: Some(error),
        }
    }

    /// The answer to a body that is no JSON.
    #[must_use]
    pub fn malformed() -> Self {
        Self {
            id: None,
            kind: "response".into(),
            command: Some(Value::String("unknown".into())),
            success: false,
            data: None,
            error: Some("Malformed JSON body.".into()),
        }
    }

    fn without_error(mut self) -> Self {
        self.error = None;
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Command, Response};

    #[test]
    fn a_bad_field_is_named() {
        for (body, text) in [
            (json!({"type": "prompt"}), "Invalid prompt: message must be a string"),
            (json!({"type": "prompt", "message": 3}), "Invalid prompt: message must be a string"),
            (json!({"type": "set_model", "provider": "x"}), "Invalid set_model: modelId must be a string"),
            (
                json!({"type": "set_thinking_level", "level": "banana"}),
                "Invalid set_thinking_level: level must be one of off, minimal, low, medium, high, xhigh",
            ),
            (json!({"type": "nope"}), "Unknown command: nope"),
            (json!({}), "Unknown command: undefined"),
            (json!([1]), "Unknown command: undefined"),
            (json!({"type": 7}), "Unknown command: 7"),
        ] {
            assert_eq!(Command::from_json(&body).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn every_command_in_the_table_is_a_variant() {
        for name in Command::names() {
            let body = json!({
                "type": name, "message": if name == "append_message" { json!({}) } else { json!("m") }, "text": "t", "source": "s",
                "level": "low", "provider": "p", "modelId": "m", "enabledModelIds": [], "authType": "oauth",
                "targetSessionId": "s", "sessionName": "n",
            });
            let command = Command::from_json(&body).unwrap();
            assert_eq!(serde_json::to_value(&command).unwrap()["type"], name);
        }
    }

    #[test]
    fn the_id_is_echoed_whatever_it_is() {
        for id in [json!(1), json!({"a": 1}), json!(null), json!("")] {
            let response = Response::success(&json!({"type": "abort", "id": id}), None);
            assert_eq!(serde_json::to_value(&response).unwrap()["id"], id);
        }
        let text = serde_json::to_string(&Response::success(&json!({"id": "r1", "type": "get_state"}), Some(json!({})))).unwrap();
        assert_eq!(text, r#"{"id":"r1","type":"response","command":"get_state","success":true,"data":{}}"#);
    }
}
