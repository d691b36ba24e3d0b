//! One agent's home, held by this process, and the sessions in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wolli_home::agent::{self, AgentError, Change, NewAgent};
use wolli_home::config::Config;
use wolli_home::environment::Environment;
use wolli_home::lock::{Holder, HomeLock, LockError};
use wolli_home::paths::{InvalidAgentName, Root, SharedFolder};
use wolli_models::credentials::CredentialSource;
use wolli_models::port::ModelPort;
use wolli_protocol::ids::SessionId;
use wolli_protocol::model::Model;
use wolli_protocol::state::SessionSummary;

use super::ports::{Ports, PromptPort, Tools};
use super::session::Session;
use crate::limits::SHUTDOWN_GRACE;
use crate::prompt::SystemPrompt;
use crate::runtime::{Inputs, OpenError, Runtime, SessionError};
use crate::service::ServiceManager;
use crate::tools::Tool;

/// How long a holder of the home that is shutting down is waited for; its whole hand-over takes less.
const DRAINING_LIMIT: Duration = Duration::from_secs(10);

/// Why an engine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Name(#[from] InvalidAgentName),
    #[error("the folder {0} is not an absolute path")]
    Relative(PathBuf),
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A daemon or another program holds the home.
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the thread that prepares the home failed")]
    Thread,
}

/// What an engine is opened with.
#[derive(Debug)]
pub struct EngineBuilder {
    root: PathBuf,
    name: String,
    environment: Environment,
    config: Config,
    model: Option<String>,
    ports: Ports,
}

impl EngineBuilder {
    /// Environment variables: those on the allow list reach commands of tools, and providers' keys are found in them. Without
    /// it there are none, and commands run with an empty environment.
    #[must_use]
    pub fn environment<Name: AsRef<str>, Value: AsRef<str>>(mut self, variables: impl IntoIterator<Item = (Name, Value)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
        self.environment = Environment::new(variables, &self.root);
        self
    }

    /// Limits and switches, as `config.toml` has them; the files themselves are not read.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// The default model of an agent that is made here, `provider/id`. One that exists keeps its own.
    #[must_use]
    pub fn model(mut self, reference: impl Into<String>) -> Self {
        self.model = Some(reference.into());
        self
    }

    /// One more tool, after the built-in ones.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        match &mut self.ports.tools {
            Tools::BuiltInAnd(tools) | Tools::Only(tools) => tools.push(tool),
        }
        self
    }

    /// All tools.
    #[must_use]
    pub fn tools(mut self, tools: Tools) -> Self {
        self.ports.tools = tools;
        self
    }

    /// Writes the system prompt instead of the built-in text.
    #[must_use]
    pub fn system_prompt(mut self, write: impl Fn(&SystemPrompt<'_>) -> String + Send + Sync + 'static) -> Self {
        self.ports.system_prompt = Some(PromptPort::new(write));
        self
    }

    /// Models that the program answers for itself.
    #[must_use]
    pub fn models(mut self, models: Arc<dyn ModelPort>) -> Self {
        self.ports.models = Some(models);
        self
    }

    /// Where credentials come from, instead of the two `auth.json`.
    #[must_use]
    pub fn credentials(mut self, credentials: Arc<dyn CredentialSource>) -> Self {
        self.ports.credentials = Some(credentials);
        self
    }

    /// Makes the agent a service when it is deployed.
    #[must_use]
    pub fn service(mut self, service: Arc<dyn ServiceManager>) -> Self {
        self.ports.service = service;
        self
    }

    /// Called on a thread for blocking work a second after the start and after sessions left memory. A program that has nothing else to do
    /// then can hand `wolli_exec::memory::give_back` over, as the daemon does.
    #[must_use]
    pub fn at_rest(mut self, tidy_up: fn()) -> Self {
        self.ports.at_rest = Some(tidy_up);
        self
    }

    /// Takes the home, made if there is none, and opens it. Needs a tokio runtime with time and I/O enabled.
    ///
    /// A home that is made here is deployed at once: nobody interviews an agent that a program embeds.
    ///
    /// # Errors
    /// The name or the folder cannot be used, two tools have one name, somebody else holds the home, or the disk refuses.
    pub async fn open(self) -> Result<Engine, EngineError> {
        if !self.root.is_absolute() {
            return Err(EngineError::Relative(self.root));
        }
        let (inputs, lock) = tokio::task::spawn_blocking(move || self.take()).await.map_err(|_| EngineError::Thread)??;
        Ok(Engine { runtime: Runtime::open(inputs).await?, lock })
    }

    /// Blocking.
    fn take(self) -> Result<(Inputs, HomeLock), EngineError> {
        let root = Root::new(self.root);
        let home = root.agent(&self.name.parse()?);
        let agent = match agent::load(&home) {
            Ok(loaded) => loaded,
            Err(AgentError::Missing { .. }) => {
                agent::create(&root, NewAgent { name: home.name().clone(), model: self.model }, SystemTime::now())?;
                agent::update(&home, |document| document.apply(Change::Deploy(SystemTime::now())))?
            }
            Err(error) => return Err(error.into()),
        };
        let executable = std::env::current_exe().unwrap_or_default();
        let holder = Holder::this_process(&executable, env!("CARGO_PKG_VERSION"), SystemTime::now());
        let lock = HomeLock::acquire(&home.daemon_lock(), holder, DRAINING_LIMIT)?;
        let shared = SharedFolder::new(root.path().join("agent"));
        let Self { environment, config, ports, .. } = self;
        Ok((Inputs { root, shared, home, agent, environment, config, config_files: Vec::new(), diagnostics: Vec::new(), ports }, lock))
    }
}

/// An agent in this process. Dropping it leaves its tasks to end with the tokio runtime; [`Engine::close`] ends them in order.
#[derive(Debug)]
pub struct Engine {
    runtime: Runtime,
    lock: HomeLock,
}

impl Engine {
    /// An engine for the agent `name` below `root`, an absolute path: its home is `<root>/agents/<name>`, and what agents share is in `<root>/agent`.
    #[must_use]
    pub fn builder(root: impl Into<PathBuf>, name: impl Into<String>) -> EngineBuilder {
        let root = root.into();
        EngineBuilder {
            environment: Environment::new(std::iter::empty::<(String, String)>(), &root),
            root,
            name: name.into(),
            config: Config::default(),
            model: None,
            ports: Ports::default(),
        }
    }

    /// Everything that the engine can do, as the daemon uses it.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Creates a session with the agent's default model.
    ///
    /// # Errors
    /// The disk refused, or the agent is still forming.
    pub async fn create_session(&self) -> Result<Session, SessionError> {
        let session = self.runtime.create_session().await?;
        Ok(Session::new(self.runtime.clone(), session.id().clone()))
    }

    /// Opens a stored session.
    ///
    /// # Errors
    /// There is none with this id, or its file cannot be used.
    pub async fn open_session(&self, id: &SessionId) -> Result<Session, SessionError> {
        let session = self.runtime.session(id).await?;
        Ok(Session::new(self.runtime.clone(), session.id().clone()))
    }

    /// Makes the agent a service, marks it as deployed and gives it a fresh session: all of it or nothing.
    ///
    /// # Errors
    /// The service manager or the disk refused; the agent is what it was before.
    pub async fn deploy(&self) -> Result<Session, SessionError> {
        let session = self.runtime.deploy().await?;
        Ok(Session::new(self.runtime.clone(), session.id().clone()))
    }

    /// All stored sessions, newest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, SessionError> {
        Ok(self.runtime.agent_state().await?.sessions)
    }

    /// The models that can be used now, the program's own first.
    #[must_use]
    pub fn models(&self) -> Vec<Model> {
        self.runtime.available_models()
    }

    /// Cancels every run, waits until all is written (a few seconds at most), ends subscriptions and gives the home up.
    pub async fn close(self) {
        self.runtime.shutdown(SHUTDOWN_GRACE).await;
        drop(self.lock);
    }
}
