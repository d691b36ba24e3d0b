//! One prompt with one tool call, as a client of wolli 0.0.2 sees it: every frame, byte for byte.

use serde_json::json;
use wolli_testkit::provider::{Answer, Gate, TokenCount};

use crate::support::World;
use crate::wire::{compatible, control, expect_bytes, frames, stream, without_numbers, without_texts};

const ZERO: &str = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

/// An answer as it stands in a frame.
fn assistant(content: &str, usage: &str, stop: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":[{content}],"api":"anthropic-messages","provider":"scripted","model":"scripted-1","usage":{usage},"stopReason":"{stop}","timestamp":TIME}}"#
    )
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn start_or_end(kind: &str, message: &str) -> String {
    format!(r#"{{"type":"{kind}","message":{message},"entryId":"ENTRY"}}"#)
}

/// An update: `step` without its closing brace, and the message so far, which stands there twice.
fn update(step: &str, message: &str) -> String {
    format!(r#"{{"type":"message_update","assistantMessageEvent":{step},"partial":{message}}},"message":{message}}}"#)
}

/// The answer, and a gate before each of its events after the first two, which begin the message.
fn step_by_step(mut answer: Answer, events: usize) -> (Answer, Vec<Gate>) {
    let gates: Vec<Gate> = (0..events).map(|_| Gate::new()).collect();
    for (gate, event) in gates.iter().zip(2..) {
        answer = answer.hold_before(event, gate);
    }
    (answer, gates)
}

async fn world() -> World {
    // The answers say that they used more than the model takes.
    let settings = json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off", "compaction": {"enabled": false}});
    compatible(settings, "").await
}

#[tokio::test]
async fn one_prompt_with_one_tool_call_has_these_bytes() {
    let world = world().await;
    std::fs::write(world.agent.home.join("a.txt"), "hello\n").unwrap();
    let usage = |output| TokenCount { input: 1_000_000, output, cache_read: 0, cache_write: 0 };
    let call =
        Answer::new().text_deltas(["Let me look."]).tool_call_deltas("call_1", "read", ["{\"path\":\"a.txt\"}"]).usage(usage(500_000));
    let (call, first_steps) = step_by_step(call, 7);
    let (last, last_steps) = step_by_step(Answer::new().text_deltas(["It says hello."]).usage(usage(1_500_000)), 4);
    world.provider.reply(call);
    world.provider.reply(last);
    let mut stream = stream(&world, &world.events_path(""), &[]).await;
    let acknowledged = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: keep-alive\r\nkeep-alive: timeout=5\r\ncontent-length: 63\r\ndate: DATE\r\n\r\n{\"id\":\"p1\",\"type\":\"response\",\"command\":\"prompt\",\"success\":true}";
    // The same key: what is sent twice here is one prompt.
    let prompt = r#"{"id":"p1","type":"prompt","message":"What is in a.txt?","idempotencyKey":"once"}"#;
    expect_bytes(&world, &control(&world, prompt), acknowledged).await;
    // A snapshot may be newer than the step that it comes with. So the provider waits until each step was seen.
    for (before, steps) in [(4, first_steps), (18, last_steps)] {
        for (gate, frame) in steps.iter().zip(before + 1..) {
            stream.until(|event| event.id.as_deref() == Some(format!("{frame}").as_str())).await.unwrap();
            gate.open();
        }
    }
    stream.until_type("agent_end").await.unwrap();

    let first_usage = r#"{"input":1000000,"output":500000,"cacheRead":0,"cacheWrite":0,"totalTokens":1500000,"cost":{"input":1,"output":1,"cacheRead":0,"cacheWrite":0,"total":2}}"#;
    let second_usage = r#"{"input":1000000,"output":1500000,"cacheRead":0,"cacheWrite":0,"totalTokens":2500000,"cost":{"input":1,"output":3,"cacheRead":0,"cacheWrite":0,"total":4}}"#;
    let user = r#"{"role":"user","content":[{"type":"text","text":"What is in a.txt?"}],"timestamp":TIME}"#;
    let looking = text("Let me look.");
    let call = |arguments: &str| format!(r#"{looking},{{"type":"toolCall","id":"call_1","name":"read","arguments":{arguments}}}"#);
    let whole_call = r#"{"type":"toolCall","id":"call_1","name":"read","arguments":{"path":"a.txt"}}"#;
    let first = assistant(&call(r#"{"path":"a.txt"}"#), first_usage, "toolUse").replace("TIME}", r#"TIME,"responseId":"msg_0000"}"#);
    let result = r#"{"role":"toolResult","toolCallId":"call_1","toolName":"read","content":[{"type":"text","text":"hello\n"}],"isError":false,"timestamp":TIME}"#;
    let second = assistant(&text("It says hello."), second_usage, "stop").replace("TIME}", r#"TIME,"responseId":"msg_0001"}"#);
    // What the answer cost is told at its end.
    let so_far = |content: &str| assistant(content, ZERO, "stop");

    let expected = [
        r#"{"type":"agent_start"}"#.to_owned(),
        r#"{"type":"turn_start"}"#.to_owned(),
        start_or_end("message_start", user),
        start_or_end("message_end", user),
        start_or_end("message_start", &assistant("", ZERO, "stop")),
        update(r#"{"type":"text_start","contentIndex":0"#, &so_far(&text(""))),
        update(r#"{"type":"text_delta","contentIndex":0,"delta":"Let me look.""#, &so_far(&looking)),
        update(r#"{"type":"text_end","contentIndex":0,"content":"Let me look.""#, &so_far(&looking)),
        update(r#"{"type":"toolcall_start","contentIndex":1"#, &so_far(&call("{}"))),
        update(r#"{"type":"toolcall_delta","contentIndex":1,"delta":"{\"path\":\"a.txt\"}""#, &so_far(&call(r#"{"path":"a.txt"}"#))),
        update(&format!(r#"{{"type":"toolcall_end","contentIndex":1,"toolCall":{whole_call}"#), &so_far(&call(r#"{"path":"a.txt"}"#))),
        start_or_end("message_end", &first),
        r#"{"type":"tool_execution_start","toolCallId":"call_1","toolName":"read","args":{"path":"a.txt"}}"#.to_owned(),
        r#"{"type":"tool_execution_end","toolCallId":"call_1","toolName":"read","result":{"content":[{"type":"text","text":"hello\n"}]},"isError":false}"#.to_owned(),
        start_or_end("message_start", result),
        start_or_end("message_end", result),
        format!(r#"{{"type":"turn_end","message":{first},"toolResults":[{result}]}}"#),
        r#"{"type":"turn_start"}"#.to_owned(),
        start_or_end("message_start", &assistant("", ZERO, "stop")),
        update(r#"{"type":"text_start","contentIndex":0"#, &so_far(&text(""))),
        update(r#"{"type":"text_delta","contentIndex":0,"delta":"It says hello.""#, &so_far(&text("It says hello."))),
        update(r#"{"type":"text_end","contentIndex":0,"content":"It says hello.""#, &so_far(&text("It says hello."))),
        start_or_end("message_end", &second),
        format!(r#"{{"type":"turn_end","message":{second},"toolResults":[]}}"#),
        format!(r#"{{"type":"agent_end","messages":[{user},{first},{result},{second}]}}"#),
    ];
    assert_eq!(expected.len(), 25);
    let seen: Vec<String> =
        frames(&stream)[1..].iter().map(|frame| without_texts(&without_numbers(frame, "timestamp", "TIME"), "entryId", "ENTRY")).collect();
    for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(*seen, format!("event: message\ndata: {expected}\nid: {}\n\n", number + 1));
    }
    assert_eq!(seen.len(), expected.len(), "{:#?}", seen.last());
}
