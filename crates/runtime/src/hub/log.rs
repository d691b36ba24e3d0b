//! The log itself: numbers, the ring, and the state that the events add up to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;
use wolli_protocol::event::{MessageOrReference, SessionEvent};
use wolli_protocol::ids::{EntryId, FrameId, SessionId};
use wolli_protocol::message::Message;
use wolli_protocol::snapshot::{Mark, SnapshotFold};
use wolli_protocol::state::{InFlight, Queues, SessionState, Waiting};

use super::attach::Joined;
use super::frame::{Audience, Body, Frame, Include};
use super::live::{Live, lock};
use super::pack::Pack;
use crate::clock::now_millis;
use crate::dialogs::OpenDialogs;
use crate::limits::{KEPT_SNAPSHOT_BYTES, RING_BYTES, RING_FRAMES, RING_SPARE_BYTES};

/// Memory that a frame takes beside its bytes, measured: its place in the ring, and the blocks of the allocator for what it shares. A short
/// frame, such as a word of an answer, takes more for itself than for what it says.
const FRAME_COST: usize = 256;

/// The log of one session. Outlives the session's stay in memory, so that numbers go on and a reader can resume.
#[derive(Debug)]
pub struct Hub {
    session_id: SessionId,
    log: Mutex<Log>,
    /// Position after the newest frame; readers wait on it.
    head: watch::Sender<u64>,
    /// How often something happened that readers of snapshots are told of at once.
    urgent: watch::Sender<u64>,
    readers: watch::Sender<usize>,
}

#[derive(Debug)]
pub(super) struct Log {
    pub(super) frames: VecDeque<Frame>,
    /// Position of `frames[0]`. Positions count every frame, numbered or not.
    pub(super) first_position: u64,
    pub(super) bytes: usize,
    numbered: usize,
    pub(super) last_id: FrameId,
    pub(super) state: SessionState,
    pub(super) waiting: Option<Waiting>,
    pub(super) live: Live,
    /// What the newest run has produced so far.
    pub(super) snapshot: SnapshotFold,
    urgent: u64,
    pub(super) queues: Queues,
    pub(super) dialogs: OpenDialogs,
    /// The newest entry whose end was published.
    pub(super) leaf: Option<EntryId>,
    pub(super) closed: bool,
    pub(super) joined: Option<Joined>,
    /// What the ring of a session that left memory does not hold twice.
    pack: Pack,
}

impl Log {
    pub(super) fn end_position(&self) -> u64 {
        self.first_position + self.frames.len() as u64
    }

    /// Number of the oldest frame in the ring; `last_id + 1` when it is empty.
    pub(super) fn first_id(&self) -> FrameId {
        self.frames.iter().find_map(Frame::id).unwrap_or(self.last_id.next())
    }

    /// The snapshot as of a numbered frame that is still in the ring.
    pub(super) fn mark_at(&self, id: FrameId) -> Option<Mark> {
        self.frames.iter().rev().find(|frame| frame.id() == Some(id)).map(|frame| frame.mark)
    }

    /// Nothing has run, as far as the snapshot knows.
    fn forget_snapshot(&mut self) {
        self.snapshot.forget();
        self.show_settings();
        let queues = self.queues.clone();
        self.snapshot.queues(&queues);
        self.show_questions();
    }

    /// The snapshot shows the settings of the state, which may change without an event.
    fn show_settings(&mut self) {
        self.snapshot.settings(self.state.model.as_ref(), self.state.thinking_level);
    }

    /// The snapshot shows the questions that are open.
    pub(super) fn show_questions(&mut self) {
        let version = self.snapshot.version();
        self.snapshot.questions(&self.dialogs.requests(), now_millis());
        self.urgent += u64::from(self.snapshot.version() != version);
    }

    fn set_queues(&mut self, queues: Queues) {
        self.state.pending_message_count = queues.len() as u64;
        self.snapshot.queues(&queues);
        self.queues = queues;
    }

    pub(super) fn push(&mut self, mut frame: Frame) {
        frame.mark = self.snapshot.mark();
        // Readers of snapshots get those without a number at once.
        self.urgent += u64::from(frame.id().is_none());
        self.bytes += frame.bytes.len();
        self.numbered += usize::from(frame.id().is_some());
        self.frames.push_back(frame);
        // The newest frame stays whatever its size: somebody is about to read it.
        while self.frames.len() > 1 && (self.bytes > RING_BYTES || (self.bytes > RING_SPARE_BYTES && self.numbered > RING_FRAMES)) {
            self.drop_oldest();
        }
    }

    /// Makes the frames whole again, for those who read them.
    pub(super) fn unpack(&mut self) {
        self.bytes += self.pack.unpack(&mut self.frames, self.first_position);
    }

    fn drop_oldest(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.bytes.len();
            self.numbered -= usize::from(frame.id().is_some());
            self.first_position += 1;
        }
    }

    /// Folds an event into the state, and says what view `full` needs of it.
    fn fold(&mut self, event: &SessionEvent) -> Body {
        match event {
            SessionEvent::MessageStart { message: Message::Assistant(message), entry_id: Some(entry_id) } => {
                self.live.begin_message(entry_id.clone(), message);
            }
            SessionEvent::MessageUpdate { assistant_message_event, .. } => {
                if let Some(message) = self.live.update_message(assistant_message_event) {
                    return Body::Update(message);
                }
            }
            SessionEvent::MessageEnd { message, entry_id } => {
                if matches!(message, Message::Assistant(_)) {
                    self.live.end_message(entry_id.as_ref());
                }
                // One without an entry could not be stored; it is told, and gone.
                if entry_id.is_some() {
                    self.state.message_count += 1;
                    self.leaf.clone_from(entry_id);
                }
            }
            SessionEvent::ToolExecutionStart { tool_call_id, tool_name, args } => {
                self.live.begin_tool(tool_call_id.clone(), tool_name.clone(), args.clone());
            }
            SessionEvent::ToolExecutionUpdate { tool_call_id, appended, skipped, .. } => {
                let appended = appended.as_deref().unwrap_or_default();
                if let Some(tool) = self.live.update_tool(tool_call_id, appended, skipped.unwrap_or(0)) {
                    return Body::ToolUpdate(tool);
                }
            }
            SessionEvent::ToolExecutionEnd { tool_call_id, .. } => self.live.end_tool(tool_call_id),
            SessionEvent::TurnEnd { message, tool_results } => {
                if let (Some(message), Some(results)) = (reference(message), references(tool_results)) {
                    return Body::TurnEnd { message, results };
                }
            }
            SessionEvent::AgentEnd { messages } => {
                self.live.clear();
                if let Some(messages) = references(messages) {
                    return Body::AgentEnd { messages };
                }
            }
            SessionEvent::QueueUpdate { steer, follow_up, next_turn } => {
                self.set_queues(Queues { steer: steer.clone(), follow_up: follow_up.clone(), next_turn: next_turn.clone() });
            }
            SessionEvent::ModelUpdate { model, .. } => self.state.model = Some(model.clone()),
            SessionEvent::ThinkingLevelUpdate { level, .. } => self.state.thinking_level = *level,
            SessionEvent::ScopedModelsUpdate { scoped_models } => self.state.scoped_models.clone_from(scoped_models),
            SessionEvent::Waiting { waiting } => self.waiting.clone_from(waiting),
            SessionEvent::AgentStart
            | SessionEvent::TurnStart
            | SessionEvent::MessageStart { .. }
            | SessionEvent::Retry { .. }
            | SessionEvent::Usage { .. }
            | SessionEvent::CompactionStart { .. }
            | SessionEvent::CompactionEnd { .. }
            | SessionEvent::ExtensionUiRequest(_)
            | SessionEvent::ExtensionUiResolved(_)
            | SessionEvent::LoginUiRequest(_) => {}
        }
        Body::Plain
    }
}

fn reference(message: &MessageOrReference) -> Option<EntryId> {
    match message {
        MessageOrReference::Reference(reference) => Some(reference.entry_id.clone()),
        MessageOrReference::Message(_) => None,
    }
}

/// `None` if one of them is a whole message, which could not be stored.
fn references(messages: &[MessageOrReference]) -> Option<Arc<[EntryId]>> {
    messages.iter().map(reference).collect()
}

impl Hub {
    /// A log whose numbers start after `last_id`, for a session in `state`.
    #[must_use]
    pub fn new(state: SessionState, last_id: FrameId) -> Self {
        let session_id = state.session_id.clone();
        let mut log = Log {
            frames: VecDeque::new(),
            first_position: 0,
            bytes: 0,
            numbered: 0,
            last_id,
            state,
            waiting: None,
            live: Live::default(),
            snapshot: SnapshotFold::new(&session_id),
            urgent: 0,
            queues: Queues::default(),
            dialogs: OpenDialogs::default(),
            leaf: None,
            closed: false,
            joined: None,
            pack: Pack::default(),
        };
        log.show_settings();
        let (head, urgent) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { session_id, log: Mutex::new(log), head, urgent, readers: watch::Sender::new(0) }
    }

    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }

    pub(super) fn subscribe_head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    pub(super) fn subscribe_urgent(&self) -> watch::Receiver<u64> {
        self.urgent.subscribe()
    }

    pub(super) fn readers(&self) -> &watch::Sender<usize> {
        &self.readers
    }

    /// How many readers are attached, and a way to wait for a change.
    #[must_use]
    pub fn watch_readers(&self) -> watch::Receiver<usize> {
        self.readers.subscribe()
    }

    /// Numbers, records and announces an event. Never waits.
    pub fn publish(&self, event: &SessionEvent) {
        self.publish_changing(event, |_| {});
    }

    /// Like [`Hub::publish`], and changes the state in the same step, before the event's own effect.
    pub fn publish_changing(&self, event: &SessionEvent, change: impl FnOnce(&mut SessionState)) {
        self.record(event, change);
        self.announce();
    }

    /// Numbers and records an event that readers are told of with the next [`Hub::announce`]. Waking them once for
    /// several events that came together saves them most of their work.
    pub fn record(&self, event: &SessionEvent, change: impl FnOnce(&mut SessionState)) {
        let mut log = self.lock();
        change(&mut log.state);
        let body = log.fold(event);
        let version = log.snapshot.version();
        log.snapshot.apply(event, now_millis());
        if !matches!(event, SessionEvent::MessageUpdate { .. }) {
            log.show_settings();
        }
        let audience = match event {
            SessionEvent::Waiting { .. } => Audience::Included(Include::WAITING),
            SessionEvent::Retry { .. } => Audience::Included(Include::RETRY),
            SessionEvent::Usage { .. } => Audience::Included(Include::USAGE),
            SessionEvent::CompactionStart { .. } | SessionEvent::CompactionEnd { .. } => Audience::Included(Include::COMPACTION),
            SessionEvent::ExtensionUiRequest(_) | SessionEvent::ExtensionUiResolved(_) => Audience::Attached,
            SessionEvent::LoginUiRequest(_) => Audience::Included(Include::LOGIN_UI),
            SessionEvent::AgentStart
            | SessionEvent::AgentEnd { .. }
            | SessionEvent::TurnStart
            | SessionEvent::TurnEnd { .. }
            | SessionEvent::MessageStart { .. }
            | SessionEvent::MessageUpdate { .. }
            | SessionEvent::MessageEnd { .. }
            | SessionEvent::ToolExecutionStart { .. }
            | SessionEvent::ToolExecutionUpdate { .. }
            | SessionEvent::ToolExecutionEnd { .. }
            | SessionEvent::QueueUpdate { .. }
            | SessionEvent::ModelUpdate { .. }
            | SessionEvent::ThinkingLevelUpdate { .. }
            | SessionEvent::ScopedModelsUpdate { .. } => {
                log.last_id = log.last_id.next();
                Audience::Everyone(log.last_id)
            }
        };
        if log.snapshot.version() != version {
            log.urgent += 1;
        }
        log.push(Frame::encode(event, audience, body));
        if matches!(event, SessionEvent::Waiting { .. }) {
            // Questions may have come or gone while something else was waited for.
            log.tell_waiting();
        }
    }

    /// Wakes the readers if something was recorded since the last time.
    pub fn announce(&self) {
        let (end, urgent) = {
            let log = self.lock();
            (log.end_position(), log.urgent)
        };
        self.head.send_if_modified(|head| std::mem::replace(head, end) != end);
        self.urgent.send_if_modified(|told| std::mem::replace(told, urgent) != urgent);
    }

    /// Changes what the session is, without an event.
    pub fn update(&self, change: impl FnOnce(&mut SessionState)) {
        let mut log = self.lock();
        change(&mut log.state);
        log.show_settings();
    }

    /// What the session is now. Never waits for a disk.
    #[must_use]
    pub fn state(&self) -> SessionState {
        self.lock().state.clone()
    }

    /// A few of the state's fields, without copying the rest.
    pub fn with_state<T>(&self, read: impl FnOnce(&SessionState) -> T) -> T {
        read(&self.lock().state)
    }

    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        self.lock().waiting.clone()
    }

    /// What is being produced right now.
    #[must_use]
    pub fn in_flight(&self) -> Option<InFlight> {
        self.lock().live.in_flight()
    }

    /// Tells what waits in the queues of a session that was just opened.
    pub fn set_queues(&self, queues: Queues) {
        self.lock().set_queues(queues);
    }

    /// Names the newest entry on disk that every reader has been told about.
    pub fn set_leaf(&self, leaf: Option<EntryId>) {
        self.lock().leaf = leaf;
    }

    /// Number of the newest frame.
    #[must_use]
    pub fn last_id(&self) -> FrameId {
        self.lock().last_id
    }

    /// Bytes that the ring and the snapshot hold.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        let log = self.lock();
        log.bytes + log.frames.len() * FRAME_COST + log.snapshot.bytes()
    }

    /// Keeps no more frames than a ring always keeps, long texts once, and of a long run no snapshot; for a session that left memory. A reader that is still there keeps
    /// the ring as it is: it is being read.
    pub fn shrink_ring(&self) {
        let mut log = self.lock();
        if *self.readers.borrow() > 0 {
            return;
        }
        let log = &mut *log;
        while log.numbered > RING_FRAMES {
            log.drop_oldest();
        }
        log.bytes -= log.pack.pack(&mut log.frames, log.first_position);
        log.frames.shrink_to_fit();
        if log.snapshot.bytes() > KEPT_SNAPSHOT_BYTES {
            log.forget_snapshot();
        }
        log.snapshot.shrink_to_fit();
        log.joined = None;
    }

    /// The frames as they were before [`shrink_ring`](Self::shrink_ring); for a session that comes back.
    pub fn restore_ring(&self) {
        self.lock().unpack();
    }

    /// Forgets the frames and the snapshot, keeps the numbers. Readers that were behind have to start from a new `hello`.
    pub fn clear_ring(&self) {
        let mut log = self.lock();
        while !log.frames.is_empty() {
            log.drop_oldest();
        }
        log.frames.shrink_to_fit();
        log.joined = None;
        log.forget_snapshot();
    }

    /// Ends every reader's stream, and every open question; nothing is published afterwards.
    pub fn close(&self) {
        let mut log = self.lock();
        log.end_dialogs();
        log.closed = true;
        drop(log);
        self.head.send_modify(|_| {});
        self.urgent.send_modify(|_| {});
    }
}
