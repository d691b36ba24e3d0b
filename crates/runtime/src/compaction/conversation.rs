//! A part of a conversation as text that a model can summarise but will not continue. Pure.

use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, UserBlock};
use wolli_protocol::text::{byte_prefix, byte_suffix, utf16_len, utf16_prefix};

/// What is kept of a tool's result, in UTF-16 units: a summary needs to know what came out, not all of it.
const TOOL_RESULT_CHARACTERS: usize = 2000;

/// The messages as labelled paragraphs, a blank line between them.
pub(super) fn serialise<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let mut text = String::new();
    for message in messages {
        match message {
            Message::Assistant(answer) => add_answer(&mut text, answer),
            Message::ToolResult(result) => {
                let content: Vec<&str> = result.content.iter().map(block_text).collect();
                add(&mut text, "Tool result", &shortened(&content.concat()));
            }
            Message::User(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => add(&mut text, "User", &wolli_models::spoken_text(message)),
        }
    }
    text
}

fn add(text: &mut String, label: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.extend(["[", label, "]: ", content]);
}

fn block_text(block: &UserBlock) -> &str {
    match block {
        UserBlock::Text(text) => &text.text,
        UserBlock::Image(_) => "(image)",
    }
}

fn add_answer(text: &mut String, answer: &AssistantMessage) {
    let mut thinking = Vec::new();
    let mut said = Vec::new();
    for block in &answer.content {
        match block {
            AssistantBlock::Thinking(block) if !block.thinking.is_empty() => thinking.push(block.thinking.as_str()),
            AssistantBlock::Text(block) if !block.text.is_empty() => said.push(block.text.as_str()),
            AssistantBlock::Thinking(_) | AssistantBlock::Text(_) | AssistantBlock::ToolCall(_) => {}
        }
    }
    add(text, "Assistant thinking", &thinking.join("\n"));
    add(text, "Assistant", &said.join("\n"));
    let calls: Vec<String> = answer
        .tool_calls()
        .map(|call| {
            let arguments: Vec<String> = call.arguments.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{}({})", call.name, arguments.join(", "))
        })
        .collect();
    add(text, "Assistant tool calls", &calls.join("; "));
}

fn shortened(result: &str) -> String {
    let kept = utf16_prefix(result, TOOL_RESULT_CHARACTERS);
    if kept.len() == result.len() {
        return result.to_owned();
    }
    format!("{kept}\n\n[... {} more characters truncated]", utf16_len(&result[kept.len()..]))
}

/// `text` in at most about `limit` bytes: its beginning, where a task is set, and more of its end, where it stands now.
pub(super) fn fit(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = byte_prefix(text, limit / 4);
    let tail = byte_suffix(text, limit - limit / 4);
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n\n[... {left_out} characters of the conversation left out ...]\n\n{tail}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use wolli_protocol::message::Message;

    use super::{fit, serialise};

    fn messages(values: serde_json::Value) -> Vec<Message> {
        serde_json::from_value(values).unwrap()
    }

    fn result(text: &str) -> serde_json::Value {
        json!([{"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 1}])
    }

    #[test]
    fn each_role_has_its_label() {
        let usage = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
        let conversation = messages(json!([
            {"role": "user", "content": "fix it\n!fail 500", "timestamp": 1},
            {"role": "assistant", "api": "x", "provider": "p", "model": "m", "stopReason": "toolUse", "timestamp": 1, "usage": usage,
             "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}, {"type": "text", "text": "And read."},
                {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "a\"b", "offset": 3}},
                {"type": "toolCall", "id": "2", "name": "ls", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "1", "toolName": "read", "isError": false, "timestamp": 1,
             "content": [{"type": "text", "text": "one"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
            {"role": "toolResult", "toolCallId": "2", "toolName": "ls", "isError": false, "timestamp": 1, "content": []},
            {"role": "bashExecution", "command": "ls", "output": "x\n", "exitCode": 1, "cancelled": false, "truncated": false, "timestamp": 1},
            {"role": "bashExecution", "command": "secret", "output": "x\n", "cancelled": false, "truncated": false, "timestamp": 1, "excludeFromContext": true},
            {"role": "custom", "customType": "note", "content": "door opened", "display": true, "timestamp": 1},
            {"role": "user", "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}], "timestamp": 1},
        ]));
        assert_eq!(
            serialise(&conversation),
            "[User]: fix it\n!fail 500\n\n[Assistant thinking]: hm\n\n[Assistant]: I look.\nAnd read.\n\n\
             [Assistant tool calls]: read(path=\"a\\\"b\", offset=3); ls()\n\n[Tool result]: one(image)\n\n\
             [User]: Ran `ls`\n```\nx\n```\n\nCommand exited with code 1\n\n[User]: door opened\n\n\
             [User]: (image omitted: model does not support images)"
        );
    }

    #[test]
    fn tool_results_are_cut_at_2000_characters() {
        for (length, note) in [(1999, None), (2000, None), (2001, Some(1)), (2500, Some(500))] {
            let text = serialise(&messages(result(&"x".repeat(length))));
            let expected = match note {
                None => format!("[Tool result]: {}", "x".repeat(length)),
                Some(more) => format!("[Tool result]: {}\n\n[... {more} more characters truncated]", "x".repeat(2000)),
            };
            assert_eq!(text, expected);
        }
        // A character of two units is not halved.
        let text = serialise(&messages(result(&format!("{}😀", "x".repeat(1999)))));
        assert!(text.ends_with("[... 2 more characters truncated]"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn what_is_fitted_keeps_both_ends(text in "\\PC{0,400}", limit in 0_usize..300) {
            let fitted = fit(&text, limit);
            if text.len() <= limit {
                prop_assert_eq!(fitted, text);
            } else {
                let (head, tail) = fitted.split_once("\n\n[... ").unwrap();
                let tail = tail.split_once(" left out ...]\n\n").unwrap().1;
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert!(head.len() + tail.len() <= limit);
                prop_assert!(head.len() + tail.len() + 6 >= limit);
            }
        }
    }
}
