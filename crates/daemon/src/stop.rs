//! The wish that the daemon stops, and why; from a signal, a command or a failure.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::exit::{self, ExitStatus};

/// Why the daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The `shutdown` command.
    Command,
    /// SIGINT.
    Interrupt,
    /// SIGTERM or SIGHUP.
    Terminate,
    /// The agent cannot be loaded.
    Failure,
}

impl StopReason {
    /// What the process ends with.
    #[must_use]
    pub fn status(self) -> ExitStatus {
        match self {
            Self::Command => exit::SUCCESS,
            Self::Interrupt => exit::INTERRUPTED,
            Self::Terminate => exit::TERMINATED,
            Self::Failure => exit::FAILURE,
        }
    }
}

/// Clones share one wish. The first reason counts.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    reason: Arc<OnceLock<StopReason>>,
    wanted: CancellationToken,
    hurry: CancellationToken,
}

impl Stop {
    /// Asks the daemon to stop. A second signal takes away the time that work has to end.
    pub fn request(&self, reason: StopReason) {
        let repeated = self.reason.set(reason).is_err();
        if repeated && matches!(reason, StopReason::Interrupt | StopReason::Terminate) {
            self.hurry.cancel();
        }
        self.wanted.cancel();
    }

    /// Returns when the daemon is to stop, with the reason.
    pub async fn wanted(&self) -> StopReason {
        self.wanted.cancelled().await;
        self.reason.get().copied().unwrap_or(StopReason::Terminate)
    }

    /// Returns when there is no time left.
    pub async fn hurried(&self) {
        self.hurry.cancelled().await;
    }

    /// True from the first wish on.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_counts_and_a_second_signal_hurries() {
        let stop = Stop::default();
        assert!(!stop.is_wanted());
        stop.request(StopReason::Command);
        stop.request(StopReason::Command);
        assert!(!stop.hurry.is_cancelled());
        stop.request(StopReason::Terminate);
        assert!(stop.hurry.is_cancelled());
        assert_eq!(stop.wanted().await, StopReason::Command);
    }
}
