//! What an agent's service is called, and where service managers look for its definition.
//!
//! Invariant: client, daemon and command line compute the same names from the same environment and home. Not here: what is in
//! the definitions, and talking to a service manager.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ring::digest;

use super::home::Root;
use super::name::AgentName;
use crate::environment::{Environment, ServiceManager};
use crate::token::hex;

/// Hexadecimal digits of a root's hash in a name.
const HASH_DIGITS: usize = 8;

/// The names of one agent's service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceName {
    /// `wolli-<agent>`, and a hash of the root if that is not the user's default one: two roots may have agents of one name.
    stem: String,
    agent: AgentName,
    hash: Option<String>,
}

impl ServiceName {
    /// The names in this environment.
    pub fn new(environment: &Environment, root: &Root, agent: &AgentName) -> Self {
        let default = environment.user_home().map(|home| home.join(".wolli"));
        let is_default = default.as_deref().is_some_and(|default| same(default, root.path()));
        let hash = (!is_default).then(|| {
            let real = root.path().canonicalize().unwrap_or_else(|_| root.path().to_owned());
            hex(digest::digest(&digest::SHA256, real.as_os_str().as_bytes()).as_ref())[..HASH_DIGITS].to_owned()
        });
        let stem = match &hash {
            None => format!("wolli-{agent}"),
            Some(hash) => format!("wolli-{agent}-{hash}"),
        };
        Self { stem, agent: agent.clone(), hash }
    }

    /// The agent that it is of.
    pub fn agent(&self) -> &str {
        self.agent.as_str()
    }

    /// The name without a suffix; also what the journal calls it.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// systemd's service unit.
    pub fn unit(&self) -> String {
        format!("{}.service", self.stem)
    }

    /// systemd's socket unit.
    pub fn socket_unit(&self) -> String {
        format!("{}.socket", self.stem)
    }

    /// launchd's label.
    pub fn label(&self) -> String {
        match &self.hash {
            None => format!("com.wolli.{}", self.agent),
            Some(hash) => format!("com.wolli.{}.{hash}", self.agent),
        }
    }

    /// Where the definition of the service is, installed or not; `None` without a service manager or a home folder.
    pub fn definition(&self, environment: &Environment) -> Option<PathBuf> {
        match environment.service_manager_here() {
            ServiceManager::Systemd => Some(Self::unit_folder(environment)?.join(self.unit())),
            ServiceManager::Launchd => Some(Self::launch_agents_folder(environment)?.join(format!("{}.plist", self.label()))),
            ServiceManager::None | ServiceManager::Detect => None,
        }
    }

    /// Whether the service is installed. Asks the disk alone.
    pub fn is_installed(&self, environment: &Environment) -> bool {
        self.definition(environment).is_some_and(|path| path.exists())
    }

    /// The folder of the user's own systemd units; `None` without a home folder.
    pub fn unit_folder(environment: &Environment) -> Option<PathBuf> {
        let configured = environment.variable("XDG_CONFIG_HOME").map(Path::new).filter(|path| path.is_absolute());
        let config = configured.map(Path::to_owned).or_else(|| Some(environment.user_home()?.join(".config")))?;
        Some(config.join("systemd/user"))
    }

    /// The folder of the user's own launchd agents; `None` without a home folder.
    pub fn launch_agents_folder(environment: &Environment) -> Option<PathBuf> {
        Some(environment.user_home()?.join("Library/LaunchAgents"))
    }
}

/// One folder, however it is spelt.
fn same(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(home: &str, root: &str) -> ServiceName {
        ServiceName::new(&Environment::new([("HOME", home)], "/"), &Root::new(root), &"scribe".parse().unwrap())
    }

    #[test]
    fn the_default_root_needs_no_hash() {
        let name = names("/home/u", "/home/u/.wolli");
        assert_eq!(
            (name.stem(), name.unit().as_str(), name.socket_unit().as_str(), name.label().as_str()),
            ("wolli-scribe", "wolli-scribe.service", "wolli-scribe.socket", "com.wolli.scribe")
        );
    }

    #[test]
    fn another_root_has_another_name() {
        let (one, other) = (names("/home/u", "/srv/one"), names("/home/u", "/srv/other"));
        assert_ne!(one, other);
        assert_eq!(one.stem().len(), "wolli-scribe-".len() + HASH_DIGITS);
        assert_eq!(one.label(), format!("com.wolli.scribe.{}", &one.stem()["wolli-scribe-".len()..]));
        assert_eq!(one, names("/home/u", "/srv/one"));
    }

    #[test]
    fn a_definition_is_where_its_manager_looks() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let name = names("/home/u", "/home/u/.wolli");
        for (manager, path) in [
            ("systemd", Some(".config/systemd/user/wolli-scribe.service")),
            ("launchd", Some("Library/LaunchAgents/com.wolli.scribe.plist")),
            ("none", None),
        ] {
            let environment = Environment::new([("HOME", home.to_str().unwrap()), ("WOLLI_SERVICE_MANAGER", manager)], "/");
            assert_eq!(name.definition(&environment), path.map(|path| home.join(path)));
            assert!(!name.is_installed(&environment));
            if let Some(path) = name.definition(&environment) {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
                assert!(name.is_installed(&environment));
            }
        }
    }

    #[test]
    fn folders() {
        let environment = Environment::new([("HOME", "/home/u")], "/");
        assert_eq!(ServiceName::unit_folder(&environment), Some("/home/u/.config/systemd/user".into()));
        assert_eq!(ServiceName::launch_agents_folder(&environment), Some("/home/u/Library/LaunchAgents".into()));
        let environment = Environment::new([("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c")], "/");
        assert_eq!(ServiceName::unit_folder(&environment), Some("/c/systemd/user".into()));
        assert_eq!(ServiceName::unit_folder(&Environment::new([("XDG_CONFIG_HOME", "relative")], "/")), None);
    }
}
