//! The session's stream: keeps the view, tells subscribers, and knows where to go on.

use std::collections::HashSet;
use std::sync::Arc;

use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{EntryId, FrameId, SessionId};
use wolli_protocol::reduce::{Applied, Attached, ReduceError, SessionView, TranscriptItem};
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
    /// Messages that the first `hello` counted.
    first_count: u64,
    /// Entries that were read at the last gap. They may be newer than its `hello`; then their frames follow.
    early: HashSet<EntryId>,
}

impl SessionFeed {
    pub(super) fn new(transport: Transport, id: SessionId, shared: Arc<SessionShared>) -> Self {
        Self { transport, id, shared, greeted: false, gaps: 0, afresh: false, first_count: 0, early: HashSet::new() }
    }

    fn look<T>(&self, read: impl FnOnce(&SessionView) -> Option<T>) -> Option<T> {
        self.shared.view.borrow().as_ref().and_then(read)
    }

    fn tell(&self, notice: Notice) {
        // Nobody may be listening.
        let _ = self.shared.notices.send(notice);
    }

    /// Takes in a `hello`. What it leaves out is read before the view changes, so that a hole never stands in the view: if that does
    /// not succeed, the next connection begins where this one did.
    async fn hello(&mut self, data: &str) -> Result<(), Break> {
        let hello: Hello = serde_json::from_str(data).map_err(|error| Break::Reconnect(format!("hello cannot be read: {error}")))?;
        if self.shared.view.borrow().is_none() {
            self.first_count = hello.state.message_count;
            self.shared.view.send_replace(Some(SessionView::attach(hello)));
            self.greeted = true;
            return Ok(());
        }
        let rest = self.rest_of(&hello).await?;
        let before: HashSet<EntryId> = self.look(|view| Some(ids(&view.transcript).cloned().collect())).unwrap_or_default();
        let mut attached = None;
        let mut ended = Vec::new();
        self.shared.view.send_modify(|view| {
            let Some(view) = view else { return };
            let counted = hello.state.message_count;
            let applied = view.apply_hello(hello);
            if matches!(applied, Ok(Attached::Rebuilt { .. })) {
                view.extend_with_entries(&rest);
                let start = self.first_new(&view.transcript, &before, &rest, counted);
                ended = view.transcript.get(start..).unwrap_or_default().to_vec();
            }
            attached = Some(applied);
        });
        match attached {
            Some(Ok(Attached::Rebuilt { .. })) => {
                self.tell(Notice::Rebuilt);
                // Entries that were read may be newer than `hello`; their frames are still to come.
                self.early = rest.into_iter().map(|entry| entry.id).collect();
                for TranscriptItem { entry_id, message } in ended {
                    self.tell(Notice::Event { id: None, event: Arc::new(SessionEvent::MessageEnd { message, entry_id }) });
                }
            }
            Some(Err(error)) => {
                self.afresh = true;
                return Err(Break::Reconnect(error.to_string()));
            }
            Some(Ok(Attached::Resumed)) | None => {}
        }
        self.afresh = false;
        self.greeted = true;
        Ok(())
    }

    /// The entries that `hello` leaves out, if it makes the view anew.
    async fn rest_of(&self, hello: &Hello) -> Result<Vec<Entry>, Break> {
        // wolli 0.0.2 has no position, and no pages.
        if hello.stream.is_none_or(|stream| stream.resumed) {
            return Ok(Vec::new());
        }
        let after = match &hello.entries {
            Some(_) if hello.entries_truncated != Some(true) => return Ok(Vec::new()),
            Some(entries) => entries.last().map(|entry| entry.id.clone()).or_else(|| self.look(|view| view.after_id().cloned())),
            None => None,
        };
        let read = history::read(&self.transport, &self.id, after).await;
        read.map_err(|error| Break::Reconnect(format!("entries of the time without connection cannot be read: {error}")))
    }

    /// Where in a transcript that was made anew the messages begin whose end nobody was told. `before` stood in the former one; `rest`
    /// was read to make it whole; `counted` is how many messages `hello` counts.
    fn first_new(&self, transcript: &[TranscriptItem], before: &HashSet<EntryId>, rest: &[Entry], counted: u64) -> usize {
        let known = transcript.iter().rposition(|item| item.entry_id.as_ref().is_some_and(|id| before.contains(id)));
        let number = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        match known {
            Some(place) => place + 1,
            // No message ended since the first `hello`, or the branch is another one. A compaction takes messages out of the count.
            None if rest.iter().any(|entry| matches!(entry.body, EntryBody::Compaction { .. })) => {
                transcript.len().saturating_sub(number(counted.saturating_sub(self.first_count)))
            }
            None => number(self.first_count),
        }
    }

    /// The end of this message was told already, when its entry was read.
    fn was_told(&mut self, event: &SessionEvent) -> bool {
        matches!(event, SessionEvent::MessageEnd { entry_id: Some(id), .. } if self.early.remove(id))
    }
}

fn ids(transcript: &[TranscriptItem]) -> impl Iterator<Item = &EntryId> {
    transcript.iter().filter_map(|item| item.entry_id.as_ref())
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
            Some(Ok((_, Some(known)))) if self.was_told(&known) => {}
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
