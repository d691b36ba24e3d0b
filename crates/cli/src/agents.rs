//! Finding the agent that a command names.
//!
//! Reads the disk alone; whether a daemon serves the agent is no concern of this module.

use wolli_client::Agent;
use wolli_home::agent::{self, AgentError, Loaded};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, AgentName, Root};

use crate::console::Console;
use crate::failure::Failure;
use crate::talk::connect;

/// Looks the agent up; `unknown` makes the error when there is none of that name.
pub(crate) fn find(environment: &Environment, name: &str, unknown: fn(String) -> Failure) -> Result<(AgentHome, Loaded), Failure> {
    let home = home(environment, name, unknown)?;
    match agent::load(&home) {
        Ok(loaded) => Ok((home, loaded)),
        Err(AgentError::Missing { .. }) => Err(unknown(name.to_owned())),
        Err(e) => Err(e.into()),
    }
}

/// The agent of that name, without a connection yet; says on stderr what is wrong with its file.
pub(crate) fn connectable(environment: &Environment, name: &str, console: &Console) -> Result<Agent, Failure> {
    let (_, loaded) = find(environment, name, Failure::UnknownAgent)?;
    for warning in &loaded.warnings {
        console.complain(&format!("warning: {warning}"));
    }
    connect::agent(environment, name)
}

/// Where the agent of that name would be. What cannot be a name is the name of no agent.
pub(crate) fn home(environment: &Environment, name: &str, unknown: fn(String) -> Failure) -> Result<AgentHome, Failure> {
    let root = Root::of(environment)?;
    let name: AgentName = name.parse().map_err(|_| unknown(name.to_owned()))?;
    Ok(root.agent(&name))
}
