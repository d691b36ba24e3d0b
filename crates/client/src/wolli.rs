//! The agents on disk. No connection is made here.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use wolli_home::agent::{self, AgentError, Change};
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentName, Root};

use crate::agent::{Agent, AgentInner};
use crate::error::ClientError;
use crate::service;
use crate::spawn::DaemonProgram;
use crate::transport::{Daemon, SILENCE_LIMIT, Trust};

/// How long a deletion waits for a daemon that is on its way out.
const DRAINING_LIMIT: Duration = Duration::from_secs(10);

/// The agents below one root. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wolli(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    environment: Environment,
    root: Root,
    program: Option<DaemonProgram>,
    trust: Trust,
    silence_limit: Duration,
    /// Handles that are in use, so that all of one agent share their connections.
    agents: Mutex<HashMap<AgentName, Weak<AgentInner>>>,
}

impl Inner {
    /// The same without handles.
    fn afresh(&self) -> Self {
        let Self { environment, root, program, trust, silence_limit, agents: _ } = self;
        let (environment, root, program) = (environment.clone(), root.clone(), program.clone());
        Self { environment, root, program, trust: *trust, silence_limit: *silence_limit, agents: Mutex::default() }
    }
}

/// What an agent is born with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewAgent {
    /// One line; an agent without one finds it in its first conversation.
    pub purpose: Option<String>,
    /// `provider/id`.
    pub model: Option<String>,
}

impl Wolli {
    /// The agents of this environment. Daemons are started as the `wolli` that is found on `PATH`.
    ///
    /// # Errors
    /// When the environment does not tell where the home folder is.
    pub fn new(environment: Environment) -> Result<Self, ClientError> {
        let program = find_program(&environment, "wolli").map(DaemonProgram::new);
        Self::with_program(environment, program)
    }

    /// The agents of this environment. Daemons are started by `program`; with `None` they never are.
    ///
    /// # Errors
    /// When the environment does not tell where the home folder is.
    pub fn with_program(environment: Environment, program: Option<DaemonProgram>) -> Result<Self, ClientError> {
        let root = Root::of(&environment)?;
        Ok(Self(Arc::new(Inner {
            environment,
            root,
            program,
            trust: Trust::default(),
            silence_limit: SILENCE_LIMIT,
            agents: Mutex::default(),
        })))
    }

    /// What daemons have to show before they get the token; see [`Trust`]. Counts for agents that are asked for later.
    #[must_use]
    pub fn with_trust(self, trust: Trust) -> Self {
        Self(Arc::new(Inner { trust, ..self.0.afresh() }))
    }

    /// How long a stream may be without a sound before its connection counts as dead, and another is made; else 45 s. A daemon sends
    /// something every 15 s, so less than that breaks the connections of idle sessions too, which loses nothing. Counts for agents that
    /// are asked for later.
    #[must_use]
    pub fn with_silence_limit(self, silence_limit: Duration) -> Self {
        Self(Arc::new(Inner { silence_limit, ..self.0.afresh() }))
    }

    /// All agents, by name. Homes that cannot be read are logged and left out.
    ///
    /// # Errors
    /// When the folder of agents cannot be read.
    pub fn list(&self) -> Result<Vec<Agent>, ClientError> {
        let listing = agent::list(&self.0.root)?;
        for unreadable in &listing.unreadable {
            tracing::warn!(agent = %unreadable.name, error = %unreadable.error, "agent cannot be read");
        }
        Ok(listing.agents.into_iter().map(|(home, _)| self.handle(home.name())).collect())
    }

    /// The agent of that name, or none.
    ///
    /// # Errors
    /// When the name is none, or the agent's file cannot be used.
    pub fn get(&self, name: &str) -> Result<Option<Agent>, ClientError> {
        let name: AgentName = name.parse()?;
        match agent::load(&self.0.root.agent(&name)) {
            Ok(_) => Ok(Some(self.handle(&name))),
            Err(AgentError::Missing { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the home of a new agent.
    ///
    /// # Errors
    /// When there is one of that name, or the home cannot be written.
    pub fn create(&self, name: &str, new: NewAgent) -> Result<Agent, ClientError> {
        let name: AgentName = name.parse()?;
        let (home, _) = agent::create(&self.0.root, agent::NewAgent { name: name.clone(), model: new.model }, SystemTime::now())?;
        if let Some(purpose) = new.purpose {
            agent::update(&home, |document| document.apply(Change::Purpose(purpose)))?;
        }
        Ok(self.handle(&name))
    }

    /// Takes the agent's service away, stops its daemon and deletes its home.
    ///
    /// # Errors
    /// When the service stays, the daemon does not stop, or files cannot be deleted.
    pub async fn delete(&self, agent: &Agent) -> Result<(), ClientError> {
        let home = &agent.0.transport.daemon().home;
        if service::is_installed(&self.0.environment, home) {
            service::order(self.0.program.as_ref(), &self.0.environment, home, &["service", "uninstall"]).await?;
        }
        agent.stop().await?;
        agent.close();
        let (root, name) = (self.0.root.clone(), agent.name().clone());
        let deleted = tokio::task::spawn_blocking(move || agent::delete(&root, &name, DRAINING_LIMIT)).await;
        Ok(deleted.map_err(|_| ClientError::Closed)??)
    }

    fn handle(&self, name: &AgentName) -> Agent {
        let mut agents = self.0.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.retain(|_, agent| agent.strong_count() > 0);
        if let Some(agent) = agents.get(name).and_then(Weak::upgrade).filter(|agent| !agent.is_closed()) {
            return Agent(agent);
        }
        let mut daemon = Daemon::of(self.0.root.agent(name), &self.0.root, &self.0.environment);
        daemon.trust = self.0.trust;
        daemon.silence_limit = self.0.silence_limit;
        let agent = Arc::new(AgentInner::new(daemon, self.0.program.clone(), self.0.environment.clone()));
        agents.insert(name.clone(), Arc::downgrade(&agent));
        Agent(agent)
    }
}

/// The first file of that name in the folders of `PATH`.
fn find_program(environment: &Environment, name: &str) -> Option<PathBuf> {
    let folders = environment.search_path()?;
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| path.is_absolute() && path.is_file())
}
