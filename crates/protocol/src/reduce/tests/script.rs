//! Sessions made up for tests: what happens, as the frames of either view, and the daemon's side of a stream.

use proptest::prelude::*;
use serde_json::json;

use crate::entry::{Entry, EntryBody};
use crate::event::{AssistantMessageEvent as Step, SessionEvent, ToolResult};
use crate::ids::{EntryId, FrameId};
use crate::message::{
    AssistantBlock, AssistantMessage, JsonObject, Message, StopReason, TextContent, ThinkingContent, ToolCall, ToolResultMessage,
    UserBlock, UserMessage,
};
use crate::model::{Model, ThinkingLevel};
use crate::output_tail::OutputTail;
use crate::reduce::SessionView;
use crate::state::{Hello, SessionState, StreamPosition};

pub(crate) fn state() -> SessionState {
    SessionState {
        session_id: "s".into(),
        model: Some(Model::placeholder()),
        thinking_level: ThinkingLevel::Medium,
        scoped_models: Vec::new(),
        is_streaming: false,
        session_name: None,
        session_file: None,
        message_count: 0,
        pending_message_count: 0,
        confinement: None,
    }
}

pub(crate) fn hello(state: SessionState, stream: Option<StreamPosition>) -> Hello {
    Hello {
        state,
        stream,
        dialogs: Vec::new(),
        waiting: None,
        in_flight: None,
        queues: None,
        entries: None,
        entries_truncated: None,
        usage: None,
    }
}

/// A session that was just made.
pub(crate) fn fresh() -> SessionView {
    let stream = StreamPosition { first_id: FrameId(1), last_id: FrameId(0), resumed: false, gap: false };
    SessionView::attach(hello(state(), Some(stream)))
}

pub(crate) fn user(text: &str) -> Message {
    Message::User(UserMessage { content: crate::message::UserContent::Blocks(vec![UserBlock::text(text)]), timestamp: 1 })
}

pub(crate) fn answer(content: Vec<AssistantBlock>, stop_reason: StopReason) -> AssistantMessage {
    AssistantMessage { content, stop_reason, ..AssistantMessage::begin(&Model::placeholder(), 2) }
}

pub(crate) fn call(id: &str, arguments: JsonObject) -> ToolCall {
    ToolCall { id: id.into(), name: "bash".into(), arguments, thought_signature: None }
}

/// What one answer holds.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(Vec<String>),
    Thinking(Vec<String>),
    Call { argument: String, cuts: Vec<usize>, output: Vec<(String, u64)> },
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Run { prompt: String, parts: Vec<Part>, aborted: bool },
    Queue(Vec<String>),
    Level(ThinkingLevel),
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[aé😀 \n]{0,12}", 0..6)
}

fn part() -> impl Strategy<Value = Part> {
    let update = (
        prop_oneof![4 => "[aé\n]{0,10}".boxed(), 1 => Just("line\n".repeat(700)).boxed(), 1 => Just("x".repeat(30_000)).boxed()],
        prop_oneof![6 => Just(0_u64), 1 => 1_u64..99],
    );
    prop_oneof![
        3 => texts().prop_map(Part::Text),
        1 => texts().prop_map(Part::Thinking),
        2 => ("[a\"\\\\é\n]{0,9}", prop::collection::vec(any::<usize>(), 0..5), prop::collection::vec(update, 0..5))
            .prop_map(|(argument, cuts, output)| Part::Call { argument, cuts, output }),
    ]
}

pub(crate) fn actions() -> impl Strategy<Value = Vec<Action>> {
    let run = ("[a-z ]{1,9}", prop::collection::vec(part(), 0..4), prop::bool::weighted(0.2));
    let action = prop_oneof![
        4 => run.prop_map(|(prompt, parts, aborted)| Action::Run { prompt, parts, aborted }),
        1 => prop::collection::vec("[a-z]{1,3}", 0..3).prop_map(Action::Queue),
        1 => prop::sample::select(ThinkingLevel::ALL.to_vec()).prop_map(Action::Level),
    ];
    prop::collection::vec(action, 1..6)
}

/// One thing that happened: its frame in either view, and the entry that it put into the file.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub(crate) delta: SessionEvent,
    pub(crate) full: SessionEvent,
    pub(crate) entry: Option<Entry>,
}

/// Writes down what the actions make happen.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) log: Vec<Happening>,
    entries: usize,
    calls: usize,
}

impl Recorder {
    pub(crate) fn record(actions: &[Action]) -> Vec<Happening> {
        let mut recorder = Self::default();
        for action in actions {
            match action {
                Action::Run { prompt, parts, aborted } => recorder.run(prompt, parts, *aborted),
                Action::Queue(texts) => recorder.both(SessionEvent::QueueUpdate {
                    steer: texts.iter().map(|text| UserMessage::new(text.clone(), Vec::new(), 3)).collect(),
                    follow_up: Vec::new(),
                    next_turn: vec![user("next")],
                }),
                Action::Level(level) => {
                    recorder.both(SessionEvent::ThinkingLevelUpdate { level: *level, previous_level: ThinkingLevel::Medium });
                }
            }
        }
        recorder.log
    }

    fn push(&mut self, delta: SessionEvent, full: SessionEvent) {
        self.log.push(Happening { delta, full, entry: None });
    }

    fn both(&mut self, event: SessionEvent) {
        self.push(event.clone(), event);
    }

    fn next_entry(&mut self) -> EntryId {
        self.entries += 1;
        format!("entry-{}", self.entries).as_str().into()
    }

    fn end(&mut self, entry_id: EntryId, message: Message) {
        self.both(SessionEvent::MessageEnd { message: message.clone(), entry_id: Some(entry_id.clone()) });
        let body = EntryBody::Message { message, idempotency_key: None };
        let entry = Entry { id: entry_id, parent_id: None, timestamp: "2026-03-01T09:00:00.000Z".into(), body };
        if let Some(last) = self.log.last_mut() {
            last.entry = Some(entry);
        }
    }

    fn whole(&mut self, message: Message) {
        let entry_id = self.next_entry();
        self.both(SessionEvent::MessageStart { message: message.clone(), entry_id: Some(entry_id.clone()) });
        self.end(entry_id, message);
    }

    fn run(&mut self, prompt: &str, parts: &[Part], aborted: bool) {
        self.both(SessionEvent::AgentStart);
        self.both(SessionEvent::TurnStart);
        self.whole(user(prompt));
        let entry_id = self.next_entry();
        let mut message = answer(Vec::new(), StopReason::Stop);
        self.both(SessionEvent::MessageStart { message: Message::Assistant(message.clone()), entry_id: Some(entry_id.clone()) });
        let mut calls = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            // An abort comes in the middle of the last block.
            let open = aborted && index + 1 == parts.len();
            self.part(index, part, open, &mut message, &mut calls);
        }
        message.stop_reason = if aborted { StopReason::Aborted } else { StopReason::Stop };
        self.end(entry_id, Message::Assistant(message));
        if !aborted {
            self.tools(&calls);
        }
        self.both(SessionEvent::TurnEnd { message: EntryId::from("x").into(), tool_results: Vec::new() });
        self.both(SessionEvent::AgentEnd { messages: Vec::new() });
    }

    fn step(&mut self, step: Step, message: &AssistantMessage) {
        let delta = SessionEvent::MessageUpdate { assistant_message_event: step.clone(), message: None };
        let step = with_partial(step, message.clone());
        self.push(delta, SessionEvent::MessageUpdate { assistant_message_event: step, message: Some(message.clone()) });
    }

    fn part(
        &mut self,
        index: usize,
        part: &Part,
        open: bool,
        message: &mut AssistantMessage,
        calls: &mut Vec<(ToolCall, Vec<(String, u64)>)>,
    ) {
        let (content_index, partial) = (index, None);
        match part {
            Part::Text(deltas) => {
                message.content.push(AssistantBlock::Text(TextContent::default()));
                self.step(Step::TextStart { content_index, partial: None }, message);
                let mut content = String::new();
                for delta in deltas {
                    content.push_str(delta);
                    message.content[index] = AssistantBlock::Text(TextContent { text: content.clone(), text_signature: None });
                    self.step(Step::TextDelta { content_index, delta: delta.clone(), partial: None }, message);
                }
                if !open {
                    self.step(Step::TextEnd { content_index, content, partial }, message);
                }
            }
            Part::Thinking(deltas) => {
                message.content.push(AssistantBlock::Thinking(ThinkingContent::default()));
                self.step(Step::ThinkingStart { content_index, partial: None }, message);
                let mut content = String::new();
                for delta in deltas {
                    content.push_str(delta);
                    let block = ThinkingContent { thinking: content.clone(), ..ThinkingContent::default() };
                    message.content[index] = AssistantBlock::Thinking(block);
                    self.step(Step::ThinkingDelta { content_index, delta: delta.clone(), partial: None }, message);
                }
                if !open {
                    self.step(Step::ThinkingEnd { content_index, content, partial }, message);
                }
            }
            Part::Call { argument, cuts, output } => {
                self.calls += 1;
                let id = format!("call-{}", self.calls);
                let arguments = json!({"command": argument, "more": [1, {"a": true}]});
                let text = arguments.to_string();
                let arguments = arguments.as_object().cloned().unwrap_or_default();
                message.content.push(AssistantBlock::ToolCall(call(&id, JsonObject::new())));
                let (tool_call_id, tool_name) = (Some(id.clone()), Some("bash".to_owned()));
                self.step(Step::ToolcallStart { content_index, tool_call_id, tool_name, partial: None }, message);
                let mut places: Vec<_> = cuts.iter().map(|cut| cut % text.len()).filter(|at| text.is_char_boundary(*at)).collect();
                places.extend([0, text.len()]);
                places.sort_unstable();
                for pair in places.windows(2) {
                    message.content[index] = AssistantBlock::ToolCall(call(&id, crate::partial_json::parse(&text[..pair[1]])));
                    let delta = text[pair[0]..pair[1]].to_owned();
                    self.step(Step::ToolcallDelta { content_index, delta, partial: None }, message);
                }
                if !open {
                    let tool_call = call(&id, arguments);
                    self.step(Step::ToolcallEnd { content_index, tool_call: tool_call.clone(), partial }, message);
                    calls.push((tool_call, output.clone()));
                }
            }
        }
    }

    fn tools(&mut self, calls: &[(ToolCall, Vec<(String, u64)>)]) {
        for (call, _) in calls {
            let args = serde_json::Value::Object(call.arguments.clone());
            self.both(SessionEvent::ToolExecutionStart { tool_call_id: call.id.clone(), tool_name: call.name.clone(), args });
        }
        for (call, output) in calls {
            let mut tail = OutputTail::new();
            for (appended, skipped) in output {
                tail.push(appended, *skipped);
                let text = tail.text();
                let partial_result = if text.is_empty() { ToolResult::default() } else { ToolResult::text(text) };
                let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
                self.push(
                    SessionEvent::ToolExecutionUpdate {
                        tool_call_id: tool_call_id.clone(),
                        tool_name: tool_name.clone(),
                        args: None,
                        partial_result: None,
                        appended: Some(appended.clone()),
                        skipped: Some(*skipped).filter(|skipped| *skipped > 0),
                    },
                    SessionEvent::ToolExecutionUpdate {
                        tool_call_id,
                        tool_name,
                        args: Some(serde_json::Value::Object(call.arguments.clone())),
                        partial_result: Some(partial_result),
                        appended: None,
                        skipped: None,
                    },
                );
            }
            let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
            self.both(SessionEvent::ToolExecutionEnd { tool_call_id, tool_name, result: ToolResult::text("done"), is_error: false });
        }
        for (call, _) in calls {
            self.whole(Message::ToolResult(ToolResultMessage {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                content: vec![UserBlock::text("done")],
                details: None,
                is_error: false,
                timestamp: 4,
            }));
        }
    }
}

/// The daemon's side: the log so far, a ring of some length, and what an attach gets.
pub(crate) struct Daemon {
    /// Every frame that was sent, with what it put into the file.
    sent: Vec<(FrameId, Happening)>,
    ring: usize,
    epoch: u32,
    last_id: FrameId,
    /// A reader that misses nothing.
    pub(crate) uncut: SessionView,
}

impl Daemon {
    pub(crate) fn new(ring: usize) -> Self {
        Self { sent: Vec::new(), ring, epoch: 0, last_id: FrameId(0), uncut: fresh() }
    }

    pub(crate) fn send(&mut self, happening: &Happening) {
        self.last_id = self.last_id.next();
        self.uncut.apply(Some(self.last_id), &happening.delta).unwrap();
        self.sent.push((self.last_id, happening.clone()));
    }

    /// The process ends between two runs; the next one has an empty ring and the next epoch.
    pub(crate) fn restart(&mut self) {
        self.epoch += 1;
        self.last_id = FrameId::before_epoch(self.epoch);
        let stream = StreamPosition { first_id: self.last_id.next(), last_id: self.last_id, resumed: false, gap: true };
        let hello = Hello { entries: Some(Vec::new()), ..hello(self.uncut.state.clone(), Some(stream)) };
        let queues = self.uncut.queues.clone();
        self.uncut.apply_hello(hello).unwrap();
        self.uncut.queues = queues;
    }

    /// All entries of the file.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.sent.iter().filter_map(|(_, happening)| happening.entry.clone()).collect()
    }

    /// `hello` and the frames that follow it at once.
    pub(crate) fn attach(&self, last_event_id: Option<FrameId>, after: Option<&EntryId>) -> (Hello, Vec<(FrameId, Happening)>) {
        let in_ring: Vec<_> = self.sent.iter().filter(|(id, _)| id.0 >> 32 == u64::from(self.epoch)).collect();
        let in_ring = &in_ring[in_ring.len().saturating_sub(self.ring)..];
        let first_id = in_ring.first().map_or(self.last_id.next(), |(id, _)| *id);
        let resumed = last_event_id.is_some_and(|id| first_id <= id.next() && id <= self.last_id);
        let stream = StreamPosition { first_id, last_id: self.last_id, resumed, gap: last_event_id.is_some() && !resumed };
        let mut hello = hello(self.uncut.state.clone(), Some(stream));
        if resumed {
            let replay = in_ring.iter().filter(|(id, _)| Some(*id) > last_event_id).map(|frame| (*frame).clone());
            return (hello, replay.collect());
        }
        hello.in_flight = self.uncut.in_flight_snapshot();
        hello.entries = after.map(|after| self.entries().into_iter().skip_while(|entry| entry.id != *after).skip(1).collect());
        (hello, Vec::new())
    }
}

/// A step in its form in view `full`, which carries the message so far.
fn with_partial(mut step: Step, message: AssistantMessage) -> Step {
    match &mut step {
        Step::ToolcallStart { partial, tool_call_id, tool_name, .. } => {
            (*tool_call_id, *tool_name) = (None, None);
            *partial = Some(message);
        }
        Step::TextStart { partial, .. }
        | Step::TextDelta { partial, .. }
        | Step::TextEnd { partial, .. }
        | Step::ThinkingStart { partial, .. }
        | Step::ThinkingDelta { partial, .. }
        | Step::ThinkingEnd { partial, .. }
        | Step::ToolcallDelta { partial, .. }
        | Step::ToolcallEnd { partial, .. } => *partial = Some(message),
    }
    step
}
