//! What was wrong with the agent's files, collected for people. Nothing in it ever stopped anything.
//!
//! Invariant: bounded, and each thing is told once. What is read again is told anew, so that a fault that was mended is no longer told.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wolli_protocol::resource::ResourceDiagnostic;

/// Diagnostics that are kept. More would say nothing new, and every client gets all of them.
const KEPT: usize = 500;

/// What a diagnostic is about, which says when it is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// The start of this process, and files of sessions; stays.
    Process,
    /// `config.toml`, `agent.json` and `models.json`, as the last reload found them.
    Configuration,
    /// The two tiers of settings, as they were read last.
    Settings,
    /// Saved models that could not be used, as the last reload and the sessions since then found them.
    Model,
}

#[derive(Debug)]
pub(super) struct Diagnostics(Mutex<Vec<(Topic, ResourceDiagnostic)>>);

impl Diagnostics {
    pub(super) fn new(topic: Topic, diagnostics: Vec<ResourceDiagnostic>) -> Self {
        let collected = Self(Mutex::default());
        collected.replace(topic, diagnostics);
        collected
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Topic, ResourceDiagnostic)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn all(&self) -> Vec<ResourceDiagnostic> {
        self.lock().iter().map(|(_, diagnostic)| diagnostic.clone()).collect()
    }

    /// True if it is new.
    pub(super) fn add(&self, topic: Topic, diagnostic: ResourceDiagnostic) -> bool {
        let mut known = self.lock();
        if known.len() >= KEPT || known.iter().any(|(_, known)| *known == diagnostic) {
            return false;
        }
        tracing::warn!(message = %diagnostic.message, path = diagnostic.path, "diagnostic");
        known.push((topic, diagnostic));
        true
    }

    /// Forgets what was told about `topic`, and tells these; gives those of them back that are new.
    pub(super) fn replace(&self, topic: Topic, mut diagnostics: Vec<ResourceDiagnostic>) -> Vec<ResourceDiagnostic> {
        self.lock().retain(|(known, diagnostic)| *known != topic || diagnostics.contains(diagnostic));
        diagnostics.retain(|diagnostic| self.add(topic, diagnostic.clone()));
        diagnostics
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::resource::DiagnosticKind;

    use super::*;

    fn about(message: &str) -> ResourceDiagnostic {
        ResourceDiagnostic::new(DiagnosticKind::Warning, message.to_owned(), None)
    }

    fn messages(diagnostics: &Diagnostics) -> Vec<String> {
        diagnostics.all().into_iter().map(|diagnostic| diagnostic.message).collect()
    }

    #[test]
    fn what_was_mended_is_no_longer_told() {
        let diagnostics = Diagnostics::new(Topic::Configuration, vec![about("a"), about("a"), about("b")]);
        diagnostics.add(Topic::Process, about("session"));
        diagnostics.add(Topic::Process, about("session"));
        diagnostics.replace(Topic::Settings, vec![about("c")]);
        assert_eq!(messages(&diagnostics), ["a", "b", "session", "c"]);
        diagnostics.replace(Topic::Configuration, vec![about("b"), about("d")]);
        diagnostics.replace(Topic::Settings, Vec::new());
        assert_eq!(messages(&diagnostics), ["b", "session", "d"]);
        for number in 0..2 * KEPT {
            diagnostics.add(Topic::Process, about(&number.to_string()));
        }
        assert_eq!(messages(&diagnostics).len(), KEPT);
    }
}
