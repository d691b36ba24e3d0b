//! A temporary home with one deployed agent, and with sessions if asked for. Removed when dropped.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde_json::json;
use tempfile::TempDir;
use wolli_home::agent::{self, Change, NewAgent};
use wolli_home::paths::{AgentHome, AgentName, Root, SharedFolder};

use super::sessions::{self, Content};
use crate::wire::Target;

/// The agent of every temporary home.
pub const AGENT: &str = "bench";
/// The scripted provider's model.
pub const MODEL: &str = "bench/load";

/// A folder with everything that a daemon reads and writes.
#[derive(Debug)]
pub struct BenchHome {
    folder: TempDir,
    home: AgentHome,
    shared: SharedFolder,
    /// Where the agent's daemon listens.
    pub target: Target,
}

impl BenchHome {
    /// Makes one whose default model is the scripted provider.
    pub fn new(provider: SocketAddr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("wolli-bench-").tempdir().context("failed to make a temporary home")?;
        let root = Root::new(folder.path().join(".wolli"));
        let shared = SharedFolder::new(root.path().join("agent"));
        fs::create_dir_all(shared.path())?;
        let models = json!({ "providers": { "bench": {
            "baseUrl": format!("http://{provider}/v1"),
            "api": "openai-completions",
            "apiKey": "bench-provider-key",
            "models": [{ "id": "load", "contextWindow": 100_000_000, "maxTokens": 1_000_000 }],
        }}});
        fs::write(shared.models(), models.to_string())?;
        let name: AgentName = AGENT.parse()?;
        let (home, _) = agent::create(&root, NewAgent { name, model: Some(MODEL.to_owned()) }, SystemTime::now())?;
        let loaded = agent::update(&home, |document| {
            document.apply(Change::Purpose("be measured".to_owned()));
            document.apply(Change::Deploy(SystemTime::now()));
        })?;
        let address = SocketAddr::from(([127, 0, 0, 1], loaded.document.port()));
        let target = Target { address, token: loaded.document.token().to_owned() };
        Ok(Self { folder, home, shared, target })
    }

    /// The temporary folder, which is the user's home too.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the daemon's standard error goes.
    pub fn error_file(&self) -> PathBuf {
        self.path().join("stderr")
    }

    /// The whole environment of a daemon.
    pub fn environment(&self) -> [(&'static str, PathBuf); 10] {
        [
            ("HOME", self.path().to_owned()),
            ("WOLLI_HOME", self.path().join(".wolli")),
            ("WOLLI_SHARED_DIR", self.shared.path().to_owned()),
            ("WOLLI_SERVICE_MANAGER", "none".into()),
            ("WOLLI_SANDBOX", "host".into()),
            ("WOLLI_OFFLINE", "1".into()),
            ("PATH", "/usr/bin:/bin".into()),
            ("LANG", "C.UTF-8".into()),
            // As the service unit sets them: the system allocator gives memory back.
            ("MALLOC_ARENA_MAX", "1".into()),
            ("MALLOC_TRIM_THRESHOLD_", "131072".into()),
        ]
    }

    /// Writes sessions, each newer than the one before, and waits until they are on disk. Returns their ids, the newest last.
    pub fn write_sessions(&self, contents: &[Content]) -> Result<Vec<String>> {
        let folder = self.home.session_folder();
        fs::create_dir_all(&folder)?;
        let workspace = self.home.workspace();
        let write = |(index, content)| sessions::write(&folder, &workspace, index, content).context("failed to write a session");
        let ids = (0_u32..).zip(contents).map(write).collect::<Result<_>>()?;
        // Otherwise the measurement would share the disk with the writing.
        rustix::fs::sync();
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_with_an_agent_and_sessions_is_gone_afterwards() {
        let home = BenchHome::new(SocketAddr::from(([127, 0, 0, 1], 9))).unwrap();
        let content = Content { entries: 3, entry_bytes: 500, compacted: false };
        let ids = home.write_sessions(&[content, content]).unwrap();
        assert_eq!(ids.len(), 2);
        assert_eq!(fs::read_dir(home.home.session_folder()).unwrap().count(), 2);
        let loaded = agent::load(&home.home).unwrap().document;
        assert!(loaded.deployed_at().is_some());
        assert_eq!(loaded.port(), home.target.address.port());
        let folder = home.path().to_owned();
        drop(home);
        assert!(!folder.exists());
    }
}
