//! Starting an agent's daemon when none runs, detached, so that it outlives this program.

use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use wolli_home::environment::Environment;
use wolli_home::paths::AgentHome;
use wolli_protocol::state::Health;

use crate::error::ClientError;
use crate::service;
use crate::transport::Transport;

/// How long a daemon may take to answer after it was started, and to stop after it was asked to.
pub const START_LIMIT: Duration = Duration::from_secs(15);

/// How often it is asked meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Bytes of the daemon's words that an error shows.
const SHOWN_OUTPUT: usize = 2_000;

/// The daemon's exit status when another one serves the agent; that one will answer.
const ALREADY_RUNNING: i32 = 75;

/// What a service manager tells the process that it starts, and what is no business of a daemon that is started by hand.
const OF_SERVICE_MANAGERS: &[&str] = &[
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "SYSTEMD_EXEC_PID",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
];

/// How a daemon is started: the program and the arguments before `daemon <name>`. Services are ordered about through it as well, as
/// in `restart <name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonProgram {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl DaemonProgram {
    /// That program, called as `<program> daemon <name>`.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: Vec::new() }
    }
}

/// Asks until the daemon is healthy; if nobody is there at first, starts it.
pub(crate) async fn ensure_running(
    transport: &Transport,
    program: Option<&DaemonProgram>,
    environment: &Environment,
) -> Result<Health, ClientError> {
    let error = match transport.health().await {
        Ok(health) => return Ok(health),
        Err(error) => error,
    };
    // Somebody else on the port, or a daemon that we cannot know: starting another one would help nobody.
    let (ClientError::Unreachable { .. }, Some(program)) = (&error, program) else {
        return Err(error);
    };
    let home = &transport.daemon().home;
    if service::is_installed(environment, home) {
        match service::order(Some(program), environment, home, &["start"]).await {
            Ok(()) => return wait_for_health(transport).await,
            // An agent that answers without its service is better than none.
            Err(error) => tracing::warn!(%error, "the service was not started; the daemon is started without it"),
        }
    }
    start(transport, program, environment).await
}

/// Starts the daemon and waits until it is healthy.
pub(crate) async fn start(transport: &Transport, program: &DaemonProgram, environment: &Environment) -> Result<Health, ClientError> {
    let home = &transport.daemon().home;
    let output = home.logs().join("start.log");
    let failed = |problem: String| ClientError::Start { program: program.program.clone(), problem };
    let mut child = spawn(program, environment, home, &output).map_err(|error| failed(error.to_string()))?;
    let started = Instant::now();
    let mut running = true;
    loop {
        match transport.health().await {
            Ok(health) => {
                // Another one answers after all. Ours would wait for its end and then take its place, wanted by nobody.
                if running && child.id() != Some(health.pid) {
                    withdraw(&child);
                }
                return Ok(health);
            }
            Err(error) if error.is_final() => return Err(error),
            Err(_) => {}
        }
        if running && let Some(status) = child.try_wait().map_err(|error| failed(error.to_string()))? {
            running = false;
            if status.code() != Some(ALREADY_RUNNING) {
                return Err(failed(ended(status, &output)));
            }
        }
        if started.elapsed() >= START_LIMIT {
            let (base, seconds) = (transport.base().await, START_LIMIT.as_secs());
            return Err(ClientError::NotHealthy { base, seconds, detail: shown(&output) });
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Waits until the daemon is healthy.
pub(crate) async fn wait_for_health(transport: &Transport) -> Result<Health, ClientError> {
    wait_for_other(transport, None).await
}

/// Waits until a daemon is healthy that did not start at `former`: one that is about to leave may answer for a while.
pub(crate) async fn wait_for_other(transport: &Transport, former: Option<&str>) -> Result<Health, ClientError> {
    let started = Instant::now();
    loop {
        let health = transport.health().await;
        let health = match health {
            Ok(health) if Some(health.started_at.as_str()) == former => Err(ClientError::Unreachable {
                agent: transport.daemon().home.name().clone(),
                problem: format!("the daemon that was to be replaced still answers (process {})", health.pid),
            }),
            health => health,
        };
        match health {
            Ok(health) => return Ok(health),
            Err(error) if error.is_final() => return Err(error),
            Err(_) if started.elapsed() < START_LIMIT => sleep(POLL_INTERVAL).await,
            Err(error) => {
                let (base, seconds) = (transport.base().await, START_LIMIT.as_secs());
                return Err(ClientError::NotHealthy { base, seconds, detail: format!("\n{error}") });
            }
        }
    }
}

/// Waits until nobody answers for the agent any more.
pub(crate) async fn wait_for_stop(transport: &Transport) -> Result<(), ClientError> {
    let started = Instant::now();
    let first = holder(&transport.daemon().home);
    loop {
        transport.forget_connections();
        // It stops to answer first, then writes what is left; only then may others touch the home.
        let silent = matches!(transport.health().await, Err(ClientError::Unreachable { .. } | ClientError::Untrusted { .. }));
        let holder = holder(&transport.daemon().home);
        if holder != first || (silent && holder.is_none()) {
            return Ok(());
        }
        if started.elapsed() >= START_LIMIT {
            return Err(ClientError::NotStopped { base: transport.base().await, seconds: START_LIMIT.as_secs() });
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The process that holds the home. A lock that cannot be looked at says nothing.
fn holder(home: &AgentHome) -> Option<u32> {
    let held = wolli_home::lock::holder(&home.daemon_lock()).ok()??;
    Some(held.map_or(0, |holder| holder.pid))
}

fn spawn(program: &DaemonProgram, environment: &Environment, home: &AgentHome, output: &std::path::Path) -> std::io::Result<Child> {
    wolli_home::atomic::create_folder(&home.logs())?;
    // A file of its own: an earlier daemon may still be writing into the last one.
    match std::fs::remove_file(output) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let log = std::fs::OpenOptions::new().append(true).create(true).mode(wolli_home::atomic::FILE_MODE).open(output)?;
    let mut command = Command::new(&program.program);
    command.args(&program.arguments).arg("daemon").arg(home.name().as_str());
    command.env_clear().envs(environment.variables()).current_dir(home.path());
    for variable in OF_SERVICE_MANAGERS {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // A group of its own: the terminal's signals to this program are not meant for it.
    command.process_group(0).kill_on_drop(false);
    command.spawn()
}

/// Asks a daemon that was started for nothing to end; one that has ended is as good.
fn withdraw(child: &Child) {
    let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn ended(status: ExitStatus, output: &std::path::Path) -> String {
    format!("it ended with {status}{}", shown(output))
}

/// A line break and the end of what it printed, or nothing.
fn shown(output: &std::path::Path) -> String {
    let text = std::fs::read(output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let text = wolli_protocol::text::byte_suffix(text.trim(), SHOWN_OUTPUT);
    if text.is_empty() { String::new() } else { format!("\n{text}") }
}
