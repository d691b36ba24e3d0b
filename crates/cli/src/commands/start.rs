//! `wolli start`: by the service if one is installed, else detached.

use wolli_home::environment::Environment;

use super::service;
use crate::agents;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::{self, connect};

/// Returns when the daemon answers.
pub(crate) fn run(name: &str, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let (home, _) = agents::find(environment, name, Failure::UnknownAgent)?;
    let agent = connect::agent(environment, name)?;
    let service = service::of(environment, &home)?;
    let (health, started) = talk::runtime()?.block_on(async {
        if let Ok(health) = agent.health().await {
            return Ok::<_, Failure>((health, false));
        }
        if !service.is_installed() {
            return Ok((agent.start().await?, true));
        }
        service::start(&service).await?;
        Ok((agent.wait_for_successor(None).await?, true))
    })?;
    let what = if started { "Started" } else { "Already running:" };
    Ok(console.line(&format!("{what} agent \"{name}\" (process {}).", health.pid))?)
}
