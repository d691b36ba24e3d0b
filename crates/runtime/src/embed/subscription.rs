//! A session's events as values, from the same log and by the same rules as the streams of clients.

use std::collections::VecDeque;

use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{FrameId, SessionId};
use wolli_protocol::sse;
use wolli_protocol::state::Hello;

use crate::hub::{Attach, Cursor, CursorEnd, Include, View};
use crate::runtime::{Runtime, SessionError};
use crate::session::SessionHandle;

/// The notices that subscribers get beside the numbered events. Not the login rail: questions come as dialogs.
const NOTICES: Include = Include::COMPACTION.with(Include::RETRY).with(Include::WAITING).with(Include::USAGE);

/// Bytes of one event that are decoded at most; the log makes none that is larger.
const LARGEST_EVENT: usize = 256 << 20;

/// One piece of news.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "handed over one at a time, and matched without a box in between")]
pub enum Update {
    /// The state that the events after it start from: first of all, and again when the subscriber was so slow that events were lost, which
    /// `stream.gap` says.
    Hello(Hello),
    Event {
        /// Its number in the session's log; absent for notices.
        id: Option<FrameId>,
        event: SessionEvent,
    },
}

/// A subscriber's place in a session's log. Dropping it leaves.
#[derive(Debug)]
pub struct Subscription {
    runtime: Runtime,
    id: SessionId,
    view: View,
    last_id: Option<FrameId>,
    reader: Option<(Cursor, SessionHandle)>,
    decoder: sse::Decoder,
    ready: VecDeque<Update>,
}

impl Subscription {
    pub(super) async fn attach(runtime: Runtime, id: SessionId, view: View) -> Result<Self, SessionError> {
        let decoder = sse::Decoder::new(LARGEST_EVENT);
        let mut subscription = Self { runtime, id, view, last_id: None, reader: None, decoder, ready: VecDeque::new() };
        subscription.begin().await?;
        Ok(subscription)
    }

    async fn begin(&mut self) -> Result<(), SessionError> {
        let last_event_id = self.last_id.map(|id| id.to_string());
        let attach = Attach { view: self.view, include: NOTICES, last_event_id };
        let (session, attached) = self.runtime.attach_reader(&self.id, &attach).await?;
        let resumed = attached.hello.stream.is_some_and(|stream| stream.resumed);
        if !resumed {
            self.ready.push_back(Update::Hello(attached.hello));
        }
        self.decoder = sse::Decoder::new(LARGEST_EVENT);
        self.reader = Some((attached.cursor, session));
        Ok(())
    }

    /// The next update; `None` when the engine closed or the session cannot be used any more. Cancel-safe.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                if let Update::Event { id: Some(id), .. } = &update {
                    self.last_id = Some(*id);
                }
                return Some(update);
            }
            let Some((cursor, session)) = &mut self.reader else {
                self.begin().await.ok()?;
                continue;
            };
            match cursor.next(session.messages()).await {
                Ok(batch) => {
                    self.decoder.feed(&batch);
                    self.ready.extend((&mut self.decoder).filter_map(|event| read(&event.ok()?)));
                }
                Err(CursorEnd::Lagged) => self.reader = None,
                Err(CursorEnd::Closed) => return None,
            }
        }
    }
}

/// An event of the log. One that this version cannot read was not written by it.
fn read(event: &sse::Event) -> Option<Update> {
    let id = event.id.as_deref().and_then(FrameId::parse);
    let event = serde_json::from_str(&event.data)
        .inspect_err(|error| tracing::error!(%error, "an event of the session's own log could not be read"))
        .ok()?;
    Some(Update::Event { id, event })
}
