//! The one binary, `wolli`: what a person types, and what a person sees.
//!
//! Everything that concerns a running agent goes through the typed client, so that any program can do what this one does; files are
//! reached through `wolli-home`. `commands::daemon`, `commands::service` and
//! `commands::doctor` alone call the daemon.
//! Invariant: the environment is read here, once. No async runtime is started for what does not need one.

mod agents;
mod arguments;
mod columns;
mod commands;
mod console;
mod failure;
mod session_ids;
mod status;
mod talk;
mod usage_table;

use std::process::ExitCode;

use clap::Parser;
use wolli_home::environment::Environment;

use arguments::{Arguments, Command};
use console::Console;
use failure::Failure;
use talk::Form;
use talk::connect::Which;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => {
            // Help and version are such "errors" too. If they cannot be printed, nobody reads.
            drop(e.print());
            return ExitCode::from(if e.use_stderr() { status::USAGE } else { 0 });
        }
    };
    // A shell in a deleted folder has no current one; relative paths mean nothing there.
    let current_folder = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let environment = Environment::new(std::env::vars_os(), current_folder);
    let console = Console::new(environment.variable("TERM"), environment.variable("NO_COLOR").is_some());
    match run(arguments, environment, &console) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            if let Some(text) = failure.text() {
                console.complain(&text);
            }
            ExitCode::from(failure.status())
        }
    }
}

/// Carries it out; gives the exit status.
fn run(arguments: Arguments, environment: Environment, console: &Console) -> Result<u8, Failure> {
    match arguments.command {
        // It takes the environment with it, for it stays.
        Some(Command::Daemon(daemon)) => return Ok(commands::daemon::run(daemon, environment)),
        Some(Command::New(new)) => {
            let name = commands::new::run(new, &environment, console)?;
            if console.interactive {
                talk::chat_with(name.as_str(), Which::Latest, &environment, console)?;
            }
        }
        Some(Command::List { json }) => commands::list::run(json, &environment, console)?,
        Some(Command::Prompt(prompt)) => commands::prompt::run(prompt, &environment, console)?,
        Some(Command::Events(events)) => commands::events::run(events, &environment, console)?,
        Some(Command::Logs(logs)) => commands::logs::run(logs, &environment, console)?,
        Some(Command::Usage(at)) => commands::requests::usage(&at, &environment, console)?,
        Some(Command::Compact(compact)) => commands::requests::compact(&compact, &environment, console)?,
        Some(Command::Models(at)) => commands::requests::models(&at, &environment, console)?,
        Some(Command::Sessions(command)) => commands::sessions::run(command, &environment, console)?,
        Some(Command::Delete(delete)) => commands::delete::run(&delete, &environment, console)?,
        Some(Command::Start { name }) => commands::start::run(&name, &environment, console)?,
        Some(Command::Stop { name }) => commands::stop::run(&name, &environment, console)?,
        Some(Command::Restart { name }) => commands::restart::run(&name, &environment, console)?,
        Some(Command::Status(named)) => return commands::status::run(&named, &environment, console),
        Some(Command::Service(service)) => return commands::service::run(&service, &environment, console),
        Some(Command::Doctor(doctor)) => return commands::doctor::run(&doctor, &environment, console),
        Some(Command::Config { name }) => commands::config::run(name.as_deref(), &environment, console)?,
        Some(Command::Completions { shell }) => commands::completions::run(shell, console)?,
        Some(Command::Chat(talk)) => talk::run(talk, Form::Chat, &environment, console)?,
        None if !arguments.talk.is_empty() => talk::run(arguments.talk, Form::Name, &environment, console)?,
        None => {
            commands::list::run(false, &environment, console)?;
            console.line("\nTalk to one with: wolli <agent>. More: wolli --help")?;
        }
    }
    Ok(0)
}
