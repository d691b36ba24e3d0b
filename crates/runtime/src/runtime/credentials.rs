//! Where keys come from and go to: the two `auth.json`, `models.json`, and commands that print a key.
//!
//! The files are looked at again, cheaply, each time somebody needs them, so that a login in another process counts. What is
//! written is a change of what stands in the file at that moment; a file that cannot be read is told of and left as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use wolli_exec::{Ending, Program, RunSettings};
use wolli_home::environment::Environment;
use wolli_home::lockdir::map_file::{MapFile, MapFileError, Stamp};
use wolli_home::paths::{AgentHome, SharedFolder};
use wolli_models::credentials::{CredentialMap, CredentialSource, Tier, system_clock};
use wolli_models::indirection::{CommandRunner, Resolver};
use wolli_models::registry::{ConfigText, Registry, RegistryInputs};
use wolli_protocol::model::Model;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use super::hubs::Hubs;
use crate::embed::Ports;

/// What the list of models is made from. A list never changes; when `models.json` did, another is made.
pub(super) struct ModelSources {
    models_json: PathBuf,
    /// Keeps what commands printed, over reloads too.
    resolver: Arc<Resolver>,
    credentials: Arc<dyn CredentialSource>,
    provided: Vec<Model>,
    /// Whether the demonstration may stand in, unless a later configuration says otherwise.
    demo: bool,
}

impl std::fmt::Debug for ModelSources {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ModelSources").field("models_json", &self.models_json).finish_non_exhaustive()
    }
}

impl ModelSources {
    pub(super) fn new(
        home: &AgentHome,
        shared: &SharedFolder,
        environment: &Environment,
        ports: &Ports,
        demo: bool,
        credentials: Arc<dyn CredentialSource>,
    ) -> Self {
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
        Self {
            models_json: shared.models(),
            resolver: Arc::new(Resolver::new(variables, Arc::new(commands))),
            credentials,
            provided: ports.models.as_ref().map(|port| port.models()).unwrap_or_default(),
            demo,
        }
    }

    /// `models.json` as it is now, if there is one. Blocking.
    ///
    /// # Errors
    /// Why the file cannot be read.
    pub(super) fn read(&self) -> Result<Option<ConfigText>, String> {
        let path = self.models_json.to_string_lossy().into_owned();
        match wolli_home::reading::read(&self.models_json) {
            Ok(Some(bytes)) => Ok(Some(ConfigText { path, text: String::from_utf8_lossy(&bytes).into_owned() })),
            Ok(None) => Ok(None),
            Err(error) => Err(format!("models.json cannot be read: {error}")),
        }
    }

    /// The models of this moment. What is wrong in the text is a diagnostic of the registry.
    pub(super) fn load(&self, models_json: Option<ConfigText>, demo: Option<bool>) -> Registry {
        Registry::load(RegistryInputs {
            catalogue_override: None,
            models_json,
            resolver: Arc::clone(&self.resolver),
            credentials: Arc::clone(&self.credentials),
            runtime_keys: BTreeMap::new(),
            clock: system_clock,
            provided: self.provided.clone(),
            demo: demo.unwrap_or(self.demo),
        })
    }
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
#[derive(Debug)]
pub(crate) struct Stored {
    agent: StoredTier,
    shared: StoredTier,
    /// Who is told of a file that cannot be read.
    hubs: Arc<Hubs>,
}

#[derive(Debug)]
struct StoredTier {
    file: MapFile,
    known: Mutex<Known>,
}

/// What the file held when it was last looked at.
#[derive(Debug, Default)]
struct Known {
    stamp: Option<Stamp>,
    credentials: Arc<CredentialMap>,
    /// Why it could not be read; `credentials` is then what it held before.
    problem: Option<String>,
}

impl Stored {
    pub(super) fn new(home: &AgentHome, shared: &SharedFolder, hubs: Arc<Hubs>) -> Self {
        Self { agent: StoredTier::new(home.auth()), shared: StoredTier::new(shared.auth()), hubs }
    }

    /// Stores a key for all agents; what else a stored key has beside it stays. Blocking.
    ///
    /// # Errors
    /// The file is held by another process for too long, is no JSON object, or cannot be written; it is then what it was.
    pub(super) fn store_key(&self, provider: &str, key: &SecretString) -> Result<(), MapFileError> {
        let key = Value::from(key.expose_secret());
        self.shared.file.update(|credentials| match credentials.get_mut(provider) {
            Some(Value::Object(known)) if known.get("type").is_some_and(|kind| kind == "api_key") => {
                known.insert("key".into(), key);
            }
            _ => {
                credentials.insert(provider.to_owned(), json!({"type": "api_key", "key": key}));
            }
        })
    }

    /// Removes a provider's credential from each file that has one. Blocking.
    ///
    /// # Errors
    /// As [`Stored::store_key`].
    pub(super) fn remove(&self, provider: &str) -> Result<(), MapFileError> {
        for tier in [&self.agent, &self.shared] {
            // A file that is not there has nothing to lose, and is not made.
            if tier.file.stamp().is_some() {
                tier.file.update(|credentials| credentials.shift_remove(provider))?;
            }
        }
        Ok(())
    }

    /// The agent's own file, if it has a credential of this provider, which counts before the shared one.
    pub(super) fn overridden_by(&self, provider: &str) -> Option<&Path> {
        self.tier(Tier::Agent).get(provider).is_some().then(|| self.agent.file.path())
    }

    /// What is wrong with the files now.
    pub(super) fn diagnostics(&self) -> Vec<ResourceDiagnostic> {
        let tiers = [&self.agent, &self.shared].into_iter();
        tiers
            .filter_map(|tier| {
                let message = tier.known().problem.clone()?;
                Some(ResourceDiagnostic::new(DiagnosticKind::Error, message, Some(tier.file.path())))
            })
            .collect()
    }
}

impl CredentialSource for Stored {
    fn tier(&self, tier: Tier) -> Arc<CredentialMap> {
        let (credentials, problem) = match tier {
            Tier::Agent => self.agent.current(),
            Tier::Shared => self.shared.current(),
        };
        if let Some(problem) = problem {
            self.hubs.tell_error(&problem);
        }
        credentials
    }
}

impl StoredTier {
    fn new(path: PathBuf) -> Self {
        Self { file: MapFile::new(path), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file's content; read again only when its stamp changed. One that cannot be read leaves what was known, and is told of once.
    fn current(&self) -> (Arc<CredentialMap>, Option<String>) {
        let stamp = self.file.stamp();
        let mut known = self.known();
        let mut news = None;
        if known.stamp != stamp {
            match self.file.read() {
                Ok(map) => {
                    let (credentials, diagnostics) = CredentialMap::from_json(&map, &self.file.path().to_string_lossy());
                    for diagnostic in diagnostics {
                        tracing::warn!(path = diagnostic.path, message = %diagnostic.message, "a stored credential was left out");
                    }
                    *known = Known { stamp, credentials: Arc::new(credentials), problem: None };
                }
                Err(error) => {
                    tracing::warn!(%error, "credentials were not read");
                    known.stamp = stamp;
                    let problem = error.to_string();
                    if known.problem.as_ref() != Some(&problem) {
                        news = Some(problem.clone());
                    }
                    known.problem = Some(problem);
                }
            }
        }
        (Arc::clone(&known.credentials), news)
    }
}
