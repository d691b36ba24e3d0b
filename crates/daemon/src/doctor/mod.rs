//! `wolli doctor`: what is wrong with an agent, what that means, and what to type against it.
//!
//! Invariants: looking changes nothing, needs no daemon and has a limit everywhere: a damaged home is what it is for. No key and no
//! token leaves the machine or stands in a finding. [`repair`] does only what cannot lose anything.
//! Not here: showing findings, and asking the daemon, whose answer the caller brings along.
//!
//! Each group first gathers facts and then judges them in a function without side effects.
//!
//! | module | is about |
//! |---|---|
//! | `finding` | what one thing that is wrong looks like |
//! | `configuration` | `agent.json` and `config.toml` |
//! | `permissions` | owners and modes of files |
//! | `disk` | room on the disk, and who fills it |
//! | `lock`, `port`, `socket` | who serves the agent, and what is in the way |
//! | `build` | whether that is the program of now |
//! | `service`, `search_path`, `definition_text` | the service, lingering, and what its definition says |
//! | `models` | credentials, the model, and a server of one's own |
//! | `sessions` | files of sessions |
//! | `repair` | `--fix` |

mod build;
mod configuration;
mod definition_text;
mod disk;
mod finding;
mod lock;
mod models;
mod permissions;
mod port;
mod repair;
mod search_path;
mod service;
mod sessions;
mod socket;

use wolli_home::environment::Environment;
use wolli_home::lock::{Holder, LockError};
use wolli_home::paths::{AgentHome, Root, SharedFolder};
use wolli_protocol::state::Health;

use crate::service::AgentService;

pub use finding::{Finding, Severity};
pub use repair::repair;

/// The checks that are made, in the order of their findings.
pub const CHECKS: &[&str] = &[
    "configuration",
    "permissions",
    "disk",
    "lock",
    "port",
    "socket",
    "build",
    "service",
    "lingering",
    "path",
    "credentials",
    "model",
    "sessions",
];

/// An agent to look at.
#[derive(Debug)]
pub struct Patient {
    environment: Environment,
    root: Root,
    shared: SharedFolder,
    home: AgentHome,
    /// What its daemon said of itself, if it proved to be the one.
    health: Option<Health>,
    /// Tells this program from other builds; `None` if it does not know its own file.
    own_build: Option<String>,
}

/// Who holds the home, as [`wolli_home::lock::holder`] says.
type Held = Result<Option<Option<Holder>>, LockError>;

impl Patient {
    /// The agent with that home; `health` is the answer of its daemon, if one runs.
    #[must_use]
    pub fn new(environment: &Environment, root: &Root, shared: &SharedFolder, home: &AgentHome, health: Option<Health>) -> Self {
        Self {
            environment: environment.clone(),
            root: root.clone(),
            shared: shared.clone(),
            home: home.clone(),
            health,
            own_build: std::env::current_exe().ok().map(|program| crate::build_id(&program)),
        }
    }

    fn name(&self) -> &str {
        self.home.name().as_str()
    }

    fn service(&self) -> AgentService {
        AgentService::new(&self.environment, &self.root, &self.home)
    }
}

/// Looks at everything; changes nothing. Takes seconds at most where a shell or a port does not answer. Cancel-safe.
pub async fn examine(patient: &Patient) -> Vec<Finding> {
    let held = wolli_home::lock::holder(&patient.home.daemon_lock());
    let is_held = matches!(held, Ok(Some(_)));
    let read = configuration::gather(patient);
    let document = read.document();
    let mut findings = configuration::findings(patient, &read);
    findings.extend(permissions::findings(patient, &permissions::gather(patient)));
    findings.extend(disk::findings(patient, &disk::gather(patient)));
    findings.extend(lock::findings(patient, &held));
    if let Some(document) = document {
        findings.extend(port::findings(patient, &port::gather(patient, document.port(), is_held).await));
    }
    findings.extend(socket::findings(patient, &socket::gather(patient, is_held).await));
    findings.extend(build::findings(patient));
    let service = service::gather(patient).await;
    findings.extend(service::findings(patient, &service, document.and_then(|document| document.deployed_at())));
    findings.extend(search_path::findings(patient, search_path::gather(patient, &service).await.as_ref()));
    if let Some(document) = document {
        findings.extend(models::findings(patient, &models::gather(patient, document, &read).await, service.status.installed));
    }
    findings.extend(sessions::findings(patient, &sessions::gather(patient, is_held)));
    findings
}

#[cfg(test)]
mod tests;
