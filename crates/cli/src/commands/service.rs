//! `wolli service`: an agent as a service of its user; and the service for the other commands.

use serde_json::json;
use wolli_daemon::build_id as daemon_build_id;
use wolli_daemon::service::{AgentService, ServiceError, Start};
use wolli_home::environment::Environment;
use wolli_home::lock;
use wolli_home::paths::{AgentHome, Root};

use crate::agents;
use crate::arguments::{Named, Service};
use crate::console::Console;
use crate::failure::Failure;
use crate::status;
use crate::talk;

/// The service of the agent with that home.
pub(crate) fn of(environment: &Environment, home: &AgentHome) -> Result<AgentService, Failure> {
    Ok(AgentService::new(environment, &Root::of(environment)?, home))
}

/// Tells builds of the program apart.
pub(crate) fn build_id(program: &std::path::Path) -> String {
    daemon_build_id(program)
}

/// Starts the service and waits until it is ready.
pub(crate) async fn start(service: &AgentService) -> Result<(), Failure> {
    Ok(service.start(Start::Ready).await?)
}

pub(crate) fn run(command: &Service, environment: &Environment, console: &Console) -> Result<u8, Failure> {
    let (Service::Install(named) | Service::Uninstall(named) | Service::Status(named)) = command;
    let home = match command {
        Service::Install(_) => agents::find(environment, &named.name, Failure::UnknownAgent)?.0,
        // The service of an agent that is damaged or gone can be taken away, too.
        Service::Uninstall(_) | Service::Status(_) => agents::home(environment, &named.name, Failure::NoSuchAgent)?,
    };
    let service = of(environment, &home)?;
    match command {
        Service::Install(_) => install(named, &service, &home, console),
        Service::Uninstall(_) => uninstall(named, &service, console),
        Service::Status(_) => show(named, &service, &home, console),
    }
}

fn install(named: &Named, service: &AgentService, home: &AgentHome, console: &Console) -> Result<u8, Failure> {
    let name = &named.name;
    let (installed, notes) = talk::runtime()?.block_on(service.install())?;
    if named.json {
        let warnings = &installed.warnings;
        console.line(&json!({"agent": name, "installed": true, "new": installed.new, "warnings": warnings, "notes": notes}).to_string())?;
    } else {
        let what = if installed.new { "Installed" } else { "Renewed" };
        let when = if installed.warnings.is_empty() { "with the machine" } else { "when you log in" };
        console.line(&format!("{what} the service of \"{name}\": it starts {when}, and again after a crash."))?;
        let next = match lock::holder(&home.daemon_lock()) {
            Ok(Some(_)) => format!("A daemon runs already. What was installed counts from: wolli restart {name}"),
            Ok(None) | Err(_) => format!("Start it now with: wolli start {name}"),
        };
        console.line(&next)?;
    }
    for note in &notes {
        console.complain(&format!("note: {note}"));
    }
    for warning in &installed.warnings {
        console.complain(&format!("warning: {warning}"));
    }
    Ok(if installed.warnings.is_empty() { 0 } else { status::WARNING })
}

fn uninstall(named: &Named, service: &AgentService, console: &Console) -> Result<u8, Failure> {
    let name = &named.name;
    let was_installed = service.is_installed();
    talk::runtime()?.block_on(service.uninstall())?;
    if named.json {
        console.line(&json!({"agent": name, "installed": false, "wasInstalled": was_installed}).to_string())?;
    } else if was_installed {
        console.line(&format!("Took the service of \"{name}\" away. The agent is as it was; start it with: wolli start {name}"))?;
    } else {
        console.line(&format!("\"{name}\" is not installed as a service."))?;
    }
    Ok(0)
}

fn show(named: &Named, service: &AgentService, home: &AgentHome, console: &Console) -> Result<u8, Failure> {
    if !service.is_installed() && std::fs::symlink_metadata(home.path()).is_err() {
        return Err(Failure::NoSuchAgent(named.name.clone()));
    }
    let found = talk::runtime()?.block_on(service.status());
    if named.json {
        let mut shown = json!({"agent": named.name});
        if let (Some(shown), Ok(serde_json::Value::Object(found))) = (shown.as_object_mut(), serde_json::to_value(&found)) {
            shown.extend(found);
        }
        console.line(&shown.to_string())?;
    } else {
        console.print(&lines(&named.name, &found_lines(service, &found)))?;
    }
    Ok(0)
}

/// What `wolli status` shows of the service, line by line, and the same as JSON.
pub(crate) async fn found(service: &AgentService) -> (Vec<(&'static str, String)>, serde_json::Value) {
    let found = service.status().await;
    (found_lines(service, &found), serde_json::to_value(&found).unwrap_or_default())
}

fn found_lines(service: &AgentService, found: &wolli_daemon::service::Status) -> Vec<(&'static str, String)> {
    let mut shown = Vec::new();
    let enabled = match (found.enabled, found.lingering) {
        (true, Some(false)) => "starts when you log in",
        (true, _) => "starts with the machine",
        (false, _) => "does not start by itself",
    };
    shown.push((
        "service",
        match (found.manager, found.installed) {
            ("none", _) => "no service manager".to_owned(),
            (manager, false) => format!("not installed ({manager})"),
            (manager, true) => format!("installed, {enabled} ({manager})"),
        },
    ));
    if let Some(state) = found.state.as_ref().filter(|_| found.installed) {
        shown.push(("state", found.main_pid.map_or_else(|| state.clone(), |pid| format!("{state}, process {pid}"))));
    }
    if let Some(definition) = found.definition.as_ref().filter(|_| found.installed) {
        shown.push(("definition", definition.display().to_string()));
    }
    if found.installed && found.lingering == Some(false) {
        shown.push(("warning", "it ends when you log out; turn lingering on with: sudo loginctl enable-linger \"$USER\"".to_owned()));
    }
    if found.other_program == Some(true) {
        shown.push(("warning", format!("it starts another wolli than this one; renew it with: wolli service install {}", service.agent())));
    }
    if let Some(problem) = &found.problem {
        shown.push(("problem", problem.replace('\n', "\n              ")));
    }
    shown
}

/// Lines under a heading, with their values in a column.
pub(crate) fn lines(heading: &str, shown: &[(&'static str, String)]) -> String {
    let lines = shown.iter().map(|(what, text)| format!("  {what:<12}{text}\n"));
    std::iter::once(format!("{heading}\n")).chain(lines).collect()
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error.to_string())
    }
}
