//! Work on blocking threads that can be aborted at any point, and that says truly whether it was.
//!
//! The abort and the point of no return of a job (the rename of a written file) exclude each other: a call that reports an abort has changed nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;

use super::failure::ToolFailure;

const RUNNING: u8 = 0;
const ABORTED: u8 = 1;
const COMMITTED: u8 = 2;

/// The job's view of the abort.
#[derive(Debug, Default)]
pub(super) struct Abort(AtomicU8);

impl Abort {
    /// For long loops.
    pub(super) fn check(&self) -> Result<(), ToolFailure> {
        if self.is_aborted() { Err(ToolFailure::Aborted) } else { Ok(()) }
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ABORTED
    }

    /// The point of no return: after it the job is not aborted any more.
    pub(super) fn commit(&self) -> Result<(), ToolFailure> {
        match self.0.compare_exchange(RUNNING, COMMITTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(COMMITTED) => Ok(()),
            Err(_) => Err(ToolFailure::Aborted),
        }
    }

    /// Whether the job was still to be stopped.
    pub(super) fn abort(&self) -> bool {
        self.0.compare_exchange(RUNNING, ABORTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

struct AbortOnDrop(Arc<Abort>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `job` on a blocking thread. A cancel returns at once unless the job has committed; the job itself ends at its next check.
///
/// Dropping the future aborts the job like a cancel.
pub(super) async fn blocking<T, F>(cancel: &CancellationToken, job: F) -> Result<T, ToolFailure>
where
    T: Send + 'static,
    F: FnOnce(&Abort) -> Result<T, ToolFailure> + Send + 'static,
{
    if cancel.is_cancelled() {
        return Err(ToolFailure::Aborted);
    }
    let abort = Arc::new(Abort::default());
    let guard = AbortOnDrop(Arc::clone(&abort));
    let mut task = tokio::task::spawn_blocking(move || job(&abort));
    let joined = tokio::select! {
        biased;
        joined = &mut task => joined,
        () = cancel.cancelled() => {
            if guard.0.abort() {
                return Err(ToolFailure::Aborted);
            }
            task.await
        }
    };
    joined.unwrap_or_else(|error| Err(ToolFailure::Text(format!("tool failed: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancel_returns_at_once_and_stops_the_job() {
        let cancel = CancellationToken::new();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (started, running) = tokio::sync::oneshot::channel();
        let job = move |abort: &Abort| {
            started.send(()).unwrap();
            while abort.check().is_ok() {
                std::thread::yield_now();
            }
            sender.send(abort.commit()).unwrap();
            Ok(())
        };
        let canceller = async {
            running.await.unwrap();
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(blocking(&cancel, job), canceller);
        assert_eq!(result, Err(ToolFailure::Aborted));
        assert_eq!(receiver.await.unwrap(), Err(ToolFailure::Aborted));
    }

    #[tokio::test]
    async fn a_committed_job_is_waited_for() {
        let cancel = CancellationToken::new();
        let (committed, is_committed) = tokio::sync::oneshot::channel();
        let (release, released) = tokio::sync::oneshot::channel();
        let job = move |abort: &Abort| {
            abort.commit().unwrap();
            committed.send(()).unwrap();
            released.blocking_recv().unwrap();
            Ok(5)
        };
        let canceller = async {
            is_committed.await.unwrap();
            cancel.cancel();
            tokio::task::yield_now().await;
            release.send(()).unwrap();
        };
        let (result, ()) = tokio::join!(blocking(&cancel, job), canceller);
        assert_eq!(result, Ok(5));
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let result = blocking(&CancellationToken::new(), |_| -> Result<(), ToolFailure> { panic!("oops") }).await;
        assert!(matches!(result, Err(ToolFailure::Text(text)) if text.starts_with("tool failed: ")));
    }
}
