//! Signals that ask the daemon to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::stop::{Stop, StopReason};

/// The signals, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal that the daemon was started in has closed.
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Passes signals on for as long as it is polled.
    pub(crate) async fn pass_on(mut self, stop: Stop) {
        loop {
            let reason = tokio::select! {
                _ = self.interrupt.recv() => StopReason::Interrupt,
                _ = self.terminate.recv() => StopReason::Terminate,
                _ = self.hang_up.recv() => StopReason::Terminate,
            };
            tracing::info!(?reason, "signal");
            stop.request(reason);
        }
    }
}
