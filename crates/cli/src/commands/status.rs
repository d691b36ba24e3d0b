//! `wolli status`: whether an agent runs, which program serves it, and how its service is.

use serde_json::json;
use wolli_home::environment::Environment;
use wolli_home::lock;

use super::service;
use crate::agents;
use crate::arguments::Named;
use crate::console::Console;
use crate::failure::Failure;
use crate::status;
use crate::talk::{self, connect};

/// Gives the exit status: 3 if nobody serves the agent.
pub(crate) fn run(named: &Named, environment: &Environment, console: &Console) -> Result<u8, Failure> {
    let name = &named.name;
    let (home, loaded) = agents::find(environment, name, Failure::NoSuchAgent)?;
    let agent = connect::agent(environment, name)?;
    let service = service::of(environment, &home)?;
    let (health, (mut shown, found)) = talk::runtime()?.block_on(async { (agent.health().await, service::found(&service).await) });
    let ended = if health.is_ok() { 0 } else { status::UNREACHABLE };
    let deployed = loaded.document.deployed_at();
    if named.json {
        let mut json = json!({"agent": name, "running": health.is_ok(), "deployedAt": deployed, "port": loaded.document.port()});
        match &health {
            Ok(health) => {
                json["pid"] = health.pid.into();
                json["startedAt"] = health.started_at.as_str().into();
                for (key, value) in [("version", &health.version), ("executable", &health.executable), ("buildId", &health.build_id)] {
                    if let Some(value) = value {
                        json[key] = value.as_str().into();
                    }
                }
            }
            Err(error) => json["problem"] = error.to_string().into(),
        }
        json["service"] = found;
        console.line(&json.to_string())?;
        return Ok(ended);
    }
    let mut first = Vec::new();
    match &health {
        Ok(health) => {
            first.push(("running", format!("process {} since {}, port {}", health.pid, health.started_at, loaded.document.port())));
            let program = health.executable.as_deref().unwrap_or("?");
            first.push(("program", format!("{program}, version {}", health.version.as_deref().unwrap_or("?"))));
            if is_other(health) {
                first.push(("warning", format!("that is another build than this program; use this one with: wolli restart {name}")));
            }
        }
        Err(error) => {
            first.push(("running", format!("no: {error}")));
            if let Ok(Some(holder)) = lock::holder(&home.daemon_lock()) {
                first.push(("holder", holder.map_or_else(|| "a process that left no record".to_owned(), |holder| holder.to_string())));
            }
        }
    }
    first.push(("deployed", deployed.unwrap_or("no, it is still forming").to_owned()));
    first.append(&mut shown);
    console.print(&service::lines(name, &first))?;
    Ok(ended)
}

/// Whether the daemon is another build than the program that asks.
fn is_other(health: &wolli_protocol::state::Health) -> bool {
    let own = std::env::current_exe().ok().map(|path| service::build_id(&path));
    health.build_id.is_some() && health.build_id != own
}
