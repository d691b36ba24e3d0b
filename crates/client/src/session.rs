//! One session: its stream, its view, its commands.
//!
//! All handles of a session share one stream and one view. Invariant: an event is given to subscribers once, and after
//! the view has taken it in.

mod call;
mod commands;
mod feed;
mod history;
mod notices;
mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use wolli_home::paths::AgentName;
use wolli_protocol::command::Command;
use wolli_protocol::dialog::{DialogAnswer, DialogReceipt};
use wolli_protocol::entry::Entry;
use wolli_protocol::ids::{DialogId, SessionId};
use wolli_protocol::reduce::SessionView;

use crate::agent::{AgentInner, until_live};
use crate::error::ClientError;
use crate::link::{self, LinkState};
use crate::transport::{Transport, encode_segment};
pub(crate) use call::command;
use call::post;
pub use commands::{AbortedQueues, ClearedQueues, Prompt, ToolInfos};
use feed::SessionFeed;
pub(crate) use history::read as read_entries;
pub use notices::{Notice, Subscription, ViewWatch};
pub use snapshots::SnapshotWatch;

/// Notices that wait for a slow subscriber. The stream's task fills it, subscribers drain it; when it is full the
/// oldest go, and that subscriber gets [`Notice::Missed`]; the view has everything.
const CAPACITY: usize = 4_096;

/// How long an answer to a dialog may take.
const RESPOND_LIMIT: Duration = Duration::from_secs(30);

/// A handle of one session. Cheap to clone; the stream ends with the last one, and the daemon may evict the session then.
#[derive(Clone, Debug)]
pub struct SessionHandle(pub(crate) Arc<SessionInner>);

#[derive(Debug)]
pub(crate) struct SessionInner {
    /// Keeps the agent's connections, and its control stream, while the session is in use.
    agent: Arc<AgentInner>,
    id: SessionId,
    shared: Arc<SessionShared>,
    link: watch::Sender<LinkState>,
    token: CancellationToken,
}

/// What the stream's task shares with the handles.
#[derive(Debug)]
pub(crate) struct SessionShared {
    /// None until the first `hello`.
    view: watch::Sender<Option<SessionView>>,
    notices: broadcast::Sender<Notice>,
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

/// Starts the stream of a session.
pub(crate) fn open(agent: &Arc<AgentInner>, id: SessionId, token: CancellationToken) -> Arc<SessionInner> {
    let shared = Arc::new(SessionShared { view: watch::Sender::new(None), notices: broadcast::Sender::new(CAPACITY) });
    let link = watch::Sender::new(LinkState::Connecting);
    let feed = SessionFeed::new(agent.transport.clone(), id.clone(), Arc::clone(&shared));
    agent.tasks.spawn(link::run(agent.transport.clone(), feed, link.clone(), token.clone()));
    Arc::new(SessionInner { agent: Arc::clone(agent), id, shared, link, token })
}

impl SessionInner {
    /// Waits for the first `hello`.
    pub(crate) async fn ready(&self) -> Result<(), ClientError> {
        if self.shared.view.borrow().is_some() && !self.has_ended() {
            return Ok(());
        }
        until_live(self.agent.name(), &self.link).await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.token.is_cancelled() || matches!(*self.link.borrow(), LinkState::Ended(_))
    }

    pub(crate) fn rename(&self, name: &str) {
        self.shared.view.send_if_modified(|view| view.as_mut().map(|view| view.rename(name)).is_some());
    }

    fn transport(&self) -> &Transport {
        &self.agent.transport
    }
}

impl SessionHandle {
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// The agent whose session it is.
    #[must_use]
    pub fn agent(&self) -> &AgentName {
        self.0.agent.name()
    }

    /// Reads the session as the stream tells it. Keep `read` short: the stream waits for it.
    pub fn read<T>(&self, read: impl FnOnce(&SessionView) -> T) -> Result<T, ClientError> {
        self.0.shared.view.borrow().as_ref().map(read).ok_or(ClientError::Closed)
    }

    /// Follows the view.
    #[must_use]
    pub fn watch(&self) -> ViewWatch {
        ViewWatch::new(self.0.shared.view.subscribe(), self.0.link.subscribe())
    }

    /// Events from now on. Subscribe before a prompt, or its first deltas are missed.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(self.0.shared.notices.subscribe(), self.0.link.subscribe())
    }

    /// Follows the newest run as one snapshot, over a stream of its own: what a screen shows, without events in between. It ends when it is
    /// dropped; the session's other stream goes on.
    #[must_use]
    pub fn snapshots(&self) -> SnapshotWatch {
        snapshots::open(&self.0.agent, self.0.id.clone(), self.0.token.child_token())
    }

    /// Follows how the stream is.
    #[must_use]
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.0.link.subscribe()
    }

    /// Answers an open dialog. The first answer of all clients counts; the receipt says whether it was this one.
    ///
    /// # Errors
    /// When the daemon cannot be reached. An answer may be given again.
    pub async fn respond(&self, dialog: &DialogId, answer: DialogAnswer) -> Result<DialogReceipt, ClientError> {
        let kind = Some("extension_ui_response".to_owned());
        let body = DialogAnswer { kind, id: dialog.as_str().to_owned(), ..answer };
        let path = format!("/sessions/{}/ui-response", encode_segment(self.0.id.as_str()));
        let body =
            serde_json::to_vec(&body).map_err(|error| ClientError::BadAnswer { request: path.clone(), problem: error.to_string() })?;
        let unknown = || ClientError::UnknownSession { agent: self.0.agent.name().clone(), session: self.0.id.clone() };
        // The same answer twice settles the dialog once.
        let answer = post(self.0.transport(), Method::POST, &path, body.into(), "respond", true, Some(RESPOND_LIMIT), unknown).await?;
        serde_json::from_slice(&answer.body).map_err(|error| ClientError::BadAnswer { request: path, problem: error.to_string() })
    }

    /// Reads the whole conversation and puts it before what the view has seen since it was attached.
    ///
    /// # Errors
    /// When the daemon cannot be reached.
    pub async fn load_history(&self) -> Result<(), ClientError> {
        let entries: Vec<Entry> = history::read(self.0.transport(), &self.0.id, None).await?;
        self.0.shared.view.send_if_modified(|view| view.as_mut().map(|view| view.prepend_history(&entries)).is_some());
        Ok(())
    }

    /// Detaches now, for all handles of this session. A run goes on without it.
    pub fn close(&self) {
        self.0.token.cancel();
    }

    async fn call<T: DeserializeOwned>(&self, command: &Command, repeatable: bool, limit: Option<Duration>) -> Result<T, ClientError> {
        if self.0.token.is_cancelled() {
            return Err(ClientError::Closed);
        }
        call::command(self.0.transport(), &self.0.id, command, repeatable, limit).await
    }

    /// The daemon remembers the keys of prompts. Those of wolli 0.0.2 do not, and have no position in `hello` either.
    fn keys_are_remembered(&self) -> bool {
        self.0.shared.view.borrow().as_ref().is_some_and(|view| view.resume_id().is_some())
    }
}
