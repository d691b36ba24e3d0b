//! Which tool result answers which tool call, and ids that are unique over a whole request.
//!
//! A call takes the first result of its id that follows it before another call of the same id (servers that count from
//! `call_0` in every answer repeat ids). Results that no call takes are orphans and are not sent.

use std::collections::{HashMap, HashSet, VecDeque};

use wolli_protocol::message::{AssistantBlock, Message};

/// Position of a call: message, then block.
pub(super) type CallPosition = (usize, usize);

/// For each answered call the position of its result.
pub(super) fn answers(messages: &[&Message]) -> HashMap<CallPosition, usize> {
    let mut open: HashMap<&str, VecDeque<CallPosition>> = HashMap::new();
    let mut answers = HashMap::new();
    for (position, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(answer) => {
                for (block_index, block) in answer.content.iter().enumerate() {
                    if let AssistantBlock::ToolCall(call) = block {
                        let waiting = open.entry(&call.id).or_default();
                        // Calls of earlier answers got no result. Those of the same answer get theirs in order.
                        waiting.retain(|(asked, _)| *asked == position);
                        waiting.push_back((position, block_index));
                    }
                }
            }
            Message::ToolResult(result) => {
                if let Some(call) = open.get_mut(result.tool_call_id.as_str()).and_then(VecDeque::pop_front) {
                    answers.insert(call, position);
                }
            }
            Message::User(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => {}
        }
    }
    answers
}

/// Hands out call ids, each once.
pub(super) struct CallIds {
    used: HashSet<String>,
    limit: usize,
}

impl CallIds {
    pub(super) fn new(limit: usize) -> Self {
        Self { used: HashSet::new(), limit }
    }

    /// `wanted` if it is free, else with a number behind it. The same history gives the same ids each time, which keeps
    /// the provider's prompt cache valid.
    pub(super) fn assign(&mut self, wanted: String) -> String {
        let wanted = if wanted.is_empty() { "call".to_owned() } else { wanted };
        if self.used.insert(wanted.clone()) {
            return wanted;
        }
        for number in 2_u64.. {
            let suffix = format!("_{number}");
            let room = self.limit.saturating_sub(suffix.len());
            let candidate = format!("{}{suffix}", wolli_protocol::text::byte_prefix(&wanted, room));
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
        wanted
    }
}
