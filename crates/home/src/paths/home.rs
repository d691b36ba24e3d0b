//! The folders: the root with its agents, the folder that agents share, and one agent's home.
//!
//! Only says where things are; nothing is created or checked here.

use std::path::{Path, PathBuf};

use super::name::AgentName;
use super::sessions::session_folder_name;
use crate::environment::{Environment, HomeUnknown};

/// The root folder, by default `~/.wolli`. Absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Takes an absolute path without `.` and `..`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The root of this environment.
    pub fn of(environment: &Environment) -> Result<Self, HomeUnknown> {
        environment.root().map(Self)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder with one home per agent.
    pub fn agents(&self) -> PathBuf {
        self.0.join("agents")
    }

    /// The configuration of all agents.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Where sockets go when the system has no folder for them.
    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    /// The home of the agent of that name, whether there is one or not.
    pub fn agent(&self, name: &AgentName) -> AgentHome {
        AgentHome { name: name.clone(), path: self.agents().join(name.as_str()) }
    }

    /// Guards the making of agents, so that no two get one port. Its name is no agent's name.
    pub fn creation_lock(&self) -> PathBuf {
        self.agents().join(".create.lock")
    }
}

/// The folder that all agents share, by default `~/.wolli/agent`. Absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedFolder(PathBuf);

impl SharedFolder {
    /// Takes an absolute path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The shared folder of this environment.
    pub fn of(environment: &Environment) -> Result<Self, HomeUnknown> {
        environment.shared_folder().map(Self)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Credentials of all agents.
    pub fn auth(&self) -> PathBuf {
        self.0.join("auth.json")
    }

    /// Settings of all agents.
    pub fn settings(&self) -> PathBuf {
        self.0.join("settings.json")
    }

    /// The user's own providers and models; JSON with comments.
    pub fn models(&self) -> PathBuf {
        self.0.join("models.json")
    }

    /// Keys of the terminal client.
    pub fn keybindings(&self) -> PathBuf {
        self.0.join("keybindings.json")
    }

    /// Themes of the terminal client.
    pub fn themes(&self) -> PathBuf {
        self.0.join("themes")
    }
}

/// The home of one agent, `<root>/agents/<name>`. Absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHome {
    name: AgentName,
    path: PathBuf,
}

macro_rules! below {
    ($($(#[$doc:meta])* $method:ident = $name:literal;)*) => {
        impl AgentHome { $($(#[$doc])* pub fn $method(&self) -> PathBuf { self.path.join($name) })* }
    };
}

below! {
    /// Identity, token and settings of the agent.
    config_json = "agent.json";
    /// The last `agent.json` that was whole and valid.
    last_good = "agent.json.last-good";
    /// Who the agent is.
    soul = "SOUL.md";
    /// What the agent remembers.
    memory = "MEMORY.md";
    /// What the agent knows about its user.
    user = "USER.md";
    /// Text that is appended to the system prompt; optional.
    append_system = "APPEND_SYSTEM.md";
    /// Sessions, in sub-folders.
    sessions = "sessions";
    /// The folder that session headers record.
    workspace = "workspace";
    /// Rules for running commands on the host.
    approvals = "approvals.json";
    /// Accounts of integrations.
    integrations = "integrations.json";
    /// Run-time state of integrations.
    store = "store";
    /// Credentials of this agent alone.
    auth = "auth.json";
    /// Spill files and temporary files of commands.
    temporary = "tmp";
    /// What models used, per answer or in sums.
    usage = "usage.jsonl";
    /// The daemon's log files.
    logs = "logs";
    /// The configuration of this agent alone.
    config_toml = "config.toml";
    /// The exclusive lock on the home, with a record of its holder.
    daemon_lock = "daemon.lock";
    /// Guards changes of `agent.json`.
    change_lock = "agent.json.change";
}

impl AgentHome {
    /// The agent's name.
    pub fn name(&self) -> &AgentName {
        &self.name
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where new sessions of this home are stored.
    pub fn session_folder(&self) -> PathBuf {
        self.sessions().join(session_folder_name(&self.workspace()))
    }
}
