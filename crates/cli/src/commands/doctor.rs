//! `wolli doctor`: what is wrong with an agent or with all of them, and what to type against it. Needs no daemon and starts none.

use serde_json::{Value, json};
use wolli_daemon::doctor::{self, Finding, Patient, Severity};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root, SharedFolder};

use crate::agents;
use crate::arguments::Doctor;
use crate::console::Console;
use crate::failure::Failure;
use crate::status;
use crate::talk::{self, connect};

/// One agent, looked at.
struct Examined {
    agent: String,
    findings: Vec<Finding>,
    /// What `--fix` did away with.
    fixed: Vec<Finding>,
    /// What it could not do.
    failed: Vec<String>,
}

/// Gives the exit status: 0 if nothing is wrong, 1 for an error, 10 for warnings alone. What `--fix` did away with is not wrong any more.
pub(crate) fn run(command: &Doctor, environment: &Environment, console: &Console) -> Result<u8, Failure> {
    let (root, shared) = (Root::of(environment)?, SharedFolder::of(environment)?);
    let homes = match &command.name {
        Some(name) => vec![one(environment, name)?],
        None => all(&root)?,
    };
    let runtime = talk::runtime()?;
    let mut examined = Vec::new();
    for home in &homes {
        examined.push(runtime.block_on(examine(command.fix, environment, &root, &shared, home)));
    }
    if command.json {
        console.line(&to_json(&examined).to_string())?;
    } else if examined.is_empty() {
        console.line("No agents yet. Create one with: wolli new <name>")?;
    } else {
        for one in &examined {
            console.print(&to_text(one))?;
        }
        let fixable = examined.iter().flat_map(|one| &one.findings).any(|finding| finding.fixable);
        if fixable && !command.fix {
            let name = command.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            console.line(&format!("What is marked with * is done by: wolli doctor{name} --fix"))?;
        }
    }
    for problem in examined.iter().flat_map(|one| one.failed.iter().map(move |problem| format!("{}: {problem}", one.agent))) {
        console.complain(&problem);
    }
    let worst = examined.iter().flat_map(|one| &one.findings).map(|finding| finding.severity).max();
    Ok(match worst {
        None => 0,
        Some(Severity::Warning) => status::WARNING,
        Some(Severity::Error) => status::FAILURE,
    })
}

/// The agent of that name, however damaged.
fn one(environment: &Environment, name: &str) -> Result<AgentHome, Failure> {
    let home = agents::home(environment, name, Failure::UnknownAgent)?;
    if home.path().symlink_metadata().is_err() {
        return Err(Failure::UnknownAgent(name.to_owned()));
    }
    Ok(home)
}

/// Every agent that can be found, by name.
fn all(root: &Root) -> Result<Vec<AgentHome>, Failure> {
    let listing = wolli_home::agent::list(root)?;
    let damaged = listing.unreadable.iter().filter_map(|unreadable| unreadable.name.parse().ok()).map(|name| root.agent(&name));
    let mut homes: Vec<AgentHome> = listing.agents.iter().map(|(home, _)| home.clone()).chain(damaged).collect();
    homes.sort_by(|one, two| one.name().cmp(two.name()));
    Ok(homes)
}

async fn examine(fix: bool, environment: &Environment, root: &Root, shared: &SharedFolder, home: &AgentHome) -> Examined {
    let name = home.name().as_str();
    let look = || async {
        // A damaged agent cannot be connected to, and no daemon is one of the answers.
        let health = match connect::agent(environment, name) {
            Ok(agent) => agent.health().await.ok(),
            Err(_) => None,
        };
        let patient = Patient::new(environment, root, shared, home, health);
        let findings = doctor::examine(&patient).await;
        (patient, findings)
    };
    let (patient, findings) = look().await;
    if !fix || !findings.iter().any(|finding| finding.fixable) {
        return Examined { agent: name.to_owned(), findings, fixed: Vec::new(), failed: Vec::new() };
    }
    let failed = doctor::repair(&patient, &findings).await;
    let (_, left) = look().await;
    let is_left = |finding: &Finding| left.iter().any(|left| (left.code, &left.problem) == (finding.code, &finding.problem));
    let fixed = findings.into_iter().filter(|finding| finding.fixable && !is_left(finding)).collect();
    Examined { agent: name.to_owned(), findings: left, fixed, failed }
}

/// Keys keep their names and meanings; new ones may come.
fn to_json(examined: &[Examined]) -> Value {
    let agents: Vec<Value> = examined
        .iter()
        .map(|one| json!({"agent": one.agent, "findings": one.findings, "fixed": one.fixed, "notFixed": one.failed}))
        .collect();
    let count = |severity| examined.iter().flat_map(|one| &one.findings).filter(|finding| finding.severity == severity).count();
    json!({"errors": count(Severity::Error), "warnings": count(Severity::Warning), "checks": doctor::CHECKS, "agents": agents})
}

fn to_text(one: &Examined) -> String {
    let plain =
        |text: &str| text.replace(|character: char| character.is_control() && character != '\n', "?").replace('\n', "\n           ");
    let mut lines = vec![one.agent.clone()];
    for fixed in &one.fixed {
        lines.push(format!("  fixed    {}", plain(&fixed.problem)));
    }
    for finding in &one.findings {
        let severity = if finding.severity == Severity::Error { "error" } else { "warning" };
        let mark = if finding.fixable { "*" } else { "" };
        lines.push(format!("  {severity:<8} {}", plain(&finding.problem)));
        lines.push(format!("           {}", plain(&finding.meaning)));
        lines.push(format!("           fix{mark}: {}", plain(&finding.fix)));
    }
    if one.findings.is_empty() {
        lines.push("  nothing is wrong".to_owned());
    }
    lines.join("\n") + "\n"
}
