//! `wolli sessions`: lists, shows, names, deletes and exports an agent's sessions.
//!
//! Invariant: reading does not make a session live. Ids may be shortened as far as they name one session.

mod facts;
mod markdown;

use serde_json::{Value, json};
use wolli_client::{Agent, ClientError};
use wolli_home::atomic;
use wolli_home::environment::Environment;
use wolli_protocol::entry::Entry;
use wolli_protocol::message::Message;
use wolli_protocol::state::SessionSummary;

use crate::agents;
use crate::arguments::sessions::{Format, Sessions};
use crate::columns::aligned;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::connect;
use crate::talk::render::{Renderer, plain};
use facts::Facts;

pub(crate) fn run(command: Sessions, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = agents::connectable(environment, command.agent(), console)?;
    crate::talk::runtime()?.block_on(async {
        agent.connect().await?;
        match command {
            Sessions::List { json, .. } => list(&agent, json, console).await,
            Sessions::Show { named, json } => show(&agent, named.session.as_deref(), json, console).await,
            Sessions::Rename { session, name, json, .. } => rename(&agent, &session, &name, json, console).await,
            Sessions::Delete { session, yes, json, .. } => delete(&agent, &session, yes, json, console).await,
            Sessions::Export { named, format, json, output } => {
                let text = export(&agent, named.session.as_deref(), if json { Format::Json } else { format }).await?;
                match output {
                    Some(file) => atomic::write(&file, text.as_bytes()).map_err(|e| Failure::File(e.to_string())),
                    None => Ok(console.print(&if console.shown { plain(&text) } else { text })?),
                }
            }
        }
    })
}

impl Sessions {
    fn agent(&self) -> &str {
        match self {
            Self::List { agent, .. } | Self::Rename { agent, .. } | Self::Delete { agent, .. } => agent,
            Self::Show { named, .. } | Self::Export { named, .. } => &named.agent,
        }
    }
}

async fn list(agent: &Agent, json: bool, console: &Console) -> Result<(), Failure> {
    let sessions = agent.list_sessions().await?;
    if json {
        return Ok(console.line(&json!(sessions).to_string())?);
    }
    let rows: Vec<[String; 4]> = sessions.iter().map(row).collect();
    Ok(console.print(&aligned(&rows))?)
}

fn row(session: &SessionSummary) -> [String; 4] {
    [
        session.session_id.to_string(),
        session.created_at.clone().unwrap_or_default(),
        state(session).to_owned(),
        one_line(session.session_name.as_deref().unwrap_or_default()),
    ]
}

fn state(session: &SessionSummary) -> &'static str {
    if session.is_streaming { "at work" } else { "idle" }
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The session that was named, or else the latest one.
async fn find(agent: &Agent, typed: Option<&str>) -> Result<SessionSummary, Failure> {
    let sessions = agent.list_sessions().await?;
    match typed {
        Some(typed) => connect::find_session(agent, &sessions, typed).cloned(),
        None => sessions.into_iter().next().ok_or_else(|| ClientError::NoSession(agent.name().clone()).into()),
    }
}

async fn show(agent: &Agent, typed: Option<&str>, json: bool, console: &Console) -> Result<(), Failure> {
    let session = find(agent, typed).await?;
    let entries = agent.read_entries(&session.session_id).await?;
    let facts = Facts::of(&typed_entries(&entries));
    if json {
        return Ok(console.line(&facts.to_json(agent.name().as_str(), &session).to_string())?);
    }
    console.print(&aligned(&facts.rows(&session, state(&session))))?;
    if let Some(start) = facts.last_prompt {
        let mut renderer = Renderer::new(console.styled);
        let text: String = facts.messages.iter().skip(start).map(|message| renderer.message(message)).collect();
        console.print(&format!("\n{text}"))?;
    }
    Ok(())
}

/// The entries of kinds that this version knows.
fn typed_entries(entries: &[Value]) -> Vec<Entry> {
    entries.iter().filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
}

async fn rename(agent: &Agent, typed: &str, name: &str, json: bool, console: &Console) -> Result<(), Failure> {
    let session = find(agent, Some(typed)).await?.session_id;
    let name = one_line(name);
    let name = name.trim();
    agent.rename_session(&session, name).await?;
    if json {
        return Ok(console.line(&json!({ "sessionId": session, "sessionName": name }).to_string())?);
    }
    Ok(console.line(&match name {
        "" => format!("Session {session} has no name any more."),
        name => format!("Session {session} is called \"{name}\"."),
    })?)
}

async fn delete(agent: &Agent, typed: &str, yes: bool, json: bool, console: &Console) -> Result<(), Failure> {
    let session = find(agent, Some(typed)).await?;
    let id = &session.session_id;
    if !yes {
        let name = session.session_name.as_deref().map(|name| format!(" \"{}\"", one_line(name))).unwrap_or_default();
        let answer = console.ask(&format!("Delete session {id}{name} for good? y or n: "))?;
        if !answer.as_deref().is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")) {
            console.line(if answer.is_none() { "\nDelete cancelled." } else { "Delete cancelled." })?;
            return Err(Failure::Cancelled);
        }
    }
    agent.delete_session(id).await?;
    if json {
        return Ok(console.line(&json!({ "sessionId": id, "deleted": true }).to_string())?);
    }
    Ok(console.line(&format!("Deleted session {id}."))?)
}

async fn export(agent: &Agent, typed: Option<&str>, format: Format) -> Result<String, Failure> {
    let session = find(agent, typed).await?;
    let entries = agent.read_entries(&session.session_id).await?;
    let name = agent.name().as_str();
    Ok(match format {
        Format::Json => format!("{:#}\n", json!({ "agent": name, "session": session, "entries": entries })),
        Format::Markdown => markdown::document(name, &session, &typed_entries(&entries)),
    })
}

/// The message in an entry, if one is in it.
fn message(entry: &Entry) -> Option<Message> {
    use wolli_protocol::entry::EntryBody;
    use wolli_protocol::message::CustomMessage;
    match &entry.body {
        EntryBody::Message { message, .. } => Some(message.clone()),
        EntryBody::CustomMessage { custom_type, content, display: true, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: true,
            details: details.clone(),
            timestamp: wolli_protocol::time::millis_from_iso(&entry.timestamp).unwrap_or_default(),
        })),
        _ => None,
    }
}
