//! launchd, by way of `launchctl`, in the domain of the user's login (`gui/<uid>`).
//!
//! Invariant: an installation that fails leaves the property list as it was. What launchd has loaded stays until the service is
//! stopped and started: a changed list counts from then on.

use std::path::PathBuf;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::getuid;
use wolli_home::environment::Environment;
use wolli_home::paths::ServiceName;

use super::backend::{Answer, Backend, Installed, Start, Status};
use super::definition::Definition;
use super::error::ServiceError;
use super::files::{self, Before};
use super::programs::{LONG, Programs, SHORT, Said};
use super::{escape, render};

const LAUNCHCTL: &str = "launchctl";

/// The user's launchd.
#[derive(Clone, Debug)]
pub(super) struct Launchd {
    programs: Programs,
    /// `None`: there is no home folder.
    folder: Option<PathBuf>,
    domain: String,
    executable: Option<PathBuf>,
}

impl Launchd {
    pub(super) fn new(environment: &Environment) -> Self {
        Self {
            programs: Programs::new(environment),
            folder: ServiceName::launch_agents_folder(environment),
            domain: format!("gui/{}", getuid().as_raw()),
            executable: super::agent_service::this_program(environment),
        }
    }

    fn list_file(&self, name: &ServiceName) -> Result<PathBuf, ServiceError> {
        Ok(self.folder.as_ref().ok_or(ServiceError::NoHome)?.join(format!("{}.plist", name.label())))
    }

    fn target(&self, name: &ServiceName) -> String {
        format!("{}/{}", self.domain, name.label())
    }

    async fn call(&self, arguments: &[&str], name: &ServiceName, limit: std::time::Duration) -> Result<Said, ServiceError> {
        self.programs.call(LAUNCHCTL, arguments, name.agent(), limit).await
    }

    /// Orders it; the command in an error's text is the verb alone.
    async fn order(&self, arguments: &[&str], name: &ServiceName) -> Result<(), ServiceError> {
        let said = self.call(arguments, name, LONG).await?;
        if said.success {
            return Ok(());
        }
        let verb = arguments.first().copied().unwrap_or_default();
        Err(ServiceError::Refused { command: format!("launchctl {verb}"), agent: name.agent().to_owned(), problem: said.problem() })
    }

    /// What launchd says of the service, if it has loaded it.
    async fn loaded(&self, name: &ServiceName) -> Result<Option<String>, ServiceError> {
        let said = self.call(&["print", &self.target(name)], name, SHORT).await?;
        Ok(said.success.then_some(said.output))
    }

    async fn reach(&self, name: &ServiceName) -> Result<(), ServiceError> {
        let said = self.call(&["print", &self.domain], name, SHORT).await?;
        if said.success {
            return Ok(());
        }
        Err(ServiceError::Unreachable {
            manager: "launchd",
            problem: said.problem(),
            advice: "Services of a user live in the login at the screen: log in there once, then try again.\n\
                     To do without a service, set WOLLI_SERVICE_MANAGER=none."
                .to_owned(),
        })
    }

    async fn load(&self, name: &ServiceName) -> Result<(), ServiceError> {
        let path = self.list_file(name)?;
        if !path.exists() {
            return Err(ServiceError::NotInstalled { agent: name.agent().to_owned() });
        }
        self.order(&["bootstrap", &self.domain, &path.to_string_lossy()], name).await
    }
}

impl Backend for Launchd {
    fn check<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            files::check_writable(&self.list_file(name)?)?;
            self.reach(name).await
        }
        .boxed()
    }

    fn install<'a>(&'a self, definition: &'a Definition) -> Answer<'a, Installed> {
        async {
            let name = definition.name();
            self.check(name).await?;
            let before = Before::of(&self.list_file(name)?)?;
            // launchd opens the file for the service's output itself; a folder that is missing would be a start that fails.
            if let Some(folder) = definition.output.parent() {
                wolli_home::atomic::create_folder(folder).map_err(|source| ServiceError::File {
                    action: "create",
                    path: folder.to_owned(),
                    source,
                })?;
            }
            before.replace(&render::property_list(definition))?;
            let enabled = self.order(&["enable", &self.target(name)], name).await;
            if let Err(error) = enabled {
                return Err(match before.restore() {
                    Ok(()) => error,
                    Err(undoing) => ServiceError::NotUndone { error: Box::new(error), undoing: Box::new(undoing) },
                });
            }
            Ok(Installed { new: !before.existed(), warnings: Vec::new() })
        }
        .boxed()
    }

    fn start<'a>(&'a self, name: &'a ServiceName, _: Start) -> Answer<'a, ()> {
        async {
            match self.loaded(name).await? {
                Some(_) => self.order(&["kickstart", &self.target(name)], name).await,
                // The list says that it runs when it is loaded.
                None => self.load(name).await,
            }
        }
        .boxed()
    }

    fn stop<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            match self.loaded(name).await? {
                Some(_) => self.order(&["bootout", &self.target(name)], name).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn restart<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            match self.loaded(name).await? {
                Some(_) => self.order(&["kickstart", "-k", &self.target(name)], name).await,
                None => self.load(name).await,
            }
        }
        .boxed()
    }

    fn uninstall<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            let path = self.list_file(name)?;
            if !path.exists() {
                return Ok(());
            }
            self.stop(name).await?;
            files::remove(&path)
        }
        .boxed()
    }

    fn status<'a>(&'a self, name: &'a ServiceName) -> BoxFuture<'a, Status> {
        async {
            let definition = self.list_file(name).ok();
            let text = definition.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
            let installed = text.is_some();
            let mut status = Status { manager: "launchd", installed, enabled: installed, definition, ..Status::default() };
            if let (Some(text), Some(executable)) = (&text, &self.executable) {
                let word = format!("<string>{}</string>", escape::xml(&executable.to_string_lossy()));
                status.other_program = Some(!text.contains(&word));
            }
            match self.loaded(name).await {
                Ok(Some(printed)) => {
                    status.main_pid = value(&printed, "pid").and_then(|pid| pid.parse().ok());
                    status.active = status.main_pid.is_some();
                    status.state = value(&printed, "state");
                }
                Ok(None) => status.state = Some("not loaded".to_owned()),
                Err(error) => status.problem = Some(error.to_string()),
            }
            status
        }
        .boxed()
    }
}

/// `name = value` on a line of its own, the first of that name: those of parts of the service come later.
fn value(printed: &str, wanted: &str) -> Option<String> {
    let mut pairs = printed.lines().filter_map(|line| line.trim().split_once(" = "));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests;
