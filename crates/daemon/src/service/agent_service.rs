//! The service of one agent: what commands, deployment and the end of a daemon use.

use std::path::{Path, PathBuf};

use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root, ServiceName};
use wolli_runtime::service::{self as port, ServiceManager};

use super::backend::{self, Backend, Installed, Start, Status};
use super::definition::Definition;
use super::error::ServiceError;
use super::search_path::search_path;

/// What the kernel writes behind the path of a program whose file was replaced.
const REPLACED: &str = " (deleted)";

/// One agent as a service of this user.
#[derive(Debug)]
pub struct AgentService {
    environment: Environment,
    root: Root,
    home: AgentHome,
    name: ServiceName,
    backend: Box<dyn Backend>,
}

impl AgentService {
    /// The service of the agent with that home, with the service manager of the environment.
    #[must_use]
    pub fn new(environment: &Environment, root: &Root, home: &AgentHome) -> Self {
        Self {
            environment: environment.clone(),
            root: root.clone(),
            home: home.clone(),
            name: ServiceName::new(environment, root, home.name()),
            backend: backend::of(environment),
        }
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        self.name.agent()
    }

    /// Whether it is installed. Asks the disk alone.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        self.name.is_installed(&self.environment)
    }

    /// What would be installed, with the `PATH` of the login shell, which is asked.
    ///
    /// # Errors
    /// Nobody knows which program this is.
    pub async fn definition(&self) -> Result<Definition, ServiceError> {
        let program = this_program(&self.environment)
            .ok_or_else(|| ServiceError::Program { program: "wolli".to_owned(), problem: "its own file is not known".to_owned() })?;
        let path = search_path(&self.environment, &[self.root.path().to_owned()]).await;
        if let Some(reason) = &path.fallback {
            tracing::info!(reason, "the service gets the PATH of this environment");
        }
        Ok(Definition::new(&self.environment, &self.home, self.name.clone(), &program, path.value, None))
    }

    /// Finds out whether an installation would work.
    ///
    /// # Errors
    /// It would not.
    pub async fn check(&self) -> Result<(), ServiceError> {
        self.backend.check(&self.name).await
    }

    /// Installs it, or replaces what is installed; does not start it. Gives what the person should know, too.
    ///
    /// # Errors
    /// It is as it was before.
    pub async fn install(&self) -> Result<(Installed, Vec<String>), ServiceError> {
        self.check().await?;
        let definition = self.definition().await?;
        let installed = self.backend.install(&definition).await?;
        Ok((installed, definition.notes().to_vec()))
    }

    /// Sees to it that the manager has read what is installed, and starts it with the machine; see [`Backend::settle`].
    ///
    /// # Errors
    /// It is not installed, or the manager refuses.
    pub async fn settle(&self) -> Result<Vec<String>, ServiceError> {
        self.backend.settle(&self.name).await
    }

    /// The file that defines it, installed or not; `None` without a service manager.
    #[must_use]
    pub fn definition_file(&self) -> Option<PathBuf> {
        self.name.definition(&self.environment)
    }

    /// Starts it.
    ///
    /// # Errors
    /// It is not installed, or does not run.
    pub async fn start(&self, start: Start) -> Result<(), ServiceError> {
        self.backend.start(&self.name, start).await
    }

    /// Stops it.
    ///
    /// # Errors
    /// It may still run.
    pub async fn stop(&self) -> Result<(), ServiceError> {
        self.backend.stop(&self.name).await
    }

    /// Stops and starts it.
    ///
    /// # Errors
    /// It is not installed, or does not run.
    pub async fn restart(&self) -> Result<(), ServiceError> {
        self.backend.restart(&self.name).await
    }

    /// Stops it and takes it away.
    ///
    /// # Errors
    /// It may still be there.
    pub async fn uninstall(&self) -> Result<(), ServiceError> {
        self.backend.uninstall(&self.name).await
    }

    /// How it is.
    pub async fn status(&self) -> Status {
        self.backend.status(&self.name).await
    }
}

/// Deployment without a service manager is deployment all the same: the agent goes on as it was started.
impl ServiceManager for DeployedService {
    fn check(&self) -> Result<(), port::ServiceError> {
        self.0.as_ref().map_or(Ok(()), |service| wait(service.check()))
    }

    fn install(&self) -> Result<bool, port::ServiceError> {
        let Some(service) = &self.0 else { return Ok(false) };
        let (installed, notes) = wait(service.install())?;
        for warning in &installed.warnings {
            tracing::warn!("{warning}");
        }
        for note in notes {
            tracing::info!("{note}");
        }
        Ok(installed.new)
    }

    fn uninstall(&self) -> Result<(), port::ServiceError> {
        self.0.as_ref().map_or(Ok(()), |service| wait(service.uninstall()))
    }
}

/// The service that a deployed agent becomes, if there is a service manager.
#[derive(Debug)]
pub struct DeployedService(Option<AgentService>);

impl DeployedService {
    /// As [`AgentService::new`].
    #[must_use]
    pub fn new(environment: &Environment, root: &Root, home: &AgentHome) -> Self {
        let service = AgentService::new(environment, root, home);
        Self(service.name.definition(environment).is_some().then_some(service))
    }
}

/// On a thread for blocking work, which is where deployment asks.
fn wait<T>(work: impl Future<Output = Result<T, ServiceError>>) -> Result<T, port::ServiceError> {
    tokio::runtime::Handle::current().block_on(work).map_err(|error| port::ServiceError(error.to_string()))
}

/// The file of this program, by the name under which the next version will be found: where `PATH` leads to it over a link, the link.
pub(super) fn this_program(environment: &Environment) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let own = own.to_str().and_then(|path| path.strip_suffix(REPLACED)).map_or(own.clone(), PathBuf::from);
    Some(lasting_name(&own, environment))
}

fn lasting_name(own: &Path, environment: &Environment) -> PathBuf {
    let (Some(path), Some(name)) = (environment.search_path(), own.file_name()) else { return own.to_owned() };
    let mut found = std::env::split_paths(path).map(|folder| folder.join(name)).filter(|path| path.is_absolute());
    let same = found.find(|path| path.canonicalize().is_ok_and(|real| real == own));
    same.unwrap_or_else(|| own.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_path_outlives_the_file_that_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for name in ["v1", "bin", "other"] {
            std::fs::create_dir(real.join(name)).unwrap();
        }
        let own = real.join("v1/wolli");
        std::fs::write(&own, "1").unwrap();
        std::fs::write(real.join("other/wolli"), "2").unwrap();
        let path = format!("relative:{0}/other:{0}/bin", real.display());
        let environment = Environment::new([("PATH", &path)], "/");
        assert_eq!(lasting_name(&own, &environment), own);
        std::os::unix::fs::symlink(&own, real.join("bin/wolli")).unwrap();
        assert_eq!(lasting_name(&own, &environment), real.join("bin/wolli"));
    }
}
