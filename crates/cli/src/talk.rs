//! Talking to one agent: which one, in which session, and with what words.
//!
//! Whatever can be refused without a daemon is refused here, before one is started.

mod render;

use std::io::Read;

use wolli_home::environment::Environment;
use wolli_home::paths::AgentHome;

use crate::agents;
use crate::arguments::Talk;
use crate::console::Console;
use crate::failure::Failure;

/// Longest message that is read from stdin; the daemon takes no larger request.
const MESSAGE_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// How the agent's name was written: `<name>`, or `chat <name>`, which is what texts repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Name,
    Chat,
}

pub(crate) fn run(talk: Talk, form: Form, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let name = talk.agent.clone().unwrap_or_default();
    let (home, loaded) = agents::find(environment, &name, Failure::UnknownAgent)?;
    for warning in &loaded.warnings {
        console.complain(&format!("warning: {warning}"));
    }
    let called = match form {
        Form::Name => name,
        Form::Chat => format!("chat {name}"),
    };
    if !talk.print {
        if !talk.message.is_empty() {
            return Err(Failure::InlineMessage(called));
        }
        return chat(&home);
    }
    let message = message(&talk.message)?;
    if message.trim().is_empty() {
        return Err(Failure::NoMessage(called));
    }
    chat(&home)
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

fn chat(_home: &AgentHome) -> Result<(), Failure> {
    Ok(())
}
