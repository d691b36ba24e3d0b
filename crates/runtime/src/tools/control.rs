//! Files that no tool writes: configuration, credentials, approvals and sessions. What the agent may do is not for the agent to change.
//!
//! Holds for `write` and `edit`; commands are kept away from these files by their target.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wolli_home::paths::{AgentHome, Root, SharedFolder};

use super::failure::ToolFailure;
use super::path::real;

/// What is control state in the home of any agent.
const IN_EACH_HOME: [&str; 11] = [
    "agent.json",
    "agent.json.last-good",
    "agent.json.change",
    "approvals.json",
    "integrations.json",
    "auth.json",
    "config.toml",
    "daemon.lock",
    "sessions",
    "store",
    "usage.jsonl",
];

/// Where control state is. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ControlState {
    /// Folders with one home in each entry.
    agents: Option<Arc<Path>>,
    /// Files and folders.
    paths: Arc<[PathBuf]>,
}

impl ControlState {
    /// The control state of an agent, of all its neighbours, and what they share.
    #[must_use]
    pub fn new(home: &AgentHome, root: &Root, shared: &SharedFolder) -> Self {
        let own = IN_EACH_HOME.iter().map(|name| home.path().join(name));
        let common = [root.config(), root.run(), shared.auth(), shared.settings(), shared.models()];
        Self { agents: Some(root.agents().into()), paths: own.chain(common).collect() }
    }

    /// Refuses a path that leads to control state, whatever links it goes through. Blocking.
    pub(super) fn refuse(&self, path: &Path) -> Result<(), ToolFailure> {
        let target = real(path);
        let is_listed = self.paths.iter().any(|protected| target.starts_with(real(protected)));
        let is_in_home = || {
            let below = target.strip_prefix(real(self.agents.as_deref()?)).ok()?;
            let name = below.components().nth(1)?;
            IN_EACH_HOME.iter().any(|protected| name.as_os_str() == *protected).then_some(())
        };
        if is_listed || is_in_home().is_some() {
            return Err(ToolFailure::Text(format!(
                "EACCES: permission denied, open '{}' (configuration, approvals and sessions are not written by tools)",
                path.display()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wolli_home::paths::AgentName;

    use super::*;
    use crate::tools::testing::{Home, call, text};

    #[tokio::test]
    async fn no_way_leads_to_control_state() {
        let folder = Home::new();
        let root = Root::new(folder.path("root"));
        let shared = SharedFolder::new(folder.path("shared"));
        let home = root.agent(&"mole".parse::<AgentName>().unwrap());
        for path in [home.config_json(), home.approvals(), home.sessions().join("s/x.jsonl"), root.config(), shared.auth(), home.soul()] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "old").unwrap();
        }
        std::os::unix::fs::symlink("agent.json", home.path().join("innocent")).unwrap();
        std::os::unix::fs::symlink("sessions", home.path().join("logs-of-mine")).unwrap();
        let mut context = folder.context();
        context.home = home.path().to_owned();
        context.control = ControlState::new(&home, &root, &shared);
        let shared_auth = shared.auth();
        for path in [
            "agent.json",
            "./x/../agent.json",
            "innocent",
            "config.toml",
            "sessions/new/s.jsonl",
            "logs-of-mine/s/x.jsonl",
            "../other/agent.json",
            "../other/sessions/s/x.jsonl",
            "../../config.toml",
            shared_auth.to_str().unwrap(),
        ] {
            let write = call(&context, "write", json!({"path": path, "content": "new"})).await;
            assert!(write.is_error && text(&write).starts_with("EACCES: permission denied, open '"), "{path}: {write:?}");
            let edit = call(&context, "edit", json!({"path": path, "edits": [{"oldText": "old", "newText": "new"}]})).await;
            assert!(edit.is_error, "{path}: {edit:?}");
        }
        for path in ["SOUL.md", "workspace/agent.json", "notes/sessions/x", "../other/SOUL.md", "agent.json.txt"] {
            let write = call(&context, "write", json!({"path": path, "content": "new"})).await;
            assert!(!write.is_error, "{path}: {write:?}");
        }
        assert_eq!(std::fs::read_to_string(home.config_json()).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(home.sessions().join("s/x.jsonl")).unwrap(), "old");
    }
}
