//! From the events of a session (in the form of view `delta`) to the snapshot of its newest run.
//!
//! Invariant: a delta costs its own length. Each field remembers when it changed last, so that what a reader lacks is found
//! without a copy of what it has: a [`Mark`] is all that is kept per reader. A run that begins resets what the one before left.

use super::patch::{Field, SnapshotPatch};
use super::project;
use super::shape::{CallStatus, Compaction, CompactionTrigger, Phase, RunUsage, ToolProgress, UniversalSnapshot};
use crate::dialog::DialogRequest;
use crate::event::{AssistantMessageEvent as Step, CompactionReason, SessionEvent};
use crate::ids::{EntryId, SessionId};
use crate::message::{AssistantBlock, AssistantMessage, Message};
use crate::model::{Model, ThinkingLevel};
use crate::number::Number;
use crate::state::{Hello, Queues};

/// Between two blocks of text.
const SEPARATOR: &str = "\n\n";
/// Who runs the turns of our own loop.
const OWN_AGENT: &str = "wolli";
/// A call with its input and its result, about.
const CALL_BYTES: usize = 512;
/// A context that is fuller than this is told as this.
const FULLEST_PERCENT: f64 = 99.9;

/// What a reader has: everything up to here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    version: u64,
    text: usize,
    reasoning: usize,
}

/// The snapshot of a session's newest run.
#[derive(Clone, Debug)]
pub struct SnapshotFold {
    snapshot: UniversalSnapshot,
    /// Grows with every change that is not growing text.
    version: u64,
    /// Version of each field's last change; for the texts, of their last change that was not growth.
    changed: [u64; Field::ALL.len()],
    answer: Answer,
    /// The model's context in tokens; 0 when unknown.
    window: u64,
    /// Output of the run's answers that ended.
    output: u64,
}

/// The answer that is being produced.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Where its text and its thinking begin.
    text: usize,
    reasoning: usize,
    /// The blocks that grow.
    text_block: Option<usize>,
    reasoning_block: Option<usize>,
    /// It began and did not end, or ended as a failure, or there was none yet.
    incomplete: bool,
}

impl Answer {
    const NONE: Self = Self { text: 0, reasoning: 0, text_block: None, reasoning_block: None, incomplete: true };
}

impl SnapshotFold {
    /// A session in which nothing has run.
    #[must_use]
    pub fn new(session: &SessionId) -> Self {
        let snapshot = UniversalSnapshot {
            session_id: Some(session.as_str().to_owned()),
            agent: Some(OWN_AGENT.into()),
            text: Some(String::new()),
            reasoning: Some(String::new()),
            interactions: Some(Vec::new()),
            ..UniversalSnapshot::default()
        };
        Self { snapshot, version: 0, changed: [0; Field::ALL.len()], answer: Answer::NONE, window: 0, output: 0 }
    }

    /// As far as `hello` tells: the run's newest answer and its running tools, not what came before them.
    #[must_use]
    pub fn from_hello(hello: &Hello, now: i64) -> Self {
        let mut fold = Self::new(&hello.state.session_id);
        fold.settings(hello.state.model.as_ref(), hello.state.thinking_level);
        if hello.state.is_streaming {
            fold.apply(&SessionEvent::AgentStart, now);
        }
        if let Some(in_flight) = &hello.in_flight {
            if let Some(message) = &in_flight.message {
                fold.begin_answer(in_flight.entry_id.as_ref());
                fold.settle_texts(message);
                // Deltas that follow go on in the last blocks.
                let last = |of: fn(&AssistantBlock) -> bool| message.content.iter().rposition(of);
                fold.answer.text_block = last(|block| matches!(block, AssistantBlock::Text(_)));
                fold.answer.reasoning_block = last(|block| matches!(block, AssistantBlock::Thinking(_)));
            }
            for tool in &in_flight.tools {
                fold.begin_tool(&tool.tool_call_id, &tool.tool_name, &tool.args);
            }
        }
        if let Some(queues) = &hello.queues {
            fold.queues(queues);
        }
        hello.dialogs.iter().for_each(|dialog| fold.ask(dialog));
        fold.snapshot.updated_at = now;
        fold
    }

    #[must_use]
    pub const fn snapshot(&self) -> &UniversalSnapshot {
        &self.snapshot
    }

    /// Where a reader stands that has all of this.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { version: self.version, text: length(&self.snapshot.text), reasoning: length(&self.snapshot.reasoning) }
    }

    /// Something changed since then that is more than growing text.
    #[must_use]
    pub const fn is_urgent_since(&self, mark: Mark) -> bool {
        self.version > mark.version
    }

    /// How many changes there were that are more than growing text.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Roughly how many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let calls = self.snapshot.tool_calls.as_ref().map_or(0, Vec::len);
        length(&self.snapshot.text) + length(&self.snapshot.reasoning) + calls * CALL_BYTES
    }

    /// Gives back what the texts reserved for growing on.
    pub fn shrink_to_fit(&mut self) {
        for text in [&mut self.snapshot.text, &mut self.snapshot.reasoning].into_iter().flatten() {
            text.shrink_to_fit();
        }
    }

    /// Back to a session in which nothing has run; readers are told of that as of any change.
    pub fn forget(&mut self) {
        let session_id = self.snapshot.session_id.clone().unwrap_or_default();
        let version = self.version + 1;
        *self = Self { version, changed: [version; Field::ALL.len()], ..Self::new(&session_id.into()) };
    }

    /// What a reader at `mark` lacks; `None` when it has everything. Costs what it tells.
    #[must_use]
    pub fn patch_since(&self, mark: Mark) -> Option<SnapshotPatch> {
        if self.mark() == mark {
            return None;
        }
        let mut patch = SnapshotPatch::default();
        for (field, changed) in Field::ALL.iter().copied().zip(self.changed) {
            if changed > mark.version || field == Field::UpdatedAt {
                patch.set(field, &self.snapshot);
            }
        }
        let grown = |field: Field, text: &Option<String>, from: usize| {
            let replaced = self.changed[field as usize] > mark.version;
            // A mark of another text would not fit; then `set` has it.
            text.as_deref().filter(|_| !replaced)?.get(from..).filter(|suffix| !suffix.is_empty()).map(str::to_owned)
        };
        patch.append_text = grown(Field::Text, &self.snapshot.text, mark.text);
        patch.append_reasoning = grown(Field::Reasoning, &self.snapshot.reasoning, mark.reasoning);
        Some(patch)
    }

    /// Takes in one event. `now` is in milliseconds since 1970.
    pub fn apply(&mut self, event: &SessionEvent, now: i64) {
        let before = self.mark();
        self.fold(event, now);
        // Only with a change that readers are told of, so that all of them have the same time.
        if self.mark() != before {
            self.snapshot.updated_at = now;
        }
    }

    fn fold(&mut self, event: &SessionEvent, now: i64) {
        match event {
            SessionEvent::MessageUpdate { assistant_message_event, .. } => self.grow(assistant_message_event),
            SessionEvent::AgentStart => self.begin_run(now),
            SessionEvent::AgentEnd { .. } => self.end_run(),
            SessionEvent::MessageStart { message, entry_id } => match message {
                Message::Assistant(_) => self.begin_answer(entry_id.as_ref()),
                Message::User(message) => self.prompted(&message.content.joined_text(), entry_id.as_ref()),
                Message::ToolResult(_)
                | Message::BashExecution(_)
                | Message::Custom(_)
                | Message::BranchSummary(_)
                | Message::CompactionSummary(_) => {}
            },
            SessionEvent::MessageEnd { message: Message::Assistant(message), .. } => self.end_answer(message),
            SessionEvent::ToolExecutionStart { tool_call_id, tool_name, args } => self.begin_tool(tool_call_id, tool_name, args),
            SessionEvent::ToolExecutionEnd { tool_call_id, result, is_error, .. } => {
                let status = if *is_error { CallStatus::Failed } else { CallStatus::Done };
                let result = project::result(result);
                if let Some(call) = self.call(tool_call_id) {
                    (call.status, call.result) = (status, result);
                    self.calls_changed();
                }
            }
            SessionEvent::QueueUpdate { steer, follow_up, next_turn } => {
                self.change(Field::Queued, |snapshot| &mut snapshot.queued, project::queued(steer, follow_up, next_turn));
            }
            SessionEvent::ModelUpdate { model, .. } => self.model(Some(model)),
            SessionEvent::ThinkingLevelUpdate { level, .. } => self.effort(*level),
            SessionEvent::ExtensionUiRequest(request) => self.ask(request),
            SessionEvent::LoginUiRequest(request) => self.ask(&request.as_dialog()),
            SessionEvent::ExtensionUiResolved(resolved) => {
                if let Some(open) = &mut self.snapshot.interactions {
                    let before = open.len();
                    open.retain(|interaction| interaction.prompt_id != resolved.id.as_str());
                    if open.len() != before {
                        self.touch(Field::Interactions);
                    }
                }
            }
            SessionEvent::CompactionStart { reason } => {
                let trigger = match reason {
                    CompactionReason::Manual => CompactionTrigger::Manual,
                    CompactionReason::Threshold | CompactionReason::Overflow => CompactionTrigger::Auto,
                };
                self.change(Field::Compaction, |snapshot| &mut snapshot.compaction, Some(Compaction { trigger, at_tokens: None }));
            }
            SessionEvent::CompactionEnd { .. } => self.change(Field::Compaction, |snapshot| &mut snapshot.compaction, None),
            // None of these is shown: they bound what the others tell, or are notices of their own.
            SessionEvent::TurnStart
            | SessionEvent::TurnEnd { .. }
            | SessionEvent::MessageEnd { .. }
            | SessionEvent::ToolExecutionUpdate { .. }
            | SessionEvent::ScopedModelsUpdate { .. }
            | SessionEvent::Waiting { .. }
            | SessionEvent::Retry { .. }
            | SessionEvent::Usage { .. } => {}
        }
    }

    /// The settings of the session, which may change without an event.
    pub fn settings(&mut self, model: Option<&Model>, level: ThinkingLevel) {
        self.model(model);
        self.effort(level);
    }

    /// The questions that are open, whatever was told of them.
    pub fn questions(&mut self, open: &[DialogRequest], now: i64) {
        let version = self.version;
        let open = open.iter().filter_map(project::interaction).collect();
        self.change(Field::Interactions, |snapshot| &mut snapshot.interactions, Some(open));
        if self.version != version {
            self.snapshot.updated_at = now;
        }
    }

    /// What waits in the queues of a session that was just opened.
    pub fn queues(&mut self, queues: &Queues) {
        let queued = project::queued(&queues.steer, &queues.follow_up, &queues.next_turn);
        self.change(Field::Queued, |snapshot| &mut snapshot.queued, queued);
    }

    fn touch(&mut self, field: Field) {
        self.version += 1;
        self.changed[field as usize] = self.version;
    }

    fn change<T: PartialEq>(&mut self, field: Field, slot: impl FnOnce(&mut UniversalSnapshot) -> &mut T, value: T) {
        let slot = slot(&mut self.snapshot);
        if *slot != value {
            *slot = value;
            self.touch(field);
        }
    }

    fn model(&mut self, model: Option<&Model>) {
        let model = model.filter(|model| !model.is_placeholder());
        self.window = model.map_or(0, |model| model.context_window);
        let same = match (model, &self.snapshot.model) {
            (None, None) => true,
            // Compared without building the text: this is asked often and seldom changes.
            (Some(model), Some(shown)) => shown.split_once('/') == Some((model.provider.as_str(), model.id.as_str())),
            _ => false,
        };
        if !same {
            self.change(Field::Model, |snapshot| &mut snapshot.model, model.map(Model::reference));
        }
    }

    fn effort(&mut self, level: ThinkingLevel) {
        if self.snapshot.effort.as_deref() != Some(level.as_str()) {
            self.change(Field::Effort, |snapshot| &mut snapshot.effort, Some(level.as_str().to_owned()));
        }
    }

    fn begin_run(&mut self, now: i64) {
        self.change(Field::Phase, |snapshot| &mut snapshot.phase, Phase::Streaming);
        self.change(Field::TaskId, |snapshot| &mut snapshot.task_id, None);
        self.change(Field::Prompt, |snapshot| &mut snapshot.prompt, None);
        self.change(Field::Text, |snapshot| &mut snapshot.text, Some(String::new()));
        self.change(Field::Reasoning, |snapshot| &mut snapshot.reasoning, Some(String::new()));
        self.change(Field::Activity, |snapshot| &mut snapshot.activity, Some(String::new()));
        self.change(Field::Plan, |snapshot| &mut snapshot.plan, None);
        self.change(Field::ToolCalls, |snapshot| &mut snapshot.tool_calls, Some(Vec::new()));
        self.change(Field::SubAgents, |snapshot| &mut snapshot.sub_agents, None);
        self.change(Field::Usage, |snapshot| &mut snapshot.usage, None);
        self.change(Field::Artifacts, |snapshot| &mut snapshot.artifacts, Some(Vec::new()));
        self.change(Field::Compaction, |snapshot| &mut snapshot.compaction, None);
        self.change(Field::Error, |snapshot| &mut snapshot.error, None);
        self.change(Field::Incomplete, |snapshot| &mut snapshot.incomplete, None);
        self.change(Field::Anchor, |snapshot| &mut snapshot.anchor, None);
        self.change(Field::StartedAt, |snapshot| &mut snapshot.started_at, Some(now));
        self.answer = Answer::NONE;
        self.output = 0;
    }

    fn end_run(&mut self) {
        if self.snapshot.phase != Phase::Streaming {
            return;
        }
        let incomplete = self.answer.incomplete;
        let closed = if incomplete { CallStatus::Failed } else { CallStatus::Done };
        let mut running = false;
        for call in self.snapshot.tool_calls.iter_mut().flatten().filter(|call| call.status == CallStatus::Running) {
            (call.status, running) = (closed, true);
        }
        for agent in self.snapshot.sub_agents.iter_mut().flatten().filter(|agent| agent.status == CallStatus::Running) {
            (agent.status, running) = (closed, true);
        }
        if running {
            self.touch(Field::SubAgents);
            self.calls_changed();
        }
        self.change(Field::Incomplete, |snapshot| &mut snapshot.incomplete, Some(incomplete));
        self.change(Field::Phase, |snapshot| &mut snapshot.phase, Phase::Done);
    }

    fn prompted(&mut self, text: &str, entry_id: Option<&EntryId>) {
        self.name_task(entry_id);
        let prompt = match &self.snapshot.prompt {
            Some(prompt) => format!("{prompt}{SEPARATOR}{text}"),
            None => text.to_owned(),
        };
        self.change(Field::Prompt, |snapshot| &mut snapshot.prompt, Some(prompt));
    }

    fn name_task(&mut self, entry_id: Option<&EntryId>) {
        if let (None, Some(id)) = (&self.snapshot.task_id, entry_id) {
            self.change(Field::TaskId, |snapshot| &mut snapshot.task_id, Some(id.as_str().to_owned()));
        }
    }

    fn begin_answer(&mut self, entry_id: Option<&EntryId>) {
        self.name_task(entry_id);
        self.answer = Answer { text: length(&self.snapshot.text), reasoning: length(&self.snapshot.reasoning), ..Answer::NONE };
    }

    fn grow(&mut self, step: &Step) {
        let (text, block, delta, index) = match step {
            Step::TextDelta { content_index, delta, .. } => (&mut self.snapshot.text, &mut self.answer.text_block, delta, *content_index),
            Step::ThinkingDelta { content_index, delta, .. } => {
                (&mut self.snapshot.reasoning, &mut self.answer.reasoning_block, delta, *content_index)
            }
            Step::TextStart { .. }
            | Step::TextEnd { .. }
            | Step::ThinkingStart { .. }
            | Step::ThinkingEnd { .. }
            | Step::ToolcallStart { .. }
            | Step::ToolcallDelta { .. }
            | Step::ToolcallEnd { .. } => return,
        };
        if delta.is_empty() {
            return;
        }
        let text = text.get_or_insert_default();
        if *block != Some(index) {
            *block = Some(index);
            separate(text);
        }
        text.push_str(delta);
    }

    /// What the answer ended with counts, whatever its deltas were.
    fn settle_texts(&mut self, message: &AssistantMessage) {
        let texts = message.content.iter().filter_map(|block| match block {
            AssistantBlock::Text(block) => Some(block.text.as_str()),
            AssistantBlock::Thinking(_) | AssistantBlock::ToolCall(_) => None,
        });
        if settle(self.snapshot.text.get_or_insert_default(), self.answer.text, texts) {
            self.touch(Field::Text);
        }
        let thoughts = message.content.iter().filter_map(|block| match block {
            AssistantBlock::Thinking(block) => Some(block.thinking.as_str()),
            AssistantBlock::Text(_) | AssistantBlock::ToolCall(_) => None,
        });
        if settle(self.snapshot.reasoning.get_or_insert_default(), self.answer.reasoning, thoughts) {
            self.touch(Field::Reasoning);
        }
    }

    fn end_answer(&mut self, message: &AssistantMessage) {
        self.settle_texts(message);
        let failed = message.stop_reason.is_failure();
        self.answer = Answer { incomplete: failed, ..Answer::NONE };
        let error = failed.then(|| message.error_message.clone().unwrap_or_else(|| "the answer was cut off".into()));
        self.change(Field::Error, |snapshot| &mut snapshot.error, error);
        let used = &message.usage;
        self.output = self.output.saturating_add(used.output);
        let context = [used.cache_read, used.cache_write, used.output].into_iter().fold(used.input, u64::saturating_add);
        if context == 0 {
            return;
        }
        let usage = RunUsage {
            input_tokens: Some(used.input),
            output_tokens: Some(used.output),
            cached_input_tokens: Some(used.cache_read),
            context_percent: (self.window > 0).then(|| percent(context, self.window)),
            context_used_tokens: Some(context),
            turn_output_tokens: Some(self.output),
            provider_name: Some(message.provider.clone()),
        };
        self.change(Field::Usage, |snapshot| &mut snapshot.usage, Some(usage));
    }

    fn begin_tool(&mut self, id: &str, name: &str, arguments: &serde_json::Value) {
        let call = ToolProgress {
            id: id.to_owned(),
            name: name.to_owned(),
            summary: project::summary(name, arguments),
            input: project::input(arguments),
            result: None,
            status: CallStatus::Running,
        };
        match self.call(id).filter(|known| known.status == CallStatus::Running) {
            Some(known) => *known = call,
            None => self.snapshot.tool_calls.get_or_insert_default().push(call),
        }
        self.calls_changed();
    }

    /// The newest call of that id; providers number calls anew in each answer, so an older one may have it too.
    fn call(&mut self, id: &str) -> Option<&mut ToolProgress> {
        self.snapshot.tool_calls.as_mut()?.iter_mut().rev().find(|call| call.id == id)
    }

    fn calls_changed(&mut self) {
        self.touch(Field::ToolCalls);
        let calls = self.snapshot.tool_calls.as_deref().unwrap_or_default();
        let activity = project::activity(calls, self.snapshot.sub_agents.as_deref().unwrap_or_default());
        self.change(Field::Activity, |snapshot| &mut snapshot.activity, Some(activity));
    }

    fn ask(&mut self, request: &DialogRequest) {
        let Some(interaction) = project::interaction(request) else { return };
        let open = self.snapshot.interactions.get_or_insert_default();
        if open.iter().all(|known| known.prompt_id != interaction.prompt_id) {
            open.push(interaction);
            self.touch(Field::Interactions);
        }
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

/// An empty line after what stands there.
fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push_str(SEPARATOR);
    }
}

/// Makes `whole`, from `start` on, what `blocks` say; true if it was something else.
fn settle<'a>(whole: &mut String, start: usize, blocks: impl Iterator<Item = &'a str>) -> bool {
    let start = start.min(whole.len());
    let mut expected = String::new();
    for block in blocks.filter(|block| !block.is_empty()) {
        if start > 0 || !expected.is_empty() {
            expected.push_str(SEPARATOR);
        }
        expected.push_str(block);
    }
    let Some(shown) = whole.get(start..) else { return false };
    if shown == expected {
        return false;
    }
    whole.truncate(start);
    whole.push_str(&expected);
    true
}

/// One decimal.
#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
fn percent(used: u64, window: u64) -> Number {
    let percent = (used as f64 / window as f64 * 1_000.0).round() / 10.0;
    Number(percent.min(FULLEST_PERCENT))
}
