//! How long to wait before the next attempt. Pure.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// First wait: a daemon that restarts is back within it or the next ones.
const FIRST: Duration = Duration::from_millis(100);

/// Longest wait, so that a client is back within seconds after sleep or a long absence.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Attempts without end, each after a wait that doubles up to [`LONGEST`]. A wait is drawn between half of its value and
/// all of it, so that many clients do not come back in step.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Failed attempts since the last success.
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// An attempt was successful.
    pub(crate) const fn reset(&mut self) {
        self.attempts = 0;
    }

    /// The wait before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = wait(self.attempts, random());
        self.attempts = self.attempts.saturating_add(1);
        wait
    }
}

/// `random` is between 0 and 1.
fn wait(attempts: u32, random: f64) -> Duration {
    let full = FIRST.saturating_mul(2_u32.saturating_pow(attempts)).min(LONGEST);
    full.mul_f64(random.clamp(0.0, 1.0) / 2.0 + 0.5)
}

/// Good enough to part clients; nothing secret depends on it.
fn random() -> f64 {
    let bits = u32::try_from(RandomState::new().build_hasher().finish() >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, LONGEST, random, wait};

    #[test]
    fn waits_double_up_to_the_longest_and_are_drawn_from_the_upper_half() {
        for (attempts, full) in [(0, 100), (1, 200), (2, 400), (6, 6_400), (7, 10_000), (8, 10_000), (40, 10_000), (u32::MAX, 10_000)] {
            assert_eq!(wait(attempts, 1.0), Duration::from_millis(full));
            assert_eq!(wait(attempts, 0.0), Duration::from_millis(full / 2));
        }
        assert!((0..1000).map(|_| random()).all(|random| (0.0..=1.0).contains(&random)));
    }

    #[test]
    fn a_success_begins_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            assert!(backoff.next() <= LONGEST);
        }
        assert_eq!(backoff.attempts(), 20);
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(100));
    }
}
