//! Who serves the agent after a daemon that was started by hand: the installed service, if there is one.
//!
//! The service was refused while we served (status 75), and its manager does not try again by itself. A daemon that was told to stop by
//! the `shutdown` command starts nobody: whoever sent it decides what comes next.

use std::time::Duration;

use super::prepare::Prepared;
use crate::service::{AgentService, Start};
use crate::stop::StopReason;

/// How long the order may take; the whole end of a daemon has ten seconds.
const LIMIT: Duration = Duration::from_secs(3);

/// The service to start at the end.
#[derive(Debug)]
pub(crate) struct Successor(Option<AgentService>);

impl Successor {
    /// None for a daemon that a service manager runs: that one knows what to do.
    pub(crate) fn of(prepared: &Prepared) -> Self {
        let by_hand = !prepared.supervised;
        Self(by_hand.then(|| AgentService::new(&prepared.environment, &prepared.root, &prepared.home)))
    }

    /// Orders its start, and does not wait for it.
    pub(crate) async fn order(&self, reason: StopReason) {
        let Some(service) = self.0.as_ref().filter(|service| wanted(reason) && service.is_installed()) else { return };
        match tokio::time::timeout(LIMIT, service.start(Start::Ordered)).await {
            Ok(Ok(())) => tracing::info!("the installed service takes over"),
            Ok(Err(error)) => tracing::warn!(%error, "the installed service was not started"),
            Err(_) => tracing::warn!("the service manager did not answer in time"),
        }
    }
}

fn wanted(reason: StopReason) -> bool {
    match reason {
        StopReason::Interrupt | StopReason::Terminate => true,
        StopReason::Command | StopReason::Failure => false,
    }
}
