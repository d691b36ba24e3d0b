//! What commands answer with: the `data` of each command's envelope, as types and as a table.
//!
//! Invariant: the table has a line for every command. The daemon writes most lists as text that it read from a file, so these types
//! are what readers and the written reference go by. Not here: the envelope around the data.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::dialog::DialogRequest;
use crate::entry::Entry;
use crate::ids::EntryId;
use crate::message::{Message, Usage};
use crate::model::Model;
use crate::resource::{
    AuthSelectorProvider, CompactResult, ConfiguredPlugin, ContextInfo, IntegrationInfo, OnboardServiceResult, ResourceSummary, Skill,
    SlashCommandInfo, ToolInfo,
};
use crate::state::SessionState;

macro_rules! data {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty),+ $(,)? })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $kind,)+
            }
        )+
    };
}

data! {
    /// What `abort` took out of the queues, oldest first.
    AbortedQueues { cleared_steer: Vec<Message>, cleared_follow_up: Vec<Message> }
    /// What `clear_queue` took out of the queues, oldest first.
    ClearedQueues { steering: Vec<Message>, follow_up: Vec<Message> }
    /// The conversation as the model sees it: the active branch, from the last compaction on.
    Messages { messages: Vec<Message> }
    /// What can be called with a slash.
    SlashCommands { commands: Vec<SlashCommandInfo> }
    /// The entries of a session file in their order, all branches.
    Entries { entries: Vec<Entry> }
    /// The tools of a session.
    Tools {
        tools: Vec<ToolInfo>,
        /// Those that the model may call, in the order in which it is told of them.
        active_tool_names: Vec<String>,
    }
    Integrations { integrations: Vec<IntegrationInfo> }
    Skills { skills: Vec<Skill> }
    Plugins { plugins: Vec<ConfiguredPlugin> }
    /// The files that stand in the system prompt.
    Contexts { contexts: Vec<ContextInfo> }
    RemovedPlugin {
        /// It was configured.
        removed: bool,
    }
    OnboardResults { results: Vec<OnboardServiceResult> }
    /// Models whose provider has credentials.
    Models { models: Vec<Model> }
    Providers { providers: Vec<AuthSelectorProvider> }
    /// Open questions, oldest first.
    Dialogs { dialogs: Vec<DialogRequest> }
    /// Tokens and money of the session, of the agent today, and of the agent in all.
    UsageTotals { session: Usage, today: Usage, total: Usage }
    /// A page of the active branch, oldest first: `GET /sessions/<id>/entries`.
    EntriesPage {
        entries: Vec<Entry>,
        /// There is more: the `after` of the next page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<EntryId>,
    }
}

/// The `data` of a command's success.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// The key is left out.
    Absent,
    /// Gives the schema of the type.
    Of(fn(&mut SchemaGenerator) -> Schema),
}

const fn of<T: JsonSchema>() -> Data {
    Data::Of(|generator| generator.subschema_for::<T>())
}

/// Every command with what it answers.
const ANSWERS: &[(&str, Data)] = &[
    ("prompt", Data::Absent),
    ("steer", Data::Absent),
    ("follow_up", Data::Absent),
    ("abort", of::<AbortedQueues>()),
    ("compact", of::<CompactResult>()),
    ("abort_compaction", Data::Absent),
    ("wait_for_idle", Data::Absent),
    ("clear_queue", of::<ClearedQueues>()),
    ("create_session", of::<SessionState>()),
    ("reload", Data::Absent),
    ("deploy", of::<SessionState>()),
    ("shutdown", Data::Absent),
    ("get_state", of::<SessionState>()),
    ("get_messages", of::<Messages>()),
    ("get_commands", of::<SlashCommands>()),
    ("get_entries", of::<Entries>()),
    ("get_resource_summary", of::<ResourceSummary>()),
    ("get_tool_info", of::<Tools>()),
    ("get_integration_info", of::<Integrations>()),
    ("get_skills", of::<Skills>()),
    ("get_plugins", of::<Plugins>()),
    ("get_context_info", of::<Contexts>()),
    ("seed_assistant_message", of::<Message>()),
    ("append_message", Data::Absent),
    ("install_plugin", Data::Absent),
    ("remove_plugin", of::<RemovedPlugin>()),
    ("update_plugins", Data::Absent),
    ("onboard_plugin", of::<OnboardResults>()),
    ("set_thinking_level", Data::Absent),
    ("set_model", of::<Model>()),
    ("get_available_models", of::<Models>()),
    ("set_scoped_models", Data::Absent),
    ("set_enabled_models", Data::Absent),
    ("login", Data::Absent),
    ("login_cancel", Data::Absent),
    ("logout", Data::Absent),
    ("get_login_providers", of::<Providers>()),
    ("get_logout_providers", of::<Providers>()),
    ("rename_session", Data::Absent),
    ("delete_session", Data::Absent),
    ("get_dialogs", of::<Dialogs>()),
    ("get_usage", of::<UsageTotals>()),
];

impl Command {
    /// The `type` of every command, with the `data` of its success.
    pub fn answers() -> impl Iterator<Item = (&'static str, Data)> {
        ANSWERS.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_answer_and_nothing_else_has() {
        let answered: Vec<_> = Command::answers().map(|(name, _)| name).collect();
        assert_eq!(answered, Command::names().collect::<Vec<_>>());
    }

    #[test]
    fn a_type_of_data_has_a_schema_under_its_own_name() {
        let mut generator = SchemaGenerator::default();
        for (name, data) in Command::answers() {
            if let Data::Of(schema) = data {
                let schema = schema(&mut generator);
                let reference = schema.get("$ref").and_then(serde_json::Value::as_str).unwrap_or_default();
                assert!(reference.starts_with("#/$defs/"), "{name}: {schema:?}");
            }
        }
    }
}
