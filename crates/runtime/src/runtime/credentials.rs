//! Where keys come from: the two `auth.json`, `models.json`, and commands that print a key.
//!
//! The files are looked at again, cheaply, each time somebody needs them, so that a login in another process counts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use wolli_exec::{Ending, Program, RunSettings};
use wolli_home::config::Config;
use wolli_home::environment::Environment;
use wolli_home::lockdir::map_file::{MapFile, Stamp};
use wolli_home::paths::{AgentHome, SharedFolder};
use wolli_models::credentials::{CredentialMap, CredentialSource, Tier, system_clock};
use wolli_models::indirection::{CommandRunner, Resolver};
use wolli_models::registry::{ConfigText, Registry, RegistryInputs};
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use crate::embed::Ports;

/// Reads everything that says which models there are. Blocking. Broken files are diagnostics of the registry or of ours.
pub(super) fn load_registry(
    home: &AgentHome,
    shared: &SharedFolder,
    environment: &Environment,
    config: &Config,
    ports: &Ports,
) -> (Registry, Vec<ResourceDiagnostic>) {
    let mut diagnostics = Vec::new();
    let models = shared.models();
    let models_json = match wolli_home::reading::read(&models) {
        Ok(Some(bytes)) => {
            Some(ConfigText { path: models.to_string_lossy().into_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
        }
        Ok(None) => None,
        Err(error) => {
            diagnostics.push(ResourceDiagnostic {
                kind: DiagnosticKind::Error,
                message: format!("models.json cannot be read: {error}"),
                path: Some(models.to_string_lossy().into_owned()),
                collision: None,
            });
            None
        }
    };
    let variables: wolli_models::indirection::Environment =
        environment.variables().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect();
    let commands = Commands {
        folder: home.path().to_owned(),
        environment: environment
            .variables()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .filter(|(name, _)| name != "WOLLI_DAEMON_TOKEN")
            .collect(),
    };
    let registry = Registry::load(RegistryInputs {
        catalogue_override: None,
        models_json,
        resolver: Arc::new(Resolver::new(variables, Arc::new(commands))),
        credentials: ports.credentials.clone().unwrap_or_else(|| Arc::new(Stored::new(home, shared))),
        runtime_keys: BTreeMap::new(),
        clock: system_clock,
        provided: ports.models.as_ref().map(|port| port.models()).unwrap_or_default(),
        demo: config.models.demo,
    });
    (registry, diagnostics)
}

/// Runs `!command` values: what prints a key runs with the daemon's own environment, less our token.
struct Commands {
    folder: PathBuf,
    environment: BTreeMap<String, String>,
}

impl CommandRunner for Commands {
    fn run<'a>(&'a self, command: &'a str, limit: Duration) -> BoxFuture<'a, Option<SecretString>> {
        let program = Program::new("/bin/sh", &self.folder).arguments(["-c", command]).environment(&self.environment);
        let settings = RunSettings { time_limit: Some(limit), ..RunSettings::default() };
        Box::pin(async move {
            let finished = wolli_exec::run(program, settings, None).await.ok()?;
            let succeeded = finished.ending == Ending::Exited && finished.exit.is_some_and(|exit| exit.success());
            (succeeded && finished.output.is_whole()).then(|| SecretString::from(finished.output.head().to_owned()))
        })
    }
}

/// The credentials in the two `auth.json`.
struct Stored {
    agent: StoredTier,
    shared: StoredTier,
}

struct StoredTier {
    file: MapFile,
    known: Mutex<(Option<Stamp>, Arc<CredentialMap>)>,
}

impl Stored {
    fn new(home: &AgentHome, shared: &SharedFolder) -> Self {
        Self { agent: StoredTier::new(home.auth()), shared: StoredTier::new(shared.auth()) }
    }
}

impl CredentialSource for Stored {
    fn tier(&self, tier: Tier) -> Arc<CredentialMap> {
        match tier {
            Tier::Agent => self.agent.current(),
            Tier::Shared => self.shared.current(),
        }
    }
}

impl StoredTier {
    fn new(path: PathBuf) -> Self {
        Self { file: MapFile::new(path), known: Mutex::default() }
    }

    /// The file's content; read again only when its stamp changed. One that cannot be read leaves what was known.
    fn current(&self) -> Arc<CredentialMap> {
        let stamp = self.file.stamp();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != stamp {
            match self.file.read() {
                Ok(map) => {
                    let (credentials, diagnostics) = CredentialMap::from_json(&map, &self.file.path().to_string_lossy());
                    for diagnostic in diagnostics {
                        tracing::warn!(path = diagnostic.path, message = %diagnostic.message, "a stored credential was left out");
                    }
                    *known = (stamp, Arc::new(credentials));
                }
                Err(error) => {
                    tracing::warn!(%error, "credentials were not read");
                    known.0 = stamp;
                }
            }
        }
        Arc::clone(&known.1)
    }
}
