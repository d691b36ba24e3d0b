//! From the events of a stream to the message.
//!
//! The blocks of the stream are found by their own index, not by order; blocks of unknown kinds are skipped whole.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantMessage, StopReason, ThinkingContent};
use wolli_protocol::model::ModelCost;

use super::super::errors::failure_of;
use super::super::{Failure, Fed, Growing, usage};

/// Text that stands for thinking that only the provider can read.
const REDACTED: &str = "[Reasoning redacted]";

#[derive(Debug)]
pub(crate) struct Folder {
    growing: Growing,
    price: ModelCost,
    /// From the server's index of a block to ours.
    blocks: HashMap<u64, usize>,
    /// Whole arguments that came with the start of a call, in case no delta follows.
    whole_inputs: HashMap<usize, String>,
    /// Set when the provider ended the answer as a failure.
    refusal: Option<String>,
    complete: bool,
}

impl Folder {
    pub(crate) fn new(growing: Growing, price: ModelCost) -> Self {
        Self { growing, price, blocks: HashMap::new(), whole_inputs: HashMap::new(), refusal: None, complete: false }
    }

    pub(crate) fn feed(&mut self, name: &str, data: &str, steps: &mut VecDeque<Event>) -> Fed {
        let mut event: Value = match wolli_protocol::surrogates::from_json(data.as_bytes()) {
            Ok(event) => event,
            // Events that are not ours need not be JSON.
            Err(_) if matches!(name, "ping") => return Fed::More,
            Err(error) => return Fed::Unreadable(format!("Could not parse the provider's event: {error}")),
        };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or(name).to_owned();
        match kind.as_str() {
            "message_start" => self.message_start(&event),
            "content_block_start" => self.block_start(&mut event, steps),
            "content_block_delta" => self.block_delta(&mut event, steps),
            "content_block_stop" => {
                if let Some(index) = self.block_index(&event) {
                    self.end(index, steps);
                }
            }
            "message_delta" => self.message_delta(&event),
            "message_stop" => {
                self.complete = true;
                return Fed::Complete;
            }
            "error" => {
                let may_pass = event.get("error").is_some_and(|error| failure_of(error).may_pass);
                return Fed::Failed(Failure { text: data.to_owned(), may_pass });
            }
            _ => {}
        }
        Fed::More
    }

    pub(crate) fn blocks(&self) -> usize {
        self.growing.message.content.len()
    }

    pub(crate) fn at_end(&self) -> Result<(), &'static str> {
        if self.complete { Ok(()) } else { Err("Anthropic stream ended before message_stop") }
    }

    pub(crate) fn finish(mut self, steps: &mut VecDeque<Event>) -> AssistantMessage {
        self.whole_inputs(steps);
        self.growing.end_all(steps);
        usage::settle(&mut self.growing.message.usage, self.price);
        match self.refusal {
            Some(text) => self.growing.fail(StopReason::Error, text),
            None => self.growing.finish(),
        }
    }

    pub(crate) fn fail(mut self, stop_reason: StopReason, text: String) -> AssistantMessage {
        usage::settle(&mut self.growing.message.usage, self.price);
        self.growing.fail(stop_reason, text)
    }

    fn message_start(&mut self, event: &Value) {
        let Some(started) = event.get("message") else { return };
        let message = &mut self.growing.message;
        let word = |key: &str| started.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
        message.response_id = word("id").map(str::to_owned);
        message.response_model = word("model").filter(|model| *model != message.model).map(str::to_owned);
        self.usage(started.get("usage"));
    }

    /// Counts overwrite those before only where they are given.
    fn usage(&mut self, counts: Option<&Value>) {
        let Some(counts) = counts else { return };
        let usage = &mut self.growing.message.usage;
        for (field, key) in [
            (&mut usage.input, "input_tokens"),
            (&mut usage.output, "output_tokens"),
            (&mut usage.cache_read, "cache_read_input_tokens"),
            (&mut usage.cache_write, "cache_creation_input_tokens"),
        ] {
            if let Some(count) = usage::count(counts.get(key)) {
                *field = count;
            }
        }
    }

    fn block_index(&self, event: &Value) -> Option<usize> {
        self.blocks.get(&event.get("index")?.as_u64()?).copied()
    }

    fn block_start(&mut self, event: &mut Value, steps: &mut VecDeque<Event>) {
        let Some(server_index) = event.get("index").and_then(Value::as_u64) else { return };
        let Some(block) = event.get_mut("content_block") else { return };
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
        let index = match kind.as_str() {
            "text" => {
                let index = self.growing.begin_text(steps);
                self.growing.text(index, take_text(block, "text"), steps);
                index
            }
            "thinking" => {
                let index = self.growing.begin_thinking(ThinkingContent::default(), steps);
                self.growing.thinking(index, take_text(block, "thinking"), steps);
                let signature = take_text(block, "signature");
                if !signature.is_empty() {
                    self.growing.sign(index, &signature);
                }
                index
            }
            "redacted_thinking" => {
                let content = ThinkingContent {
                    thinking: REDACTED.to_owned(),
                    thinking_signature: Some(take_text(block, "data")),
                    redacted: Some(true),
                };
                self.growing.begin_thinking(content, steps)
            }
            "tool_use" => {
                let index = self.growing.begin_call(&take_text(block, "id"), &take_text(block, "name"), steps);
                if let Some(input) = block.get("input").filter(|input| input.as_object().is_some_and(|input| !input.is_empty())) {
                    self.whole_inputs.insert(index, input.to_string());
                }
                index
            }
            _ => return,
        };
        self.blocks.insert(server_index, index);
    }

    fn block_delta(&mut self, event: &mut Value, steps: &mut VecDeque<Event>) {
        let Some(index) = self.block_index(event) else { return };
        let Some(delta) = event.get_mut("delta") else { return };
        match delta.get("type").and_then(Value::as_str).unwrap_or("") {
            "text_delta" => self.growing.text(index, take_text(delta, "text"), steps),
            "thinking_delta" => self.growing.thinking(index, take_text(delta, "thinking"), steps),
            "input_json_delta" => self.growing.arguments(index, take_text(delta, "partial_json"), steps),
            "signature_delta" => self.growing.sign(index, &take_text(delta, "signature")),
            _ => {}
        }
    }

    fn end(&mut self, index: usize, steps: &mut VecDeque<Event>) {
        self.whole_input(index, steps);
        self.growing.end(index, steps);
    }

    /// Servers that do not stream arguments give them with the start of the call.
    fn whole_input(&mut self, index: usize, steps: &mut VecDeque<Event>) {
        if let Some(input) = self.whole_inputs.remove(&index)
            && self.growing.has_no_arguments(index)
        {
            self.growing.arguments(index, input, steps);
        }
    }

    /// The same for all calls that did not end.
    fn whole_inputs(&mut self, steps: &mut VecDeque<Event>) {
        let mut indexes: Vec<usize> = self.whole_inputs.keys().copied().collect();
        indexes.sort_unstable();
        for index in indexes {
            self.whole_input(index, steps);
        }
    }

    fn message_delta(&mut self, event: &Value) {
        self.usage(event.get("usage"));
        let Some(delta) = event.get("delta") else { return };
        let Some(reason) = delta.get("stop_reason").and_then(Value::as_str) else { return };
        self.refusal = None;
        self.growing.message.stop_reason = match reason {
            "end_turn" | "pause_turn" | "stop_sequence" => StopReason::Stop,
            "max_tokens" => StopReason::Length,
            "tool_use" => StopReason::ToolUse,
            "refusal" => {
                let explanation = ["/stop_details/explanation", "/explanation"]
                    .iter()
                    .find_map(|path| delta.pointer(path).or_else(|| event.pointer(path)))
                    .and_then(Value::as_str)
                    .filter(|text| !text.trim().is_empty());
                self.refusal = Some(explanation.unwrap_or("The model refused to complete the request").to_owned());
                StopReason::Error
            }
            "sensitive" => {
                self.refusal = Some("The provider flagged the answer as sensitive".to_owned());
                StopReason::Error
            }
            other => {
                self.refusal = Some(format!("Unhandled stop reason: {other}"));
                StopReason::Error
            }
        };
    }
}

/// Moves a string out of an event; empty if it is not there.
fn take_text(value: &mut Value, key: &str) -> String {
    match value.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}
