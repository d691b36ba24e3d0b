//! The environment that the program was started with, read once and then handed around.
//!
//! Invariant: nothing in this crate asks the process for a variable; what a value means is decided here and nowhere else.
//! Values are secrets until proven otherwise: `Debug` shows names alone. Not here: what commands of the agent get to see.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

#[cfg(test)]
mod tests;

/// Where a daemon listens unless told otherwise.
pub const DEFAULT_HOST: &str = "127.0.0.1";

/// The variables, and the folder that relative paths are meant from.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    current_folder: PathBuf,
}

/// The user's home folder is not known, and a path needs it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell where the home folder is: HOME is not set (set HOME, or {instead} to an absolute path)")]
pub struct HomeUnknown {
    /// The variable that would make `HOME` unnecessary.
    pub instead: &'static str,
}

/// Which service manager installs and starts the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceManager {
    /// None: services cannot be installed.
    None,
    /// launchd of macOS.
    Launchd,
    /// The systemd instance of the user.
    Systemd,
    /// What the machine has.
    Detect,
}

/// Where commands of the agent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// On the machine itself, behind approval.
    Host,
    /// Confined by means of the operating system.
    LocalOs,
    /// In a container.
    Docker,
    /// The strongest that is available.
    Auto,
}

impl Environment {
    /// Takes the variables, as `std::env::vars_os()` gives them, and the absolute current folder. Of a name that comes twice the
    /// first counts, as in the C library.
    pub fn new<Name, Value>(variables: impl IntoIterator<Item = (Name, Value)>, current_folder: impl Into<PathBuf>) -> Self
    where
        Name: Into<OsString>,
        Value: Into<OsString>,
    {
        let mut known = BTreeMap::new();
        for (name, value) in variables {
            known.entry(name.into()).or_insert_with(|| value.into());
        }
        Self { variables: known, current_folder: current_folder.into() }
    }

    /// A variable as it stands; `None` if it is unset, empty or not UTF-8. This is what a reference such as `$GROQ_KEY` means.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|value| !value.is_empty())
    }

    /// A variable as a secret, without surrounding white space; `None` if nothing is left.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.trimmed(name).map(SecretString::from)
    }

    /// All variables, for building the environment of a child.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The folder that relative paths are meant from.
    pub fn current_folder(&self) -> &Path {
        &self.current_folder
    }

    /// The root folder: `WOLLI_HOME`, else `~/.wolli`. Absolute, without `.` and `..`; symbolic links are kept.
    pub fn root(&self) -> Result<PathBuf, HomeUnknown> {
        self.folder("WOLLI_HOME", ".wolli")
    }

    /// The folder that all agents share: `WOLLI_SHARED_DIR`, else `~/.wolli/agent` (below the user's home folder, wherever
    /// `WOLLI_HOME` points).
    pub fn shared_folder(&self) -> Result<PathBuf, HomeUnknown> {
        self.folder("WOLLI_SHARED_DIR", ".wolli/agent")
    }

    /// The user's home folder: `HOME`, if it is set and absolute.
    pub fn user_home(&self) -> Option<&Path> {
        self.path("HOME")
    }

    /// `XDG_RUNTIME_DIR`, if it is set and absolute.
    pub fn runtime_folder(&self) -> Option<&Path> {
        self.path("XDG_RUNTIME_DIR")
    }

    /// `TMPDIR`, if it is set and absolute, else `/tmp`.
    pub fn temporary_folder(&self) -> &Path {
        self.path("TMPDIR").unwrap_or(Path::new("/tmp"))
    }

    /// `PATH` as it stands.
    pub fn search_path(&self) -> Option<&OsStr> {
        self.raw("PATH")
    }

    /// `WOLLI_DAEMON_HOST`: the address to bind, and to connect to.
    pub fn daemon_host(&self) -> &str {
        self.trimmed("WOLLI_DAEMON_HOST").unwrap_or(DEFAULT_HOST)
    }

    /// `WOLLI_DAEMON_TOKEN`, which replaces the token of `agent.json`.
    pub fn daemon_token(&self) -> Option<SecretString> {
        self.secret("WOLLI_DAEMON_TOKEN")
    }

    /// `WOLLI_SERVICE_MANAGER`.
    pub fn service_manager(&self) -> ServiceManager {
        match self.trimmed("WOLLI_SERVICE_MANAGER") {
            Some("none") => ServiceManager::None,
            Some("launchd") => ServiceManager::Launchd,
            Some("systemd") => ServiceManager::Systemd,
            _ => ServiceManager::Detect,
        }
    }

    /// The service manager to use on this machine, never `Detect`. A Linux that was not started by systemd, such as most containers, has
    /// none.
    pub fn service_manager_here(&self) -> ServiceManager {
        match self.service_manager() {
            ServiceManager::Detect if cfg!(target_os = "macos") => ServiceManager::Launchd,
            // What sd_booted(3) looks at.
            ServiceManager::Detect if cfg!(target_os = "linux") && Path::new("/run/systemd/system").is_dir() => ServiceManager::Systemd,
            ServiceManager::Detect => ServiceManager::None,
            chosen => chosen,
        }
    }

    /// `WOLLI_SANDBOX`; case counts.
    pub fn sandbox(&self) -> Sandbox {
        match self.trimmed("WOLLI_SANDBOX") {
            Some("host") => Sandbox::Host,
            Some("local-os") => Sandbox::LocalOs,
            Some("docker") => Sandbox::Docker,
            _ => Sandbox::Auto,
        }
    }

    /// `WOLLI_CONTAINER_IMAGE`.
    pub fn container_image(&self) -> Option<&str> {
        self.variable("WOLLI_CONTAINER_IMAGE")
    }

    /// `WOLLI_BYPASS_PERMISSIONS`: exactly `1` or `true`.
    pub fn bypass_permissions(&self) -> bool {
        matches!(self.trimmed("WOLLI_BYPASS_PERMISSIONS"), Some("1" | "true"))
    }

    /// `WOLLI_TELEMETRY`: `None` leaves it to the setting `enableInstallTelemetry`; defined but not affirmative means no.
    pub fn telemetry(&self) -> Option<bool> {
        self.raw("WOLLI_TELEMETRY").map(|value| value.to_str().is_some_and(is_affirmative))
    }

    /// `WOLLI_OFFLINE`: no downloads of programs and no updates of plugins.
    pub fn offline(&self) -> bool {
        self.text("WOLLI_OFFLINE").is_some_and(is_affirmative)
    }

    /// Expands a leading `~`, `~/` or `~\` and makes the path absolute; `None` if that needs `HOME` and it is unknown.
    pub fn resolve(&self, path: &OsStr) -> Option<PathBuf> {
        let bytes = path.as_encoded_bytes();
        let expanded = if bytes == b"~" {
            self.user_home()?.to_owned()
        } else if bytes.starts_with(b"~/") || bytes.starts_with(b"~\\") {
            use std::os::unix::ffi::OsStrExt;
            self.user_home()?.join(OsStr::from_bytes(bytes.get(2..).unwrap_or_default()))
        } else {
            self.current_folder.join(path)
        };
        Some(normalise(&expanded))
    }

    fn folder(&self, variable: &'static str, below_home: &str) -> Result<PathBuf, HomeUnknown> {
        let unknown = HomeUnknown { instead: variable };
        match self.raw(variable).filter(|value| !value.is_empty()) {
            Some(given) => self.resolve(given).ok_or(unknown),
            None => self.user_home().map(|home| normalise(&home.join(below_home))).ok_or(unknown),
        }
    }

    fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.raw(name).and_then(OsStr::to_str)
    }

    fn trimmed(&self, name: &str) -> Option<&str> {
        self.text(name).map(str::trim).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<&Path> {
        self.raw(name).map(Path::new).filter(|path| path.is_absolute())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("names", &self.variables.keys().collect::<Vec<_>>())
            .field("current_folder", &self.current_folder)
            .finish()
    }
}

fn is_affirmative(value: &str) -> bool {
    ["1", "true", "yes"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// Removes `.` and `..` by the text of the path alone, as the session folder's name has always been made.
fn normalise(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain
}
