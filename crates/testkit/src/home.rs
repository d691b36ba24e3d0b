//! A temporary home with agents, and the real program in it.
//!
//! Invariant: what runs here sees nothing of the machine's own homes: the environment is cleared, `HOME` and everything
//! below it is in the temporary folder, no service manager is used, and nothing is fetched. When the guard is dropped,
//! the daemons that it started are dead and the folder is gone.

mod agent;
mod daemon;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

pub use agent::Agent;
pub use daemon::Daemon;

use crate::provider::Provider;

#[cfg(test)]
mod tests;

/// A root folder as a person has it, in a place of its own.
#[derive(Debug)]
pub struct TestHome {
    /// Removes the folder when it is dropped.
    _folder: TempDir,
    path: PathBuf,
    binary: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    runs: AtomicU32,
}

impl TestHome {
    /// A home for the program that was built beside the running test, or that `WOLLI_BIN` names.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn new() -> Result<Self> {
        Self::with_binary(find_binary()?)
    }

    /// A home for that program, for example `env!("CARGO_BIN_EXE_wolli")`.
    ///
    /// # Errors
    /// When the folders cannot be made.
    pub fn with_binary(binary: impl Into<PathBuf>) -> Result<Self> {
        // Short names: the path of a Unix socket holds about a hundred bytes.
        let folder = tempfile::Builder::new().prefix("w").rand_bytes(6).tempdir()?;
        let path = folder.path().canonicalize()?;
        for name in ["h", "run", "tmp", "logs", "h/.wolli/agents", "h/.wolli/agent"] {
            std::fs::create_dir_all(path.join(name))?;
        }
        let mut home =
            Self { _folder: folder, path: path.clone(), binary: binary.into(), environment: BTreeMap::new(), runs: AtomicU32::new(0) };
        let pairs: [(&str, OsString); 10] = [
            ("HOME", path.join("h").into()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".into()),
            ("LANG", "C.UTF-8".into()),
            ("TMPDIR", path.join("tmp").into()),
            ("XDG_RUNTIME_DIR", path.join("run").into()),
            ("WOLLI_HOME", path.join("h/.wolli").into()),
            ("WOLLI_SHARED_DIR", path.join("h/.wolli/agent").into()),
            ("WOLLI_SERVICE_MANAGER", "none".into()),
            ("WOLLI_OFFLINE", "1".into()),
            ("WOLLI_TELEMETRY", "0".into()),
        ];
        for (key, value) in pairs {
            home.set_env(key, value);
        }
        Ok(home)
    }

    /// Sets a variable for programs that start later.
    pub fn set_env(&mut self, key: impl Into<OsString>, value: impl Into<OsString>) {
        self.environment.insert(key.into(), value.into());
    }

    /// Takes a variable away from programs that start later.
    pub fn remove_env(&mut self, key: &str) {
        self.environment.remove(std::ffi::OsStr::new(key));
    }

    /// The temporary folder itself.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// `WOLLI_HOME`.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.path.join("h/.wolli")
    }

    /// `WOLLI_SHARED_DIR`.
    #[must_use]
    pub fn shared(&self) -> PathBuf {
        self.root().join("agent")
    }

    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Writes a file below [`root`](Self::root), with its folders.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.root().join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, content).with_context(|| path.display().to_string())
    }

    /// Writes a JSON file below [`root`](Self::root).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_json(&self, path: impl AsRef<Path>, content: &Value) -> Result<()> {
        self.write(path, format!("{content:#}\n"))
    }

    /// Makes the models of a scripted provider known (see [`Provider::models_json`]).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn use_provider(&self, provider: &Provider) -> Result<()> {
        self.write_json("agent/models.json", &provider.models_json())
    }

    /// The program with the cleared environment and these arguments.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear().envs(&self.environment).current_dir(&self.path).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.command(arguments).output().with_context(|| format!("{} {arguments:?}", self.binary.display()))
    }

    /// Runs the program and gives its standard output back; it must succeed.
    ///
    /// # Errors
    /// When it fails; the message has both outputs.
    pub fn run_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "wolli {arguments:?} ended with {}\n{out}\n{err}", output.status);
        Ok(out.into_owned())
    }

    /// A number that no other run of this home has.
    fn next_run(&self) -> u32 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }
}

/// The program: `WOLLI_BIN`, else `wolli` in the folder of the running test or the one above it.
fn find_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("WOLLI_BIN") {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "WOLLI_BIN is {}, which is no file", path.display());
        return Ok(path.canonicalize()?);
    }
    let test = std::env::current_exe()?;
    let near = test.ancestors().skip(1).take(2).map(|folder| folder.join("wolli"));
    near.into_iter()
        .find(|path| path.is_file())
        .with_context(|| format!("no wolli beside {}: build it first (cargo build -p wolli-cli) or set WOLLI_BIN", test.display()))
}
