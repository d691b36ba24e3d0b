//! What is to run as a service, and with which environment: the same for every service manager.
//!
//! Invariant: nothing secret is in it. Definitions are plain files, and `systemctl show` prints them to anybody. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, ServiceName};

/// How long an agent that is started on demand stays without work.
pub const DEFAULT_IDLE: Duration = Duration::from_secs(600);

/// Variables that a service takes over from whoever installs it, if they are set.
const TAKEN_OVER: &[&str] = &[
    "WOLLI_HOME",
    "WOLLI_SHARED_DIR",
    "WOLLI_DAEMON_HOST",
    "WOLLI_SERVICE_MANAGER",
    "WOLLI_SANDBOX",
    "WOLLI_CONTAINER_IMAGE",
    "WOLLI_BYPASS_PERMISSIONS",
    "WOLLI_TELEMETRY",
    "WOLLI_OFFLINE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HOME",
    "SHELL",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "LANG",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// When nobody said which language it is, text is UTF-8 all the same.
const DEFAULT_LANGUAGE: &str = "C.UTF-8";

/// A service that waits for its first request without a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemand {
    /// Where the service manager listens.
    pub address: SocketAddr,
    /// The socket beside it, if its path can be used.
    pub socket: Option<PathBuf>,
    /// How long the daemon stays without work.
    pub idle: Duration,
}

/// One agent's service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub(super) agent: String,
    pub(super) name: ServiceName,
    pub(super) home: PathBuf,
    /// The program, absolute.
    pub(super) executable: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) on_demand: Option<OnDemand>,
    /// Where launchd writes what the daemon prints.
    pub(super) output: PathBuf,
    /// What the person should know about it.
    pub(super) notes: Vec<String>,
}

impl Definition {
    /// From the environment of whoever installs it. `search_path` is the `PATH` of the service.
    #[must_use]
    pub fn new(
        environment: &Environment,
        home: &AgentHome,
        name: ServiceName,
        executable: &Path,
        search_path: String,
        on_demand: Option<OnDemand>,
    ) -> Self {
        let mut taken = BTreeMap::new();
        let mut notes = Vec::new();
        for variable in TAKEN_OVER {
            let Some(value) = environment.variable(variable).filter(|value| !value.is_empty()) else { continue };
            if variable.to_ascii_lowercase().ends_with("_proxy") && has_password(value) {
                notes.push(format!("{variable} holds a password and is not passed to the service; put it into a drop-in of your own"));
                continue;
            }
            taken.insert((*variable).to_owned(), value.to_owned());
        }
        if environment.bypass_permissions() {
            notes.push("WOLLI_BYPASS_PERMISSIONS is passed to the service: it asks nobody before it leaves the sandbox".to_owned());
        }
        if environment.daemon_token().is_some() {
            notes.push("WOLLI_DAEMON_TOKEN is not passed to the service, which uses the token in agent.json".to_owned());
        }
        let keys: Vec<&str> = environment
            .variables()
            .filter_map(|(name, _)| name.to_str())
            .filter(|name| name.ends_with("_API_KEY") || *name == "ANTHROPIC_OAUTH_TOKEN" || *name == "HF_TOKEN")
            .collect();
        if !keys.is_empty() {
            notes.push(format!("{} not passed to the service; store what it needs with /login", are(&keys)));
        }
        for (name, value) in environment.variables() {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
                && name.starts_with("LC_")
            {
                taken.insert(name.to_owned(), value.to_owned());
            }
        }
        taken.entry("LANG".to_owned()).or_insert_with(|| DEFAULT_LANGUAGE.to_owned());
        taken.entry("TMPDIR".to_owned()).or_insert_with(|| environment.temporary_folder().to_string_lossy().into_owned());
        taken.insert("PATH".to_owned(), search_path);
        Self {
            agent: home.name().as_str().to_owned(),
            name,
            home: home.path().to_owned(),
            executable: executable.to_owned(),
            environment: taken,
            on_demand,
            output: home.logs().join("service.log"),
            notes,
        }
    }

    /// What the person who installs it should know.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The names of the service.
    #[must_use]
    pub fn name(&self) -> &ServiceName {
        &self.name
    }

    /// The program and its arguments.
    pub(super) fn command(&self, supervised_by_launchd: bool) -> Vec<String> {
        let mut command = vec![self.executable.to_string_lossy().into_owned(), "daemon".to_owned(), self.agent.clone()];
        if supervised_by_launchd {
            command.extend(["--supervisor".to_owned(), "launchd".to_owned()]);
        }
        if let Some(on_demand) = &self.on_demand {
            command.extend(["--exit-when-idle".to_owned(), format!("{}s", on_demand.idle.as_secs())]);
        }
        command
    }
}

/// True for an address with a user's name and password before the host.
fn has_password(address: &str) -> bool {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    authority.split('/').next().is_some_and(|authority| authority.contains('@'))
}

fn are(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} is"),
        [init @ .., last] => format!("{} and {last} are", init.join(", ")),
        [] => String::new(),
    }
}
