//! `wolli usage`, `wolli compact` and `wolli models`: one command to the daemon each, and its answer.

use serde_json::json;
use wolli_client::{Agent, ClientError};
use wolli_home::environment::Environment;
use wolli_protocol::ids::SessionId;
use wolli_protocol::model::Model;

use crate::agents;
use crate::arguments::requests::{At, Compact};
use crate::columns::aligned;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::connect;
use crate::talk::render::plain;
use crate::talk::runtime;
use crate::usage_table;

/// What the session, the agent today and the agent in all have used.
pub(crate) fn usage(at: &At, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = agents::connectable(environment, &at.agent, console)?;
    let usage = runtime()?.block_on(async {
        let session = session(&agent, at).await?;
        Ok::<_, Failure>(agent.usage(&session).await?)
    })?;
    Ok(console.print(&if at.json { format!("{}\n", json!(usage)) } else { usage_table::table(&usage) })?)
}

/// Replaces the earlier conversation by a summary; returns when that is done.
pub(crate) fn compact(compact: &Compact, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let At { agent, json, .. } = &compact.at;
    let agent = agents::connectable(environment, agent, console)?;
    let instructions = compact.instructions.join(" ");
    let instructions = Some(instructions).filter(|text| !text.trim().is_empty());
    let result = runtime()?.block_on(async {
        let session = session(&agent, &compact.at).await?;
        Ok::<_, Failure>(agent.session(&session).await?.compact(instructions).await?)
    })?;
    if *json {
        return Ok(console.line(&json!(result).to_string())?);
    }
    let text =
        format!("A conversation of {} tokens was shortened. The summary of its earlier part:\n\n{}", result.tokens_before, result.summary);
    Ok(console.line(plain(&text).trim_end())?)
}

/// The models that the agent can use.
pub(crate) fn models(at: &At, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = agents::connectable(environment, &at.agent, console)?;
    let (models, current) = runtime()?.block_on(async {
        let session = session(&agent, at).await?;
        let session = agent.session(&session).await?;
        let current = session.read(|view| view.state.model.as_ref().map(Model::reference))?;
        Ok::<_, Failure>((session.available_models().await?, current))
    })?;
    if at.json {
        return Ok(console.line(&json!(models).to_string())?);
    }
    Ok(console.print(&plain(&table(&models, current.as_deref())))?)
}

/// One model in a row: its reference, a mark if it is the session's, its window, and what else it takes or does.
fn table(models: &[Model], current: Option<&str>) -> String {
    let rows: Vec<[String; 3]> = models
        .iter()
        .map(|model| {
            let reference = model.reference();
            let mark = if current == Some(&reference) { "* " } else { "  " };
            let mut words = Vec::new();
            words.extend(model.reasoning.then_some("thinks"));
            words.extend(model.accepts_images().then_some("images"));
            [format!("{mark}{reference}"), format!("{}k", model.context_window / 1000), words.join(", ")]
        })
        .collect();
    aligned(&rows)
}

async fn session(agent: &Agent, at: &At) -> Result<SessionId, Failure> {
    agent.connect().await?;
    let sessions = agent.list_sessions().await?;
    let session = match &at.session {
        Some(typed) => connect::find_session(agent, &sessions, typed)?,
        None => sessions.first().ok_or_else(|| ClientError::NoSession(agent.name().clone()))?,
    };
    Ok(session.session_id.clone())
}
