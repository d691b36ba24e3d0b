//! What the slash commands of a chat ask the daemon for, and what is said about it.

use wolli_client::{Agent, ClientError, SessionHandle};
use wolli_protocol::ids::SessionId;
use wolli_protocol::model::{Model, ThinkingLevel};

use crate::session_ids::{self, NotFound};
use crate::usage_table;

/// `/compact`: replaces the earlier conversation by a summary. Events tell how it goes.
pub(super) async fn compact(session: &SessionHandle, instructions: Option<String>) -> Result<String, ClientError> {
    if session.read(|view| view.state.message_count)? < 2 {
        return Ok("Nothing to compact (no messages yet).\n".to_owned());
    }
    session.compact(instructions).await.map(|_| String::new())
}

/// `/thinking`: sets the level, or lists those that the model has.
pub(super) async fn thinking(session: &SessionHandle, wanted: Option<String>) -> Result<String, ClientError> {
    if let Some(level) = wanted.as_deref().and_then(ThinkingLevel::parse) {
        session.set_thinking_level(level).await?;
        // A level that the model does not have is replaced by one near it.
        let level = session.get_state().await?.thinking_level;
        return Ok(format!("Thinking level: {level}\n"));
    }
    let state = session.get_state().await?;
    let levels = state.model.as_ref().map(Model::supported_levels).unwrap_or_default();
    Ok(levels.iter().map(|level| format!("{} {level}\n", if *level == state.thinking_level { '*' } else { ' ' })).collect())
}

/// `/reload`: reads everything anew that the agent is made of, and says what there is and what is wrong.
pub(super) async fn reload(session: &SessionHandle) -> Result<String, ClientError> {
    match session.reload().await {
        Ok(()) => {}
        Err(ClientError::Command(reason)) => return Ok(format!("Reload failed: {}\n", reason.trim_start_matches("Reload failed: "))),
        Err(error) => return Err(error),
    }
    let summary = session.resource_summary().await?;
    let counts = (summary.extensions, summary.skills, summary.prompts, summary.commands);
    Ok(format!("Reloaded: {} extensions, {} skills, {} prompts, {} commands.\n", counts.0, counts.1, counts.2, counts.3))
}

/// `/rename`: gives the session a name.
pub(super) async fn rename(session: &SessionHandle, name: &str) -> Result<String, ClientError> {
    session.rename_session(session.id(), name).await?;
    Ok(format!("This session is called \"{name}\".\n"))
}

/// `/usage`: tokens and money.
pub(super) async fn usage(session: &SessionHandle) -> Result<String, ClientError> {
    Ok(usage_table::table(&session.usage().await?))
}

/// `/new`.
pub(super) async fn new_session(agent: &Agent) -> Result<SessionHandle, ClientError> {
    let created = agent.create_session().await?;
    agent.session(&created.session_id).await
}

/// Ends the birth of the agent.
pub(super) async fn deploy(agent: &Agent) -> Result<SessionHandle, ClientError> {
    let created = agent.deploy().await?;
    agent.session(&created.session_id).await
}

/// `/sessions`: lists them.
pub(super) async fn sessions(agent: &Agent) -> Result<String, ClientError> {
    let mut text = String::new();
    for session in agent.list_sessions().await? {
        let name = session.session_name.as_deref().unwrap_or("");
        let state = if session.is_streaming { "at work" } else { "" };
        let line = format!("{}  {}  {name} {state}", session.session_id, session.created_at.as_deref().unwrap_or(""));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// `/sessions <id>`: goes to another session.
pub(super) async fn switch(agent: &Agent, typed: &str) -> Result<SessionHandle, ClientError> {
    let sessions = agent.list_sessions().await?;
    let id = match session_ids::find(&sessions, typed) {
        Ok(session) => session.session_id.clone(),
        Err(NotFound::Unknown) => {
            return Err(ClientError::UnknownSession { agent: agent.name().clone(), session: SessionId::from(typed) });
        }
        Err(NotFound::Several(lines)) => {
            return Err(ClientError::Command(format!("\"{typed}\" is the beginning of several ids:{lines}")));
        }
    };
    agent.session(&id).await
}

/// `/model`: switches to a model, or lists those that can be used: all, or those in which the term stands.
pub(super) async fn model(session: &SessionHandle, wanted: Option<String>) -> Result<String, ClientError> {
    let listed = |models: &[&Model]| models.iter().map(|model| format!("{}\n", model.reference())).collect::<String>();
    let Some(wanted) = wanted else {
        let models = session.available_models().await?;
        return Ok(listed(&models.iter().collect::<Vec<_>>()));
    };
    let models = session.available_models().await?;
    let exact: Vec<&Model> = models.iter().filter(|model| model.reference() == wanted || model.id == wanted).collect();
    if let [model] = exact.as_slice() {
        session.set_model(&model.provider, &model.id).await?;
        // The event says which one it is now.
        return Ok(String::new());
    }
    let term = wanted.to_lowercase();
    let found: Vec<&Model> = models.iter().filter(|model| model.reference().to_lowercase().contains(&term)).collect();
    match (found.is_empty(), wanted.split_once('/')) {
        (false, _) => Ok(format!("{}/model <p/id> uses one of them.\n", listed(&found))),
        // It may be one that is not listed; the daemon says what is wrong with it.
        (true, Some((provider, id))) => session.set_model(provider, id).await.map(|_| String::new()),
        (true, None) => Ok("A model is named with its provider, such as echo/demo. /model lists those that can be used.\n".to_owned()),
    }
}
