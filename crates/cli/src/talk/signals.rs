//! The signals that end a conversation, or only what is being said.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a person or the system asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl+C.
    Interrupt,
    /// The request to end.
    Terminate,
}

/// Listens for both, from its making to the end of the process.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}
