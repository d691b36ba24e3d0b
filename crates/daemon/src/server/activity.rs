//! What one connection is doing, shared by its transport, its requests and the task that drives it.
//!
//! All three live in one task, so that there is nothing to wait for here; atomics, because the parts own no reference to each other.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

/// Where a connection stands between its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has arrived yet.
    Fresh,
    /// The last answer is out, nothing new has arrived.
    Idle,
    /// A request is arriving, its body included.
    Receiving,
    /// A request that is here whole is being answered.
    Answering,
    /// An event stream is being sent: it ends when the client closes its side.
    Streaming,
}

impl Phase {
    fn of(number: u8) -> Self {
        [Self::Fresh, Self::Idle, Self::Receiving, Self::Answering, Self::Streaming]
            .into_iter()
            .find(|phase| *phase as u8 == number)
            .unwrap_or(Self::Fresh)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Activity {
    phase: AtomicU8,
    /// Requests that have begun; tells one rest from the next, since a quick request is over before anybody looks.
    requests: AtomicU64,
    /// A write waits for the peer.
    write_pending: AtomicBool,
    /// A request was refused before its body was read.
    body_unread: AtomicBool,
    /// Whom to wake when a request has ended whose client has closed its sending side.
    end_of_input: Mutex<Option<Waker>>,
}

impl Activity {
    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Relaxed))
    }

    fn set(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Bytes came in.
    pub(crate) fn received(&self) {
        if matches!(self.phase(), Phase::Fresh | Phase::Idle) {
            self.set(Phase::Receiving);
        }
    }

    pub(crate) fn set_write_pending(&self, pending: bool) {
        self.write_pending.store(pending, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Nothing is asked and nothing is left to be written.
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.phase(), Phase::Fresh | Phase::Idle) && !self.write_pending.load(Ordering::Relaxed)
    }

    /// The client will send nothing more; `true` if that is to be kept back until its request is answered.
    pub(crate) fn hold_end_of_input(&self, waker: &Waker) -> bool {
        let hold = self.phase() == Phase::Answering;
        if hold {
            *self.end_of_input.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
        }
        hold
    }

    pub(crate) fn leave_body_unread(&self) {
        self.body_unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_body_unread(&self) -> bool {
        self.body_unread.load(Ordering::Relaxed)
    }

    /// A request's head is here; it is in progress until the returned mark is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InProgress {
        self.set(Phase::Receiving);
        self.requests.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(self))
    }
}

/// A request that is being received or answered.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Activity>);

impl InProgress {
    /// Everything of the request is here.
    pub(crate) fn received(&self) {
        self.0.set(Phase::Answering);
    }

    /// The answer is a stream of events.
    pub(crate) fn streaming(&self) {
        self.0.set(Phase::Streaming);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.set(Phase::Idle);
        if let Some(waker) = self.0.end_of_input.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }
}
