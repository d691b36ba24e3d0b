//! `wolli restart`: ends an agent's daemon, if one runs, and starts it anew. A service is restarted by its manager, and by nobody else; a
//! daemon that was started by hand gives way to it, and comes back if it does not start.

use wolli_client::Agent;
use wolli_home::environment::Environment;

use super::service;
use crate::agents;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::{self, connect};

/// Returns when the new daemon answers.
pub(crate) fn run(name: &str, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let (home, _) = agents::find(environment, name, Failure::NoSuchAgent)?;
    let agent = connect::agent(environment, name)?;
    let service = service::of(environment, &home)?;
    let runtime = talk::runtime()?;
    if service.is_installed() {
        runtime.block_on(async {
            let former = agent.health().await.ok();
            let main = service.status().await.main_pid;
            if former.as_ref().is_some_and(|health| Some(health.pid) != main) {
                agent.stop().await?;
            }
            if let Err(error) = service.restart().await {
                return Err(restored(&agent, former.is_some(), error.into()).await);
            }
            agent.wait_for_successor(former.as_ref().map(|health| health.started_at.as_str())).await?;
            Ok(())
        })?;
    } else {
        runtime.block_on(agent.restart())?;
    }
    Ok(console.line(&format!("Restarted agent \"{name}\"."))?)
}

/// An agent that was served is served again; the failure says how that went.
async fn restored(agent: &Agent, was_served: bool, failure: Failure) -> Failure {
    if !was_served || agent.health().await.is_ok() {
        return failure;
    }
    match agent.start_detached().await {
        Ok(health) => Failure::Service(format!("{failure}\nThe agent is served without its service for now (process {}).", health.pid)),
        Err(error) => Failure::Service(format!("{failure}\nIt could not be started without its service either: {error}")),
    }
}
