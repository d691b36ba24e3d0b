//! `wolli list`: the agents on disk, without asking any daemon.
//!
//! In a terminal names stand under each other; elsewhere each line is as wolli 0.0.2 printed it.

use serde_json::{Value, json};
use wolli_home::agent::{self, AgentDocument, Listing};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root};
use wolli_protocol::text::{utf16_len, utf16_prefix};

use crate::console::Console;
use crate::failure::Failure;

/// Longest purpose that is shown whole, in UTF-16 units.
const PURPOSE_MAX: usize = 72;
/// What is kept of a longer one, before the dots.
const PURPOSE_KEPT: usize = 69;

pub(crate) fn run(json: bool, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let listing = agent::list(&Root::of(environment)?)?;
    if json {
        let agents: Vec<Value> = listing.agents.iter().map(|(home, loaded)| described(home, &loaded.document)).collect();
        console.line(&json!(agents).to_string())?;
    } else {
        let names = listing.agents.iter().map(|(home, _)| home.name().as_str());
        let width = if console.shown { names.map(str::len).max().unwrap_or(0) } else { 0 };
        for (home, loaded) in &listing.agents {
            console.line(&format!("{:<width$}  —  {}", home.name().as_str(), shown_purpose(loaded.document.purpose())))?;
        }
        if listing.agents.is_empty() && listing.unreadable.is_empty() {
            console.line("No agents yet. Create one with: wolli new <name>")?;
        }
    }
    complain(&listing, console);
    Ok(())
}

/// What programs are told of an agent; no secret is in it.
fn described(home: &AgentHome, document: &AgentDocument) -> Value {
    let mut value = json!({
        "name": home.name().as_str(),
        "purpose": document.purpose(),
        "createdAt": document.created_at(),
        "home": home.path().to_string_lossy(),
        "port": document.port(),
    });
    let model = document.settings().and_then(|settings| settings.get("defaultModel")).and_then(Value::as_str);
    for (key, optional) in [("deployedAt", document.deployed_at()), ("model", model)] {
        if let Some(text) = optional {
            value[key] = text.into();
        }
    }
    value
}

fn complain(listing: &Listing, console: &Console) {
    for warning in listing.agents.iter().flat_map(|(_, loaded)| &loaded.warnings) {
        console.complain(&format!("warning: {warning}"));
    }
    for unreadable in &listing.unreadable {
        console.complain(&format!("warning: agent \"{}\" is not usable: {}", unreadable.name, unreadable.error));
    }
}

/// The purpose in one line, without control characters, cut where it gets long.
fn shown_purpose(purpose: &str) -> String {
    let line = purpose.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "");
    if line.is_empty() {
        "(no purpose yet)".to_owned()
    } else if utf16_len(&line) > PURPOSE_MAX {
        format!("{}...", utf16_prefix(&line, PURPOSE_KEPT))
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::shown_purpose;

    #[test]
    fn purposes() {
        assert_eq!(shown_purpose("  keep\n\tminutes "), "keep minutes");
        assert_eq!(shown_purpose(" \n"), "(no purpose yet)");
        assert_eq!(shown_purpose(&"x".repeat(72)), "x".repeat(72));
        assert_eq!(shown_purpose(&"x".repeat(73)), format!("{}...", "x".repeat(69)));
        assert_eq!(shown_purpose(&"𝕏".repeat(37)), format!("{}...", "𝕏".repeat(34)));
        assert_eq!(shown_purpose("a\u{1b}[31mb"), "a[31mb");
    }
}
