//! The statuses that a process of ours ends with. They are part of the interface: service units and scripts rely on them.

use std::process::ExitCode;

/// The status of a process that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus(pub u8);

/// Done; for a daemon: it was asked to stop by the `shutdown` command.
pub const SUCCESS: ExitStatus = ExitStatus(0);

/// It did not work; the reason stands on the error output.
pub const FAILURE: ExitStatus = ExitStatus(1);

/// The command line was not understood.
pub const USAGE: ExitStatus = ExitStatus(2);

/// A daemon of this agent is running already. Service units do not start again on it.
pub const ALREADY_RUNNING: ExitStatus = ExitStatus(75);

/// Another program listens on the agent's port.
pub const PORT_TAKEN: ExitStatus = ExitStatus(76);

/// `agent.json`, the token or a setting is such that the daemon must not start.
pub const BAD_CONFIGURATION: ExitStatus = ExitStatus(78);

/// Ended by SIGINT.
pub const INTERRUPTED: ExitStatus = ExitStatus(130);

/// Ended by SIGTERM, or by the end of the terminal that it was started in.
pub const TERMINATED: ExitStatus = ExitStatus(143);

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.0)
    }
}
