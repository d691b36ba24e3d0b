//! A conversation as one Markdown document. Pure.
//!
//! Invariants: what was said stands in it whole and in order; no output of a tool ends the fence around it; no control character but
//! line ends and tabs.

use std::fmt::Write as _;

use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, UserBlock, UserContent};
use wolli_protocol::state::SessionSummary;
use wolli_protocol::time::iso_from_millis;

use super::one_line;
use crate::talk::render::plain;

/// The whole document.
pub(super) fn document(agent: &str, session: &SessionSummary, entries: &[Entry]) -> String {
    let title = session.session_name.as_deref().map(one_line).filter(|name| !name.trim().is_empty());
    let mut text = format!("# {}\n\n", title.unwrap_or_else(|| format!("Session of {agent}")));
    let _ = write!(text, "- agent: {agent}\n- session: `{}`\n", session.session_id);
    if let Some(created) = &session.created_at {
        let _ = writeln!(text, "- created: {created}");
    }
    for (tag, value) in &session.tags {
        let _ = writeln!(text, "- {}: {}", one_line(tag), one_line(value));
    }
    for entry in entries {
        text.push_str(&plain(&part(entry)));
    }
    text
}

/// What an entry adds.
fn part(entry: &Entry) -> String {
    match &entry.body {
        EntryBody::Message { message, .. } => said(message),
        EntryBody::CustomMessage { display: true, .. } => super::message(entry).as_ref().map(said).unwrap_or_default(),
        EntryBody::ModelChange { provider, model_id } => format!("\n*Model: {provider}/{model_id}*\n"),
        EntryBody::Compaction { summary, tokens_before, .. } => {
            format!("\n## Summary of what was said before · {tokens_before} tokens\n\n{}\n", summary.trim_end())
        }
        EntryBody::BranchSummary { summary, .. } => format!("\n## Summary of a branch that was left\n\n{}\n", summary.trim_end()),
        _ => String::new(),
    }
}

fn said(message: &Message) -> String {
    match message {
        Message::User(user) => section("User", user.timestamp, &content(&user.content)),
        Message::Assistant(answer) => section(&speaker(answer), answer.timestamp, &answered(answer)),
        Message::ToolResult(result) => {
            let verdict = if result.is_error { "failed" } else { "returned" };
            let text = content(&UserContent::Blocks(result.content.clone()));
            format!("\n**{}** {verdict}:\n\n{}", one_line(&result.tool_name), fenced("text", &text))
        }
        Message::BashExecution(run) => {
            let status = run.exit_code.map(|code| format!(" (status {code})")).unwrap_or_default();
            section(&format!("Command{status}"), run.timestamp, &format!("{}{}", fenced("sh", &run.command), fenced("text", &run.output)))
        }
        Message::Custom(custom) => section(&one_line(&custom.custom_type), custom.timestamp, &content(&custom.content)),
        Message::BranchSummary(summary) => section("Summary of a branch that was left", summary.timestamp, &summary.summary),
        Message::CompactionSummary(summary) => section("Summary of what was said before", summary.timestamp, &summary.summary),
    }
}

fn section(title: &str, timestamp: i64, text: &str) -> String {
    let text = text.trim_matches('\n');
    let body = if text.is_empty() { String::new() } else { format!("\n{text}\n") };
    format!("\n## {title} · {}\n{body}", iso_from_millis(timestamp))
}

fn speaker(answer: &AssistantMessage) -> String {
    if answer.provider.is_empty() { "Agent".to_owned() } else { format!("Agent ({}/{})", answer.provider, answer.model) }
}

fn answered(answer: &AssistantMessage) -> String {
    let mut text = String::new();
    for block in &answer.content {
        match block {
            AssistantBlock::Text(block) => {
                let _ = write!(text, "{}\n\n", block.text.trim_end());
            }
            AssistantBlock::Thinking(block) if !block.thinking.trim().is_empty() => {
                let quoted: String = block.thinking.trim_end().lines().map(|line| format!("> {line}\n")).collect();
                let _ = writeln!(text, "{quoted}");
            }
            AssistantBlock::Thinking(_) => {}
            AssistantBlock::ToolCall(call) => {
                let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
                let _ = write!(text, "Calls **{}**:\n\n{}\n", one_line(&call.name), fenced("json", &arguments));
            }
        }
    }
    let failure = match answer.stop_reason {
        StopReason::Error => Some(answer.error_message.as_deref().unwrap_or("Request error")),
        StopReason::Aborted => Some(answer.error_message.as_deref().unwrap_or("Request aborted")),
        StopReason::Length => Some("cut off: the answer reached the model's limit"),
        StopReason::Stop | StopReason::ToolUse => None,
    };
    if let Some(failure) = failure {
        let _ = writeln!(text, "*{}*", one_line(failure));
    }
    text
}

fn content(content: &UserContent) -> String {
    let blocks = content.to_blocks();
    let shown = blocks.iter().map(|block| match block {
        UserBlock::Text(text) => text.text.clone(),
        UserBlock::Image(image) => format!("[image, {}]", one_line(&image.mime_type)),
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

/// A block that shows the text as it is: its fence is longer than any row of backticks in it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_a_document() {
        let usage = serde_json::json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
        let answer = |content: serde_json::Value, stop: &str| {
            serde_json::json!({"type": "message", "message": {"role": "assistant", "content": content, "api": "a", "provider": "p", "model": "m",
                "usage": usage, "stopReason": stop, "timestamp": 0, "errorMessage": if stop == "error" { Some("500 broken") } else { None }}})
        };
        let entries: Vec<Entry> = [
            serde_json::json!({"type": "model_change", "provider": "p", "modelId": "m"}),
            serde_json::json!({"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "Look\u{1b}[2J"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"}], "timestamp": 0}}),
            answer(
                serde_json::json!([{"type": "thinking", "thinking": "one\ntwo"}, {"type": "text", "text": "I *look*.\n"},
                {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}]),
                "toolUse",
            ),
            serde_json::json!({"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "toolName": "read",
                "content": [{"type": "text", "text": "```sh\nls\n```\n"}], "isError": false, "timestamp": 0}}),
            answer(serde_json::json!([]), "error"),
            serde_json::json!({"type": "compaction", "summary": "All was said.", "firstKeptEntryId": "e", "tokensBefore": 12}),
            serde_json::json!({"type": "later_kind", "x": 1}),
        ]
        .into_iter()
        .enumerate()
        .map(|(n, mut entry)| {
            entry["id"] = format!("e{n}").into();
            entry["parentId"] = serde_json::Value::Null;
            entry["timestamp"] = "2026-03-01T09:00:00.000Z".into();
            serde_json::from_value(entry).unwrap()
        })
        .collect();
        let session: SessionSummary = serde_json::from_value(serde_json::json!({"sessionId": "01a2", "sessionName": "A\nname",
            "createdAt": "2026-03-01T09:00:00.000Z", "isStreaming": false, "live": false, "tags": {"chat": "7"}}))
        .unwrap();
        let expected = "\
# A name

- agent: scribe
- session: `01a2`
- created: 2026-03-01T09:00:00.000Z
- chat: 7

*Model: p/m*

## User · 1970-01-01T00:00:00.000Z

Look[2J

[image, image/png]

## Agent (p/m) · 1970-01-01T00:00:00.000Z

> one
> two

I *look*.

Calls **read**:

```json
{
  \"path\": \"a\"
}
```

**read** returned:

````text
```sh
ls
```
````

## Agent (p/m) · 1970-01-01T00:00:00.000Z

*500 broken*

## Summary of what was said before · 12 tokens

All was said.
";
        assert_eq!(document("scribe", &session, &entries), expected);
    }

    #[test]
    fn nothing_ends_its_fence() {
        for text in ["", "`", "``", "```", "````x`````", "~~~\n```\n"] {
            let fenced = fenced("text", text);
            let fence = fenced.split("text").next().unwrap();
            assert!(fence.len() >= 3 && !text.contains(fence), "{text:?}: {fenced:?}");
        }
    }
}
