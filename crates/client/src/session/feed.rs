//! The session's stream: keeps the view, tells subscribers, and knows where to go on.

use std::sync::Arc;

use wolli_protocol::entry::Entry;
use wolli_protocol::ids::{EntryId, FrameId, SessionId};
use wolli_protocol::reduce::{Applied, Attached, ReduceError, SessionView};
use wolli_protocol::sse::Event;
use wolli_protocol::state::Hello;

use super::{Notice, SessionShared, history};
use crate::error::ClientError;
use crate::link::{Break, Feed, Taken};
use crate::transport::{Transport, encode_segment};

/// Notices that the view and the subscribers want.
const INCLUDE: &str = "waiting,retry,compaction";

/// Connections that may break for a missing frame, one after the other, before the view is made anew.
const GAPS: u32 = 2;

pub(super) struct SessionFeed {
    transport: Transport,
    id: SessionId,
    shared: Arc<SessionShared>,
    /// `hello` came on this connection.
    greeted: bool,
    /// Connections in a row that broke because a frame was missing.
    gaps: u32,
    /// The next connection begins anew.
    afresh: bool,
}

impl SessionFeed {
    pub(super) const fn new(transport: Transport, id: SessionId, shared: Arc<SessionShared>) -> Self {
        Self { transport, id, shared, greeted: false, gaps: 0, afresh: false }
    }

    fn look<T>(&self, read: impl FnOnce(&SessionView) -> Option<T>) -> Option<T> {
        self.shared.view.borrow().as_ref().and_then(read)
    }

    fn tell(&self, notice: Notice) {
        // Nobody may be listening.
        let _ = self.shared.notices.send(notice);
    }

    async fn hello(&mut self, data: &str) -> Result<(), Break> {
        let hello: Hello = serde_json::from_str(data).map_err(|error| Break::Reconnect(format!("hello cannot be read: {error}")))?;
        let last_entry = hello.entries.as_ref().and_then(|entries| Some(entries.last()?.id.clone()));
        let mut first = false;
        let mut attached = None;
        self.shared.view.send_modify(|view| match view {
            Some(view) => attached = Some(view.apply_hello(hello)),
            None => {
                first = true;
                *view = Some(SessionView::attach(hello));
            }
        });
        self.afresh = false;
        match attached {
            _ if first => {}
            Some(Ok(Attached::Rebuilt { transcript_kept, entries_truncated })) => {
                // Without the rest, or without anything to go on from, the transcript would have a hole.
                if entries_truncated || !transcript_kept {
                    self.fill(last_entry.filter(|_| transcript_kept), transcript_kept).await;
                }
                self.tell(Notice::Rebuilt);
            }
            Some(Err(error)) => {
                self.afresh = true;
                return Err(Break::Reconnect(error.to_string()));
            }
            Some(Ok(Attached::Resumed)) | None => {}
        }
        self.greeted = true;
        Ok(())
    }

    /// Adds the entries that `hello` left out.
    async fn fill(&self, after: Option<EntryId>, kept: bool) {
        if self.look(SessionView::resume_id).is_none() {
            return; // wolli 0.0.2 has no pages
        }
        let after = after.or_else(|| self.look(|view| view.after_id().filter(|_| kept).cloned()));
        let entries: Vec<Entry> = match history::read(&self.transport, &self.id, after).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "entries of the time without connection cannot be read");
                return;
            }
        };
        self.shared.view.send_modify(|view| {
            if let Some(view) = view {
                view.extend_with_entries(&entries);
            }
        });
    }
}

impl Feed for SessionFeed {
    fn path(&self) -> String {
        let path = format!("/sessions/{}/events?view=delta&include={INCLUDE}", encode_segment(self.id.as_str()));
        match self.look(|view| view.after_id().cloned()) {
            Some(after) => format!("{path}&after={}", encode_segment(after.as_str())),
            None => path,
        }
    }

    fn last_event_id(&self) -> Option<String> {
        self.look(SessionView::resume_id).filter(|_| !self.afresh).map(|id| id.to_string())
    }

    fn unknown(&self) -> ClientError {
        ClientError::UnknownSession { agent: self.transport.daemon().home.name().clone(), session: self.id.clone() }
    }

    fn begin(&mut self) {
        self.greeted = false;
    }

    async fn take(&mut self, event: Event) -> Result<Taken, Break> {
        match event.name.as_str() {
            "hello" => {
                self.hello(&event.data).await?;
                return Ok(Taken::Hello);
            }
            // Daemons of wolli 0.0.2 answer 200 and then this for a session that they do not have.
            "error" => return Err(Break::Final(self.unknown())),
            // And they send replayed frames before `hello`, which already accounts for them.
            _ if !self.greeted => return Ok(Taken::Frame),
            _ => {}
        }
        let mut applied = None;
        self.shared.view.send_if_modified(|view| {
            applied = view.as_mut().map(|view| view.apply_frame(&event));
            !matches!(applied, None | Some(Ok((Applied::Duplicate, _))))
        });
        let id = event.id.as_deref().and_then(FrameId::parse);
        match applied {
            None | Some(Ok((Applied::Duplicate, _))) => return Ok(Taken::Frame),
            Some(Ok((_, Some(known)))) => self.tell(Notice::Event { id, event: Arc::from(known) }),
            Some(Ok((_, None))) => self.tell(Notice::Unknown { id, data: event.data.into() }),
            Some(Err(error @ ReduceError::Malformed { .. })) => {
                tracing::warn!(session = %self.id, %error, "frame is passed over");
                self.tell(Notice::Unknown { id, data: event.data.into() });
            }
            Some(Err(error)) => {
                self.gaps += 1;
                self.afresh = self.gaps >= GAPS;
                return Err(Break::Reconnect(error.to_string()));
            }
        }
        self.gaps = 0;
        Ok(Taken::Frame)
    }
}
