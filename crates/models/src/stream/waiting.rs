//! Waiting for work with a limit and a cancellation.

use std::pin::Pin;

use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

/// What came first.
pub(super) enum Outcome<T> {
    Cancelled,
    /// The timer ran out.
    Silence,
    Ready(T),
}

/// Waits for work, the timer or the cancellation; cancellation comes first.
pub(super) async fn first<T>(
    cancelled: &mut Pin<Box<WaitForCancellationFutureOwned>>,
    timer: &mut Option<Pin<Box<Sleep>>>,
    work: impl Future<Output = T>,
) -> Outcome<T> {
    let silence = async {
        match timer {
            Some(timer) => timer.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancelled => Outcome::Cancelled,
        done = work => Outcome::Ready(done),
        () = silence => Outcome::Silence,
    }
}

pub(super) async fn is_cancelled(cancelled: &mut Pin<Box<WaitForCancellationFutureOwned>>) -> bool {
    tokio::select! {
        biased;
        () = cancelled => true,
        () = std::future::ready(()) => false,
    }
}
