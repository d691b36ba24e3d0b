//! Agents that are installed as services: their daemons are started and ended by the service manager, and by nobody beside it.
//!
//! Orders go through the program that daemons are started with, as `<program> restart <name>`: it knows how to talk to the service
//! managers, and waits until they have done it. Whether there is a service is asked of the disk alone.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root, ServiceName};

use crate::error::ClientError;
use crate::spawn::DaemonProgram;

/// How long an order may take: a service has 20 s to stop and a minute to start, though it needs far less.
const ORDER_LIMIT: Duration = Duration::from_secs(100);

/// Bytes of the program's words that an error shows.
const SHOWN_OUTPUT: usize = 2_000;

/// Whether the agent is installed as a service of this user.
pub(crate) fn is_installed(environment: &Environment, home: &AgentHome) -> bool {
    Root::of(environment).is_ok_and(|root| ServiceName::new(environment, &root, home.name()).is_installed(environment))
}

/// Has the program carry out an order, such as `restart`, and waits for its end.
///
/// Dropping the future ends the program; what the service manager was told by then is done.
pub(crate) async fn order(
    program: Option<&DaemonProgram>,
    environment: &Environment,
    home: &AgentHome,
    order: &[&str],
) -> Result<(), ClientError> {
    let failed = |problem: String| ClientError::Service { agent: home.name().clone(), order: order.join(" "), problem };
    let program = program.ok_or_else(|| failed("there is no program to do it with".into()))?;
    let mut command = Command::new(&program.program);
    command.args(&program.arguments).args(order).arg(home.name().as_str());
    command.env_clear().envs(environment.variables()).current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = tokio::time::timeout(ORDER_LIMIT, command.output()).await;
    let ended = ended.map_err(|_| failed(format!("no end within {} s", ORDER_LIMIT.as_secs())))?;
    let ended = ended.map_err(|error| failed(format!("{}: {error}", program.program.display())))?;
    if ended.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    let said = wolli_protocol::text::byte_suffix(errors.trim(), SHOWN_OUTPUT);
    Err(failed(if said.is_empty() { ended.status.to_string() } else { said.to_owned() }))
}
