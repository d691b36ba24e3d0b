//! Repeated lines: the first is written, the others are counted, and the count is told when its time has come.
//!
//! The pause between two tellings doubles while the line goes on, so that a loop that warns a hundred times a second writes a
//! handful of lines. Pure: the caller gives the time. Bounded: only so many different lines are remembered.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Different lines that are remembered; enough for loops that warn about several things in turn.
const REMEMBERED: usize = 256;
/// A line that comes again within this is a repetition.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The count of a line that goes on and on is told at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A line that was left out, and how often.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) line: Box<[u8]>,
    pub(super) times: u64,
}

#[derive(Debug)]
struct Known {
    line: Box<[u8]>,
    left_out: u64,
    pause: Duration,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Collapser {
    known: HashMap<u64, Known, RandomState>,
    /// When the first of `known` is due.
    next: Option<Instant>,
}

impl Collapser {
    /// Whether `line` is to be written. Counts that are due are put into `due`, to be written before it.
    pub(super) fn admit(&mut self, line: &[u8], now: Instant, due: &mut Vec<Repeated>) -> bool {
        if self.next.is_some_and(|next| next <= now) {
            self.settle(now, due);
        }
        let key = self.known.hasher().hash_one(line);
        if let Some(known) = self.known.get_mut(&key).filter(|known| *known.line == *line) {
            known.left_out += 1;
            return false;
        }
        if self.known.len() >= REMEMBERED {
            self.forget_one(due);
        }
        let until = now + FIRST_PAUSE;
        self.known.insert(key, Known { line: line.into(), left_out: 0, pause: FIRST_PAUSE, until });
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
        true
    }

    /// Everything that was counted and not told yet.
    pub(super) fn finish(&mut self) -> Vec<Repeated> {
        self.next = None;
        self.known.drain().filter_map(|(_, known)| told(known)).collect()
    }

    fn settle(&mut self, now: Instant, due: &mut Vec<Repeated>) {
        self.known.retain(|_, known| {
            if known.until > now {
                return true;
            }
            if known.left_out == 0 {
                return false;
            }
            due.push(Repeated { line: known.line.clone(), times: std::mem::take(&mut known.left_out) });
            known.pause = (known.pause * 2).min(LONGEST_PAUSE);
            known.until = now + known.pause;
            true
        });
        self.next = self.known.values().map(|known| known.until).min();
    }

    fn forget_one(&mut self, due: &mut Vec<Repeated>) {
        let first = self.known.iter().min_by_key(|(_, known)| known.until).map(|(key, _)| *key);
        due.extend(first.and_then(|key| self.known.remove(&key)).and_then(told));
    }
}

fn told(known: Known) -> Option<Repeated> {
    (known.left_out > 0).then_some(Repeated { line: known.line, times: known.left_out })
}
