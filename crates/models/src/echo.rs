//! The built-in provider `echo`, which answers without any network.
//!
//! It streams the prompt back word by word, so that everything can be tried and tested without a key. Lines of the prompt
//! that begin with one of these words are obeyed instead:
//!
//! | line | effect |
//! |---|---|
//! | `!think TEXT` | thinks TEXT |
//! | `!sleep MS` | waits MS milliseconds before each later delta |
//! | `!fail STATUS` | ends the answer with an error of that status |
//! | `!repeat N TEXT` | says TEXT N times, one delta each |
//! | `!tool NAME JSON` | calls the tool after all else was said, then reports its result; only if `echo` was chosen by name |
//!
//! A prompt that begins with markup (a conversation that is to be summarised) is said as it is. An answer ends at its limit of tokens.
//!
//! An error is final here: it is not sent again. Invariant: steps are made one at a time, however long the answer is.

mod script;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantMessage, Message, StopReason, ThinkingContent, UserBlock, UserContent};
use wolli_protocol::text::{utf16_len, utf16_prefix};

use crate::formats::Growing;
use crate::prepare::ToolNames;
use crate::request::ModelRequest;
use script::{Act, Script};

/// What it says first when nobody chose it.
const DEMONSTRATION: &str = "This is a demonstration: there is no model to answer you, so your message is repeated. \
                             Run /login to sign in, then /model to choose a model.\n\n";
/// Characters per token of the estimate.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// One answer in the making.
#[derive(Debug)]
pub(crate) struct Echo {
    growing: Growing,
    script: Script,
    /// Kept for the end, when the answer is whole.
    calls: VecDeque<(String, String)>,
    pause: Duration,
    open: Option<Open>,
    /// Text of a failure that the prompt asked for.
    failure: Option<String>,
    call_number: usize,
    /// Characters that the answer may still have; `None` without a limit.
    room: Option<usize>,
}

/// The block that deltas go to.
#[derive(Clone, Copy, Debug)]
enum Open {
    Text(usize),
    Thinking(usize),
}

/// What [`Echo::advance`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// There are new steps.
    Stepped,
    /// Wait this long, then advance again.
    Wait(Duration),
    /// Nothing is left: call [`Echo::finish`].
    Done,
}

impl Echo {
    pub(crate) fn new(request: &ModelRequest, timestamp: i64) -> Self {
        let mut message = AssistantMessage::begin(&request.model, timestamp);
        message.usage.input = prompt_characters(request).div_ceil(CHARACTERS_PER_TOKEN);
        let script = match last_words(request) {
            Words::Prompt(text) if text.starts_with('<') => Script::new(&text, String::new(), false),
            Words::Prompt(text) => {
                let prefix = if request.chosen_by_name { "" } else { DEMONSTRATION };
                Script::new(prefix, text, request.chosen_by_name)
            }
            Words::Report(text) => Script::new("", text, false),
        };
        Self {
            growing: Growing::new(message, ToolNames::default()),
            script,
            calls: VecDeque::new(),
            pause: Duration::ZERO,
            open: None,
            failure: None,
            call_number: 0,
            room: request.max_tokens.map(|tokens| usize::try_from(tokens.saturating_mul(CHARACTERS_PER_TOKEN)).unwrap_or(usize::MAX)),
        }
    }

    pub(crate) fn begun(&self) -> AssistantMessage {
        AssistantMessage { content: Vec::new(), ..self.growing.message.clone() }
    }

    /// Makes the next delta.
    pub(crate) fn advance(&mut self, waited: bool, steps: &mut VecDeque<Event>) -> Advance {
        if self.failure.is_some() {
            return Advance::Done;
        }
        if self.room == Some(0) {
            self.growing.message.stop_reason = StopReason::Length;
            return Advance::Done;
        }
        if !waited && !self.pause.is_zero() && self.script.speaks_next() {
            return Advance::Wait(self.pause);
        }
        match self.script.next() {
            Some(Act::Say(text)) => {
                let text = self.within_room(text);
                let index = self.text_block(steps);
                self.growing.text(index, text, steps);
            }
            Some(Act::Think(text)) => {
                let text = self.within_room(text);
                let index = self.thinking_block(steps);
                self.growing.thinking(index, text, steps);
            }
            Some(Act::Sleep(pause)) => self.pause = pause,
            Some(Act::Fail(status)) => {
                self.failure = Some(format!("{status} The prompt asked echo to fail"));
                return Advance::Done;
            }
            Some(Act::Call { name, arguments }) => self.calls.push_back((name, arguments)),
            None => {
                let Some((name, arguments)) = self.calls.pop_front() else { return Advance::Done };
                self.close_block(steps);
                self.call_number += 1;
                let id = format!("echo_{}_{}", self.growing.message.timestamp, self.call_number);
                let index = self.growing.begin_call(&id, &name, steps);
                self.growing.arguments(index, arguments, steps);
                self.growing.end(index, steps);
                self.growing.message.stop_reason = StopReason::ToolUse;
            }
        }
        Advance::Stepped
    }

    pub(crate) fn finish(mut self, steps: &mut VecDeque<Event>) -> AssistantMessage {
        self.count_output();
        match self.failure.take() {
            Some(text) => self.growing.fail(StopReason::Error, text),
            None => {
                self.growing.end_all(steps);
                self.growing.message
            }
        }
    }

    pub(crate) fn abort(mut self, text: String) -> AssistantMessage {
        self.count_output();
        self.growing.fail(StopReason::Aborted, text)
    }

    /// As much of a piece as the limit allows.
    fn within_room(&mut self, mut text: String) -> String {
        if let Some(room) = &mut self.room {
            text.truncate(utf16_prefix(&text, *room).len());
            let used = utf16_len(&text);
            // Half of a character that needs two units is no use.
            *room = if used == 0 { 0 } else { *room - used };
        }
        text
    }

    fn text_block(&mut self, steps: &mut VecDeque<Event>) -> usize {
        if let Some(Open::Text(index)) = self.open {
            return index;
        }
        self.close_block(steps);
        let index = self.growing.begin_text(steps);
        self.open = Some(Open::Text(index));
        index
    }

    fn thinking_block(&mut self, steps: &mut VecDeque<Event>) -> usize {
        if let Some(Open::Thinking(index)) = self.open {
            return index;
        }
        self.close_block(steps);
        let index = self.growing.begin_thinking(ThinkingContent::default(), steps);
        self.open = Some(Open::Thinking(index));
        index
    }

    fn close_block(&mut self, steps: &mut VecDeque<Event>) {
        if let Some(Open::Text(index) | Open::Thinking(index)) = self.open.take() {
            self.growing.end(index, steps);
        }
    }

    fn count_output(&mut self) {
        use wolli_protocol::message::AssistantBlock;
        let characters: usize = self
            .growing
            .message
            .content
            .iter()
            .map(|block| match block {
                AssistantBlock::Text(text) => utf16_len(&text.text),
                AssistantBlock::Thinking(thinking) => utf16_len(&thinking.thinking),
                AssistantBlock::ToolCall(call) => utf16_len(&call.name) + json_length(&call.arguments),
            })
            .sum();
        let usage = &mut self.growing.message.usage;
        usage.output = (characters as u64).div_ceil(CHARACTERS_PER_TOKEN);
        usage.total_tokens = usage.input + usage.output;
    }
}

fn json_length(arguments: &wolli_protocol::message::JsonObject) -> usize {
    serde_json::to_string(arguments).map_or(0, |text| text.len())
}

/// What is to be answered.
enum Words {
    Prompt(String),
    Report(String),
}

/// The last message of the person, or the results of the tools that were called after it.
fn last_words(request: &ModelRequest) -> Words {
    let mut results = Vec::new();
    for message in request.messages.iter().rev() {
        match message.as_ref() {
            Message::ToolResult(result) => {
                let verb = if result.is_error { "failed" } else { "returned" };
                let text = UserContent::Blocks(result.content.clone());
                results.push(format!("{} {verb}: {}", result.tool_name, text.joined_text().trim_end()));
            }
            _ if !results.is_empty() => break,
            Message::User(user) => return Words::Prompt(spoken(&user.content)),
            Message::Custom(custom) => return Words::Prompt(spoken(&custom.content)),
            Message::Assistant(_) | Message::BashExecution(_) | Message::BranchSummary(_) | Message::CompactionSummary(_) => {}
        }
    }
    results.reverse();
    Words::Report(if results.is_empty() { "(nothing to repeat)".to_owned() } else { results.join("\n") })
}

fn spoken(content: &UserContent) -> String {
    let texts: Vec<String> = content
        .to_blocks()
        .into_iter()
        .map(|block| match block {
            UserBlock::Text(text) => text.text,
            UserBlock::Image(image) => format!("[image {}]", image.mime_type),
        })
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n")
}

/// Characters of everything that a real provider would read.
fn prompt_characters(request: &ModelRequest) -> u64 {
    let content = |content: &UserContent| match content {
        UserContent::Text(text) => utf16_len(text),
        UserContent::Blocks(blocks) => blocks.iter().map(block_characters).sum(),
    };
    let messages: usize = request
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            Message::User(user) => content(&user.content),
            Message::Custom(custom) => content(&custom.content),
            Message::ToolResult(result) => result.content.iter().map(block_characters).sum(),
            Message::Assistant(answer) => answer.content.iter().map(said_characters).sum(),
            Message::BashExecution(run) => utf16_len(&run.command) + utf16_len(&run.output),
            Message::BranchSummary(branch) => utf16_len(&branch.summary),
            Message::CompactionSummary(compaction) => utf16_len(&compaction.summary),
        })
        .sum();
    (messages + utf16_len(&request.system)) as u64
}

fn block_characters(block: &UserBlock) -> usize {
    match block {
        UserBlock::Text(text) => utf16_len(&text.text),
        // What the usual estimate takes for an image.
        UserBlock::Image(_) => 4800,
    }
}

fn said_characters(block: &wolli_protocol::message::AssistantBlock) -> usize {
    use wolli_protocol::message::AssistantBlock;
    match block {
        AssistantBlock::Text(text) => utf16_len(&text.text),
        AssistantBlock::Thinking(thinking) => utf16_len(&thinking.thinking),
        AssistantBlock::ToolCall(call) => utf16_len(&call.name) + json_length(&call.arguments),
    }
}
