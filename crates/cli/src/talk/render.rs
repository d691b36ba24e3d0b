//! Events of a session as lines of text on a terminal. Pure: text out, nothing is written here.
//!
//! Invariants: each delta costs what it is long, however long the conversation is; nothing that a model or a tool says reaches the
//! terminal as a control sequence. Not here: input, the connection, what a person typed.

use std::collections::VecDeque;

use wolli_protocol::event::{AssistantMessageEvent, SessionEvent, ToolResult};
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, UserBlock, UserMessage};
use wolli_protocol::text::utf16_prefix;

/// Longest line that a tool call or its result gets.
const SHORT: usize = 100;

/// Longest remark: room for what is wrong, where, and what to do about it.
const REMARK: usize = 1000;

const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
const PLAIN: &str = "\u{1b}[0m";
/// Back to the start of the line, and what stands there goes.
const CLEAR: &str = "\r\u{1b}[K";

/// What the last thing on the screen belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// Nothing: the cursor is at the start of a line.
    Nothing,
    Text,
    Thinking,
    /// The invitation to type; the person may be typing behind it.
    Marker,
}

/// What has been shown, as far as the next event needs it.
#[derive(Debug)]
pub(crate) struct Renderer {
    styled: bool,
    open: Open,
    /// The last character shown ended its line.
    at_line_start: bool,
    /// Text of the answer that is being produced has been shown.
    streamed: bool,
    /// Prompts that were typed here and stand on the screen already.
    own: VecDeque<String>,
}

impl Renderer {
    /// With `styled`, thinking is dim and errors are red.
    pub(crate) fn new(styled: bool) -> Self {
        Self { styled, open: Open::Nothing, at_line_start: true, streamed: false, own: VecDeque::new() }
    }

    /// A prompt was typed here; when the session tells it back it is not shown again.
    pub(crate) fn typed(&mut self, text: &str) {
        self.own.push_back(text.to_owned());
    }

    /// A line was typed: the terminal showed it and went to the next one.
    pub(crate) fn entered(&mut self) {
        self.open = Open::Nothing;
        self.at_line_start = true;
    }

    /// Invites the person to type, once.
    pub(crate) fn marker(&mut self) -> String {
        if self.open == Open::Marker {
            return String::new();
        }
        let mut out = self.close();
        out.push_str("> ");
        self.open = Open::Marker;
        self.at_line_start = false;
        out
    }

    /// The prompt came to nothing, so the session will not tell it back.
    pub(crate) fn refused(&mut self) {
        self.own.pop_back();
    }

    /// What a new event adds to the screen.
    pub(crate) fn event(&mut self, event: &SessionEvent) -> String {
        match event {
            SessionEvent::MessageStart { message: Message::Assistant(_), .. } => {
                self.streamed = false;
                String::new()
            }
            SessionEvent::MessageUpdate { assistant_message_event, .. } => self.step(assistant_message_event),
            SessionEvent::MessageEnd { message, .. } => self.message(message),
            SessionEvent::ToolExecutionStart { tool_name, args, .. } => {
                let arguments = if args.as_object().is_some_and(serde_json::Map::is_empty) { String::new() } else { args.to_string() };
                self.note(&short(&format!("[{tool_name}] {arguments}")))
            }
            SessionEvent::ToolExecutionEnd { tool_name, result, is_error, .. } => self.result(tool_name, result, *is_error),
            SessionEvent::AgentEnd { .. } => {
                self.own.clear();
                self.close()
            }
            SessionEvent::ModelUpdate { model, .. } => self.note(&format!("(model: {}/{})", model.provider, model.id)),
            SessionEvent::Retry { attempt, max, reason, .. } => self.note(&format!("(attempt {attempt} of {max} follows: {reason})")),
            SessionEvent::CompactionStart { .. } => self.note("(the earlier conversation is being summarised)"),
            SessionEvent::CompactionEnd { result: Some(_), .. } => self.note("(earlier messages were replaced by a summary)"),
            SessionEvent::CompactionEnd { error_message: Some(text), .. } => self.note(&format!("({text})")),
            SessionEvent::CompactionEnd { aborted: true, .. } => self.note("(the summary was cancelled)"),
            SessionEvent::AgentStart
            | SessionEvent::CompactionEnd { .. }
            | SessionEvent::TurnStart
            | SessionEvent::TurnEnd { .. }
            | SessionEvent::MessageStart { .. }
            | SessionEvent::ToolExecutionUpdate { .. }
            | SessionEvent::QueueUpdate { .. }
            | SessionEvent::ThinkingLevelUpdate { .. }
            | SessionEvent::ScopedModelsUpdate { .. }
            | SessionEvent::Usage { .. }
            | SessionEvent::Waiting { .. }
            | SessionEvent::ExtensionUiRequest(_)
            | SessionEvent::ExtensionUiResolved(_)
            | SessionEvent::LoginUiRequest(_) => String::new(),
        }
    }

    /// An answer that is being produced when we come to it: its text so far.
    pub(crate) fn in_flight(&mut self, message: &AssistantMessage) -> String {
        let mut out = String::new();
        for block in &message.content {
            match block {
                AssistantBlock::Text(text) => out.push_str(&self.flow(Open::Text, &text.text)),
                AssistantBlock::Thinking(thinking) => out.push_str(&self.flow(Open::Thinking, &thinking.thinking)),
                AssistantBlock::ToolCall(_) => {}
            }
        }
        self.streamed = !message.content.is_empty();
        out
    }

    /// A message that ended, whole if it was not shown as it grew.
    pub(crate) fn message(&mut self, message: &Message) -> String {
        match message {
            Message::User(user) => self.prompt(user),
            Message::Assistant(answer) => {
                let mut out = if self.streamed { String::new() } else { self.in_flight(answer) };
                out.push_str(&self.close());
                match answer.stop_reason {
                    StopReason::Error => {
                        let reason = answer.error_message.as_deref().unwrap_or("Request error");
                        out.push_str(&self.line(RED, &format!("Error: {}", plain(reason))));
                    }
                    StopReason::Aborted => out.push_str(&self.line(DIM, "(aborted)")),
                    StopReason::Length => out.push_str(&self.line(DIM, "(cut off: the answer reached the model's limit)")),
                    StopReason::Stop | StopReason::ToolUse => {}
                }
                self.streamed = false;
                out
            }
            Message::Custom(custom) if custom.display => {
                let mut out = self.flow(Open::Text, &custom.content.joined_text());
                out.push_str(&self.close());
                out
            }
            Message::CompactionSummary(_) => self.note("(earlier messages were replaced by a summary)"),
            // A tool's result was shown when the tool ended.
            Message::ToolResult(_) | Message::Custom(_) | Message::BashExecution(_) | Message::BranchSummary(_) => String::new(),
        }
    }

    /// A remark of the program's own, dim, on a line of its own.
    pub(crate) fn note(&mut self, text: &str) -> String {
        let mut out = self.close();
        out.push_str(&self.line(DIM, &one_line(text, REMARK)));
        out
    }

    /// Something went wrong here; red, on a line of its own.
    pub(crate) fn error(&mut self, text: &str) -> String {
        let mut out = self.close();
        out.push_str(&self.line(RED, &plain(text)));
        out
    }

    /// Several lines of the program's own.
    pub(crate) fn lines(&mut self, text: &str) -> String {
        let mut out = self.close();
        for line in plain(text).lines() {
            out.push_str(line);
            out.push('\n');
        }
        out
    }

    /// Ends the line, if one is open. An invitation to type gives way.
    pub(crate) fn close(&mut self) -> String {
        let mut out = String::new();
        if self.open == Open::Marker && self.styled {
            (self.open, self.at_line_start) = (Open::Nothing, true);
            out.push_str(CLEAR);
        }
        if self.open == Open::Thinking && self.styled {
            out.push_str(PLAIN);
        }
        self.open = Open::Nothing;
        if !self.at_line_start {
            out.push('\n');
            self.at_line_start = true;
        }
        out
    }

    fn step(&mut self, step: &AssistantMessageEvent) -> String {
        match step {
            AssistantMessageEvent::TextDelta { delta, .. } => {
                self.streamed = true;
                self.flow(Open::Text, delta)
            }
            AssistantMessageEvent::ThinkingDelta { delta, .. } => {
                self.streamed = true;
                self.flow(Open::Thinking, delta)
            }
            // Blocks are apart from each other.
            AssistantMessageEvent::TextEnd { .. } | AssistantMessageEvent::ThinkingEnd { .. } => self.close(),
            AssistantMessageEvent::TextStart { .. }
            | AssistantMessageEvent::ThinkingStart { .. }
            | AssistantMessageEvent::ToolcallStart { .. }
            | AssistantMessageEvent::ToolcallDelta { .. }
            | AssistantMessageEvent::ToolcallEnd { .. } => String::new(),
        }
    }

    fn prompt(&mut self, user: &UserMessage) -> String {
        let text = user.content.joined_text();
        if self.own.front() == Some(&text) {
            self.own.pop_front();
            return String::new();
        }
        let mut out = self.close();
        for line in plain(&text).lines() {
            out.push_str(&self.line(DIM, &format!("> {line}")));
        }
        out
    }

    fn result(&mut self, tool_name: &str, result: &ToolResult, is_error: bool) -> String {
        let text: String = result
            .content
            .iter()
            .map(|block| match block {
                UserBlock::Text(text) => text.text.as_str(),
                UserBlock::Image(_) => "[image]",
            })
            .collect();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("(no output)");
        let more = match lines.count() {
            0 => String::new(),
            1 => " (and 1 more line)".to_owned(),
            more => format!(" (and {more} more lines)"),
        };
        let verdict = if is_error { format!("{tool_name} failed: ") } else { String::new() };
        let mut out = self.close();
        let line = format!("  {}{more}", short(&format!("{verdict}{first}")));
        out.push_str(&self.line(if is_error { RED } else { DIM }, &line));
        out
    }

    /// Text that goes on where the last one of its kind ended.
    fn flow(&mut self, kind: Open, text: &str) -> String {
        if text.is_empty() {
            return String::new();
        }
        let mut out = if self.open == kind { String::new() } else { self.close() };
        if self.open != kind && kind == Open::Thinking && self.styled {
            out.push_str(DIM);
        }
        self.open = kind;
        let text = plain(text);
        if let Some(last) = text.chars().last() {
            self.at_line_start = last == '\n';
        }
        out.push_str(&text);
        out
    }

    /// A whole line; the cursor is at the start of one.
    fn line(&self, style: &str, text: &str) -> String {
        if self.styled { format!("{style}{text}{PLAIN}\n") } else { format!("{text}\n") }
    }
}

/// The text without anything that a terminal would obey: of control characters, line ends and tabs alone stay.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

/// One line of bounded length.
fn short(text: &str) -> String {
    one_line(text, SHORT)
}

fn one_line(text: &str, longest: usize) -> String {
    let line = plain(text).replace(['\n', '\t'], " ");
    let kept = utf16_prefix(&line, longest);
    if kept.len() < line.len() { format!("{}...", kept.trim_end()) } else { line.trim_end().to_owned() }
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
