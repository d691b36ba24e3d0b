//! How tool calls, questions and queues are told in a snapshot. Pure.

use std::borrow::Cow;

use serde_json::Value;

use super::shape::{CallStatus, Choice, Interaction, InteractionKind, Question, QueuedTask, SubAgent, ToolProgress};
use crate::dialog::{DialogMethod, DialogRequest};
use crate::event::ToolResult;
use crate::message::{Message, UserBlock, UserMessage};

/// Characters of a call's input and result that a snapshot carries: a patch repeats all calls of the run whenever one changes.
const VALUE_CHARACTERS: usize = 400;
/// Characters of a result's first line in the activity, and of most values in a summary.
const LINE_CHARACTERS: usize = 120;
/// Characters of a path in a summary.
const PATH_CHARACTERS: usize = 140;

/// The arguments that say most about a call, in order.
const TELLING: &[&str] = &["command", "file_path", "path", "pattern", "query", "url", "description"];

/// One line that a person reads of a call.
pub(super) fn summary(name: &str, arguments: &Value) -> String {
    let of = |keys: &[&str], limit: usize| {
        let text = keys.iter().find_map(|key| arguments.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty()))?;
        Some(short(text, limit))
    };
    let (before, value, otherwise) = match name {
        "read" => ("Read ", of(&["file_path", "path"], PATH_CHARACTERS), "Read file"),
        "edit" => ("Edit ", of(&["file_path", "path"], PATH_CHARACTERS), "Edit file"),
        "write" => ("Write ", of(&["file_path", "path"], PATH_CHARACTERS), "Write file"),
        "find" => ("List files: ", of(&["pattern", "glob"], LINE_CHARACTERS), "List files"),
        "ls" => ("List files: ", of(&["path"], LINE_CHARACTERS), "List files"),
        "grep" => ("Search text: ", of(&["pattern", "query"], LINE_CHARACTERS), "Search text"),
        "bash" => ("Run shell: ", of(&["description", "command"], LINE_CHARACTERS), "Run shell command"),
        other => {
            let value = of(&["description"], LINE_CHARACTERS).or_else(|| of(TELLING, LINE_CHARACTERS));
            return value.map_or_else(|| other.to_owned(), |value| format!("{other}: {value}"));
        }
    };
    value.map_or_else(|| otherwise.to_owned(), |value| format!("{before}{value}"))
}

/// What a call was given: its telling argument, or all of them.
pub(super) fn input(arguments: &Value) -> Option<String> {
    let text = TELLING.iter().find_map(|key| arguments.get(key).and_then(Value::as_str));
    let text = match text {
        Some(text) => Cow::Borrowed(text),
        None if arguments.as_object().is_some_and(|object| !object.is_empty()) => Cow::Owned(arguments.to_string()),
        None => return None,
    };
    Some(cut(&text, VALUE_CHARACTERS))
}

/// The text of a result.
pub(super) fn result(result: &ToolResult) -> Option<String> {
    let texts = result.content.iter().filter_map(|block| match block {
        UserBlock::Text(text) => Some(text.text.trim()),
        UserBlock::Image(_) => None,
    });
    let text = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then(|| cut(&text, VALUE_CHARACTERS))
}

/// The execution trail: a line per tool call, then one per sub-agent.
pub(super) fn activity(calls: &[ToolProgress], sub_agents: &[SubAgent]) -> String {
    let calls = calls.iter().map(|call| {
        let result = call.result.as_deref().and_then(first_line);
        match (call.status, result) {
            (CallStatus::Running, _) => call.summary.clone(),
            (CallStatus::Done, None) => format!("{} done", call.summary),
            (CallStatus::Done, Some(result)) => format!("{} -> {result}", call.summary),
            (CallStatus::Failed, None) => format!("{} failed", call.summary),
            (CallStatus::Failed, Some(result)) => format!("{} failed: {result}", call.summary),
        }
    });
    let sub_agents = sub_agents.iter().map(|agent| {
        let named = [&agent.description, &agent.kind].into_iter().flatten().find(|name| !name.is_empty());
        let label = named.map_or("subagent", String::as_str);
        let end = match agent.status {
            CallStatus::Running => "",
            CallStatus::Done => " done",
            CallStatus::Failed => " failed",
        };
        format!("Run task: {label}{end}")
    });
    calls.chain(sub_agents).collect::<Vec<_>>().join("\n")
}

fn first_line(result: &str) -> Option<String> {
    result.lines().map(str::trim).find(|line| !line.is_empty()).map(|line| cut(line, LINE_CHARACTERS))
}

/// One line of at most `limit` characters.
fn short(text: &str, limit: usize) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

/// At most `limit` characters; the last one says that there was more.
fn cut(text: &str, limit: usize) -> String {
    if text.char_indices().nth(limit).is_none() {
        return text.to_owned();
    }
    text.chars().take(limit - 1).chain(['…']).collect()
}

/// What waits in the queues, in the order of delivery.
pub(super) fn queued(steer: &[UserMessage], follow_up: &[UserMessage], next_turn: &[Message]) -> Option<Vec<QueuedTask>> {
    let task = |queue: &str, index: usize, prompt: String| QueuedTask { task_id: format!("{queue}-{}", index + 1), prompt };
    let steer = steer.iter().enumerate().map(|(index, message)| task("steer", index, message.content.joined_text()));
    let follow_up = follow_up.iter().enumerate().map(|(index, message)| task("followUp", index, message.content.joined_text()));
    let next_turn = next_turn.iter().enumerate().filter_map(|(index, message)| match message {
        Message::User(message) => Some(task("nextTurn", index, message.content.joined_text())),
        Message::Custom(message) => Some(task("nextTurn", index, message.content.joined_text())),
        Message::Assistant(_)
        | Message::ToolResult(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => None,
    });
    let tasks: Vec<_> = steer.chain(follow_up).chain(next_turn).collect();
    (!tasks.is_empty()).then_some(tasks)
}

/// A dialog as an open question; `None` for notices, which nobody answers.
pub(super) fn interaction(request: &DialogRequest) -> Option<Interaction> {
    let question = |text: &str, kind: &str| Question {
        id: "answer".into(),
        header: None,
        text: text.to_owned(),
        kind: Some(kind.into()),
        choices: None,
        allow_freeform: None,
        allow_empty: None,
    };
    let (kind, title, hint, question) = match &request.method {
        DialogMethod::Select { title, options, .. } => {
            let choice = |label: &String| Choice { label: label.clone(), description: None, value: Some(label.clone()) };
            let choices = Some(options.iter().map(choice).collect());
            (InteractionKind::UserInput, title, None, Question { choices, ..question(title, "select") })
        }
        DialogMethod::Confirm { title, message, .. } => {
            (InteractionKind::Confirmation, title, Some(message.clone()), question(message, "confirm"))
        }
        DialogMethod::Input { title, placeholder, .. } => {
            let question = Question { allow_freeform: Some(true), ..question(title, "text") };
            (InteractionKind::UserInput, title, placeholder.clone(), question)
        }
        DialogMethod::Editor { title, prefill } => {
            let question = Question { allow_freeform: Some(true), ..question(title, "editor") };
            (InteractionKind::UserInput, title, prefill.clone(), question)
        }
        DialogMethod::Notify { .. }
        | DialogMethod::SetStatus { .. }
        | DialogMethod::SetWidget { .. }
        | DialogMethod::SetTitle { .. }
        | DialogMethod::SetEditorText { .. } => return None,
    };
    let prompt_id = request.id.as_str().to_owned();
    Some(Interaction { prompt_id, kind, title: title.clone(), hint, questions: vec![question], current_index: None })
}
