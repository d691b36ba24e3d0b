//! The commands of a session, one method each.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use wolli_home::token::random_hex;
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::command::{AuthType, Command};
use wolli_protocol::dialog::DialogRequest;
use wolli_protocol::entry::Entry;
use wolli_protocol::message::{AssistantMessage, ImageContent, JsonObject, Message, UserMessage};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::resource::{
    AuthSelectorProvider, CompactResult, ConfiguredPlugin, ContextInfo, IntegrationInfo, OnboardServiceResult, ResourceSummary, Skill,
    SlashCommandInfo, ToolInfo,
};
use wolli_protocol::state::SessionState;

use super::SessionHandle;
use crate::error::ClientError;

/// How long a command that is answered at once may take; a session may have to be opened for it first.
const ACK_LIMIT: Duration = Duration::from_secs(60);

/// Random bytes in the key of a prompt.
const KEY_BYTES: usize = 16;

/// A prompt. Made from a text, then extended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    text: String,
    images: Vec<ImageContent>,
    while_streaming: Option<&'static str>,
    key: Option<String>,
}

impl<T: Into<String>> From<T> for Prompt {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Prompt {
    /// Adds an image; `data` is base64.
    #[must_use]
    pub fn image(mut self, mime_type: impl Into<String>, data: impl Into<String>) -> Self {
        self.images.push(ImageContent { data: data.into(), mime_type: mime_type.into() });
        self
    }

    /// While a run is active: goes in before the next model call.
    #[must_use]
    pub const fn or_steer(mut self) -> Self {
        self.while_streaming = Some("steer");
        self
    }

    /// While a run is active: goes in when the run would stop.
    #[must_use]
    pub const fn or_follow_up(mut self) -> Self {
        self.while_streaming = Some("followUp");
        self
    }

    /// Gives the prompt a key: prompts of one key are one prompt, also after a restart of either side. Without it a key
    /// is made up, which covers broken connections.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

/// Messages that [`SessionHandle::abort`] took out of the queues.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbortedQueues {
    pub cleared_steer: Vec<UserMessage>,
    pub cleared_follow_up: Vec<UserMessage>,
}

/// Messages that [`SessionHandle::clear_queue`] took out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClearedQueues {
    pub steering: Vec<UserMessage>,
    pub follow_up: Vec<UserMessage>,
}

/// The tools of a session, and which of them the model may call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolInfos {
    pub tools: Vec<ToolInfo>,
    pub active_tool_names: Vec<String>,
}

/// Takes one field out of an answer.
macro_rules! listed {
    ($handle:ident, $command:expr, $field:ident: $kind:ty) => {{
        #[derive(Deserialize)]
        struct Listed {
            $field: $kind,
        }
        $handle.read_command::<Listed>(&$command).await.map(|listed| listed.$field)
    }};
}

/// All of these fail with [`ClientError::Command`] and the daemon's text when it refuses, and wait up to 30 s for a
/// daemon that is away. Those that change something fail with [`ClientError::Interrupted`] when the connection breaks
/// in between; the others, and prompts, are sent again.
impl SessionHandle {
    /// Reading twice is reading once.
    async fn read_command<T: serde::de::DeserializeOwned>(&self, command: &Command) -> Result<T, ClientError> {
        self.call(command, true, Some(ACK_LIMIT)).await
    }

    /// Setting twice is setting once.
    async fn set_command(&self, command: &Command) -> Result<(), ClientError> {
        self.call::<Value>(command, true, Some(ACK_LIMIT)).await.map(|_| ())
    }

    async fn change_command(&self, command: &Command) -> Result<(), ClientError> {
        self.call::<Value>(command, false, None).await.map(|_| ())
    }

    /// Adding twice is not adding once, and the answer comes at once.
    async fn add_command(&self, command: &Command) -> Result<(), ClientError> {
        self.call::<Value>(command, false, Some(ACK_LIMIT)).await.map(|_| ())
    }

    /// Gives a prompt. Returns when it is accepted and on disk; the run is told by events, and its end by
    /// [`wait_for_idle`](Self::wait_for_idle).
    ///
    /// Cancel-safe as far as that dropping the future does not withdraw the prompt.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<(), ClientError> {
        let Prompt { text: message, images, while_streaming, key } = prompt.into();
        let key = key.or_else(|| random_hex(KEY_BYTES).ok());
        let repeatable = key.is_some() && self.keys_are_remembered();
        let streaming_behavior = while_streaming.map(str::to_owned);
        let command = Command::Prompt { message, images, streaming_behavior, idempotency_key: key };
        // Without a limit: an extension's command is acknowledged when it has finished.
        self.call::<Value>(&command, repeatable, None).await.map(|_| ())
    }

    /// Queues a message that goes in before the next model call of the run.
    pub async fn steer(&self, prompt: impl Into<Prompt>) -> Result<(), ClientError> {
        let Prompt { text: message, images, .. } = prompt.into();
        self.add_command(&Command::Steer { message, images }).await
    }

    /// Queues a message that goes in when the run would stop; on an idle session it starts a run.
    pub async fn follow_up(&self, prompt: impl Into<Prompt>) -> Result<(), ClientError> {
        let Prompt { text: message, images, .. } = prompt.into();
        self.add_command(&Command::FollowUp { message, images }).await
    }

    /// Stops the run and empties the queues; returns when the run has ended.
    pub async fn abort(&self) -> Result<AbortedQueues, ClientError> {
        self.call(&Command::Abort, true, None).await
    }

    /// Shortens the context; returns when that is done.
    pub async fn compact(&self, instructions: Option<String>) -> Result<CompactResult, ClientError> {
        self.call(&Command::Compact { custom_instructions: instructions }, false, None).await
    }

    pub async fn abort_compaction(&self) -> Result<(), ClientError> {
        self.set_command(&Command::AbortCompaction).await
    }

    /// Returns when nothing runs any more, however long that takes; also over restarts of the daemon.
    ///
    /// Cancel-safe.
    pub async fn wait_for_idle(&self) -> Result<(), ClientError> {
        self.call::<Value>(&Command::WaitForIdle, true, None).await.map(|_| ())
    }

    /// Empties the queues; gives back what was in them.
    pub async fn clear_queue(&self) -> Result<ClearedQueues, ClientError> {
        self.call(&Command::ClearQueue, false, Some(ACK_LIMIT)).await
    }

    /// Reads everything that the agent is made of anew.
    pub async fn reload(&self) -> Result<(), ClientError> {
        self.call::<Value>(&Command::Reload, true, None).await.map(|_| ())
    }

    pub async fn get_state(&self) -> Result<SessionState, ClientError> {
        self.read_command(&Command::GetState).await
    }

    /// The conversation as the model sees it.
    pub async fn messages(&self) -> Result<Vec<Message>, ClientError> {
        listed!(self, Command::GetMessages, messages: Vec<Message>)
    }

    /// All entries of the session file, all branches.
    pub async fn entries(&self) -> Result<Vec<Entry>, ClientError> {
        listed!(self, Command::GetEntries, entries: Vec<Entry>)
    }

    /// What can be called with a slash.
    pub async fn commands(&self) -> Result<Vec<SlashCommandInfo>, ClientError> {
        listed!(self, Command::GetCommands, commands: Vec<SlashCommandInfo>)
    }

    pub async fn tool_info(&self) -> Result<ToolInfos, ClientError> {
        self.read_command(&Command::GetToolInfo).await
    }

    pub async fn resource_summary(&self) -> Result<ResourceSummary, ClientError> {
        self.read_command(&Command::GetResourceSummary).await
    }

    pub async fn skills(&self) -> Result<Vec<Skill>, ClientError> {
        listed!(self, Command::GetSkills, skills: Vec<Skill>)
    }

    pub async fn plugins(&self) -> Result<Vec<ConfiguredPlugin>, ClientError> {
        listed!(self, Command::GetPlugins, plugins: Vec<ConfiguredPlugin>)
    }

    pub async fn integrations(&self) -> Result<Vec<IntegrationInfo>, ClientError> {
        listed!(self, Command::GetIntegrationInfo, integrations: Vec<IntegrationInfo>)
    }

    pub async fn contexts(&self) -> Result<Vec<ContextInfo>, ClientError> {
        listed!(self, Command::GetContextInfo, contexts: Vec<ContextInfo>)
    }

    /// Models whose provider has credentials.
    pub async fn available_models(&self) -> Result<Vec<Model>, ClientError> {
        listed!(self, Command::GetAvailableModels, models: Vec<Model>)
    }

    /// Open questions; the view has them, too.
    pub async fn dialogs(&self) -> Result<Vec<DialogRequest>, ClientError> {
        listed!(self, Command::GetDialogs, dialogs: Vec<DialogRequest>)
    }

    /// Tokens and money of the session, of the agent today, and of the agent in all.
    ///
    /// # Errors
    /// When the daemon cannot be reached.
    pub async fn usage(&self) -> Result<UsageTotals, ClientError> {
        self.read_command(&Command::GetUsage).await
    }

    /// Changes the model, also for later sessions of the agent.
    pub async fn set_model(&self, provider: &str, model_id: &str) -> Result<Model, ClientError> {
        self.read_command(&Command::SetModel { provider: provider.into(), model_id: model_id.into() }).await
    }

    pub async fn set_thinking_level(&self, level: ThinkingLevel) -> Result<(), ClientError> {
        self.set_command(&Command::SetThinkingLevel { level }).await
    }

    /// Which models this session switches between; patterns, or none for all.
    pub async fn set_scoped_models(&self, patterns: Vec<String>) -> Result<(), ClientError> {
        self.set_command(&Command::SetScopedModels { enabled_model_ids: patterns }).await
    }

    /// Which models later sessions of the agent switch between; `None` removes the setting.
    pub async fn set_enabled_models(&self, patterns: Option<Vec<String>>) -> Result<(), ClientError> {
        self.set_command(&Command::SetEnabledModels { enabled_models: patterns }).await
    }

    /// Adds an answer that no model gave.
    pub async fn seed_assistant_message(&self, text: &str) -> Result<AssistantMessage, ClientError> {
        self.call(&Command::SeedAssistantMessage { text: text.into() }, false, Some(ACK_LIMIT)).await
    }

    /// Adds a message to the conversation without a run.
    pub async fn append_message(&self, message: JsonObject) -> Result<(), ClientError> {
        self.add_command(&Command::AppendMessage { message }).await
    }

    pub async fn install_plugin(&self, source: &str) -> Result<(), ClientError> {
        self.change_command(&Command::InstallPlugin { source: source.into() }).await
    }

    /// True if it was configured.
    pub async fn remove_plugin(&self, source: &str) -> Result<bool, ClientError> {
        listed!(self, Command::RemovePlugin { source: source.into() }, removed: bool)
    }

    pub async fn update_plugins(&self, source: Option<&str>) -> Result<(), ClientError> {
        self.change_command(&Command::UpdatePlugins { source: source.map(str::to_owned) }).await
    }

    /// Sets up the integrations of a plugin, with dialogs on this session.
    pub async fn onboard_plugin(&self, source: &str) -> Result<Vec<OnboardServiceResult>, ClientError> {
        #[derive(Deserialize)]
        struct Results {
            results: Vec<OnboardServiceResult>,
        }
        let results: Results = self.call(&Command::OnboardPlugin { source: source.into() }, false, None).await?;
        Ok(results.results)
    }

    /// Logs in, with dialogs on this session; returns when the flow has ended.
    pub async fn login(&self, provider: &str, auth_type: AuthType) -> Result<(), ClientError> {
        self.change_command(&Command::Login { provider: provider.into(), auth_type }).await
    }

    pub async fn login_cancel(&self) -> Result<(), ClientError> {
        self.set_command(&Command::LoginCancel).await
    }

    pub async fn logout(&self, provider: &str) -> Result<(), ClientError> {
        self.set_command(&Command::Logout { provider: provider.into() }).await
    }

    pub async fn login_providers(&self, auth_type: Option<AuthType>) -> Result<Vec<AuthSelectorProvider>, ClientError> {
        listed!(self, Command::GetLoginProviders { auth_type }, providers: Vec<AuthSelectorProvider>)
    }

    pub async fn logout_providers(&self) -> Result<Vec<AuthSelectorProvider>, ClientError> {
        listed!(self, Command::GetLogoutProviders, providers: Vec<AuthSelectorProvider>)
    }

    /// Renames a session of the agent: this one, or another.
    pub async fn rename_session(&self, session: &wolli_protocol::ids::SessionId, name: &str) -> Result<(), ClientError> {
        self.set_command(&Command::RenameSession { target_session_id: session.clone(), session_name: name.into() }).await
    }

    /// Deletes a session of the agent and its file.
    pub async fn delete_session(&self, session: &wolli_protocol::ids::SessionId) -> Result<(), ClientError> {
        self.change_command(&Command::DeleteSession { target_session_id: session.clone() }).await
    }
}
