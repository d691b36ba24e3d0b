//! `wolli delete`: removes an agent for good, after its name has been typed.
//!
//! Invariant: nothing is touched before the answer. A damaged `agent.json` is no reason to keep an agent that nobody wants.

use std::time::Duration;

use wolli_home::agent::{self, AgentError};
use wolli_home::environment::Environment;
use wolli_home::lock;
use wolli_home::paths::Root;

use super::service;
use crate::agents;
use crate::arguments::Delete;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk;

/// A daemon that is shutting down takes at most 10 s; somewhat more than that.
const DRAINING_LIMIT: Duration = Duration::from_secs(12);

pub(crate) fn run(arguments: &Delete, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let name = &arguments.name;
    let home = agents::home(environment, name, Failure::NoSuchAgent)?;
    if std::fs::symlink_metadata(home.path()).is_err() {
        return Err(Failure::NoSuchAgent(name.clone()));
    }
    if !arguments.yes {
        let warning = format!("This will delete agent \"{name}\" and all of its memory, sessions, and workspace:");
        console.line(&format!("{warning}\n  {}", home.path().display()))?;
        let answer = console.ask(&format!("Type {name} to confirm: "))?;
        if answer.as_deref() != Some(name) {
            // An answer that a person typed ended its line; the end of stdin did not.
            console.line(if answer.is_none() { "\nDelete cancelled." } else { "Delete cancelled." })?;
            return Err(Failure::Cancelled);
        }
    }
    let refused = |reason: String| Failure::Delete { name: name.clone(), reason };
    let service = service::of(environment, &home)?;
    if service.is_installed() {
        // A service without an agent would fail for ever.
        talk::runtime()?.block_on(service.uninstall()).map_err(|e| refused(e.to_string()))?;
    }
    if matches!(lock::holder(&home.daemon_lock()), Ok(Some(_))) {
        let agent = talk::connect::agent(environment, name)?;
        talk::runtime()?.block_on(agent.stop()).map_err(|e| refused(e.to_string()))?;
    }
    agent::delete(&Root::of(environment)?, home.name(), DRAINING_LIMIT).map_err(|e| match e {
        AgentError::Missing { .. } => Failure::NoSuchAgent(name.clone()),
        e => refused(e.to_string()),
    })?;
    Ok(console.line(&format!("Deleted agent \"{name}\"."))?)
}
