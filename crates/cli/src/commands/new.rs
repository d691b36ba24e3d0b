//! `wolli new`: makes an agent's home. The first chat with it is opened by the caller.

use std::time::SystemTime;

use wolli_home::agent::{self, Change, NewAgent};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentName, Root};

use crate::arguments::{New, RESERVED_NAMES};
use crate::console::Console;
use crate::failure::Failure;

/// Makes the agent and says so; gives its name.
pub(crate) fn run(arguments: New, environment: &Environment, console: &Console) -> Result<AgentName, Failure> {
    let root = Root::of(environment)?;
    let name: AgentName = arguments.name.parse()?;
    if RESERVED_NAMES.contains(&name.as_str()) && !root.agent(&name).config_json().exists() {
        return Err(Failure::ReservedName(arguments.name));
    }
    let (home, loaded) = agent::create(&root, NewAgent { name: name.clone(), model: arguments.model }, SystemTime::now())?;
    let mut warnings = loaded.warnings;
    if let Some(purpose) = arguments.purpose.as_deref().map(str::trim).filter(|purpose| !purpose.is_empty()) {
        let changed = agent::update(&home, |document| document.apply(Change::Purpose(purpose.to_owned())))?;
        warnings.extend(changed.warnings);
    }
    console.line(&format!("Created agent \"{name}\"."))?;
    for warning in warnings {
        console.complain(&format!("warning: {warning}"));
    }
    Ok(name)
}
