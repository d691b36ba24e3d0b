//! `wolli stop`: ends an agent's daemon, whoever started it, and leaves it ended.

use wolli_home::environment::Environment;

use super::service;
use crate::agents;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::{self, connect};

/// Returns when nobody answers for the agent any more.
pub(crate) fn run(name: &str, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let (home, _) = agents::find(environment, name, Failure::NoSuchAgent)?;
    let agent = connect::agent(environment, name)?;
    let service = service::of(environment, &home)?;
    talk::runtime()?.block_on(async {
        if service.is_installed() {
            service.stop().await?;
        }
        // One that was started by hand is not the service manager's to stop.
        Ok::<_, Failure>(agent.stop().await?)
    })?;
    Ok(console.line(&format!("Stopped agent \"{name}\"."))?)
}
