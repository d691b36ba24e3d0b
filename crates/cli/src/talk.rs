//! Talking to one agent: which one, in which session, and with what words.
//!
//! Whatever can be refused without a daemon is refused here, before one is started.

mod chat;
pub(crate) mod connect;
mod echo;
mod input;
pub(crate) mod print;
pub(crate) mod questions;
pub(crate) mod render;
pub(crate) mod signals;

use std::io::Read;
use std::path::Path;

use wolli_home::environment::Environment;

use crate::agents;
use crate::arguments::Talk;
use crate::console::Console;
use crate::failure::Failure;
use connect::Which;
use print::Job;
use questions::Questions;

/// Longest message that is read from stdin or a file; the daemon takes no larger request.
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
    let job = Job { message, json: talk.json, limit: talk.timeout, questions: Questions::Cancel };
    runtime()?.block_on(print::run(&agent, which(&talk), &job, console))
}

/// Opens a chat with an agent that is known to be there.
pub(crate) fn chat_with(name: &str, which: Which, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = connect::agent(environment, name)?;
    runtime()?.block_on(chat::run(agent, which, console))
}

/// One thread is enough, and a chat relies on it: the streams' tasks run only while it waits.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Start)
}

fn which(talk: &Talk) -> Which {
    Which::of(talk.session.clone(), talk.new)
}

/// The words with a space between them; a single `-` is all of stdin.
fn message(words: &[String]) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    read_stdin()
}

/// All of stdin.
pub(crate) fn read_stdin() -> Result<String, Failure> {
    read_text(std::io::stdin().lock()).map_err(Failure::Stdin)
}

/// All of a file.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    let text = std::fs::File::open(path).and_then(read_text);
    text.map_err(|e| Failure::File(format!("cannot read {}: {e}", path.display())))
}

fn read_text(from: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    let read = from.take(MESSAGE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MESSAGE_MAX_BYTES {
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "it is longer than 32 MiB"));
    }
    // The line end that `echo` and editors put behind the last line is none of the message.
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
