//! `wolli config`: the configuration in effect, and where each value comes from.

use wolli_home::config;
use wolli_home::environment::Environment;
use wolli_home::paths::Root;

use crate::agents;
use crate::console::Console;
use crate::failure::Failure;

/// The files that count, in the order in which they are read, then every key. Any fault in a file is an error.
pub(crate) fn run(name: Option<&str>, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let mut files = vec![Root::of(environment)?.config()];
    if let Some(name) = name {
        let (home, _) = agents::find(environment, name, Failure::UnknownAgent)?;
        files.push(home.config_toml());
    }
    let configuration = config::load_strictly(files.iter().map(|file| file.as_path()))?;
    for file in &files {
        let state = if file.exists() { "" } else { " (does not exist)" };
        console.line(&format!("# read: {}{state}", file.display().to_string().replace(char::is_control, "?")))?;
    }
    Ok(console.print(&format!("\n{}", configuration.effective()))?)
}
