//! What a client knows of one session.

use std::collections::HashSet;

use serde_json::Value;

use super::frame::{Reading, read_event};
use super::streaming::StreamingMessage;
use crate::dialog::DialogRequest;
use crate::entry::{Entry, EntryBody};
use crate::event::{AssistantMessageEvent, SessionEvent, ToolResult};
use crate::ids::{EntryId, FrameId};
use crate::message::{CustomMessage, Message, UserBlock};
use crate::output_tail::OutputTail;
use crate::sse;
use crate::state::{Hello, InFlight, Queues, RunningTool, SessionState, Waiting, WaitingKind};
use crate::time::millis_from_iso;

/// One session as its stream tells it.
///
/// Made by [`attach`](Self::attach) from the first `hello`. After a reconnect the same view goes on with
/// [`apply_hello`](Self::apply_hello).
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// As the daemon would say it as of [`last_id`](Self::last_id).
    pub state: SessionState,
    /// Messages that ended, in order: those that this view saw or was given as entries.
    pub transcript: Vec<TranscriptItem>,
    /// The answer that is being produced.
    pub in_flight: Option<StreamingMessage>,
    /// Tools that run, in the order of their start.
    pub tools: Vec<ToolProgress>,
    /// What is queued; unknown after a `hello` of wolli 0.0.2 that counts messages in the queues, until they change.
    pub queues: Option<Queues>,
    /// What the session waits for; without `include=waiting` only as far as `hello` and the run tell.
    pub waiting: Option<Waiting>,
    /// Open questions, oldest first.
    pub dialogs: Vec<DialogRequest>,
    last_id: Option<FrameId>,
    /// The daemon resumes by id. Daemons of wolli 0.0.2 may have lost frames, so they are not asked to.
    resumable: bool,
    /// Entries of the transcript.
    known: HashSet<EntryId>,
    settles: Option<Settlement>,
}

/// What a resumed stream's `hello` said of the session as of its last frame. It counts when that frame is reached: it
/// knows of changes that have no frame, and frames of the past must not undo it.
#[derive(Clone, Debug, PartialEq)]
struct Settlement {
    at: FrameId,
    state: SessionState,
    waiting: Option<Waiting>,
}

/// A message that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptItem {
    /// Absent from daemons of wolli 0.0.2.
    pub entry_id: Option<EntryId>,
    pub message: Message,
}

/// A tool that runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolProgress {
    pub tool_call_id: String,
    pub tool_name: String,
    pub args: Value,
    /// Its text so far, once it reported any progress.
    pub output: Option<OutputTail>,
}

impl ToolProgress {
    /// The result so far as one text block, or none if there is no text.
    #[must_use]
    pub fn partial_result(&self) -> Option<ToolResult> {
        let text = self.output.as_ref()?.text();
        Some(if text.is_empty() { ToolResult::default() } else { ToolResult::text(text) })
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    New,
    /// It was applied before; nothing changed and nobody needs to hear of it.
    Duplicate,
    /// Of a type that this version does not know.
    Unknown,
}

/// What a `hello` meant for the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The missing frames follow.
    Resumed,
    /// The view was made anew from `hello`.
    Rebuilt {
        /// `hello` brought the entries after the last one, so the transcript has no hole; else it was emptied.
        transcript_kept: bool,
        /// Not all of them: read the rest from `/entries` and give it to
        /// [`SessionView::extend_with_entries`] before the next frame.
        entries_truncated: bool,
    },
}

/// Why a stream does not fit the view. The connection is of no use then; attach again.
#[derive(Debug, thiserror::Error)]
pub enum ReduceError {
    #[error("frame {found} came where {expected} was due")]
    Gap { expected: FrameId, found: FrameId },
    #[error("stream was resumed although the view has no such position")]
    NotResumable,
    /// The frame counts as taken in, so the stream may be read on; what it said is lost.
    #[error("frame of type {kind} cannot be read: {error}")]
    Malformed { kind: String, error: serde_json::Error },
}

impl SessionView {
    /// The view of a first attach.
    #[must_use]
    pub fn attach(hello: Hello) -> Self {
        let mut view = Self {
            state: hello.state.clone(),
            transcript: Vec::new(),
            in_flight: None,
            tools: Vec::new(),
            queues: None,
            waiting: None,
            dialogs: Vec::new(),
            last_id: None,
            resumable: false,
            known: HashSet::new(),
            settles: None,
        };
        view.rebuild(hello);
        view
    }

    /// The newest frame that was applied, or that `hello` accounted for.
    #[must_use]
    pub const fn last_id(&self) -> Option<FrameId> {
        self.last_id
    }

    /// What a reconnect sends as `Last-Event-ID`.
    #[must_use]
    pub fn resume_id(&self) -> Option<FrameId> {
        self.last_id.filter(|_| self.resumable)
    }

    /// What a reconnect asks for with `?after=`, in case that the frames are gone.
    #[must_use]
    pub fn after_id(&self) -> Option<&EntryId> {
        self.transcript.last()?.entry_id.as_ref()
    }

    /// Takes in the `hello` of another connection.
    ///
    /// # Errors
    /// [`ReduceError::NotResumable`] when the daemon resumed at a place where this view is not; nothing changed.
    pub fn apply_hello(&mut self, hello: Hello) -> Result<Attached, ReduceError> {
        let Some(stream) = hello.stream.filter(|stream| stream.resumed) else {
            return Ok(self.rebuild(hello));
        };
        let last_id = self.resume_id().filter(|last_id| stream.first_id <= last_id.next() && *last_id <= stream.last_id);
        let Some(last_id) = last_id else {
            return Err(ReduceError::NotResumable);
        };
        // The frames that follow tell the rest; these have none that is numbered.
        self.state.session_name.clone_from(&hello.state.session_name);
        self.state.session_file.clone_from(&hello.state.session_file);
        self.state.confinement.clone_from(&hello.state.confinement);
        self.dialogs = hello.dialogs;
        self.waiting.clone_from(&hello.waiting);
        self.settles = Some(Settlement { at: stream.last_id, state: hello.state, waiting: hello.waiting });
        self.settle(last_id);
        Ok(Attached::Resumed)
    }

    fn rebuild(&mut self, hello: Hello) -> Attached {
        let Hello { state, stream, dialogs, waiting, in_flight, queues, entries, entries_truncated, usage: _ } = hello;
        self.queues = queues.or_else(|| (state.pending_message_count == 0).then(Queues::default));
        self.state = state;
        self.last_id = stream.map(|stream| stream.last_id);
        self.resumable = stream.is_some();
        self.settles = None;
        self.dialogs = dialogs;
        self.waiting = waiting;
        let InFlight { entry_id, message, argument_texts, tools } = in_flight.unwrap_or_default();
        self.in_flight = message.map(|message| StreamingMessage::from_snapshot(entry_id, &message, &argument_texts));
        self.tools = tools.into_iter().map(ToolProgress::from).collect();
        let transcript_kept = entries.is_some();
        if let Some(entries) = entries {
            self.extend_with_entries(&entries);
        } else {
            self.transcript.clear();
            self.known.clear();
        }
        Attached::Rebuilt { transcript_kept, entries_truncated: entries_truncated == Some(true) }
    }

    /// Adds the messages of entries that follow the transcript; those that stand there already are left out.
    pub fn extend_with_entries(&mut self, entries: &[Entry]) {
        for entry in entries {
            if let Some(message) = entry_message(entry) {
                self.remember(Some(&entry.id), message);
            }
        }
    }

    /// Puts the messages before the transcript: `entries` is the active branch from its beginning on. What stands in
    /// the transcript, and what follows that, is left out.
    pub fn prepend_history(&mut self, entries: &[Entry]) {
        let older = entries.iter().take_while(|entry| !self.known.contains(&entry.id));
        let items = older.filter_map(|entry| Some(TranscriptItem { entry_id: Some(entry.id.clone()), message: entry_message(entry)? }));
        let mut transcript: Vec<_> = items.collect();
        self.known.extend(transcript.iter().filter_map(|item| item.entry_id.clone()));
        transcript.append(&mut self.transcript);
        self.transcript = transcript;
    }

    /// The name changed; sessions' streams do not tell, the control stream does.
    pub fn rename(&mut self, name: &str) {
        self.state.session_name = Some(name.to_owned()).filter(|name| !name.is_empty());
    }

    /// What is being produced, as `hello` tells it to a reader that attaches now. Costs the length of it.
    #[must_use]
    pub fn in_flight_snapshot(&self) -> Option<InFlight> {
        if self.in_flight.is_none() && self.tools.is_empty() {
            return None;
        }
        let tools = self.tools.iter().map(|tool| RunningTool {
            tool_call_id: tool.tool_call_id.clone(),
            tool_name: tool.tool_name.clone(),
            args: tool.args.clone(),
            partial_result: tool.partial_result(),
        });
        Some(InFlight {
            entry_id: self.in_flight.as_ref().and_then(|streaming| streaming.entry_id.clone()),
            message: self.in_flight.as_ref().map(StreamingMessage::message),
            argument_texts: self.in_flight.as_ref().map(StreamingMessage::argument_texts).unwrap_or_default(),
            tools: tools.collect(),
        })
    }

    /// Takes in an event of the stream that is not `hello`. Gives back what it says if it is known and new.
    ///
    /// # Errors
    /// See [`ReduceError`].
    pub fn apply_frame(&mut self, frame: &sse::Event) -> Result<(Applied, Option<Box<SessionEvent>>), ReduceError> {
        let id = frame.id.as_deref().and_then(FrameId::parse);
        match read_event(&frame.data) {
            Reading::Event(event) => {
                let applied = self.apply(id, &event)?;
                Ok((applied, (applied == Applied::New).then_some(event)))
            }
            Reading::Unknown { .. } => Ok((self.apply_unknown(id)?, None)),
            Reading::Malformed { kind, error } => match self.apply_unknown(id)? {
                Applied::Duplicate => Ok((Applied::Duplicate, None)),
                _ => Err(ReduceError::Malformed { kind, error }),
            },
        }
    }

    /// Takes in a frame of an unknown type: its number counts, and nothing else.
    ///
    /// # Errors
    /// [`ReduceError::Gap`].
    pub fn apply_unknown(&mut self, id: Option<FrameId>) -> Result<Applied, ReduceError> {
        if !self.advance(id, false)? {
            return Ok(Applied::Duplicate);
        }
        self.settle_after(id);
        Ok(Applied::Unknown)
    }

    /// Takes in one event. `id` is its frame's own, absent for notices and dialogs.
    ///
    /// # Errors
    /// [`ReduceError::Gap`]; nothing changed then.
    pub fn apply(&mut self, id: Option<FrameId>, event: &SessionEvent) -> Result<Applied, ReduceError> {
        if !self.advance(id, joins_waiting(event))? {
            return Ok(Applied::Duplicate);
        }
        self.fold(event);
        self.settle_after(id);
        Ok(Applied::New)
    }

    /// Moves the position; false for a frame that was applied before.
    fn advance(&mut self, id: Option<FrameId>, joined: bool) -> Result<bool, ReduceError> {
        let Some(found) = id else {
            return Ok(true);
        };
        if let Some(last_id) = self.last_id {
            if found <= last_id {
                return Ok(false);
            }
            let expected = last_id.next();
            if found != expected && !(joined && found.0 >> 32 == expected.0 >> 32) {
                return Err(ReduceError::Gap { expected, found });
            }
        }
        self.last_id = Some(found);
        Ok(true)
    }

    fn settle_after(&mut self, id: Option<FrameId>) {
        if let Some(id) = id {
            self.settle(id);
        }
    }

    fn settle(&mut self, reached: FrameId) {
        if let Some(Settlement { state, waiting, .. }) = self.settles.take_if(|settlement| settlement.at <= reached) {
            self.state = state;
            self.waiting = waiting;
        }
    }

    fn fold(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::AgentStart => {
                self.state.is_streaming = true;
                self.waiting.take_if(|waiting| waiting.kind == WaitingKind::Resume);
            }
            SessionEvent::AgentEnd { .. } => {
                self.state.is_streaming = false;
                self.in_flight = None;
                self.tools.clear();
                self.waiting = None;
            }
            SessionEvent::MessageStart { message: Message::Assistant(message), entry_id } => {
                // One that came as an entry before its frames is whole already.
                let ended = entry_id.as_ref().is_some_and(|id| self.known.contains(id));
                self.in_flight = (!ended).then(|| StreamingMessage::begin(entry_id.clone(), message));
            }
            SessionEvent::MessageUpdate { assistant_message_event, message } => {
                if let Some(streaming) = &mut self.in_flight {
                    streaming.apply(assistant_message_event, message.as_ref());
                }
            }
            SessionEvent::MessageEnd { message, entry_id } => {
                if matches!(message, Message::Assistant(_)) {
                    self.in_flight = None;
                }
                self.state.message_count += 1;
                self.remember(entry_id.as_ref(), message.clone());
            }
            SessionEvent::ToolExecutionStart { tool_call_id, tool_name, args } => {
                self.tools.retain(|tool| tool.tool_call_id != *tool_call_id);
                self.tools.push(ToolProgress {
                    tool_call_id: tool_call_id.clone(),
                    tool_name: tool_name.clone(),
                    args: args.clone(),
                    output: None,
                });
            }
            SessionEvent::ToolExecutionUpdate { tool_call_id, partial_result, appended, skipped, .. } => {
                if let Some(tool) = self.tools.iter_mut().find(|tool| tool.tool_call_id == *tool_call_id) {
                    let output = tool.output.get_or_insert_default();
                    if let Some(result) = partial_result {
                        *output = result_tail(result);
                    }
                    output.push(appended.as_deref().unwrap_or_default(), skipped.unwrap_or_default());
                }
            }
            SessionEvent::ToolExecutionEnd { tool_call_id, .. } => self.tools.retain(|tool| tool.tool_call_id != *tool_call_id),
            SessionEvent::QueueUpdate { steer, follow_up, next_turn } => {
                self.state.pending_message_count = (steer.len() + follow_up.len() + next_turn.len()) as u64;
                let (steer, follow_up, next_turn) = (steer.clone(), follow_up.clone(), next_turn.clone());
                self.queues = Some(Queues { steer, follow_up, next_turn });
            }
            SessionEvent::ModelUpdate { model, .. } => self.state.model = Some(model.clone()),
            SessionEvent::ThinkingLevelUpdate { level, .. } => self.state.thinking_level = *level,
            SessionEvent::ScopedModelsUpdate { scoped_models } => self.state.scoped_models.clone_from(scoped_models),
            SessionEvent::Waiting { waiting } => self.waiting.clone_from(waiting),
            // A compaction counts as work; what follows it says so itself.
            SessionEvent::CompactionStart { .. } => self.state.is_streaming = true,
            SessionEvent::CompactionEnd { .. } => self.state.is_streaming = false,
            SessionEvent::ExtensionUiRequest(request) => self.open_dialog(request.clone()),
            SessionEvent::LoginUiRequest(request) => self.open_dialog(request.as_dialog()),
            SessionEvent::ExtensionUiResolved(resolved) => self.dialogs.retain(|open| open.id != resolved.id),
            // `turn_end` and `agent_end` name messages that ended before; the other starts begin nothing here.
            SessionEvent::TurnStart
            | SessionEvent::TurnEnd { .. }
            | SessionEvent::MessageStart { .. }
            | SessionEvent::Retry { .. }
            | SessionEvent::Usage { .. } => {}
        }
    }

    fn open_dialog(&mut self, request: DialogRequest) {
        if request.method.waits() && self.dialogs.iter().all(|open| open.id != request.id) {
            self.dialogs.push(request);
        }
    }

    fn remember(&mut self, entry_id: Option<&EntryId>, message: Message) {
        if entry_id.is_none_or(|id| self.known.insert(id.clone())) {
            self.transcript.push(TranscriptItem { entry_id: entry_id.cloned(), message });
        }
    }
}

impl From<RunningTool> for ToolProgress {
    fn from(tool: RunningTool) -> Self {
        let RunningTool { tool_call_id, tool_name, args, partial_result } = tool;
        Self { tool_call_id, tool_name, args, output: partial_result.as_ref().map(result_tail) }
    }
}

fn result_tail(result: &ToolResult) -> OutputTail {
    let mut tail = OutputTail::new();
    for block in &result.content {
        if let UserBlock::Text(text) = block {
            tail.push(&text.text, 0);
        }
    }
    tail
}

/// In view `full`, deltas of one block that waited may come as one frame with the last of their ids, and so may updates of
/// one tool, each of which tells the whole result so far.
const fn joins_waiting(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::ToolExecutionUpdate { partial_result: Some(_), .. }
            | SessionEvent::MessageUpdate {
                assistant_message_event: AssistantMessageEvent::TextDelta { .. }
                    | AssistantMessageEvent::ThinkingDelta { .. }
                    | AssistantMessageEvent::ToolcallDelta { .. },
                message: Some(_),
            }
    )
}

/// The message that an entry's `message_end` told, if it had one.
fn entry_message(entry: &Entry) -> Option<Message> {
    match &entry.body {
        EntryBody::Message { message, .. } => Some(message.clone()),
        EntryBody::CustomMessage { custom_type, content, display, details } => Some(Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp: millis_from_iso(&entry.timestamp).unwrap_or_default(),
        })),
        _ => None,
    }
}
