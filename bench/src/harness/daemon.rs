//! The daemon's process: the real binary, started with a cleared environment, ended by SIGTERM or, if dropped, killed.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::home::{AGENT, BenchHome};
use crate::wire::{Connection, Target};

/// A daemon that is not healthy by then never will be.
const START_LIMIT: Duration = Duration::from_secs(15);
/// Longer than the daemon's own limit for a shutdown.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// Longest run of a measurement.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How much of its standard error is shown when it fails.
const ERROR_TEXT_BYTES: usize = 2_000;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Kept open: a daemon whose output is gone might end.
    _output: BufReader<ChildStdout>,
    /// Where it listens.
    pub target: Target,
    /// From before the spawn until `/health` answered 200.
    pub started_in: Duration,
}

impl Daemon {
    /// Starts the daemon of a home and waits until `/health` answers 200.
    pub async fn start(wolli: &Path, home: &BenchHome) -> Result<Self> {
        match timeout(START_LIMIT, Self::start_unlimited(wolli, home)).await {
            Ok(Ok(daemon)) => Ok(daemon),
            failed => {
                let errors = std::fs::read_to_string(home.error_file()).unwrap_or_default();
                let errors = &errors[errors.ceil_char_boundary(errors.len().saturating_sub(ERROR_TEXT_BYTES))..];
                let reason = failed.map_or_else(
                    |_| "it did not become healthy in time".to_owned(),
                    |result| match result {
                        Ok(_) => String::new(),
                        Err(error) => format!("{error:#}"),
                    },
                );
                bail!("failed to start {}: {reason}; its standard error: {}", wolli.display(), errors.trim())
            }
        }
    }

    async fn start_unlimited(wolli: &Path, home: &BenchHome) -> Result<Self> {
        let mut command = Command::new(wolli);
        command.args(["daemon", AGENT]).env_clear().envs(home.environment()).current_dir(home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(home.error_file())?).kill_on_drop(true);
        let request = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", home.target.address).into_bytes();
        let begin = Instant::now();
        let mut child = command.spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("it has no output")?);
        // It says so when it listens: nothing is polled, so nothing is added to the time.
        let mut line = String::new();
        output.read_line(&mut line).await?;
        if !line.contains("listening") {
            bail!("it said {line:?} and did not listen");
        }
        let mut connection = Connection::open(home.target.address).await?;
        let status = connection.exchange(&request).await?.status;
        let started_in = begin.elapsed();
        if status != 200 {
            bail!("/health answered {status}");
        }
        Ok(Self { child, _output: output, target: home.target.clone(), started_in })
    }

    /// Its process.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().context("the daemon has ended")
    }

    /// Asks it to end and waits for it.
    pub async fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw).context("process number out of range")?;
        kill_process(pid, Signal::TERM)?;
        timeout(STOP_LIMIT, self.child.wait()).await.context("the daemon did not end in time")??;
        Ok(())
    }

    /// The newest session; waits until the daemon has loaded everything.
    pub async fn first_session(&self) -> Result<Session> {
        let state = self.target.get_json("/sessions").await?;
        let id = state["sessions"][0]["sessionId"].as_str().context("the daemon has no session")?;
        Ok(Session { target: self.target.clone(), id: id.to_owned() })
    }

    /// A new session.
    pub async fn new_session(&self) -> Result<Session> {
        let first = self.first_session().await?;
        let state = first.control(&json!({ "type": "create_session" })).await?;
        let id = state["sessionId"].as_str().context("a new session has no id")?;
        Ok(Session { target: self.target.clone(), id: id.to_owned() })
    }
}

/// One session of a daemon.
#[derive(Debug, Clone)]
pub struct Session {
    target: Target,
    /// Its id.
    pub id: String,
}

impl Session {
    /// Sends it a command and returns its `data`.
    pub async fn control(&self, command: &Value) -> Result<Value> {
        self.target.control(&self.id, command).await
    }

    /// The bytes that attach a reader.
    pub fn attach(&self, view: &str) -> Vec<u8> {
        self.target.attach(&self.id, view)
    }

    /// Starts a run; returns once it is accepted.
    pub async fn prompt(&self) -> Result<()> {
        self.control(&json!({ "type": "prompt", "message": "go" })).await.map(drop)
    }

    /// Waits until no run is active.
    pub async fn idle(&self) -> Result<()> {
        timeout(RUN_LIMIT, self.control(&json!({ "type": "wait_for_idle" }))).await.context("the run did not end in time")?.map(drop)
    }

    /// The number of the last frame, from the `hello` of a reader that leaves at once.
    pub async fn last_id(&self) -> Result<u64> {
        let hello = crate::readers::hello(self.target.address, &self.attach("delta")).await?;
        hello["stream"]["lastId"].as_u64().with_context(|| format!("hello has no stream.lastId: {hello}"))
    }
}
