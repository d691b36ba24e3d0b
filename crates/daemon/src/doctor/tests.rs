//! An agent to look at, and a home in which nothing is wrong.

use tempfile::TempDir;
use wolli_home::environment::Environment;
use wolli_home::paths::{Root, SharedFolder};
use wolli_protocol::state::Health;

use super::*;

/// An agent in a home of its own, without a service manager.
pub(super) fn patient() -> (TempDir, Patient) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    let environment = Environment::new([("HOME", home), ("WOLLI_SERVICE_MANAGER", "none"), ("XDG_RUNTIME_DIR", home)], "/");
    let (root, shared) = (Root::of(&environment).unwrap(), SharedFolder::of(&environment).unwrap());
    let agent = root.agent(&"scribe".parse().unwrap());
    let patient = Patient::new(&environment, &root, &shared, &agent, None);
    (folder, patient)
}

/// The answer of a daemon that says little.
pub(super) fn health() -> Health {
    serde_json::from_value(serde_json::json!({"status": "ok", "agent": "scribe", "pid": 4711, "startedAt": "2026-01-01T00:00:00.000Z"}))
        .unwrap()
}

#[tokio::test]
async fn every_check_of_a_finding_is_listed() {
    let (_folder, patient) = patient();
    // Nothing is there: the agent is unusable, and everything else is looked at all the same.
    let found = examine(&patient).await;
    assert!(found.iter().any(|finding| finding.code == "agent_unusable"), "{found:?}");
    for finding in &found {
        assert!(CHECKS.contains(&finding.check), "{finding:?}");
        assert!(!finding.meaning.is_empty() && !finding.fix.is_empty(), "{finding:?}");
    }
}
