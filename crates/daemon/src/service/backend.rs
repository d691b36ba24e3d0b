//! What every service manager can do, and which one this machine has.

use std::fmt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::Serialize;
use wolli_home::environment::{Environment, ServiceManager};
use wolli_home::paths::ServiceName;

use super::definition::Definition;
use super::error::ServiceError;
use super::launchd::Launchd;
use super::none::NoManager;
use super::systemd::Systemd;

/// How starting is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Until the daemon is ready, or has failed.
    Ready,
    /// Until the service manager has taken the order.
    Ordered,
}

/// What an installation came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Nothing was installed before.
    pub new: bool,
    /// What works, but not as one expects: the service will end with the session of its user, for instance.
    pub warnings: Vec<String>,
}

/// How a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `systemd`, `launchd` or `none`.
    pub manager: &'static str,
    pub installed: bool,
    /// It is started with the machine, or with the session of its user.
    pub enabled: bool,
    /// A process of it runs.
    pub active: bool,
    /// The manager's own word, such as `inactive` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main_pid: Option<u32>,
    /// It goes on when its user logs out; absent where that is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lingering: Option<bool>,
    /// The file that defines it, installed or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<PathBuf>,
    /// The definition starts another program than this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_program: Option<bool>,
    /// The definition was changed, and the manager still has the old one; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_reload: Option<bool>,
    /// Why the manager could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The answer of a backend. Dropping the future ends the program that it waits for; what the program did by then is done.
pub(super) type Answer<'a, T> = BoxFuture<'a, Result<T, ServiceError>>;

/// A service manager.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Finds out whether an installation would work, and changes nothing.
    fn check<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()>;
    /// Installs, or replaces what is installed, and does not start. What fails leaves everything as it was.
    fn install<'a>(&'a self, definition: &'a Definition) -> Answer<'a, Installed>;
    /// Starts; one that runs is fine.
    fn start<'a>(&'a self, name: &'a ServiceName, start: Start) -> Answer<'a, ()>;
    /// Stops, and waits until it has stopped; one that does not run is fine.
    fn stop<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()>;
    /// Stops and starts, or only starts; waits as [`Start::Ready`].
    fn restart<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()>;
    /// Stops and takes away; one that is not installed is fine.
    fn uninstall<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()>;
    /// Has the manager read the definition that is on disk, start it with the machine, and keep it when its user logs out. Gives what to
    /// tell a person if that is not all done. The definition stays as it is.
    fn settle<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, Vec<String>> {
        let _ = name;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    /// How it is. A manager that cannot be asked is a problem in the status, not an error.
    fn status<'a>(&'a self, name: &'a ServiceName) -> BoxFuture<'a, Status>;
}

/// The service manager of this environment.
#[must_use]
pub fn of(environment: &Environment) -> Box<dyn Backend> {
    match environment.service_manager_here() {
        ServiceManager::Systemd => Box::new(Systemd::new(environment)),
        ServiceManager::Launchd => Box::new(Launchd::new(environment)),
        ServiceManager::None | ServiceManager::Detect => Box::new(NoManager::new(environment)),
    }
}
