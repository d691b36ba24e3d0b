//! The daemon's log: every line to the error output and to `logs/daemon.log` of the home, whatever happens to either.
//!
//! Invariants: logging never blocks and never fails the program (a line that finds no room is counted and left out); files are 0600
//! and bounded in number and size; a line that repeats is told with a count and not again and again; a line is one line, so that
//! nothing that is logged can pass for another entry. Not here: what is logged. Callers never log queries, headers or bodies.

mod collapse;
mod rotate;
mod sink;

use std::path::PathBuf;

use secrecy::SecretString;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wolli_home::config::{LogLevel, Logs};

pub(crate) use sink::LogGuard;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, place, message.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// Name of the file in the home's `logs` folder; older ones end in `.1`, `.2` and so on.
const FILE: &str = "daemon.log";

/// Starts logging for the whole process. Lines of a process that logs already go on as they did.
///
/// `directives` is the value of `RUST_LOG`, which replaces the configured level. `secret` is masked wherever it turns up: nothing logs it
/// on purpose, and this is the net below.
#[must_use]
pub(crate) fn start(folder: PathBuf, settings: &Logs, format: LogFormat, directives: Option<&str>, secret: &SecretString) -> LogGuard {
    let file = rotate::RotatingFile::new(folder.join(FILE), settings.size, settings.files);
    let (guard, lines) = sink::start(file, format, secret);
    let filter = match directives {
        Some(directives) => EnvFilter::builder().parse_lossy(directives),
        None => EnvFilter::builder().parse_lossy(directive(settings.level)),
    };
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(lines);
    let registry = tracing_subscriber::registry().with(filter);
    let started = match format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panic")));
    }
    guard
}

fn directive(level: LogLevel) -> &'static str {
    level.as_str()
}

#[cfg(test)]
mod tests;
