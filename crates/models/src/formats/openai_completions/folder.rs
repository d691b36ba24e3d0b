//! From the chunks of a stream to the message.
//!
//! There is at most one text and one thinking block; all blocks end together when the stream ends, in their order.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantMessage, StopReason, ThinkingContent, Usage};
use wolli_protocol::model::ModelCost;

use super::super::errors::failure_of;
use super::super::{Failure, Fed, Growing, usage};
use super::THINKING_FIELDS;

/// Data of the event that ends a stream.
const DONE: &str = "[DONE]";

#[derive(Debug)]
pub(crate) struct Folder {
    growing: Growing,
    price: ModelCost,
    text: Option<usize>,
    thinking: Option<usize>,
    calls: Vec<Call>,
    /// From the server's index of a call to `calls`.
    by_index: HashMap<u64, usize>,
    /// Set once a finish reason was seen: the stop reason, or the text of the error that it means.
    finish: Option<Result<StopReason, String>>,
    refusal: String,
    /// Encrypted thinking for calls that have not begun yet, by call id.
    details: HashMap<String, String>,
}

/// A call of a tool, perhaps before its name is known.
#[derive(Debug, Default)]
struct Call {
    /// As the server gave it.
    id: String,
    /// Its block, once it has begun.
    block: Option<usize>,
    /// Arguments that came before the name.
    held_back: String,
}

impl Folder {
    pub(crate) fn new(growing: Growing, price: ModelCost) -> Self {
        Self {
            growing,
            price,
            text: None,
            thinking: None,
            calls: Vec::new(),
            by_index: HashMap::new(),
            finish: None,
            refusal: String::new(),
            details: HashMap::new(),
        }
    }

    pub(crate) fn feed(&mut self, data: &str, steps: &mut VecDeque<Event>) -> Fed {
        if data.trim() == DONE {
            return match self.at_end() {
                Ok(()) => Fed::Complete,
                Err(text) => Fed::Failed(Failure { text: text.to_owned(), may_pass: false }),
            };
        }
        let mut chunk: Value = match wolli_protocol::surrogates::from_json(data.as_bytes()) {
            Ok(chunk) => chunk,
            Err(error) => return Fed::Unreadable(format!("Could not parse the provider's event: {error}")),
        };
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Fed::Failed(failure_of(error));
        }
        self.identify(&chunk);
        if let Some(counts) = chunk.get("usage").filter(|counts| counts.is_object()) {
            self.count(counts);
        }
        let Some(choice) = chunk.get_mut("choices").and_then(|choices| choices.get_mut(0)) else { return Fed::More };
        if let Some(counts) = choice.get("usage").filter(|counts| counts.is_object()) {
            self.count(counts);
        }
        if let Some(delta) = choice.get_mut("delta") {
            self.delta(delta, steps);
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.finish = Some(match reason {
                "stop" | "end" => Ok(StopReason::Stop),
                "length" => Ok(StopReason::Length),
                "tool_calls" | "function_call" => Ok(StopReason::ToolUse),
                other => Err(format!("Provider finish_reason: {other}")),
            });
        }
        Fed::More
    }

    /// Calls count before their block begins.
    pub(crate) fn blocks(&self) -> usize {
        self.growing.message.content.len().max(self.calls.len())
    }

    pub(crate) fn at_end(&self) -> Result<(), &'static str> {
        if self.finish.is_some() { Ok(()) } else { Err("Stream ended without finish_reason") }
    }

    pub(crate) fn finish(mut self, steps: &mut VecDeque<Event>) -> AssistantMessage {
        for call in 0..self.calls.len() {
            self.begin(call, "", steps);
        }
        self.growing.end_all(steps);
        match self.finish {
            Some(Ok(_)) if !self.refusal.trim().is_empty() => self.growing.fail(StopReason::Error, self.refusal),
            Some(Ok(stop_reason)) => {
                self.growing.message.stop_reason = stop_reason;
                self.growing.finish()
            }
            Some(Err(text)) => self.growing.fail(StopReason::Error, text),
            None => self.growing.fail(StopReason::Error, "Stream ended without finish_reason".to_owned()),
        }
    }

    pub(crate) fn fail(self, stop_reason: StopReason, text: String) -> AssistantMessage {
        self.growing.fail(stop_reason, text)
    }

    fn identify(&mut self, chunk: &Value) {
        let message = &mut self.growing.message;
        let word = |key: &str| chunk.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
        if message.response_id.is_none() {
            message.response_id = word("id").map(str::to_owned);
        }
        if message.response_model.is_none() {
            message.response_model = word("model").filter(|model| *model != message.model).map(str::to_owned);
        }
    }

    fn count(&mut self, counts: &Value) {
        let number = |path: &str| usage::count(counts.pointer(path));
        let prompt = number("/prompt_tokens").unwrap_or(0);
        let cache_read = number("/prompt_tokens_details/cached_tokens").or_else(|| number("/prompt_cache_hit_tokens")).unwrap_or(0);
        let cache_write = number("/prompt_tokens_details/cache_write_tokens").unwrap_or(0);
        self.growing.message.usage = Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            output: number("/completion_tokens").unwrap_or(0),
            cache_read,
            cache_write,
            ..Usage::default()
        };
        usage::settle(&mut self.growing.message.usage, self.price);
    }

    fn delta(&mut self, delta: &mut Value, steps: &mut VecDeque<Event>) {
        for field in THINKING_FIELDS {
            if delta.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty()) {
                let text = take_text(delta, field);
                self.think(text, field, steps);
                break;
            }
        }
        match delta.get_mut("content").map(Value::take) {
            Some(Value::String(text)) => self.say(text, steps),
            // Some servers send a list of parts, thinking among them.
            Some(Value::Array(parts)) => {
                for mut part in parts {
                    match part.get_mut("thinking").map(Value::take) {
                        Some(Value::Array(thoughts)) => {
                            for mut thought in thoughts {
                                self.think(take_text(&mut thought, "text"), THINKING_FIELDS[0], steps);
                            }
                        }
                        Some(Value::String(text)) => self.think(text, THINKING_FIELDS[0], steps),
                        _ => self.say(take_text(&mut part, "text"), steps),
                    }
                }
            }
            _ => {}
        }
        if let Some(refusal) = delta.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
        }
        if let Some(calls) = delta.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for call in calls {
                self.call(call, steps);
            }
        }
        if let Some(details) = delta.get("reasoning_details").and_then(Value::as_array) {
            for detail in details {
                self.detail(detail);
            }
        }
    }

    fn say(&mut self, text: String, steps: &mut VecDeque<Event>) {
        if !text.is_empty() {
            let index = *self.text.get_or_insert_with(|| self.growing.begin_text(steps));
            self.growing.text(index, text, steps);
        }
    }

    fn think(&mut self, text: String, field: &str, steps: &mut VecDeque<Event>) {
        if !text.is_empty() {
            let index = *self.thinking.get_or_insert_with(|| {
                // Replayed under the name it came by.
                let content = ThinkingContent { thinking_signature: Some(field.to_owned()), ..ThinkingContent::default() };
                self.growing.begin_thinking(content, steps)
            });
            self.growing.thinking(index, text, steps);
        }
    }

    fn call(&mut self, delta: &mut Value, steps: &mut VecDeque<Event>) {
        let id = take_text(delta, "id");
        let server_index = delta.get("index").and_then(Value::as_u64);
        let function = delta.get_mut("function");
        let (name, arguments) = match function {
            Some(function) => (take_text(function, "name"), take_arguments(function)),
            None => (String::new(), String::new()),
        };
        let call = self.find(server_index, &id, &name);
        if self.calls[call].id.is_empty() {
            self.calls[call].id = id;
        }
        if !name.is_empty() {
            self.begin(call, &name, steps);
        }
        match self.calls[call].block {
            Some(block) => self.growing.arguments(block, arguments, steps),
            None => self.calls[call].held_back.push_str(&arguments),
        }
    }

    /// The call that a delta belongs to; a new one if it begins one.
    fn find(&mut self, server_index: Option<u64>, id: &str, name: &str) -> usize {
        let by_index = server_index.and_then(|index| self.by_index.get(&index)).copied();
        let by_id = || self.calls.iter().position(|call| !id.is_empty() && call.id == id);
        // Some servers give every call of an answer the index 0; a new id and a name mean a new call.
        let is_other = |call: usize| !id.is_empty() && !name.is_empty() && !self.calls[call].id.is_empty() && self.calls[call].id != id;
        let found = match by_index {
            Some(call) if !is_other(call) => Some(call),
            _ => by_id(),
        };
        // A delta that says nothing about whose it is continues the last call.
        let anonymous = server_index.is_none() && id.is_empty() && name.is_empty();
        let found = found.or_else(|| if anonymous { self.calls.len().checked_sub(1) } else { None });
        let call = found.unwrap_or_else(|| {
            self.calls.push(Call::default());
            self.calls.len() - 1
        });
        if let Some(index) = server_index {
            self.by_index.insert(index, call);
        }
        call
    }

    /// Opens the block of a call, if it is not open.
    fn begin(&mut self, call: usize, name: &str, steps: &mut VecDeque<Event>) {
        let call = &mut self.calls[call];
        if call.block.is_some() {
            return;
        }
        let block = self.growing.begin_call(&call.id, name, steps);
        call.block = Some(block);
        self.growing.arguments(block, std::mem::take(&mut call.held_back), steps);
        if let Some(detail) = self.details.remove(&call.id)
            && let Some(call) = self.growing.call_mut(block)
        {
            call.thought_signature = Some(detail);
        }
    }

    /// Encrypted thinking belongs to the call of the same id and goes back with it.
    fn detail(&mut self, detail: &Value) {
        let word = |key: &str| detail.get(key).and_then(Value::as_str).unwrap_or("");
        if word("type") != "reasoning.encrypted" || word("id").is_empty() || word("data").is_empty() {
            return;
        }
        let block = self.calls.iter().find(|call| call.id == word("id")).and_then(|call| call.block);
        match block.and_then(|block| self.growing.call_mut(block)) {
            Some(call) => call.thought_signature = Some(detail.to_string()),
            None => {
                self.details.insert(word("id").to_owned(), detail.to_string());
            }
        }
    }
}

/// Moves a string out of a chunk; empty if it is not there.
fn take_text(value: &mut Value, key: &str) -> String {
    match value.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Arguments are JSON text; some servers send the object itself.
fn take_arguments(function: &mut Value) -> String {
    match function.get_mut("arguments").map(Value::take) {
        Some(Value::String(text)) => text,
        Some(object @ Value::Object(_)) => object.to_string(),
        _ => String::new(),
    }
}
