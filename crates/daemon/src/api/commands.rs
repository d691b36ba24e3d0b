//! What each command does. Texts of errors go to the client as they are.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use wolli_protocol::command::{Command, CommandError};
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Message;
use wolli_runtime::runtime::{Runtime, SessionError};
use wolli_runtime::session::{NewPrompt, SessionHandle, SubmitBehavior, read_entries, read_messages};

use super::envelope::{self, Data, data};
use crate::stop::{Stop, StopReason};

/// Runs a command for the session that the path named, which becomes live by it.
pub(crate) async fn run(runtime: &Runtime, id: &SessionId, command: Result<Command, CommandError>, stop: &Stop) -> Result<Data, String> {
    let session = match runtime.session(id).await {
        Ok(session) => session,
        // Whatever is wrong with a session's file, the daemon can be asked to stop.
        Err(error) if !matches!(error, SessionError::Unknown { .. }) && matches!(command, Ok(Command::Shutdown)) => {
            tracing::warn!(%error, "the session of a shutdown command cannot be opened");
            return shutdown(stop);
        }
        Err(error) => {
            // Where every session was deleted there is none to name, and what concerns the agent is still wanted.
            if matches!(error, SessionError::Unknown { .. }) && !text(runtime.has_sessions().await)? {
                match command {
                    Ok(Command::CreateSession) => return create_session(runtime).await,
                    Ok(Command::Deploy) => return deploy(runtime).await,
                    Ok(Command::Shutdown) => return shutdown(stop),
                    _ => {}
                }
            }
            return Err(error.to_string());
        }
    };
    execute(runtime, &session, command.map_err(|error| error.to_string())?, stop).await
}

async fn execute(runtime: &Runtime, session: &SessionHandle, command: Command, stop: &Stop) -> Result<Data, String> {
    let id = session.id();
    match command {
        Command::Prompt { message, images, streaming_behavior, idempotency_key } => {
            let prompt = NewPrompt { text: message, images, behavior: submit_behavior(streaming_behavior.as_deref()), idempotency_key };
            none(runtime.prompt(id, prompt).await)
        }
        Command::Steer { message, images } => none(
            runtime
                .with_session(id, |session| {
                    let (message, images) = (message.clone(), images.clone());
                    async move { session.steer(message, images).await }
                })
                .await,
        ),
        Command::FollowUp { message, images } => none(
            runtime
                .with_session(id, |session| {
                    let (message, images) = (message.clone(), images.clone());
                    async move { session.follow_up(message, images).await }
                })
                .await,
        ),
        Command::Abort => {
            let cleared = text(runtime.with_session(id, |session| async move { session.abort().await }).await)?;
            data(&json!({ "clearedSteer": cleared.steer, "clearedFollowUp": cleared.follow_up }))
        }
        Command::ClearQueue => {
            let cleared = text(runtime.with_session(id, |session| async move { session.clear_queue().await }).await)?;
            data(&json!({ "steering": cleared.steer, "followUp": cleared.follow_up }))
        }
        Command::WaitForIdle => none(runtime.with_session(id, |session| async move { session.wait_for_idle().await }).await),
        Command::CreateSession => create_session(runtime).await,
        Command::Deploy => deploy(runtime).await,
        Command::Shutdown => shutdown(stop),
        Command::GetState => session.hub().with_state(data),
        Command::GetMessages => {
            let messages = text(runtime.read_file(Arc::clone(session.path()), read_messages).await)?;
            Ok(Some(envelope::list("messages", &messages)))
        }
        Command::GetEntries => {
            let entries = text(runtime.read_file(Arc::clone(session.path()), read_entries).await)?;
            Ok(Some(envelope::list("entries", &entries)))
        }
        Command::SeedAssistantMessage { text: content } => {
            data(&Message::Assistant(text(runtime.seed_assistant_message(id, &content).await)?))
        }
        Command::AppendMessage { message } => {
            let message = Message::from_client(message).map_err(|problem| format!("Invalid append_message: {problem}"))?;
            none(runtime.append_message(id, &message).await)
        }
        Command::DeleteSession { target_session_id } => none(runtime.delete_session(&target_session_id).await),
        Command::SetModel { provider, model_id } => data(&text(runtime.set_model(id, &provider, &model_id).await)?),
        Command::SetThinkingLevel { level } => none(runtime.set_thinking_level(id, level).await),
        Command::RenameSession { target_session_id, session_name } => none(runtime.rename_session(&target_session_id, &session_name).await),
        Command::GetAvailableModels => named("models", &runtime.available_models()),
        Command::GetToolInfo => {
            let tools = text(runtime.tools_of(id).await)?;
            let active: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            data(&json!({ "tools": tools, "activeToolNames": active }))
        }
        Command::GetContextInfo => named("contexts", &text(runtime.contexts().await)?),
        Command::GetResourceSummary => data(&text(runtime.resource_summary().await)?),
        Command::GetCommands => named("commands", &runtime.commands()),
        Command::GetSkills => named("skills", &runtime.skills()),
        Command::GetPlugins => named("plugins", &runtime.plugins()),
        // This version has none.
        Command::GetIntegrationInfo => Ok(Some(envelope::list("integrations", &[]))),
        Command::Login { provider, auth_type } => none(runtime.login(session, &provider, auth_type).await),
        Command::LoginCancel => {
            runtime.cancel_login(id);
            Ok(None)
        }
        Command::Logout { provider } => none(runtime.logout(&provider).await),
        Command::GetLoginProviders { auth_type } => named("providers", &runtime.login_providers(auth_type)),
        Command::GetLogoutProviders => named("providers", &runtime.logout_providers()),
        Command::GetDialogs => named("dialogs", &session.hub().dialogs()),
        Command::Compact { custom_instructions } => data(&text(
            runtime
                .with_session(id, |session| {
                    let instructions = custom_instructions.clone();
                    async move { session.compact(instructions).await }
                })
                .await,
        )?),
        Command::AbortCompaction => none(runtime.with_session(id, |session| async move { session.abort_compaction().await }).await),
        Command::Reload => none(runtime.reload().await),
        Command::InstallPlugin { source } => none(runtime.install_plugin(&source).await),
        Command::RemovePlugin { source } => named("removed", &text(runtime.remove_plugin(&source).await)?),
        Command::UpdatePlugins { source } => none(runtime.update_plugins(source.as_deref()).await),
        Command::OnboardPlugin { source } => named("results", &runtime.onboard_plugin(&source)),
        Command::SetScopedModels { enabled_model_ids } => none(runtime.set_scoped_models(id, enabled_model_ids).await),
        Command::SetEnabledModels { enabled_models } => none(runtime.set_enabled_models(enabled_models).await),
        Command::GetUsage => data(&text(runtime.usage(id).await)?),
    }
}

async fn create_session(runtime: &Runtime) -> Result<Data, String> {
    data(&text(runtime.create_session().await)?.hub().state())
}

async fn deploy(runtime: &Runtime) -> Result<Data, String> {
    data(&text(runtime.deploy().await)?.hub().state())
}

fn shutdown(stop: &Stop) -> Result<Data, String> {
    stop.request(StopReason::Command);
    Ok(None)
}

/// As wolli 0.0.2 reads it: empty is absent, and whatever is not `followUp` steers.
fn submit_behavior(text: Option<&str>) -> Option<SubmitBehavior> {
    match text {
        None | Some("") => None,
        Some("followUp") => Some(SubmitBehavior::FollowUp),
        Some(_) => Some(SubmitBehavior::Steer),
    }
}

fn text<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn none<T>(result: Result<T, impl std::fmt::Display>) -> Result<Data, String> {
    text(result).map(|_| None)
}

fn named(name: &str, value: &impl Serialize) -> Result<Data, String> {
    data(&std::collections::BTreeMap::from([(name, value)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours() {
        for (text, behavior) in [
            (None, None),
            (Some(""), None),
            (Some("followUp"), Some(SubmitBehavior::FollowUp)),
            (Some("steer"), Some(SubmitBehavior::Steer)),
            (Some("followup"), Some(SubmitBehavior::Steer)),
        ] {
            assert_eq!(submit_behavior(text), behavior, "{text:?}");
        }
    }
}
