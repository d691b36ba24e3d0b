//! Waiting on something that cannot wake us: another process's lock.
//!
//! Invariant: every wait has a deadline, and its steps have an upper bound, so that a lock that becomes free is noticed soon.
//! Not here: what is waited for.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// First pause between two looks: most holders are gone after a write of some milliseconds.
const FIRST_STEP: Duration = Duration::from_millis(5);
/// Longest pause: cheap enough for a wait of many seconds, short enough that a person does not notice it.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// A wait with a deadline, taken in growing steps.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Instant,
    step: Duration,
    never_signalled: (Mutex<()>, Condvar),
}

impl Patience {
    /// Starts a wait of at most `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            // A limit beyond the clock's range means "for a very long time".
            deadline: now.checked_add(limit).unwrap_or(now + Duration::from_secs(86_400 * 365)),
            step: FIRST_STEP,
            never_signalled: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Pauses for one step; false, at once, when the deadline has passed.
    pub(crate) fn pause(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let (mutex, condition) = &self.never_signalled;
        let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        drop(condition.wait_timeout(guard, self.step.min(left)));
        self.step = (self.step * 2).min(LONGEST_STEP);
        true
    }
}
