//! The newest run of a session as one snapshot: a stream of its own, in view `snapshot`.
//!
//! Invariant: what a reader sees is what the daemon had at that moment, whatever broke in between. A patch that does not fit makes the next
//! connection begin anew.

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use wolli_protocol::ids::SessionId;
use wolli_protocol::snapshot::{SnapshotView, Taken as Applied, UniversalSnapshot};
use wolli_protocol::sse::Event;
use wolli_protocol::state::Hello;

use crate::agent::AgentInner;
use crate::error::ClientError;
use crate::link::{self, Break, Feed, LinkState, Taken};
use crate::transport::{Transport, encode_segment};

/// Follows the newest run of a session. Dropping it ends its stream.
#[derive(Debug)]
pub struct SnapshotWatch {
    view: watch::Receiver<SnapshotView>,
    link: watch::Receiver<LinkState>,
    _stream: DropGuard,
}

/// Starts the stream.
pub(super) fn open(agent: &AgentInner, id: SessionId, token: CancellationToken) -> SnapshotWatch {
    let (shared, view) = watch::channel(SnapshotView::new());
    let (state, link) = watch::channel(LinkState::Connecting);
    let feed = SnapshotFeed { transport: agent.transport.clone(), id, view: shared, greeted: false };
    agent.tasks.spawn(link::run(agent.transport.clone(), feed, state, token.clone()));
    SnapshotWatch { view, link, _stream: token.drop_guard() }
}

impl SnapshotWatch {
    /// Waits for a change since the last look. Many changes are one.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the stream has ended for good.
    pub async fn changed(&mut self) -> Result<(), ClientError> {
        tokio::select! {
            biased;
            changed = self.view.changed() => changed.map_err(|_| ClientError::Closed),
            () = link::ended(&mut self.link) => Err(ClientError::Closed),
        }
    }

    /// Reads the snapshot as it is now; it is idle before the first one came. Keep `read` short: the stream waits for it.
    pub fn read<T>(&mut self, read: impl FnOnce(&UniversalSnapshot) -> T) -> T {
        read(self.view.borrow_and_update().snapshot())
    }

    /// Waits until the snapshot is as `wanted` says, and gives a copy of it.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Closed`] when the stream has ended for good.
    pub async fn until(&mut self, mut wanted: impl FnMut(&UniversalSnapshot) -> bool) -> Result<UniversalSnapshot, ClientError> {
        tokio::select! {
            biased;
            found = self.view.wait_for(|view| wanted(view.snapshot())) => {
                found.map(|view| view.snapshot().clone()).map_err(|_| ClientError::Closed)
            }
            () = link::ended(&mut self.link) => Err(ClientError::Closed),
        }
    }
}

struct SnapshotFeed {
    transport: Transport,
    id: SessionId,
    view: watch::Sender<SnapshotView>,
    /// `hello` came on this connection.
    greeted: bool,
}

impl Feed for SnapshotFeed {
    fn path(&self) -> String {
        format!("/sessions/{}/events?view=snapshot", encode_segment(self.id.as_str()))
    }

    fn last_event_id(&self) -> Option<String> {
        self.view.borrow().resume_id().map(|id| id.to_string())
    }

    fn unknown(&self) -> ClientError {
        ClientError::UnknownSession { agent: self.transport.daemon().home.name().clone(), session: self.id.clone() }
    }

    fn begin(&mut self) {
        self.greeted = false;
    }

    async fn take(&mut self, event: Event) -> Result<Taken, Break> {
        if event.name == "hello" {
            let hello: Hello =
                serde_json::from_str(&event.data).map_err(|error| Break::Reconnect(format!("hello cannot be read: {error}")))?;
            // Nothing that is seen changes by it.
            self.view.send_if_modified(|view| {
                view.begin(hello.stream);
                false
            });
            self.greeted = true;
            return Ok(Taken::Hello);
        }
        if !self.greeted {
            return Ok(Taken::Frame);
        }
        let mut applied = Ok(Applied::Other);
        self.view.send_if_modified(|view| {
            applied = view.apply_frame(&event);
            matches!(applied, Ok(Applied::Changed))
        });
        applied.map(|_| Taken::Frame).map_err(|error| Break::Reconnect(error.to_string()))
    }
}
