//! `wolli daemon`: the whole life of the process, readable from top to bottom.

use std::io::Write;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wolli_home::environment::Environment;

use super::daemon::Daemon;
use super::notify::Notifier;
use super::prepare::Prepared;
use super::signals::Signals;
use super::{Options, StartError};
use crate::exit::{self, ExitStatus};
use crate::log;
use crate::server::limits::{DESCRIPTORS, Timing};

/// Threads that serve. The tasks that a delta passes on its way wake each other on one thread; on two, waking the other thread cost
/// a third of the time of a delta, at a worse latency. What blocks or computes for long has threads of its own.
const WORKERS: usize = 1;
/// How long blocking work, such as a write to a stuck disk, may hold up the end of the process.
const BLOCKING_LIMIT: Duration = Duration::from_millis(500);

/// Runs a daemon until it is told to stop; returns what the process is to end with. Builds its own tokio runtime.
#[must_use]
pub fn run(options: &Options, environment: Environment) -> ExitStatus {
    match serve(options, environment) {
        Ok(status) => status,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            error.status(options.supervisor)
        }
    }
}

fn serve(options: &Options, environment: Environment) -> Result<ExitStatus, StartError> {
    let prepared = Prepared::load(options, environment)?;
    let lock = prepared.lock()?;
    // Only whoever holds the home writes its log.
    let directives = prepared.environment.variable("RUST_LOG");
    let log = log::start(prepared.home.logs(), &prepared.configuration.values.logs, options.log_format, directives, &prepared.token);
    if let Err(error) = wolli_exec::shield::close_to_other_programs() {
        tracing::warn!(%error, "programs of this user can look into the daemon");
    }
    raise_descriptor_limit();
    if let Some(holder) = lock.left_behind() {
        tracing::warn!(%holder, "the last daemon of this agent ended without giving the home up");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("wolli")
        .enable_all()
        .build()
        .map_err(StartError::System)?;
    let served = runtime.block_on(async {
        let signals = Signals::catch().map_err(StartError::System)?;
        let notifier = Notifier::of(&prepared.environment);
        let daemon = Daemon::start(prepared, lock, Timing::default()).await?;
        announce(&daemon.announcement());
        tracing::info!(address = %daemon.address(), version = crate::VERSION, "listening");
        let passing_on = signals.pass_on(daemon.stop());
        let telling = notifier.follow(daemon.address(), daemon.opening(), daemon.stop());
        let finishing = daemon.finish();
        tokio::pin!(passing_on, telling, finishing);
        Ok(tokio::select! {
            status = &mut finishing => status,
            () = &mut passing_on => exit::FAILURE,
            never = &mut telling => match never {},
        })
    });
    runtime.shutdown_timeout(BLOCKING_LIMIT);
    drop(log);
    served
}

/// Raises the number of descriptors that we may have, as far as we are allowed to.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// One line for people and for programs that started us; nobody has to read it.
fn announce(line: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
