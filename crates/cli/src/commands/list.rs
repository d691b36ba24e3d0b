//! `wolli list`: the agents on disk, without asking any daemon.

use wolli_home::agent;
use wolli_home::environment::Environment;
use wolli_home::paths::Root;
use wolli_protocol::text::{utf16_len, utf16_prefix};

use crate::console::Console;
use crate::failure::Failure;

/// Longest purpose that is shown whole, in UTF-16 units.
const PURPOSE_MAX: usize = 72;
/// What is kept of a longer one, before the dots.
const PURPOSE_KEPT: usize = 69;

pub(crate) fn run(environment: &Environment, console: &Console) -> Result<(), Failure> {
    let listing = agent::list(&Root::of(environment)?)?;
    for (home, loaded) in &listing.agents {
        console.line(&format!("{}  —  {}", home.name(), shown_purpose(loaded.document.purpose())))?;
    }
    if listing.agents.is_empty() && listing.unreadable.is_empty() {
        console.line("No agents yet. Create one with: wolli new <name>")?;
    }
    for warning in listing.agents.iter().flat_map(|(_, loaded)| &loaded.warnings) {
        console.complain(&format!("warning: {warning}"));
    }
    for unreadable in &listing.unreadable {
        console.complain(&format!("warning: agent \"{}\" is not usable: {}", unreadable.name, unreadable.error));
    }
    Ok(())
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
