//! `wolli daemon`: serves an agent in this process until it is told to stop.

use wolli_daemon::{LogFormat, Options, Supervisor};
use wolli_home::environment::Environment;

use crate::arguments;

/// Gives the exit status; what went wrong is on stderr then.
pub(crate) fn run(daemon: arguments::Daemon, environment: Environment) -> u8 {
    let options = Options {
        agent: daemon.name,
        port: daemon.port,
        log_format: match daemon.log_format {
            arguments::LogFormat::Text => LogFormat::Text,
            arguments::LogFormat::Json => LogFormat::Json,
        },
        supervisor: match daemon.supervisor {
            None => Supervisor::None,
            Some(arguments::Supervisor::Launchd) => Supervisor::Launchd,
        },
    };
    wolli_daemon::run(&options, environment).0
}
