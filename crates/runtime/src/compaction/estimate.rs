//! How many tokens a message takes, without a tokeniser: four characters each, counted as JavaScript counts them.
//!
//! The numbers are those of wolli 0.0.2, so that both cut a history at the same place. Pure.

use wolli_protocol::message::{AssistantBlock, Message, UserBlock, UserContent};
use wolli_protocol::text::utf16_len;

use crate::session::ContextMessage;

/// Characters of one token.
pub(super) const CHARACTERS_PER_TOKEN: usize = 4;

/// Characters that an image counts for.
const IMAGE_CHARACTERS: usize = 4800;

/// Tokens of a text.
pub(crate) fn text_tokens(text: &str) -> u64 {
    tokens(utf16_len(text))
}

/// Tokens of one message.
pub(crate) fn message_tokens(message: &Message) -> u64 {
    tokens(match message {
        Message::User(user) => content(&user.content),
        Message::Custom(custom) => content(&custom.content),
        Message::ToolResult(result) => result.content.iter().map(block).sum(),
        Message::Assistant(answer) => answer.content.iter().map(said).sum(),
        Message::BashExecution(run) => utf16_len(&run.command) + utf16_len(&run.output),
        Message::BranchSummary(branch) => utf16_len(&branch.summary),
        Message::CompactionSummary(compaction) => utf16_len(&compaction.summary),
    })
}

/// Tokens of everything that the model sees of a session.
pub(crate) fn context_tokens(context: &[ContextMessage]) -> u64 {
    context.iter().map(|item| message_tokens(&item.message)).sum()
}

fn tokens(characters: usize) -> u64 {
    characters.div_ceil(CHARACTERS_PER_TOKEN) as u64
}

fn content(content: &UserContent) -> usize {
    match content {
        UserContent::Text(text) => utf16_len(text),
        UserContent::Blocks(blocks) => blocks.iter().map(block).sum(),
    }
}

fn block(block: &UserBlock) -> usize {
    match block {
        UserBlock::Text(text) => utf16_len(&text.text),
        UserBlock::Image(_) => IMAGE_CHARACTERS,
    }
}

fn said(block: &AssistantBlock) -> usize {
    match block {
        AssistantBlock::Text(text) => utf16_len(&text.text),
        AssistantBlock::Thinking(thinking) => utf16_len(&thinking.thinking),
        AssistantBlock::ToolCall(call) => utf16_len(&call.name) + serde_json::to_string(&call.arguments).map_or(0, |text| utf16_len(&text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wolli_protocol::message::Message;

    use super::message_tokens;

    #[test]
    fn every_role_is_counted() {
        for (message, expected) in [
            (json!({"role": "user", "content": "", "timestamp": 1}), 0),
            (json!({"role": "user", "content": "abcde", "timestamp": 1}), 2),
            // Two UTF-16 units each.
            (json!({"role": "user", "content": "😀😀", "timestamp": 1}), 1),
            (
                json!({"role": "user", "content": [{"type": "text", "text": "abcd"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}], "timestamp": 1}),
                1201,
            ),
            (
                json!({"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "1234"}, {"type": "text", "text": "1234"},
                    {"type": "toolCall", "id": "not counted", "name": "read", "arguments": {"path": "a.txt"}}],
                    "api": "x", "provider": "p", "model": "m", "stopReason": "toolUse", "timestamp": 1,
                    "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}}),
                // 4 + 4 + 4 + the 16 characters of {"path":"a.txt"}
                7,
            ),
            (
                json!({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [{"type": "text", "text": "123456789"}], "isError": false, "timestamp": 1}),
                3,
            ),
            (json!({"role": "bashExecution", "command": "ls", "output": "abc", "cancelled": false, "truncated": false, "timestamp": 1}), 2),
            (json!({"role": "custom", "customType": "x", "content": "abcd", "display": true, "timestamp": 1}), 1),
            (json!({"role": "branchSummary", "summary": "abcde", "fromId": "root", "timestamp": 1}), 2),
            (json!({"role": "compactionSummary", "summary": "abcd", "tokensBefore": 9, "timestamp": 1}), 1),
        ] {
            let parsed: Message = serde_json::from_value(message.clone()).unwrap();
            assert_eq!(message_tokens(&parsed), expected, "{message}");
        }
    }
}
