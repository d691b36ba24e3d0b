//! `agent.json`, its token, and `config.toml`.

use wolli_home::agent::{self, AgentDocument, AgentError, Loaded};
use wolli_home::config::{self, Configuration};
use wolli_home::{reading, token};

use super::Patient;
use super::finding::{Finding, word};

const CHECK: &str = "configuration";

/// What the files say.
#[derive(Debug)]
pub(super) struct Facts {
    agent: Result<Loaded, AgentError>,
    /// What stands in `agent.json` now is what counts.
    whole: bool,
    pub(super) configuration: Configuration,
}

impl Facts {
    pub(super) fn document(&self) -> Option<&AgentDocument> {
        self.agent.as_ref().ok().map(|loaded| &loaded.document)
    }
}

pub(super) fn gather(patient: &Patient) -> Facts {
    let home = &patient.home;
    let text = reading::read(&home.config_json()).ok().flatten();
    Facts {
        agent: agent::load(home),
        whole: text.is_some_and(|text| AgentDocument::parse(&text).is_ok()),
        configuration: config::load([patient.root.config().as_path(), home.config_toml().as_path()]),
    }
}

pub(super) fn findings(patient: &Patient, facts: &Facts) -> Vec<Finding> {
    let (path, last_good) = (patient.home.config_json(), patient.home.last_good());
    let edit = format!("\"${{EDITOR:-vi}}\" {}", word(&path));
    let mut found = Vec::new();
    match &facts.agent {
        Err(error) => found.push(
            Finding::error(CHECK, "agent_unusable", error.to_string())
                .means("The agent has no usable agent.json and no good copy of one: it cannot be started, and nobody can connect to it.")
                .fix(edit),
        ),
        Ok(loaded) => {
            if !facts.whole {
                found.push(
                    Finding::warning(CHECK, "agent_damaged", format!("{} is damaged", path.display()))
                        .means(
                            "The last good copy counts in its place; the next change writes it back, and keeps the damaged file beside it.",
                        )
                        .fix(format!("cp -p {} {}", word(&last_good), word(&path))),
                );
            } else if let Some(warning) = loaded.warnings.first() {
                found.push(
                    Finding::warning(CHECK, "no_last_good", warning.clone())
                        .means("If agent.json is damaged, there is no copy to go on with.")
                        .fix(format!("ls -l {}", word(patient.home.path()))),
                );
            }
            if !token::is_bearer(loaded.document.token()) {
                found.push(
                    Finding::error(CHECK, "bad_token", format!("\"token\" in {} cannot be used as a token", path.display()))
                        .means("The daemon does not start: a token is one or more of A-Z a-z 0-9 . _ ~ + / - and may end in =.")
                        .fix(edit),
                );
            }
        }
    }
    for diagnostic in &facts.configuration.diagnostics {
        let meaning = if diagnostic.whole_file { "Nothing in the file counts." } else { "The line does not count; the default does." };
        found.push(
            Finding::warning(CHECK, "bad_configuration", diagnostic.to_string())
                .means(format!("{meaning} What counts is shown by: wolli config {}", patient.name()))
                .fix(format!("\"${{EDITOR:-vi}}\" {}", word(&diagnostic.path))),
        );
    }
    found
}
