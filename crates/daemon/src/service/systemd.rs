//! systemd's manager of the user's own services, by way of `systemctl --user`.
//!
//! Invariant: an installation that fails leaves the unit's file, its links and what the manager knows as they were.

use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::getuid;
use wolli_home::environment::Environment;
use wolli_home::paths::ServiceName;

use super::backend::{Answer, Backend, Installed, Start, Status};
use super::definition::Definition;
use super::error::ServiceError;
use super::files::{self, Before};
use super::programs::{LONG, Programs, SHORT};
use super::{escape, linger, render};

const SYSTEMCTL: &str = "systemctl";
/// Where login sessions have their runtime folders.
const RUNTIME_FOLDERS: &str = "/run/user";
/// The target that pulls units in when the manager starts.
const WANTED_BY: &str = "default.target.wants";

/// The user's manager.
#[derive(Clone, Debug)]
pub(super) struct Systemd {
    programs: Programs,
    /// `None`: there is no home folder.
    folder: Option<PathBuf>,
    user: String,
    executable: Option<PathBuf>,
}

impl Systemd {
    pub(super) fn new(environment: &Environment) -> Self {
        let mut programs = Programs::new(environment);
        if let Some(folder) = fallback_folder(environment) {
            // A shell over `su`, `sudo` or cron has no session, but the manager may run all the same.
            let bus = folder.join("bus");
            let address = bus.exists().then(|| format!("unix:path={}", bus.display()).into());
            programs.set("XDG_RUNTIME_DIR", Some(folder.into()));
            programs.set("DBUS_SESSION_BUS_ADDRESS", address);
        }
        Self {
            programs,
            folder: ServiceName::unit_folder(environment),
            user: linger::user(environment),
            executable: super::agent_service::this_program(environment),
        }
    }

    fn unit_file(&self, name: &ServiceName) -> Result<PathBuf, ServiceError> {
        Ok(self.folder.as_ref().ok_or(ServiceError::NoHome)?.join(name.unit()))
    }

    async fn order(&self, arguments: &[&str], name: &ServiceName, limit: std::time::Duration) -> Result<(), ServiceError> {
        let arguments = [&["--user", "--no-ask-password"], arguments].concat();
        self.programs.order(SYSTEMCTL, &arguments, name.agent(), limit).await.map(|_| ())
    }

    /// Properties of the unit, in the order in which they are asked for.
    async fn properties<const N: usize>(&self, name: &ServiceName, wanted: [&str; N]) -> Result<[String; N], ServiceError> {
        let property = format!("--property={}", wanted.join(","));
        let unit = name.unit();
        let arguments = ["--user", "--no-pager", "show", &property, "--", &unit];
        let said = self.programs.call(SYSTEMCTL, &arguments, name.agent(), SHORT).await?;
        if !said.success {
            return Err(self.unreachable(said.problem()));
        }
        let value = |wanted: &str| {
            let mut lines = said.output.lines().filter_map(|line| line.split_once('='));
            lines.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        Ok(wanted.map(value))
    }

    /// Asks the manager anything at all.
    async fn reach(&self, name: &ServiceName) -> Result<(), ServiceError> {
        let arguments = ["--user", "--no-pager", "show", "--property=Version"];
        let said = self.programs.call(SYSTEMCTL, &arguments, name.agent(), SHORT).await?;
        if said.success { Ok(()) } else { Err(self.unreachable(said.problem())) }
    }

    fn unreachable(&self, problem: String) -> ServiceError {
        let user = &self.user;
        ServiceError::Unreachable {
            manager: "systemd's manager of your services",
            problem,
            advice: format!(
                "It runs while {user} is logged in (at the machine or over ssh; a shell of su or sudo is no login), and always after: \
                 sudo loginctl enable-linger {user}\n\
                 To do without a service, set WOLLI_SERVICE_MANAGER=none."
            ),
        }
    }

    /// Changes the disk and tells the manager; the caller undoes what fails.
    async fn apply(&self, before: &Before, text: &str, name: &ServiceName) -> Result<(), ServiceError> {
        before.replace(text)?;
        self.order(&["daemon-reload"], name, SHORT).await?;
        self.order(&["enable", "--", &name.unit()], name, SHORT).await
    }

    async fn undo(&self, before: &Before, was_enabled: bool, name: &ServiceName) -> Result<(), ServiceError> {
        if !was_enabled {
            self.unlink(name)?;
        }
        before.restore()?;
        // The manager that failed may fail again; the disk, from which it starts the next time, is right.
        if let Err(error) = self.order(&["daemon-reload"], name, SHORT).await {
            tracing::warn!(%error, "the service manager was not told that an installation was undone");
        }
        Ok(())
    }

    /// Takes away the link that `enable` makes, without asking the manager.
    fn unlink(&self, name: &ServiceName) -> Result<(), ServiceError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let wants = folder.join(WANTED_BY);
        files::remove(&wants.join(name.unit()))?;
        // One that others use is not empty.
        let _ = std::fs::remove_dir(wants);
        Ok(())
    }

    fn check_file(&self, name: &ServiceName) -> Result<PathBuf, ServiceError> {
        let path = self.unit_file(name)?;
        if std::fs::read_link(&path).is_ok_and(|target| target == Path::new("/dev/null")) {
            return Err(ServiceError::Masked { unit: name.unit(), path });
        }
        files::check_writable(&path)?;
        Ok(path)
    }

    /// `start` or `restart`. A unit that came to its start limit may start again: a person asked for it.
    async fn begin(&self, verb: &[&str], name: &ServiceName, limit: std::time::Duration) -> Result<(), ServiceError> {
        if !self.unit_file(name)?.exists() {
            return Err(ServiceError::NotInstalled { agent: name.agent().to_owned() });
        }
        self.reach(name).await?;
        // A unit that has not failed is not loaded perhaps, which is refused.
        let _ = self.order(&["reset-failed", "--", &name.unit()], name, SHORT).await;
        self.order(&[verb, &["--", &name.unit()]].concat(), name, limit).await
    }
}

impl Backend for Systemd {
    fn check<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            self.check_file(name)?;
            self.reach(name).await
        }
        .boxed()
    }

    fn install<'a>(&'a self, definition: &'a Definition) -> Answer<'a, Installed> {
        async {
            let name = definition.name();
            let path = self.check_file(name)?;
            self.reach(name).await?;
            let [state] = self.properties(name, ["UnitFileState"]).await?;
            let before = Before::of(&path)?;
            if let Err(error) = self.apply(&before, &render::unit(definition), name).await {
                return Err(match self.undo(&before, state == "enabled", name).await {
                    Ok(()) => error,
                    Err(undoing) => ServiceError::NotUndone { error: Box::new(error), undoing: Box::new(undoing) },
                });
            }
            let warning = linger::ensure(&self.programs, &self.user, name.agent()).await;
            Ok(Installed { new: !before.existed(), warnings: warning.into_iter().collect() })
        }
        .boxed()
    }

    fn start<'a>(&'a self, name: &'a ServiceName, start: Start) -> Answer<'a, ()> {
        async move {
            match start {
                Start::Ready => self.begin(&["start"], name, LONG).await,
                Start::Ordered => self.begin(&["start", "--no-block"], name, SHORT).await,
            }
        }
        .boxed()
    }

    fn stop<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            if !self.unit_file(name)?.exists() {
                return Ok(());
            }
            self.reach(name).await?;
            self.order(&["stop", "--", &name.unit()], name, LONG).await
        }
        .boxed()
    }

    fn restart<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        self.begin(&["restart"], name, LONG).boxed()
    }

    fn uninstall<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, ()> {
        async {
            let path = self.unit_file(name)?;
            if !path.exists() {
                return Ok(());
            }
            self.reach(name).await?;
            self.order(&["disable", "--now", "--", &name.unit()], name, LONG).await?;
            files::remove(&path)?;
            self.order(&["daemon-reload"], name, SHORT).await?;
            // Nothing may be left that looks failed; one that has not failed is refused.
            let _ = self.order(&["reset-failed", "--", &name.unit()], name, SHORT).await;
            Ok(())
        }
        .boxed()
    }

    fn settle<'a>(&'a self, name: &'a ServiceName) -> Answer<'a, Vec<String>> {
        async {
            if !self.unit_file(name)?.exists() {
                return Err(ServiceError::NotInstalled { agent: name.agent().to_owned() });
            }
            self.order(&["daemon-reload"], name, SHORT).await?;
            self.order(&["enable", "--", &name.unit()], name, SHORT).await?;
            Ok(linger::ensure(&self.programs, &self.user, name.agent()).await.into_iter().collect())
        }
        .boxed()
    }

    fn status<'a>(&'a self, name: &'a ServiceName) -> BoxFuture<'a, Status> {
        async {
            let definition = self.unit_file(name).ok();
            let text = definition.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
            let mut status = Status { manager: "systemd", installed: text.is_some(), definition, ..Status::default() };
            if let (Some(text), Some(executable)) = (&text, &self.executable) {
                let start = format!("ExecStart={}", escape::exec_word(&executable.to_string_lossy()));
                status.other_program = Some(!text.lines().any(|line| line.starts_with(&start)));
            }
            match self.properties(name, ["UnitFileState", "ActiveState", "MainPID", "NeedDaemonReload"]).await {
                Ok([enabled, active, process, reload]) => {
                    status.needs_reload = (reload == "yes").then_some(true);
                    status.enabled = enabled == "enabled";
                    status.active = matches!(active.as_str(), "active" | "activating" | "reloading" | "deactivating");
                    status.main_pid = process.parse().ok().filter(|process| *process != 0);
                    status.state = Some(active);
                }
                Err(error) => status.problem = Some(error.to_string()),
            }
            status.lingering = linger::is_on(&self.programs, &self.user, name.agent()).await;
            status
        }
        .boxed()
    }
}

/// The runtime folder of the user's session, where the environment names none in which a manager answers.
fn fallback_folder(environment: &Environment) -> Option<PathBuf> {
    let answers = |folder: &Path| folder.join("systemd/private").exists() || folder.join("bus").exists();
    if environment.runtime_folder().is_some_and(answers) {
        return None;
    }
    Some(Path::new(RUNTIME_FOLDERS).join(getuid().as_raw().to_string())).filter(|folder| answers(folder))
}

#[cfg(test)]
mod tests;
