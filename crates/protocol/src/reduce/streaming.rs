//! The answer that is being produced: blocks that grow by deltas.
//!
//! Invariant: a delta costs its own length; arguments of a tool call are parsed when somebody looks, not per fragment.

use std::collections::BTreeMap;

use crate::event::AssistantMessageEvent as Step;
use crate::ids::EntryId;
use crate::message::{AssistantBlock, AssistantMessage, JsonObject, TextContent, ThinkingContent, ToolCall};
use crate::partial_json;

/// An answer between its `message_start` and its `message_end`.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamingMessage {
    /// The entry that the message will become.
    pub entry_id: Option<EntryId>,
    /// All but the content.
    head: AssistantMessage,
    pub blocks: Vec<StreamingBlock>,
}

/// One block of it.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamingBlock {
    /// Text or thinking, and tool calls whose arguments are complete.
    Block(AssistantBlock),
    /// A call whose arguments still come.
    OpenToolCall {
        /// `arguments` is what a snapshot showed of them; it counts while `text` is unknown.
        call: ToolCall,
        /// Their JSON text so far; unknown to a reader that attached in the middle and was not told.
        text: Option<String>,
    },
}

impl StreamingBlock {
    /// The block as far as it came. Parses the arguments of an open tool call.
    #[must_use]
    pub fn to_block(&self) -> AssistantBlock {
        match self {
            Self::Block(block) => block.clone(),
            Self::OpenToolCall { call, text: None } => AssistantBlock::ToolCall(call.clone()),
            Self::OpenToolCall { call, text: Some(text) } => {
                AssistantBlock::ToolCall(ToolCall { arguments: partial_json::parse(text), ..call.clone() })
            }
        }
    }
}

impl StreamingMessage {
    /// An answer whose `message_start` was seen.
    #[must_use]
    pub fn begin(entry_id: Option<EntryId>, message: &AssistantMessage) -> Self {
        Self::from_snapshot(entry_id, message, &BTreeMap::new())
    }

    /// `argument_texts` names the tool calls that are still open.
    pub(super) fn from_snapshot(entry_id: Option<EntryId>, message: &AssistantMessage, argument_texts: &BTreeMap<String, String>) -> Self {
        let block = |(index, block): (usize, &AssistantBlock)| match (block, argument_texts.get(&index.to_string())) {
            (AssistantBlock::ToolCall(call), Some(text)) => open_call(call.id.clone(), call.name.clone(), Some(text.clone())),
            _ => StreamingBlock::Block(block.clone()),
        };
        let blocks = message.content.iter().enumerate().map(block).collect();
        Self { entry_id, head: AssistantMessage { content: Vec::new(), ..message.clone() }, blocks }
    }

    /// The message as far as it came. Costs its whole length.
    #[must_use]
    pub fn message(&self) -> AssistantMessage {
        AssistantMessage { content: self.blocks.iter().map(StreamingBlock::to_block).collect(), ..self.head.clone() }
    }

    /// For each open tool call, by content index, the text of its arguments so far.
    #[must_use]
    pub fn argument_texts(&self) -> BTreeMap<String, String> {
        let open = self.blocks.iter().enumerate().filter_map(|(index, block)| match block {
            StreamingBlock::OpenToolCall { text: Some(text), .. } => Some((index.to_string(), text.clone())),
            _ => None,
        });
        open.collect()
    }

    /// Takes in one step. In view `full` the message beside it brings what no step tells (usage, stop reason).
    pub fn apply(&mut self, step: &Step, message: Option<&AssistantMessage>) {
        if let Some(message) = message {
            self.head.usage = message.usage;
            self.head.stop_reason = message.stop_reason;
        }
        match step {
            Step::TextStart { content_index, .. } => self.set(*content_index, text_block(String::new())),
            Step::ThinkingStart { content_index, .. } => self.set(*content_index, thinking_block(String::new())),
            Step::ToolcallStart { content_index, tool_call_id, tool_name, partial } => {
                let shown = partial.as_ref().or(message).and_then(|message| message.content.get(*content_index));
                let (shown_id, shown_name) = match shown {
                    Some(AssistantBlock::ToolCall(call)) => (call.id.clone(), call.name.clone()),
                    _ => (String::new(), String::new()),
                };
                let id = tool_call_id.clone().unwrap_or(shown_id);
                self.set(*content_index, open_call(id, tool_name.clone().unwrap_or(shown_name), Some(String::new())));
            }
            Step::TextDelta { content_index, delta, .. } => match self.block(*content_index, || text_block(String::new())) {
                StreamingBlock::Block(AssistantBlock::Text(block)) => block.text.push_str(delta),
                other => *other = text_block(delta.clone()),
            },
            Step::ThinkingDelta { content_index, delta, .. } => match self.block(*content_index, || thinking_block(String::new())) {
                StreamingBlock::Block(AssistantBlock::Thinking(block)) => block.thinking.push_str(delta),
                other => *other = thinking_block(delta.clone()),
            },
            Step::ToolcallDelta { content_index, delta, .. } => {
                let unknown = || open_call(String::new(), String::new(), Some(String::new()));
                match self.block(*content_index, unknown) {
                    StreamingBlock::OpenToolCall { text: Some(text), .. } => text.push_str(delta),
                    StreamingBlock::OpenToolCall { call, text: None } => show_arguments(call, message, *content_index),
                    // A snapshot showed the call without the text of its arguments: it is open, its start unknown.
                    StreamingBlock::Block(AssistantBlock::ToolCall(call)) => {
                        show_arguments(call, message, *content_index);
                        let call = call.clone();
                        self.set(*content_index, StreamingBlock::OpenToolCall { call, text: None });
                    }
                    other => *other = open_call(String::new(), String::new(), Some(delta.clone())),
                }
            }
            Step::TextEnd { content_index, content, .. } => match self.block(*content_index, || text_block(String::new())) {
                StreamingBlock::Block(AssistantBlock::Text(block)) => block.text.clone_from(content),
                other => *other = text_block(content.clone()),
            },
            Step::ThinkingEnd { content_index, content, .. } => match self.block(*content_index, || thinking_block(String::new())) {
                StreamingBlock::Block(AssistantBlock::Thinking(block)) => block.thinking.clone_from(content),
                other => *other = thinking_block(content.clone()),
            },
            Step::ToolcallEnd { content_index, tool_call, .. } => {
                self.set(*content_index, StreamingBlock::Block(AssistantBlock::ToolCall(tool_call.clone())));
            }
        }
    }

    /// The block at `index`; one that is missing is made, with empty text in the places before it.
    fn block(&mut self, index: usize, make: impl FnOnce() -> StreamingBlock) -> &mut StreamingBlock {
        if index >= self.blocks.len() {
            self.set(index, make());
        }
        let last = self.blocks.len().saturating_sub(1);
        &mut self.blocks[index.min(last)]
    }

    fn set(&mut self, index: usize, block: StreamingBlock) {
        // No provider sends this many blocks; a senseless index must not take memory.
        let index = index.min(MAX_BLOCKS);
        while self.blocks.len() <= index {
            self.blocks.push(text_block(String::new()));
        }
        self.blocks[index] = block;
    }
}

/// Blocks that one message may have here.
const MAX_BLOCKS: usize = 10_000;

const fn text_block(text: String) -> StreamingBlock {
    StreamingBlock::Block(AssistantBlock::Text(TextContent { text, text_signature: None }))
}

const fn thinking_block(thinking: String) -> StreamingBlock {
    StreamingBlock::Block(AssistantBlock::Thinking(ThinkingContent { thinking, thinking_signature: None, redacted: None }))
}

fn open_call(id: String, name: String, text: Option<String>) -> StreamingBlock {
    StreamingBlock::OpenToolCall { call: ToolCall { id, name, arguments: JsonObject::new(), thought_signature: None }, text }
}

/// Takes the arguments from the whole message beside a step of view `full`.
fn show_arguments(call: &mut ToolCall, message: Option<&AssistantMessage>, index: usize) {
    if let Some(AssistantBlock::ToolCall(shown)) = message.and_then(|message| message.content.get(index)) {
        call.arguments.clone_from(&shown.arguments);
    }
}
