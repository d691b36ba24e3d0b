//! The message of an answer while it grows, block by block.
//!
//! Invariant: the message is the sum of the steps. A delta is appended and moved on, nothing is parsed or copied for it;
//! the arguments of a call are parsed once, when the call ends.

use std::collections::VecDeque;

use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, JsonObject, StopReason, TextContent, ThinkingContent, ToolCall};
use wolli_protocol::partial_json;

use crate::prepare::ToolNames;

/// A growing answer.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) message: AssistantMessage,
    /// One for each block of the message.
    blocks: Vec<Block>,
    names: ToolNames,
}

#[derive(Debug, Default)]
struct Block {
    ended: bool,
    /// The arguments of a call end within a string.
    cut_off: bool,
    /// JSON text of a call's arguments.
    arguments: String,
}

impl Growing {
    pub(crate) fn new(message: AssistantMessage, names: ToolNames) -> Self {
        Self { message, blocks: Vec::new(), names }
    }

    /// Opens a text block; its index.
    pub(crate) fn begin_text(&mut self, steps: &mut VecDeque<Event>) -> usize {
        let content_index = self.push(AssistantBlock::Text(TextContent::default()));
        steps.push_back(Event::TextStart { content_index, partial: None });
        content_index
    }

    /// Opens a thinking block; its index.
    pub(crate) fn begin_thinking(&mut self, content: ThinkingContent, steps: &mut VecDeque<Event>) -> usize {
        let content_index = self.push(AssistantBlock::Thinking(content));
        steps.push_back(Event::ThinkingStart { content_index, partial: None });
        content_index
    }

    /// Opens a call of a tool; its index. The id is made unique within the message, and made up if there is none.
    pub(crate) fn begin_call(&mut self, id: &str, name: &str, steps: &mut VecDeque<Event>) -> usize {
        let id = self.unique_id(id);
        let name = self.names.original(name);
        let call = ToolCall { id: id.clone(), name: name.clone(), arguments: JsonObject::new(), thought_signature: None };
        let content_index = self.push(AssistantBlock::ToolCall(call));
        steps.push_back(Event::ToolcallStart { content_index, tool_call_id: Some(id), tool_name: Some(name), partial: None });
        content_index
    }

    pub(crate) fn text(&mut self, content_index: usize, delta: String, steps: &mut VecDeque<Event>) {
        if let Some(AssistantBlock::Text(text)) = self.message.content.get_mut(content_index)
            && !delta.is_empty()
        {
            text.text.push_str(&delta);
            steps.push_back(Event::TextDelta { content_index, delta, partial: None });
        }
    }

    pub(crate) fn thinking(&mut self, content_index: usize, delta: String, steps: &mut VecDeque<Event>) {
        if let Some(AssistantBlock::Thinking(thinking)) = self.message.content.get_mut(content_index)
            && !delta.is_empty()
        {
            thinking.thinking.push_str(&delta);
            steps.push_back(Event::ThinkingDelta { content_index, delta, partial: None });
        }
    }

    pub(crate) fn arguments(&mut self, content_index: usize, delta: String, steps: &mut VecDeque<Event>) {
        if let Some(block) = self.blocks.get_mut(content_index)
            && !delta.is_empty()
        {
            block.arguments.push_str(&delta);
            steps.push_back(Event::ToolcallDelta { content_index, delta, partial: None });
        }
    }

    /// True if nothing was given to [`arguments`](Self::arguments) for this block.
    pub(crate) fn has_no_arguments(&self, content_index: usize) -> bool {
        self.blocks.get(content_index).is_none_or(|block| block.arguments.is_empty())
    }

    /// Appends to the signature of a thinking block; no step tells of it.
    pub(crate) fn sign(&mut self, content_index: usize, signature: &str) {
        if let Some(AssistantBlock::Thinking(thinking)) = self.message.content.get_mut(content_index) {
            thinking.thinking_signature.get_or_insert_default().push_str(signature);
        }
    }

    /// The call in this block.
    pub(crate) fn call_mut(&mut self, content_index: usize) -> Option<&mut ToolCall> {
        match self.message.content.get_mut(content_index) {
            Some(AssistantBlock::ToolCall(call)) => Some(call),
            _ => None,
        }
    }

    /// Ends a block, unless it has ended.
    pub(crate) fn end(&mut self, content_index: usize, steps: &mut VecDeque<Event>) {
        if let Some(event) = self.settle(content_index) {
            steps.push_back(event);
        }
    }

    /// Ends all open blocks, in their order.
    pub(crate) fn end_all(&mut self, steps: &mut VecDeque<Event>) {
        for content_index in 0..self.blocks.len() {
            self.end(content_index, steps);
        }
    }

    /// The message as a whole answer. One that breaks off within its last call has reached a limit, whatever the provider says of it (servers
    /// that cut an answer off say `stop` as well): half a command is not to be run.
    pub(crate) fn finish(mut self) -> AssistantMessage {
        let whole = matches!(self.message.stop_reason, StopReason::Stop | StopReason::ToolUse);
        if whole && self.blocks.last().is_some_and(|block| block.cut_off) {
            self.message.stop_reason = StopReason::Length;
        }
        self.message
    }

    /// The message as a failed answer, with what had arrived.
    pub(crate) fn fail(mut self, stop_reason: StopReason, text: String) -> AssistantMessage {
        for content_index in 0..self.blocks.len() {
            // Arguments so far, as well as they can be read. Such a call is never run.
            self.settle(content_index);
        }
        self.message.stop_reason = stop_reason;
        self.message.error_message = Some(text);
        self.message
    }

    fn push(&mut self, block: AssistantBlock) -> usize {
        self.message.content.push(block);
        self.blocks.push(Block::default());
        self.blocks.len() - 1
    }

    fn settle(&mut self, content_index: usize) -> Option<Event> {
        let state = self.blocks.get_mut(content_index).filter(|state| !state.ended)?;
        state.ended = true;
        Some(match self.message.content.get_mut(content_index)? {
            AssistantBlock::Text(text) => Event::TextEnd { content_index, content: text.text.clone(), partial: None },
            AssistantBlock::Thinking(thinking) => Event::ThinkingEnd { content_index, content: thinking.thinking.clone(), partial: None },
            AssistantBlock::ToolCall(call) => {
                state.cut_off = partial_json::ends_within_string(&state.arguments);
                call.arguments = partial_json::parse(&std::mem::take(&mut state.arguments));
                Event::ToolcallEnd { content_index, tool_call: call.clone(), partial: None }
            }
        })
    }

    /// Results are matched to calls by id, so two calls of one message must not share one.
    fn unique_id(&self, id: &str) -> String {
        let taken = |id: &str| self.message.tool_calls().any(|call| call.id == id);
        if !id.is_empty() && !taken(id) {
            return id.to_owned();
        }
        // The time keeps made-up ids of different messages apart.
        let base = if id.is_empty() { format!("call_{}", self.message.timestamp) } else { id.to_owned() };
        (self.blocks.len() + 1..).map(|number| format!("{base}_{number}")).find(|id| !taken(id)).unwrap_or(base)
    }
}
