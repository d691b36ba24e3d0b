//! The frames of a session's stream as they come, in any view: for programs that pass them on instead of folding them.
//!
//! Invariants: a numbered frame is given once, over all reconnects, and none is left out unless a `hello` says `gap`. A reader that is
//! slow is waited for: the daemon then ends the connection, and the next one goes on where the reader is.

use std::fmt::Write as _;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::DropGuard;
use wolli_protocol::ids::{FrameId, SessionId};
use wolli_protocol::sse::Event;
use wolli_protocol::state::StreamPosition;

use super::{Agent, AgentInner};
use crate::error::ClientError;
use crate::link::{self, Break, Feed, LinkState, Taken};
use crate::transport::{Transport, encode_segment};

/// Frames that were read and not yet taken. The stream's task fills it, the reader drains it; when it is full the task waits, and
/// with it the daemon.
const AHEAD: usize = 256;

/// What is followed, and from where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameOptions {
    /// `delta`, `full` or `snapshot`; without one the daemon's default.
    pub view: Option<String>,
    /// Notices to get as well, such as `usage`; without any the daemon's default.
    pub include: Vec<String>,
    /// The last frame that is known already.
    pub after: Option<FrameId>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// `hello` for the first one of each connection, else `message`.
    pub name: String,
    /// Its number; `hello`, notices and dialogs have none.
    pub id: Option<FrameId>,
    /// JSON.
    pub data: String,
    /// A `hello` after which frames are missing, since the daemon no longer has them; it describes the session as it is.
    pub gap: bool,
}

/// Follows the frames of one session. Dropping it ends its stream.
#[derive(Debug)]
pub struct Frames {
    frames: mpsc::Receiver<Frame>,
    link: watch::Receiver<LinkState>,
    _stream: DropGuard,
    /// Keeps the agent's connections.
    _agent: Agent,
}

impl Frames {
    /// The next frame; none when the stream has ended for good, and [`problem`](Self::problem) says why.
    ///
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }

    /// Why the stream ended.
    #[must_use]
    pub fn problem(&self) -> ClientError {
        match &*self.link.borrow() {
            LinkState::Ended(error) => error.clone(),
            LinkState::Connecting | LinkState::Live | LinkState::Waiting { .. } => ClientError::Closed,
        }
    }

    /// Follows how the stream is.
    #[must_use]
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.link.clone()
    }
}

impl Agent {
    /// Follows the frames of a session on a stream of its own, which makes the session live. It reconnects without end; only an
    /// explicit answer ends it.
    #[must_use]
    pub fn frames(&self, session: &SessionId, options: FrameOptions) -> Frames {
        let token = self.0.token.child_token();
        let (sender, frames) = mpsc::channel(AHEAD);
        let (state, link) = watch::channel(LinkState::Connecting);
        let feed = FrameFeed::new(&self.0, session.clone(), options, sender);
        self.0.tasks.spawn(link::run(self.0.transport.clone(), feed, state, token.clone()));
        Frames { frames, link, _stream: token.drop_guard(), _agent: self.clone() }
    }
}

struct FrameFeed {
    transport: Transport,
    id: SessionId,
    options: FrameOptions,
    /// The newest frame that was handed on.
    last: Option<FrameId>,
    /// `hello` came on this connection.
    greeted: bool,
    sender: mpsc::Sender<Frame>,
}

impl FrameFeed {
    fn new(agent: &AgentInner, id: SessionId, options: FrameOptions, sender: mpsc::Sender<Frame>) -> Self {
        Self { transport: agent.transport.clone(), id, last: options.after, options, greeted: false, sender }
    }

    /// Each number is that of one event. Snapshot patches of one moment share a number.
    fn has_events(&self) -> bool {
        matches!(self.options.view.as_deref(), Some("delta" | "full"))
    }
}

impl Feed for FrameFeed {
    fn path(&self) -> String {
        let mut path = format!("/sessions/{}/events", encode_segment(self.id.as_str()));
        let mut sign = '?';
        let include = Some(self.options.include.join(",")).filter(|include| !include.is_empty());
        for (key, value) in [("view", self.options.view.as_ref()), ("include", include.as_ref())] {
            if let Some(value) = value {
                let _ = write!(path, "{sign}{key}={}", encode_segment(value));
                sign = '&';
            }
        }
        path
    }

    fn last_event_id(&self) -> Option<String> {
        self.last.map(|id| id.to_string())
    }

    fn unknown(&self) -> ClientError {
        ClientError::UnknownSession { agent: self.transport.daemon().home.name().clone(), session: self.id.clone() }
    }

    fn begin(&mut self) {
        self.greeted = false;
    }

    async fn take(&mut self, event: Event) -> Result<Taken, Break> {
        let taken = match event.name.as_str() {
            "hello" => Taken::Hello,
            "error" => return Err(Break::Final(self.unknown())),
            _ if !self.greeted => return Ok(Taken::Frame),
            _ => Taken::Frame,
        };
        let mut id = event.id.as_deref().and_then(FrameId::parse);
        if taken == Taken::Frame && self.has_events() && id.is_some() && id <= self.last {
            return Ok(taken);
        }
        if taken == Taken::Hello {
            self.greeted = true;
        }
        let mut frame = Frame { name: event.name, id, data: event.data, gap: false };
        if taken == Taken::Hello {
            let position = position(&frame.data)?;
            frame.gap = position.is_some_and(|position| position.gap);
            id = position.filter(|position| self.has_events() && !position.resumed).map(|position| position.last_id);
        }
        // Only what was handed on counts as known. The reader may be gone; so is its stream then.
        self.sender.send(frame).await.map_err(|_| Break::Final(ClientError::Closed))?;
        self.last = id.or(self.last);
        Ok(taken)
    }
}

/// Where the stream stands that a `hello` begins.
fn position(hello: &str) -> Result<Option<StreamPosition>, Break> {
    #[derive(serde::Deserialize)]
    struct Hello {
        stream: Option<StreamPosition>,
    }
    let hello: Hello = serde_json::from_str(hello).map_err(|error| Break::Reconnect(format!("hello cannot be read: {error}")))?;
    Ok(hello.stream)
}
