//! What a daemon starts from: the agent, its configuration, its token and where it is to listen. Nothing here grows with history.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use wolli_home::agent::{self, AgentError, Loaded};
use wolli_home::config::{self, Configuration};
use wolli_home::environment::Environment;
use wolli_home::lock::{Holder, HomeLock, LockError};
use wolli_home::paths::{AgentHome, AgentName, Root, SharedFolder};
use wolli_home::token;
use wolli_runtime::clock::now_iso;

use super::{Options, StartError, Supervisor};

/// How long a holder that is shutting down is waited for: its whole hand-over takes less.
const DRAINING_LIMIT: Duration = Duration::from_secs(10);

/// An agent that may be served.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) root: Root,
    pub(crate) shared: SharedFolder,
    pub(crate) home: AgentHome,
    pub(crate) agent: Loaded,
    pub(crate) environment: Environment,
    pub(crate) configuration: Configuration,
    pub(crate) token: SecretString,
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    pub(crate) executable: PathBuf,
    /// Whoever started the process looks after it.
    pub(crate) supervised: bool,
    pub(crate) started_at: SystemTime,
    pub(crate) started_at_text: String,
}

impl Prepared {
    /// Reads and checks. Blocking.
    ///
    /// # Errors
    /// There is no such agent, or what is configured must not be served.
    pub fn load(options: &Options, environment: Environment) -> Result<Self, StartError> {
        let (started_at, started_at_text) = (SystemTime::now(), now_iso());
        let root = Root::of(&environment)?;
        let shared = SharedFolder::of(&environment)?;
        let unknown = || StartError::UnknownAgent(options.agent.clone());
        let name: AgentName = options.agent.parse().map_err(|_| unknown())?;
        let home = root.agent(&name);
        let agent = agent::load(&home).map_err(|error| match error {
            AgentError::Missing { .. } => unknown(),
            AgentError::Invalid { .. } => StartError::BadConfiguration(error.to_string()),
            source => StartError::Agent { agent: options.agent.clone(), source },
        })?;
        let configuration = config::load([root.config().as_path(), home.config_toml().as_path()]);
        let token = token(&environment, &agent, &home)?;
        let host = environment.daemon_host().to_owned();
        let port = options.port.unwrap_or_else(|| agent.document.port());
        let address = resolve(&host, port)?;
        if !address.ip().is_loopback() {
            check_exposure(&environment, &agent, &configuration, &host)?;
        }
        let executable = std::env::current_exe().unwrap_or_default();
        let supervised = options.supervisor != Supervisor::None || is_unit(&environment, std::process::id());
        Ok(Self {
            root,
            shared,
            home,
            agent,
            environment,
            configuration,
            token,
            host,
            address,
            executable,
            supervised,
            started_at,
            started_at_text,
        })
    }

    /// Takes the exclusive lock on the home; a holder that is shutting down is waited for. Blocking.
    ///
    /// # Errors
    /// Somebody serves the home, or the lock file cannot be used.
    pub fn lock(&self) -> Result<HomeLock, StartError> {
        let agent = || self.home.name().as_str().to_owned();
        let holder = Holder::this_process(&self.executable, crate::VERSION, self.started_at);
        HomeLock::acquire(&self.home.daemon_lock(), holder, DRAINING_LIMIT).map_err(|source| match source {
            LockError::Held { .. } | LockError::StillDraining { .. } => StartError::Held { agent: agent(), source },
            LockError::Io { .. } => StartError::Lock { agent: agent(), source },
        })
    }

    /// Where the socket beside TCP goes; `None` with a warning if no path is short enough.
    pub(crate) fn socket_path(&self) -> Option<PathBuf> {
        wolli_home::paths::socket_path(self.environment.runtime_folder(), &self.root, &self.home)
            .inspect_err(|error| tracing::warn!(%error, "no Unix socket"))
            .ok()
    }
}

/// Whether this process is the main one of a unit of systemd, and no child of one that inherited its environment.
fn is_unit(environment: &Environment, process: u32) -> bool {
    environment.variable("SYSTEMD_EXEC_PID").is_some_and(|pid| pid == process.to_string())
}

/// The token in force. One that no request could carry would lock everybody out, or, empty, let everybody in.
fn token(environment: &Environment, agent: &Loaded, home: &AgentHome) -> Result<SecretString, StartError> {
    let (token, place) = match environment.daemon_token() {
        Some(token) => (token, "WOLLI_DAEMON_TOKEN".to_owned()),
        None => (SecretString::from(agent.document.token().to_owned()), format!("\"token\" in {}", home.config_json().display())),
    };
    if token::is_bearer(token.expose_secret()) {
        return Ok(token);
    }
    Err(StartError::BadConfiguration(format!(
        "{place} cannot be used as a token: it must be one or more of A-Z a-z 0-9 . _ ~ + / - and may end in ="
    )))
}

/// The address to listen on; IPv4 first where a name has both, since clients that are told `localhost` try it as well.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, StartError> {
    let bad = |problem: String| {
        StartError::BadConfiguration(format!("WOLLI_DAEMON_HOST is \"{host}\", which is no address to listen on: {problem}"))
    };
    if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|error| bad(error.to_string()))?.collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| bad("it has no address".to_owned()))
}

/// More than loopback is served only on purpose: with a token that somebody chose for it, and with the names it will go by.
fn check_exposure(environment: &Environment, agent: &Loaded, configuration: &Configuration, host: &str) -> Result<(), StartError> {
    let mut missing = Vec::new();
    if environment.daemon_token().is_none() && is_generated(agent.document.token()) {
        missing.push("set WOLLI_DAEMON_TOKEN (or a \"token\" of your own in agent.json)");
    }
    if configuration.values.security.hosts.is_empty() {
        missing.push("set \"hosts\" in [security] of config.toml to the names by which the daemon will be addressed");
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(StartError::BadConfiguration(format!(
        "WOLLI_DAEMON_HOST is \"{host}\", which other machines can reach, and whoever has the token can run commands on this one. \
         To do it all the same: {}. Safer: leave WOLLI_DAEMON_HOST unset and use a tunnel (ssh -L).",
        missing.join("; ")
    )))
}

/// The shape of tokens that `wolli new` draws.
fn is_generated(token: &str) -> bool {
    token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
