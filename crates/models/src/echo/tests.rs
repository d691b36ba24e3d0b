//! What the demonstration says, step by step.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantMessage, StopReason};

use super::{Advance, DEMONSTRATION, Echo};
use crate::registry::demo_model;
use crate::request::ModelRequest;
use crate::testing::{history, request};

struct Said {
    deltas: Vec<String>,
    waits: Vec<u128>,
    steps: Vec<Event>,
    message: AssistantMessage,
}

fn run(request: &ModelRequest) -> Said {
    let mut echo = Echo::new(request, 5);
    let (mut steps, mut all, mut waits) = (VecDeque::new(), Vec::new(), Vec::new());
    let mut waited = false;
    loop {
        let advance = echo.advance(waited, &mut steps);
        waited = false;
        assert!(steps.len() <= 5, "steps are made one delta at a time");
        all.extend(steps.drain(..));
        match advance {
            Advance::Stepped => {}
            Advance::Wait(pause) => {
                waits.push(pause.as_millis());
                waited = true;
            }
            Advance::Done => break,
        }
    }
    let message = echo.finish(&mut steps);
    all.extend(steps);
    let deltas = all
        .iter()
        .filter_map(|step| match step {
            Event::TextDelta { delta, .. } | Event::ThinkingDelta { delta, .. } | Event::ToolcallDelta { delta, .. } => Some(delta.clone()),
            _ => None,
        })
        .collect();
    Said { deltas, waits, steps: all, message }
}

fn asked(prompt: &str) -> ModelRequest {
    request(demo_model(), json!([{"role": "user", "content": prompt}]))
}

fn content(said: &Said) -> Value {
    serde_json::to_value(&said.message.content).unwrap()
}

#[test]
fn prompts_come_back_word_by_word_exactly() {
    for prompt in
        ["hello  big\tworld", " lead", "trail ", "two\nlines\n\nand a gap", "!", "!unknown x", "!sleep soon", "a !think b", "日本 語😀"]
    {
        let said = run(&asked(prompt));
        assert_eq!(said.deltas.concat(), prompt);
        assert_eq!(content(&said), json!([{"type": "text", "text": prompt}]));
        assert_eq!(said.message.stop_reason, StopReason::Stop);
    }
    assert_eq!(run(&asked("hello  big world")).deltas, ["hello  ", "big ", "world"]);
    let said = run(&asked("12345678"));
    // "Be brief." and the prompt are 17 characters, the answer is 8.
    assert_eq!((said.message.usage.input, said.message.usage.output, said.message.usage.total_tokens), (5, 2, 7));
}

#[test]
fn directives_are_obeyed_line_by_line() {
    let said = run(&asked("hi\n!think deep thoughts\n!sleep 20\nnow slow\n!sleep 0\n!repeat 3 ab\nend"));
    assert_eq!(said.deltas, ["hi\n", "deep ", "thoughts", "now ", "slow\n", "ab", "ab", "ab", "end"]);
    assert_eq!(said.waits, [20, 20]);
    assert_eq!(
        content(&said),
        json!([{"type": "text", "text": "hi\n"}, {"type": "thinking", "thinking": "deep thoughts"}, {"type": "text", "text": "now slow\nabababend"}])
    );
    let said = run(&asked("!sleep 999999999\nx"));
    assert_eq!(said.waits, [Duration::from_secs(60).as_millis()]);
}

#[test]
fn failures_keep_what_was_said() {
    let said = run(&asked("some words\n!fail 529\nnever"));
    assert_eq!(content(&said), json!([{"type": "text", "text": "some words\n"}]));
    assert_eq!(said.message.stop_reason, StopReason::Error);
    assert_eq!(said.message.error_message.as_deref(), Some("529 The prompt asked echo to fail"));
}

#[test]
fn many_repetitions_are_made_one_at_a_time() {
    let said = run(&asked("!repeat 50000 x"));
    assert_eq!(said.deltas.len(), 50_000);
    assert_eq!(content(&said)[0]["text"].as_str().unwrap().len(), 50_000);
}

#[test]
fn tools_are_called_and_their_results_reported_only_if_chosen_by_name() {
    let prompt = "first\n!tool read {\"path\": \"a\n!tool ls\nlast";
    let said = run(&asked(prompt));
    assert_eq!(
        content(&said),
        json!([
            {"type": "text", "text": "first\nlast"},
            {"type": "toolCall", "id": "echo_5_1", "name": "read", "arguments": {"path": "a"}},
            {"type": "toolCall", "id": "echo_5_2", "name": "ls", "arguments": {}}
        ])
    );
    assert_eq!(said.message.stop_reason, StopReason::ToolUse);
    assert!(matches!(said.steps.last(), Some(Event::ToolcallEnd { content_index: 2, .. })));

    let mut report = asked(prompt);
    report.messages.extend(history(json!([
        {"role": "assistant", "content": [], "stopReason": "toolUse"},
        {"role": "toolResult", "toolCallId": "echo_5_1", "content": [{"type": "text", "text": "!fail 500\n"}]},
        {"role": "toolResult", "toolCallId": "echo_5_2", "toolName": "ls", "isError": true, "content": [{"type": "text", "text": "no such folder"}]}
    ])));
    assert_eq!(run(&report).message.content.len(), 1);
    assert_eq!(run(&report).deltas.concat(), "read returned: !fail 500\nls failed: no such folder");

    let mut fallback = asked("!tool read {}");
    fallback.chosen_by_name = false;
    assert_eq!(run(&fallback).deltas.concat(), format!("{DEMONSTRATION}!tool read {{}}"));
    let mut fallback = asked("!think hm\nx");
    fallback.chosen_by_name = false;
    assert_eq!(content(&run(&fallback))[1], json!({"type": "thinking", "thinking": "hm"}));
}

#[test]
fn an_empty_history_is_answered_too() {
    let mut empty = asked("");
    assert_eq!(run(&empty).deltas, Vec::<String>::new());
    empty.messages.clear();
    assert_eq!(run(&empty).deltas.concat(), "(nothing to repeat)");
}

#[test]
fn an_answer_ends_at_its_limit() {
    let limited = |prompt: &str, max_tokens| run(&ModelRequest { max_tokens: Some(max_tokens), ..asked(prompt) });
    let cut = limited("one two three four", 2);
    assert_eq!((cut.deltas, cut.message.stop_reason), (vec!["one ".to_owned(), "two ".into()], StopReason::Length));
    let whole = limited("one two", 2);
    assert_eq!((whole.deltas.concat().as_str(), whole.message.stop_reason), ("one two", StopReason::Stop));
    // A character of two units does not go into one.
    assert_eq!(limited("abc\u{1f600}", 1).deltas, ["abc"]);
    assert_eq!(limited("!repeat 1000000 x", 1).deltas.len(), 4);
}

#[test]
fn a_conversation_is_said_and_not_obeyed() {
    let prompt = "<conversation>\n!fail 500\n!sleep 9000\n!tool read {}\n</conversation>";
    let said = run(&asked(prompt));
    assert_eq!((said.deltas.concat().as_str(), said.message.stop_reason, said.waits.len()), (prompt, StopReason::Stop, 0));
}
