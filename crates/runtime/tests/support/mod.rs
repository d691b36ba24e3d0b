//! Waiting for events of a subscription.

use std::time::Duration;

use wolli_protocol::event::SessionEvent;
use wolli_runtime::embed::{Subscription, Update};

/// Nothing here takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The next event that `wanted` picks.
pub(crate) async fn until<T>(updates: &mut Subscription, mut wanted: impl FnMut(SessionEvent) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Update::Event { event, .. } = updates.next().await.expect("the subscription goes on")
                && let Some(found) = wanted(event)
            {
                return found;
            }
        }
    };
    tokio::time::timeout(LIMIT, found).await.expect("the event comes")
}

pub(crate) async fn ended(updates: &mut Subscription) {
    until(updates, |event| matches!(event, SessionEvent::AgentEnd { .. }).then_some(())).await;
}
