//! Calling the programs of service managers: by argument vector, with a small environment, a time limit, and no questions to a person.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use wolli_exec::{Ending, Exit, Output, Program, RunSettings};
use wolli_home::environment::Environment;

use super::error::ServiceError;

/// A question, or an order that is only taken.
pub(super) const SHORT: Duration = Duration::from_secs(10);

/// An order that is carried out before the program ends: longer than a unit may take to stop and to start.
pub(super) const LONG: Duration = Duration::from_secs(90);

/// Where service managers are when `PATH` does not say so.
const FOLDERS: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// What the programs see of our environment.
const KEPT: &[&str] = &["HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// The way to call them.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    variables: Vec<(OsString, OsString)>,
}

/// What one of them said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) success: bool,
    pub(super) output: String,
    pub(super) errors: String,
}

impl Said {
    /// Why it failed, in its own words.
    pub(super) fn problem(&self) -> String {
        let text = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        text.trim().to_owned()
    }
}

impl Programs {
    pub(super) fn new(environment: &Environment) -> Self {
        let mut variables: Vec<(OsString, OsString)> =
            KEPT.iter().filter_map(|name| Some(((*name).into(), environment.variable(name)?.into()))).collect();
        let path = match environment.search_path().filter(|path| !path.is_empty()) {
            Some(path) => {
                let mut path = path.to_owned();
                path.push(":");
                path.push(FOLDERS);
                path
            }
            None => FOLDERS.into(),
        };
        variables.push(("PATH".into(), path));
        // Their words are looked at, and shown beside ours.
        variables.push(("LC_ALL".into(), "C".into()));
        Self { variables }
    }

    /// Replaces a variable.
    pub(super) fn set(&mut self, name: &str, value: Option<OsString>) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.extend(value.map(|value| (name.into(), value)));
    }

    /// Calls `program` for an agent and waits for its end; a failure of its own is an answer.
    pub(super) async fn call(&self, program: &str, arguments: &[&str], agent: &str, limit: Duration) -> Result<Said, ServiceError> {
        let call = Program::new(program, Path::new("/"))
            .arguments(arguments.iter().copied())
            .environment(self.variables.iter().cloned())
            .output(Output::Separate);
        let settings = RunSettings { time_limit: Some(limit), ..RunSettings::default() };
        let finished = wolli_exec::run(call, settings, None)
            .await
            .map_err(|error| ServiceError::Program { program: program.to_owned(), problem: error.io().to_string() })?;
        if finished.ending != Ending::Exited {
            return Err(ServiceError::TimedOut { command: command(program, arguments), agent: agent.to_owned(), seconds: limit.as_secs() });
        }
        let text = |collected: Option<&wolli_exec::Collected>| collected.map(|text| text.head().to_owned()).unwrap_or_default();
        Ok(Said {
            success: finished.exit.is_some_and(Exit::success),
            output: text(Some(&finished.output)),
            errors: text(finished.errors.as_ref()),
        })
    }

    /// As [`call`](Self::call); a failure is an error.
    pub(super) async fn order(&self, program: &str, arguments: &[&str], agent: &str, limit: Duration) -> Result<String, ServiceError> {
        let said = self.call(program, arguments, agent, limit).await?;
        if said.success {
            return Ok(said.output);
        }
        Err(ServiceError::Refused { command: command(program, arguments), agent: agent.to_owned(), problem: said.problem() })
    }
}

/// The program and what it was to do, without what every call has and without the names behind `--`.
fn command(program: &str, arguments: &[&str]) -> String {
    const LEFT_OUT: &[&str] = &["--no-pager", "--no-ask-password", "--no-block"];
    let words = arguments.iter().take_while(|argument| **argument != "--").filter(|argument| !LEFT_OUT.contains(argument));
    std::iter::once(program).chain(words.copied()).collect::<Vec<_>>().join(" ")
}
