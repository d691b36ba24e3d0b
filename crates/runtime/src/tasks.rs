//! The one place that starts tasks: each is named, counted for shutdown, and keeps its tracing span.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// Starts tasks that shutdown waits for. Clones share one count.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
}

impl Tasks {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` as a task of its own. Cancellation is the future's business: hand it a token.
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tracker.spawn(future.instrument(tracing::debug_span!("task", name)))
    }

    /// Runs blocking work on a thread made for it.
    pub fn spawn_blocking<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let span = tracing::Span::current();
        self.tracker.spawn_blocking(move || span.in_scope(work))
    }

    /// Returns when every task has ended; call after their tokens were cancelled.
    pub async fn finished(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Tasks that run at the moment.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }
}
