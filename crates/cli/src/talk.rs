//! Talking to one agent: which one, in which session, and with what words.
//!
//! Whatever can be refused without a daemon is refused here, before one is started.

mod chat;
pub(crate) mod connect;
mod input;
mod print;
pub(crate) mod render;
mod signals;

use std::io::Read;

use wolli_home::environment::Environment;

use crate::agents;
use crate::arguments::Talk;
use crate::console::Console;
use crate::failure::Failure;
use connect::Which;
use print::Job;

/// Longest message that is read from stdin; the daemon takes no larger request.
const MESSAGE_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// How the agent's name was written: `<name>`, or `chat <name>`, which is what texts repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Name,
    Chat,
}

pub(crate) fn run(talk: Talk, form: Form, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let Some(name) = talk.agent.clone() else {
        return Err(Failure::NoAgent(if form == Form::Chat { "chat " } else { "" }));
    };
    let (_, loaded) = agents::find(environment, &name, Failure::UnknownAgent)?;
    for warning in &loaded.warnings {
        console.complain(&format!("warning: {warning}"));
    }
    let called = match form {
        Form::Name => name.clone(),
        Form::Chat => format!("chat {name}"),
    };
    if !talk.print {
        if !talk.message.is_empty() {
            return Err(Failure::InlineMessage(called));
        }
        return chat_with(&name, which(&talk), environment, console);
    }
    let message = message(&talk.message)?;
    if message.trim().is_empty() {
        return Err(Failure::NoMessage(called));
    }
    let agent = connect::agent(environment, &name)?;
    let job = Job { message, json: talk.json, limit: talk.timeout };
    runtime()?.block_on(print::run(&agent, which(&talk), &job, console))
}

/// Opens a chat with an agent that is known to be there.
pub(crate) fn chat_with(name: &str, which: Which, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = connect::agent(environment, name)?;
    runtime()?.block_on(chat::run(agent, which, console))
}

/// Stops the agent's daemon, if one serves it, and waits until it has ended.
pub(crate) fn stop_daemon(name: &str, environment: &Environment) -> Result<(), Failure> {
    let agent = connect::agent(environment, name)?;
    Ok(runtime()?.block_on(agent.stop())?)
}

/// Stops the agent's daemon and starts it anew; returns when it answers.
pub(crate) fn restart_daemon(name: &str, environment: &Environment) -> Result<(), Failure> {
    let agent = connect::agent(environment, name)?;
    Ok(runtime()?.block_on(agent.restart())?)
}

/// One thread is enough, and a chat relies on it: the streams' tasks run only while it waits.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)
}

fn which(talk: &Talk) -> Which {
    match &talk.session {
        Some(id) => Which::Named(id.clone()),
        None if talk.new => Which::New,
        None => Which::Latest,
    }
}

/// The words with a space between them; a single `-` is all of stdin.
fn message(words: &[String]) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MESSAGE_MAX_BYTES + 1).read_to_string(&mut text).map_err(Failure::Stdin)?;
    if read as u64 > MESSAGE_MAX_BYTES {
        return Err(Failure::Stdin(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is longer than 32 MiB")));
    }
    // The line end that `echo` and editors put behind the last line is none of the message.
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
