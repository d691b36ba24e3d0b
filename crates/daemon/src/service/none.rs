//! No service manager: agents are started by hand, or when a client needs them.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use wolli_home::environment::{Environment, ServiceManager};
use wolli_home::paths::ServiceName;

use super::backend::{Answer, Backend, Installed, Start, Status};
use super::definition::Definition;
use super::error::ServiceError;

/// Installs nothing, and says why.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoManager {
    reason: &'static str,
}

impl NoManager {
    pub(super) fn new(environment: &Environment) -> Self {
        let chosen = environment.service_manager() == ServiceManager::None;
        Self { reason: if chosen { "WOLLI_SERVICE_MANAGER is \"none\"" } else { "this machine was not started by systemd" } }
    }

    fn refuse<T: Send + 'static>(self, agent: &str) -> Answer<'static, T> {
        ready(Err(ServiceError::NoManager { agent: agent.to_owned(), reason: self.reason })).boxed()
    }
}

impl Backend for NoManager {
    fn check<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        self.refuse(name.agent())
    }

    fn install<'a>(&'a self, definition: &'a Definition) -> Answer<'a, Installed> {
        self.refuse(definition.name().agent())
    }

    fn start<'a>(&'a self, name: &'a ServiceName, _: Start) -> Answer<'a, ()> {
        self.refuse(name.agent())
    }

    fn stop<'a>(&'a self, _: &'a ServiceName) -> Answer<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn restart<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        self.refuse(name.agent())
    }

    fn uninstall<'a>(&'a self, _: &'a ServiceName) -> Answer<'a, ()> {
        ready(Ok(())).boxed()
    }

    fn status<'a>(&'a self, _: &'a ServiceName) -> BoxFuture<'a, Status> {
        ready(Status { manager: "none", ..Status::default() }).boxed()
    }
}
