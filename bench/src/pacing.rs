//! How far a sender may be ahead of its readers.
//!
//! The daemon never waits for a reader, and a reader that falls behind the ring loses its connection. So a sender without a window
//! would measure how fast readers are lost, not how fast they are served. The same window paces the reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Sent in one write: enough to keep sender and server busy at once.
pub const BURST: u64 = 32;
/// Most that the readers, on average, are behind. Half of the 256 frames that a ring always keeps, so that a slow one among many stays inside.
const WINDOW: u64 = 128;
/// Numbered frames before the first delta of a reply.
const FRAMES_BEFORE_DELTAS: u64 = 4;
/// Without progress for so long the window is taken to be miscounted (frames were merged), and reopened.
const REOPEN_AFTER: Duration = Duration::from_millis(250);

/// A point that the sum of all readers must reach; one waiter at a time.
#[derive(Debug)]
struct Gate {
    threshold: AtomicU64,
    open: Notify,
}

impl Default for Gate {
    fn default() -> Self {
        Self { threshold: AtomicU64::new(u64::MAX), open: Notify::new() }
    }
}

/// What all readers of a crowd together have received.
#[derive(Debug, Default)]
pub struct Progress {
    /// Sum over readers of the numbers that they advanced.
    delivered: AtomicU64,
    /// Frames that ended, numbered or not.
    frames: AtomicU64,
    /// Bytes of all connections, heads and chunk framing included.
    bytes: AtomicU64,
    /// Readers whose connection ended although nobody asked for it.
    closed: AtomicU64,
    pace: Gate,
    finish: Gate,
}

impl Progress {
    /// One read of one reader. Wakes whoever waits for a point that this reaches.
    pub fn add(&self, delivered: u64, frames: u64, bytes: u64) {
        self.frames.fetch_add(frames, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if delivered == 0 {
            return;
        }
        // Sequentially consistent with `reach`: either it sees the new sum, or this sees its threshold.
        let sum = self.delivered.fetch_add(delivered, Ordering::SeqCst) + delivered;
        for gate in [&self.pace, &self.finish] {
            if sum >= gate.threshold.load(Ordering::SeqCst) {
                gate.open.notify_one();
            }
        }
    }

    /// One reader's connection ended.
    pub fn add_closed(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }

    /// Sum over readers of the numbers that they advanced since they were attached.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::SeqCst)
    }

    /// Frames that ended.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::SeqCst)
    }

    /// Bytes received.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Readers that lost their connection.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits until the sum is `goal`; `false` after `limit`. Cancel-safe.
    pub async fn finished(&self, goal: u64, limit: Duration) -> bool {
        self.reach(&self.finish, goal, limit).await
    }

    async fn reach(&self, gate: &Gate, goal: u64, limit: Duration) -> bool {
        gate.threshold.store(goal, Ordering::SeqCst);
        let reached = timeout(limit, async {
            while self.delivered() < goal {
                gate.open.notified().await;
            }
        })
        .await
        .is_ok();
        gate.threshold.store(u64::MAX, Ordering::SeqCst);
        reached
    }
}

/// The window of one sender over one crowd.
#[derive(Debug, Clone)]
pub struct Window {
    progress: Arc<Progress>,
    readers: u64,
    start: u64,
    /// Numbers that never come because frames were merged.
    merged: u64,
    reopened: u64,
}

impl Window {
    /// Starts at what the crowd has received so far.
    pub fn new(progress: Arc<Progress>, readers: u64) -> Self {
        let start = progress.delivered();
        Self { progress, readers, start, merged: 0, reopened: 0 }
    }

    /// Waits until the readers have caught up far enough with the `sent` frames for another burst.
    pub async fn admit(&mut self, sent: u64) {
        loop {
            let each = (sent + BURST + FRAMES_BEFORE_DELTAS).saturating_sub(WINDOW + self.merged);
            let goal = self.start + each * self.readers;
            let before = self.progress.delivered();
            if self.progress.reach(&self.progress.pace, goal, REOPEN_AFTER).await {
                return;
            }
            if self.progress.delivered() == before {
                self.merged += goal.saturating_sub(before).div_ceil(self.readers.max(1));
                self.reopened += 1;
            }
        }
    }

    /// How often the window had to be reopened; a run in which it happened is slower than it should be.
    pub fn reopened(&self) -> u64 {
        self.reopened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sender_waits_for_its_readers() {
        let progress = Arc::new(Progress::default());
        progress.add(5, 0, 0);
        let mut window = Window::new(Arc::clone(&progress), 10);
        window.admit(0).await;
        window.admit(WINDOW - BURST - FRAMES_BEFORE_DELTAS).await;
        let later = async {
            tokio::task::yield_now().await;
            progress.add(10, 0, 0);
        };
        let begin = tokio::time::Instant::now();
        tokio::join!(window.admit(WINDOW - BURST - FRAMES_BEFORE_DELTAS + 1), later);
        assert_eq!((begin.elapsed(), window.reopened()), (Duration::ZERO, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_that_was_miscounted_reopens() {
        let progress = Arc::new(Progress::default());
        let mut window = Window::new(Arc::clone(&progress), 3);
        window.admit(1_000).await;
        assert_eq!(window.reopened(), 1);
        window.admit(1_000).await;
        assert_eq!(window.reopened(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_goal_is_reached_or_not() {
        let progress = Progress::default();
        progress.add(3, 2, 100);
        assert!(progress.finished(3, Duration::from_secs(1)).await);
        assert!(!progress.finished(4, Duration::from_secs(1)).await);
        assert_eq!((progress.delivered(), progress.frames(), progress.bytes(), progress.closed()), (3, 2, 100, 0));
    }
}
