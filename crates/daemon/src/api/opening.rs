//! The agent while it is being loaded: requests that came early wait for it, but not for ever.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::watch;
use wolli_runtime::runtime::Runtime;

use crate::http::answer::{self, Answer};

/// How far the agent is.
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    Loading,
    Open(Arc<Runtime>),
    /// It cannot be loaded; the daemon is about to end.
    Failed(Arc<str>),
}

/// Why a request cannot be served.
#[derive(Debug)]
pub(crate) enum Unavailable {
    StillLoading,
    Failed(Arc<str>),
}

impl Unavailable {
    pub(crate) fn answer(&self) -> Answer {
        let message = match self {
            Self::StillLoading => "the agent is still being loaded; try again".to_owned(),
            Self::Failed(reason) => format!("the agent cannot be loaded: {reason}"),
        };
        answer::error(StatusCode::SERVICE_UNAVAILABLE, &message)
    }
}

/// The loaded agent, waited for at most `limit`.
pub(crate) async fn wait(opening: &watch::Receiver<Opening>, limit: Duration) -> Result<Arc<Runtime>, Unavailable> {
    if let Opening::Open(runtime) = &*opening.borrow() {
        return Ok(Arc::clone(runtime));
    }
    let mut opening = opening.clone();
    let settled = tokio::time::timeout(limit, opening.wait_for(|opening| !matches!(opening, Opening::Loading))).await;
    match settled {
        Err(_) => Err(Unavailable::StillLoading),
        Ok(Err(_)) => Err(Unavailable::Failed("the daemon is shutting down".into())),
        Ok(Ok(settled)) => match &*settled {
            Opening::Open(runtime) => Ok(Arc::clone(runtime)),
            Opening::Failed(reason) => Err(Unavailable::Failed(Arc::clone(reason))),
            Opening::Loading => Err(Unavailable::StillLoading),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_early_waits_and_not_for_ever() {
        let (_sender, opening) = watch::channel(Opening::Loading);
        let started = tokio::time::Instant::now();
        assert!(matches!(wait(&opening, LIMIT).await, Err(Unavailable::StillLoading)));
        assert_eq!(started.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_to_those_who_wait() {
        let (sender, opening) = watch::channel(Opening::Loading);
        let failing = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.send_replace(Opening::Failed("no room".into()));
        };
        let (waited, ()) = tokio::join!(wait(&opening, LIMIT), failing);
        let answer = waited.unwrap_err().answer();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(sender);
        assert!(matches!(wait(&opening, LIMIT).await, Err(Unavailable::Failed(reason)) if &*reason == "no room"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_ends_while_loading_does_not_keep_anybody() {
        let (sender, opening) = watch::channel(Opening::Loading);
        drop(sender);
        assert!(matches!(wait(&opening, LIMIT).await, Err(Unavailable::Failed(_))));
    }
}
