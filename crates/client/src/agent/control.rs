//! The control stream: the agent's state, and notices of its sessions.

use std::sync::{Arc, Weak};

use tokio::sync::{broadcast, watch};
use wolli_protocol::event::ControlEvent;
use wolli_protocol::ids::SessionId;
use wolli_protocol::sse::Event;
use wolli_protocol::state::{AgentState, SessionSummary};

use super::AgentInner;
use crate::error::ClientError;
use crate::link::{self, Break, Feed, LinkState, Taken};

/// Notices that wait for a slow reader. The stream's task fills it, subscribers drain it; when it is full the oldest
/// go, and the reader is told to look at the state.
pub(super) const CAPACITY: usize = 256;

/// What the stream's task shares with the handles.
#[derive(Debug)]
pub(super) struct ControlShared {
    pub(super) state: watch::Sender<Option<AgentState>>,
    pub(super) events: broadcast::Sender<ControlEvent>,
}

/// Notices of sessions that come, go and are renamed.
#[derive(Debug)]
pub struct Lifecycle {
    pub(super) events: broadcast::Receiver<ControlEvent>,
    pub(super) link: watch::Receiver<LinkState>,
}

impl Lifecycle {
    /// The next notice; none when the stream has ended for good. Notices of a time without connection are not made up
    /// for; [`Agent::state`](crate::Agent::state) is right after it.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<ControlEvent> {
        loop {
            match link::receive(&mut self.events, &mut self.link).await {
                Some(Ok(event)) => return Some(event),
                Some(Err(count)) => tracing::debug!(count, "reader of lifecycle notices is too slow"),
                None => return None,
            }
        }
    }
}

pub(super) struct ControlFeed {
    shared: Arc<ControlShared>,
    /// For names of open sessions; weak, since the agent owns the task.
    agent: Weak<AgentInner>,
    greeted: bool,
}

impl ControlFeed {
    pub(super) const fn new(shared: Arc<ControlShared>, agent: Weak<AgentInner>) -> Self {
        Self { shared, agent, greeted: false }
    }
}

impl Feed for ControlFeed {
    fn path(&self) -> String {
        "/events?include=lifecycle".into()
    }

    fn last_event_id(&self) -> Option<String> {
        None
    }

    fn unknown(&self) -> ClientError {
        ClientError::BadAnswer { request: "/events".into(), problem: "404".into() }
    }

    fn begin(&mut self) {
        self.greeted = false;
    }

    async fn take(&mut self, event: Event) -> Result<Taken, Break> {
        if event.name == "hello" {
            let state = serde_json::from_str(&event.data).map_err(|error| Break::Reconnect(format!("hello cannot be read: {error}")))?;
            self.shared.state.send_replace(Some(state));
            self.greeted = true;
            return Ok(Taken::Hello);
        }
        // Daemons of wolli 0.0.2 may send a frame before `hello`, which already accounts for it.
        let Some(event) = serde_json::from_str::<ControlEvent>(&event.data).ok().filter(|_| self.greeted) else {
            return Ok(Taken::Frame);
        };
        self.shared.state.send_modify(|state| {
            if let Some(state) = state {
                apply(state, &event);
            }
        });
        if let (ControlEvent::SessionRenamed { session_id, session_name }, Some(agent)) = (&event, self.agent.upgrade()) {
            agent.rename(session_id, session_name);
        }
        // Nobody may be listening.
        let _ = self.shared.events.send(event);
        Ok(Taken::Frame)
    }
}

/// Keeps the state of the last `hello` up to date.
fn apply(state: &mut AgentState, event: &ControlEvent) {
    let find = |sessions: &[SessionSummary], id: &SessionId| sessions.iter().position(|session| session.session_id == *id);
    match event {
        ControlEvent::SessionAdded { session } => match find(&state.sessions, &session.session_id) {
            Some(index) => {
                let known = &mut state.sessions[index];
                (known.live, known.is_streaming) = (session.live, session.is_streaming);
                if session.session_name.is_some() {
                    known.session_name.clone_from(&session.session_name);
                }
            }
            // One that was not known was just made, and the list is newest first.
            None => state.sessions.insert(0, session.clone()),
        },
        ControlEvent::SessionRemoved { session_id } => {
            if let Some(index) = find(&state.sessions, session_id) {
                let known = &mut state.sessions[index];
                (known.live, known.is_streaming) = (false, false);
            }
        }
        ControlEvent::SessionRenamed { session_id, session_name } => {
            if let Some(index) = find(&state.sessions, session_id) {
                state.sessions[index].session_name = Some(session_name.clone()).filter(|name| !name.is_empty());
            }
        }
        ControlEvent::SessionDeleted { session_id } => state.sessions.retain(|session| session.session_id != *session_id),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wolli_protocol::state::AgentState;

    use super::apply;

    #[test]
    fn notices_keep_the_state_up_to_date() {
        let mut state: AgentState = serde_json::from_value(json!({"config": {}, "cwd": "/", "sessions": [
            {"sessionId": "old", "createdAt": "t", "isStreaming": false, "live": false}]}))
        .unwrap();
        for (event, sessions) in [
            (
                json!({"type": "session_added", "session": {"sessionId": "old", "sessionName": "n", "isStreaming": true, "live": true}}),
                json!([{"sessionId": "old", "sessionName": "n", "createdAt": "t", "isStreaming": true, "live": true}]),
            ),
            (
                json!({"type": "session_renamed", "sessionId": "old", "sessionName": ""}),
                json!([{"sessionId": "old", "createdAt": "t", "isStreaming": true, "live": true}]),
            ),
            (
                json!({"type": "session_added", "session": {"sessionId": "new", "isStreaming": false, "live": true}}),
                json!([{"sessionId": "new", "isStreaming": false, "live": true},
                    {"sessionId": "old", "createdAt": "t", "isStreaming": true, "live": true}]),
            ),
            (
                json!({"type": "session_removed", "sessionId": "old"}),
                json!([{"sessionId": "new", "isStreaming": false, "live": true},
                    {"sessionId": "old", "createdAt": "t", "isStreaming": false, "live": false}]),
            ),
            (json!({"type": "session_deleted", "sessionId": "old"}), json!([{"sessionId": "new", "isStreaming": false, "live": true}])),
            (json!({"type": "session_removed", "sessionId": "gone"}), json!([{"sessionId": "new", "isStreaming": false, "live": true}])),
        ] {
            apply(&mut state, &serde_json::from_value(event).unwrap());
            assert_eq!(serde_json::to_value(&state.sessions).unwrap(), sessions);
        }
    }
}
