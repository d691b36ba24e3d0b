//! The logs of sessions, kept beyond their stay in memory so that numbers go on and readers can resume.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use wolli_protocol::ids::SessionId;

use crate::hub::Hub;
use crate::limits::{EVICTED_LOGS, EVICTED_RINGS_BYTES};

#[derive(Debug, Default)]
pub(super) struct Hubs {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_session: HashMap<SessionId, Arc<Hub>>,
    /// Sessions that left memory, the one that left first in front.
    evicted: VecDeque<SessionId>,
}

impl Hubs {
    fn with<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        change(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<Hub>> {
        self.with(|kept| kept.by_session.get(id).cloned())
    }

    /// The logs of all sessions that this process has opened.
    pub(super) fn all(&self) -> Vec<Arc<Hub>> {
        self.with(|kept| kept.by_session.values().cloned().collect())
    }

    /// The log that this process already has for a session, taken into use again.
    pub(super) fn reuse(&self, id: &SessionId) -> Option<Arc<Hub>> {
        let hub = self.with(|kept| {
            kept.evicted.retain(|evicted| evicted != id);
            kept.by_session.get(id).cloned()
        })?;
        hub.restore_ring();
        Some(hub)
    }

    /// Keeps a new log.
    pub(super) fn add(&self, hub: Hub) -> Arc<Hub> {
        let hub = Arc::new(hub);
        self.with(|kept| kept.by_session.insert(hub.session_id().clone(), Arc::clone(&hub)));
        hub
    }

    /// The session left memory: its ring now counts against the budget of all such rings, its log among all such logs.
    pub(super) fn session_left(&self, id: &SessionId) {
        // Before the lock of all logs is taken, for it takes a while with a large ring. Nobody opens the session before this returns.
        if let Some(hub) = self.get(id) {
            hub.shrink_ring();
        }
        self.with(|kept| {
            kept.evicted.push_back(id.clone());
            // A session whose log is forgotten begins another epoch when it is opened again, so its numbers rise all the same.
            while kept.evicted.len() > EVICTED_LOGS {
                let Some(oldest) = kept.evicted.pop_front() else { break };
                kept.by_session.remove(&oldest);
            }
            let mut bytes: usize = kept.evicted.iter().filter_map(|id| kept.by_session.get(id)).map(|hub| hub.kept_bytes()).sum();
            for hub in kept.evicted.iter().filter_map(|id| kept.by_session.get(id)) {
                if bytes <= EVICTED_RINGS_BYTES {
                    break;
                }
                bytes -= hub.kept_bytes();
                hub.clear_ring();
                bytes += hub.kept_bytes();
            }
        });
    }

    /// The session is gone for good: its readers' streams end, and its log is not kept.
    pub(super) fn forget(&self, id: &SessionId) {
        self.with(|kept| {
            kept.evicted.retain(|evicted| evicted != id);
            if let Some(hub) = kept.by_session.remove(id) {
                hub.close();
            }
        });
    }

    /// Ends every reader's stream.
    pub(super) fn close(&self) {
        self.with(|kept| kept.by_session.values().for_each(|hub| hub.close()));
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::ids::FrameId;
    use wolli_protocol::state::SessionState;

    use super::*;
    use crate::hub::testing::state;

    #[test]
    fn logs_of_sessions_that_left_are_bounded() {
        let hubs = Hubs::default();
        let id = |number: usize| SessionId::from(format!("s{number}"));
        let log = |id: SessionId| Hub::new(SessionState { session_id: id, ..state() }, FrameId(0));
        for number in 0..EVICTED_LOGS + 3 {
            hubs.add(log(id(number)));
            hubs.session_left(&id(number));
        }
        assert_eq!(hubs.all().len(), EVICTED_LOGS);
        assert!(hubs.get(&id(2)).is_none() && hubs.get(&id(3)).is_some());
        // One that is in memory again is not among them.
        assert!(hubs.reuse(&id(3)).is_some());
        hubs.add(log("new".into()));
        hubs.session_left(&"new".into());
        assert!(hubs.get(&id(3)).is_some() && hubs.get(&id(4)).is_some());
    }
}
