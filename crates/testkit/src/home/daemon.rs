//! A running daemon, and the ways to end it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Agent, TestHome};
use crate::{DEADLINE, POLL_INTERVAL};

/// A daemon that dies with its guard.
#[derive(Debug)]
pub struct Daemon {
    pub agent: Agent,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl TestHome {
    /// Starts `wolli daemon <name>` and does not wait for anything.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn_daemon(&self, agent: &Agent, arguments: &[&str]) -> Result<Daemon> {
        let run = self.next_run();
        let log = |kind: &str| self.folder().join("logs").join(format!("{}-{run}.{kind}", agent.name));
        let (stdout, stderr) = (log("out"), log("err"));
        let mut command = self.command(&[&["daemon", &agent.name], arguments].concat());
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = command.spawn().with_context(|| format!("{} cannot be started", self.binary().display()))?;
        Ok(Daemon { agent: agent.clone(), child, stdout, stderr })
    }

    /// Starts the daemon of an agent and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready; the message has what it printed.
    pub async fn start_daemon(&self, agent: &Agent) -> Result<Daemon> {
        let mut daemon = self.spawn_daemon(agent, &[])?;
        daemon.ready().await?;
        Ok(daemon)
    }
}

impl Daemon {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Polls `/health` until this very process answers; gives the answer back.
    ///
    /// # Errors
    /// When the process ends, or does not answer until [`DEADLINE`].
    pub async fn ready(&mut self) -> Result<Value> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("daemon ended with {status} before it was ready:\n{}", self.output());
            }
            if let Ok(answer) = self.agent.stranger().get("/health").await
                && answer.status == 200
            {
                let health = answer.json();
                ensure!(health["agent"] == self.agent.name, "another agent answers: {health}");
                // One that is about to leave may still answer.
                if health["pid"] == self.pid() {
                    return Ok(health);
                }
            }
            ensure!(started.elapsed() < DEADLINE, "daemon did not become ready:\n{}", self.output());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Everything that it printed so far, standard output first.
    #[must_use]
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout(), self.stderr())
    }

    #[must_use]
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("process without an id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// `kill -9`; the process is gone when this returns.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        // It may have ended by itself.
        let _ = self.child.kill();
        Ok(self.child.wait()?)
    }

    /// Asks it to end (`SIGTERM`) and waits.
    ///
    /// # Errors
    /// When it does not end until [`DEADLINE`]; the message has what it printed.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.ended().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end until [`DEADLINE`].
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(started.elapsed() < DEADLINE, "daemon did not end:\n{}", self.output());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// It runs.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Also a stopped process dies of this.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- daemon {} ---\n{}", self.agent.name, self.output());
        }
    }
}
