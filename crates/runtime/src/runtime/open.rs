//! Opening an agent's home, and closing it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wolli_exec::Ledger;
use wolli_home::agent::{AgentDocument, Loaded};
use wolli_home::config::Config;
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root, SharedFolder};
use wolli_home::settings::{self, Settings};
use wolli_models::client::ModelClient;
use wolli_models::credentials::CredentialSource;
use wolli_models::request::ClientConfig;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use super::control::Control;
use super::credentials::{ModelSources, Stored};
use super::current::Current;
use super::diagnostics::{Diagnostics, Topic};
use super::hubs::Hubs;
use super::logins::Logins;
use super::services::Services;
use super::sessions::Slots;
use super::sources::Sources;
use crate::agent::Agent;
use crate::embed::{Ports, PromptPort};
use crate::resources::{Places, Resources};
use crate::service::ServiceManager;
use crate::session::Listing;
use crate::tasks::Tasks;
use crate::tools::{ControlState, Stage, ToolSet, ToolSetError, tool_environment};
use crate::usage::{LocalDays, UsageCounter};

/// What a runtime is opened with. The caller holds the home's lock.
#[derive(Debug)]
pub struct Inputs {
    pub root: Root,
    pub shared: SharedFolder,
    pub home: AgentHome,
    /// `agent.json` as it was read.
    pub agent: Loaded,
    pub environment: Environment,
    pub config: Config,
    /// Where `config` was read from, for a reload; none if it comes from elsewhere and stays as it is.
    pub config_files: Vec<PathBuf>,
    /// What was wrong with the configuration; shown with the runtime's own diagnostics.
    pub diagnostics: Vec<ResourceDiagnostic>,
    /// What the program brings along; the daemon brings nothing.
    pub ports: Ports,
}

/// Why an agent cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot prepare the agent's home {path}: {source}")]
    Home { path: String, source: std::io::Error },
    #[error("cannot create the agent's first session: {0}")]
    FirstSession(#[from] super::SessionError),
    #[error(transparent)]
    Tools(#[from] ToolSetError),
}

/// What sessions are equipped with, by how far the agent is.
#[derive(Debug)]
pub(super) struct Equipment {
    forming: ToolSet,
    deployed: ToolSet,
    /// Writes the system prompt in place of the built-in text.
    pub(super) system_prompt: Option<PromptPort>,
}

impl Equipment {
    fn new(ports: &Ports) -> Result<Self, ToolSetError> {
        Ok(Self {
            forming: ports.tools.set(Stage::Forming)?,
            deployed: ports.tools.set(Stage::Deployed)?,
            system_prompt: ports.system_prompt.clone(),
        })
    }

    pub(super) fn tools(&self, stage: Stage) -> ToolSet {
        match stage {
            Stage::Forming => self.forming.clone(),
            Stage::Deployed => self.deployed.clone(),
        }
    }
}

/// One agent, open. Clones share it.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(super) services: Arc<Services>,
    pub(super) slots: Arc<Slots>,
    pub(super) listing: Arc<Mutex<Listing>>,
    pub(super) sources: Arc<Sources>,
    /// Held by a reload, so that there is one at a time.
    pub(super) reloading: Arc<tokio::sync::Mutex<()>>,
    pub(super) equipment: Arc<Equipment>,
    pub(super) service: Arc<dyn ServiceManager>,
    pub(super) diagnostics: Arc<Diagnostics>,
    pub(super) token: CancellationToken,
}

impl Runtime {
    /// Opens the home and sees to it that there is a session. Sessions themselves are opened when they are asked for.
    ///
    /// # Errors
    /// The home cannot be written. Files in it that are broken are diagnostics, not errors.
    pub async fn open(inputs: Inputs) -> Result<Self, OpenError> {
        let tasks = Tasks::new();
        let equipment = Arc::new(Equipment::new(&inputs.ports)?);
        let service = Arc::clone(&inputs.ports.service);
        let prepared = tasks.spawn_blocking({
            let tasks = tasks.clone();
            move || prepare(inputs, tasks)
        });
        let Prepared { services, listing, sources, diagnostics } = match prepared.await {
            Ok(prepared) => prepared?,
            Err(error) => return Err(OpenError::Home { path: String::new(), source: std::io::Error::other(error) }),
        };
        let token = services.token.clone();
        let runtime = Self {
            services: Arc::new(services),
            slots: Arc::new(Slots(Mutex::new(HashMap::new()))),
            listing: Arc::new(Mutex::new(listing)),
            sources: Arc::new(sources),
            reloading: Arc::default(),
            equipment,
            service,
            diagnostics: Arc::new(diagnostics),
            token,
        };
        let stored = runtime.stored_sessions().await?;
        if stored.is_empty() {
            runtime.new_session().await?;
        }
        if runtime.services.resume_unasked {
            let resumed = runtime.clone();
            runtime.tasks().spawn("resume", async move { resumed.resume_unfinished(stored).await });
        }
        runtime.services.rest();
        Ok(runtime)
    }

    /// What was wrong with the agent's files; shown to people, never fatal. Blocking.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<ResourceDiagnostic> {
        let mut diagnostics = self.diagnostics.all();
        diagnostics.extend(self.services.registry.get().diagnostics().iter().cloned());
        diagnostics.extend(self.services.credentials.iter().flat_map(|stored| stored.diagnostics()));
        diagnostics.extend(self.services.resources.get().diagnostics().iter().cloned());
        diagnostics
    }

    /// Collects what was wrong with the file of a session.
    pub(super) fn note_session(&self, kind: DiagnosticKind, message: String, path: &std::path::Path) {
        self.note(Topic::Process, ResourceDiagnostic::new(kind, message, Some(path)));
    }

    /// Collects what was wrong, and tells an error to everyone who is attached, the first time.
    pub(super) fn note(&self, topic: Topic, diagnostic: ResourceDiagnostic) {
        if self.diagnostics.add(topic, diagnostic.clone()) {
            self.tell(&diagnostic);
        }
    }

    fn tell(&self, diagnostic: &ResourceDiagnostic) {
        if diagnostic.kind == DiagnosticKind::Error {
            let place = diagnostic.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
            self.services.hubs.tell_error(&format!("{place}{}", diagnostic.message));
        }
    }

    /// The agent's record as it was last read or written.
    #[must_use]
    pub fn agent(&self) -> AgentDocument {
        self.services.agent.document()
    }

    /// Starts a task that shutdown waits for.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.services.tasks
    }

    /// Cancels every run, waits for all to end and to be written, then ends every stream. What has not ended
    /// after `grace` is cut off; its programs die with their guards.
    pub async fn shutdown(&self, grace: Duration) {
        self.token.cancel();
        if tokio::time::timeout(grace, self.services.tasks.finished()).await.is_err() {
            tracing::warn!(tasks = self.services.tasks.len(), "some work did not end within the grace period");
        }
        self.services.hubs.close();
    }
}

struct Prepared {
    services: Services,
    listing: Listing,
    sources: Sources,
    diagnostics: Diagnostics,
}

/// Reads everything that does not grow with the agent's history. Blocking.
fn prepare(inputs: Inputs, tasks: Tasks) -> Result<Prepared, OpenError> {
    let Inputs { root, shared, home, agent, environment, config, config_files, mut diagnostics, ports } = inputs;
    for folder in [home.sessions(), home.temporary()] {
        wolli_home::atomic::create_folder(&folder)
            .map_err(|source| OpenError::Home { path: folder.to_string_lossy().into_owned(), source })?;
    }
    // Temporary files of daemons that were killed; young ones may be another program's.
    if let Err(error) = wolli_home::atomic::sweep_temporaries(home.path()) {
        tracing::debug!(%error, "temporary files in the home were not looked for");
    }
    diagnostics.extend(
        agent.warnings.iter().map(|warning| ResourceDiagnostic::new(DiagnosticKind::Warning, warning.clone(), Some(&home.config_json()))),
    );
    let hubs = Arc::new(Hubs::default());
    let (credentials, source): (Option<Arc<Stored>>, Arc<dyn CredentialSource>) = match &ports.credentials {
        Some(source) => (None, Arc::clone(source)),
        None => {
            let stored = Arc::new(Stored::new(&home, &shared, Arc::clone(&hubs)));
            (Some(Arc::clone(&stored)), stored)
        }
    };
    let models = ModelSources::new(&home, &shared, &environment, &ports, config.models.demo, source);
    let models_json = models.read().unwrap_or_else(|problem| {
        diagnostics.push(ResourceDiagnostic::new(DiagnosticKind::Error, problem, Some(&shared.models())));
        None
    });
    let registry = models.load(models_json, None);
    let places = Places { home: home.path().to_owned(), user_home: environment.user_home().map(std::path::Path::to_owned) };
    // What is wrong with the settings is told when the first session reads them.
    let (settings, _) = read_settings(&shared, &agent.document);
    let resources = Resources::load(&places, &settings.all);
    let diagnostics = Diagnostics::new(Topic::Configuration, diagnostics);
    let ledger = open_ledger(&home, &diagnostics);
    let listing = Listing::new(home.sessions());
    let spill_folder = home.temporary();
    let variables = environment.variables().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let client = ClientConfig { idle_timeout: config.limits.provider_idle, retries: config.limits.retries, ..ClientConfig::default() };
    let services = Services {
        usage: UsageCounter::new(&home, LocalDays::of(&environment), tasks.clone()),
        tasks,
        client: match ports.models {
            Some(port) => ModelClient::with_port(client, port),
            None => ModelClient::new(client),
        },
        registry: Current::new(registry),
        resources: Current::new(resources),
        shared: shared.clone(),
        control: Control::new(),
        hubs,
        credentials,
        logins: Logins::default(),
        tool_environment: Arc::new(tool_environment(variables, None)),
        control_state: ControlState::new(&home, &root, &shared),
        agent: Arc::new(Agent::new(home, agent.document)),
        spill_folder,
        bash_time_limit: Current::new(config.limits.bash_timeout),
        resume_unasked: config.resume.auto,
        ledger,
        at_rest: ports.at_rest,
        rest_is_near: Arc::default(),
        token: CancellationToken::new(),
    };
    let sources = Sources { shared, configuration: config_files, places, models, environment };
    Ok(Prepared { services, listing, sources, diagnostics })
}

/// Opens the record of running programs and ends what a killed daemon left. Without it nothing is recorded.
fn open_ledger(home: &AgentHome, diagnostics: &Diagnostics) -> Option<Ledger> {
    let folder = home.temporary().join("processes");
    let opened = Ledger::open(&folder).and_then(|ledger| ledger.sweep().map(|ended| (ledger, ended)));
    match opened {
        Ok((ledger, ended)) => {
            for process in ended {
                tracing::warn!(?process, "ended a program that an earlier daemon had left running");
            }
            Some(ledger)
        }
        Err(error) => {
            let message = format!("programs cannot be recorded, so a killed daemon may leave some running: {error}");
            diagnostics.add(Topic::Process, ResourceDiagnostic::new(DiagnosticKind::Warning, message, Some(&folder)));
            None
        }
    }
}

impl Runtime {
    /// The settings of the moment: the shared tier with the agent's own laid on top. Blocking.
    pub(super) fn settings(&self) -> Settings {
        let (settings, problems) = read_settings(&self.sources.shared, &self.services.agent.refresh());
        self.renew_diagnostics(Topic::Settings, problems);
        settings
    }

    /// Puts what is wrong now in the place of what was told about `topic` before.
    pub(super) fn renew_diagnostics(&self, topic: Topic, diagnostics: Vec<ResourceDiagnostic>) {
        for problem in self.diagnostics.replace(topic, diagnostics) {
            self.tell(&problem);
        }
    }
}

/// Both tiers, and what is wrong with them; a broken shared tier counts as empty. Blocking.
pub(super) fn read_settings(shared: &SharedFolder, agent: &AgentDocument) -> (Settings, Vec<ResourceDiagnostic>) {
    let path = shared.settings();
    let mut problems = Vec::new();
    let tier = settings::read_shared(&path).unwrap_or_else(|error| {
        problems.push(ResourceDiagnostic::new(DiagnosticKind::Error, error.to_string(), Some(&path)));
        serde_json::Map::new()
    });
    let (settings, faults) = Settings::resolve(&tier, agent.settings());
    problems.extend(faults.into_iter().map(|fault| ResourceDiagnostic::new(DiagnosticKind::Warning, fault, None)));
    (settings, problems)
}
