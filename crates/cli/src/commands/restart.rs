//! `wolli restart`: ends an agent's daemon, if one runs, and starts it anew, with the environment of now.

use wolli_home::environment::Environment;

use crate::agents;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk;

/// Returns when the new daemon answers.
pub(crate) fn run(name: &str, environment: &Environment, console: &Console) -> Result<(), Failure> {
    agents::find(environment, name, Failure::NoSuchAgent)?;
    talk::restart_daemon(name, environment)?;
    Ok(console.line(&format!("Restarted agent \"{name}\"."))?)
}
