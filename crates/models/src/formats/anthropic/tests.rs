//! Recorded shapes of streams, and golden bodies.

use serde_json::{Value, json};
use wolli_protocol::message::{AssistantBlock, StopReason};
use wolli_protocol::model::{Model, ThinkingLevel};

use super::write;
use crate::repair::{Repair, Repairs};
use crate::request::{CacheRetention, ModelRequest};
use crate::testing::{ANTHROPIC, PNG, Replay, model, replay, replay_every_way, request, tool};

const END: &str = "Anthropic stream ended before message_stop";

/// A stream of named events.
fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [],
        "stop_reason": null, "usage": {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 10}}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn finish(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 20}}),
        json!({"type": "message_stop"}),
    ]
}

fn text(index: u64, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![block(index, json!({"type": "text", "text": ""}))];
    events.extend(pieces.iter().map(|piece| delta(index, json!({"type": "text_delta", "text": piece}))));
    events.push(stop(index));
    events
}

fn whole(events: Vec<Vec<Value>>) -> Replay {
    replay_every_way(&model(ANTHROPIC), &stream(&events.concat()), END)
}

#[test]
fn text_and_usage() {
    let replay = whole(vec![vec![start(), json!({"type": "ping"})], text(0, &["Hel", "lo — 😀"]), finish("end_turn").to_vec()]);
    let expected = json!({
        "content": [{"type": "text", "text": "Hello — 😀"}],
        "api": "anthropic-messages", "provider": "anthropic", "model": "claude-test",
        "usage": {"input": 100, "output": 20, "cacheRead": 40, "cacheWrite": 10, "totalTokens": 170,
            "cost": {"input": 1.0 / 1e6 * 100.0, "output": 2.0 / 1e6 * 20.0, "cacheRead": 0.5 / 1e6 * 40.0, "cacheWrite": 4.0 / 1e6 * 10.0,
                "total": 1.0 / 1e6 * 100.0 + 2.0 / 1e6 * 20.0 + 0.5 / 1e6 * 40.0 + 4.0 / 1e6 * 10.0}},
        "stopReason": "stop", "timestamp": 7, "responseId": "msg_1"
    });
    assert_eq!(serde_json::to_value(&replay.message).unwrap(), expected);
    let steps = serde_json::to_value(&replay.steps).unwrap();
    assert_eq!(
        steps,
        json!([
            {"type": "text_start", "contentIndex": 0},
            {"type": "text_delta", "contentIndex": 0, "delta": "Hel"},
            {"type": "text_delta", "contentIndex": 0, "delta": "lo — 😀"},
            {"type": "text_end", "contentIndex": 0, "content": "Hello — 😀"}
        ])
    );
}

#[test]
fn thinking_signatures_redacted_thinking_and_parallel_calls_keep_their_order() {
    let replay = whole(vec![
        vec![
            start(),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
            delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
            delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
            delta(0, json!({"type": "signature_delta", "signature": "bmVk"})),
            stop(0),
            block(1, json!({"type": "redacted_thinking", "data": "b3BhcXVl"})),
            stop(1),
        ],
        text(2, &["Reading."]),
        vec![
            block(3, json!({"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "{\"q\":1}"})),
            stop(3),
            block(4, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
            delta(4, json!({"type": "input_json_delta", "partial_json": ""})),
            delta(4, json!({"type": "input_json_delta", "partial_json": "{\"path\": \"a"})),
            delta(4, json!({"type": "input_json_delta", "partial_json": ".txt\"}"})),
            stop(4),
            block(5, json!({"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {}})),
            stop(5),
            block(6, json!({"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {"path": "whole"}})),
            stop(6),
        ],
        finish("tool_use").to_vec(),
    ]);
    assert_eq!(
        serde_json::to_value(&replay.message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "Let me see.", "thinkingSignature": "c2lnbmVk"},
            {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "b3BhcXVl", "redacted": true},
            {"type": "text", "text": "Reading."},
            {"type": "toolCall", "id": "toolu_1", "name": "read", "arguments": {"path": "a.txt"}},
            {"type": "toolCall", "id": "toolu_2", "name": "ls", "arguments": {}},
            {"type": "toolCall", "id": "toolu_2_6", "name": "ls", "arguments": {"path": "whole"}}
        ])
    );
    assert_eq!(replay.message.stop_reason, StopReason::ToolUse);
}

#[test]
fn stop_reasons() {
    for (reason, stop_reason, error) in [
        ("end_turn", StopReason::Stop, None),
        ("pause_turn", StopReason::Stop, None),
        ("stop_sequence", StopReason::Stop, None),
        ("max_tokens", StopReason::Length, None),
        ("refusal", StopReason::Error, Some("The model refused to complete the request")),
        ("sensitive", StopReason::Error, Some("The provider flagged the answer as sensitive")),
        ("model_context_window_exceeded", StopReason::Error, Some("Unhandled stop reason: model_context_window_exceeded")),
    ] {
        let replay = whole(vec![vec![start()], text(0, &["Hm"]), finish(reason).to_vec()]);
        assert_eq!((replay.message.stop_reason, replay.message.error_message.as_deref()), (stop_reason, error), "{reason}");
        assert_eq!(replay.message.content.len(), 1);
    }
    for (input, stop_reason) in [(r#"{"command":"rm -r /tmp"#, StopReason::Length), (r#"{"command":"ls""#, StopReason::ToolUse)] {
        let call = block(0, json!({"type": "tool_use", "id": "t1", "name": "bash", "input": {}}));
        let input = delta(0, json!({"type": "input_json_delta", "partial_json": input}));
        let replay = whole(vec![vec![start(), call, input, stop(0)], finish("tool_use").to_vec()]);
        assert_eq!(replay.message.stop_reason, stop_reason);
    }
    let explained = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"explanation": "Not this."}}});
    let replay = whole(vec![vec![start(), explained, json!({"type": "message_stop"})]]);
    assert_eq!(replay.message.error_message.as_deref(), Some("Not this."));
}

#[test]
fn errors_inside_the_stream_keep_what_had_arrived() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let replay_of = |events: Vec<Vec<Value>>| replay(&model(ANTHROPIC), [stream(&events.concat()).as_bytes()]);
    let first = replay_of(vec![vec![overloaded.clone()]]);
    assert!(first.failure.as_ref().unwrap().may_pass && first.steps.is_empty());
    assert_eq!(first.message.error_message, Some(overloaded.to_string()));

    let call = block(1, json!({"type": "tool_use", "id": "t", "name": "read", "input": {}}));
    let half = delta(1, json!({"type": "input_json_delta", "partial_json": "{\"path\":\"ab"}));
    let later = replay_of(vec![vec![start()], text(0, &["a", "b", "c"]), vec![call, half, overloaded]]);
    assert_eq!(later.message.stop_reason, StopReason::Error);
    assert_eq!(
        serde_json::to_value(&later.message.content).unwrap(),
        json!([{"type": "text", "text": "abc"}, {"type": "toolCall", "id": "t", "name": "read", "arguments": {"path": "ab"}}])
    );
    // The counts that had come by then are kept.
    assert_eq!(later.message.usage.input, 100);

    let invalid = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}});
    assert!(!replay_of(vec![vec![invalid]]).failure.unwrap().may_pass);
}

#[test]
fn half_a_character_costs_no_more_than_itself() {
    let events = [vec![start()], text(0, &["a HALF b"]), finish("end_turn").to_vec()].concat();
    let replay = replay(&model(ANTHROPIC), [stream(&events).replace("HALF", r"\ud83d").as_bytes()]);
    assert_eq!(replay.message.error_message, None);
    assert_eq!(serde_json::to_value(&replay.message.content).unwrap(), json!([{"type": "text", "text": "a \u{fffd} b"}]));
}

#[test]
fn odd_streams_give_an_error_and_never_a_panic() {
    for (data, expected) in [
        ("{", Some("Could not parse the provider's event")),
        ("[]", Some(END)),
        ("null", Some(END)),
        (r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"lost"}}"#, Some(END)),
        (r#"{"type":"content_block_start"}"#, Some(END)),
        (r#"{"type":"content_block_start","index":0,"content_block":7}"#, Some(END)),
        (r#"{"type":"message_delta"}"#, Some(END)),
        (r#"{"type":"message_start","message":{"usage":{"input_tokens":-4,"output_tokens":"x"}}}"#, Some(END)),
        (r#"{"type":"message_stop"}"#, None),
    ] {
        let replay = replay(&model(ANTHROPIC), [format!("data: {data}\n\n").as_bytes()]);
        match expected {
            Some(text) => assert!(replay.message.error_message.unwrap().starts_with(text), "{data}"),
            None => assert_eq!(replay.message.error_message, None),
        }
    }
    // A delta of another kind than its block changes nothing.
    let mixed = vec![
        start(),
        block(0, json!({"type": "text", "text": "given at once"})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "x"})),
    ];
    let replay = replay(&model(ANTHROPIC), [stream(&[mixed, finish("end_turn").to_vec()].concat()).as_bytes()]);
    assert!(matches!(&replay.message.content[..], [AssistantBlock::Text(text)] if text.text == "given at once"));
}

#[test]
fn another_model_than_the_one_asked_for_is_noted() {
    let mut other = start();
    other["message"]["model"] = json!("claude-test-20260101");
    let replay = whole(vec![vec![other], text(0, &["x"]), finish("end_turn").to_vec()]);
    assert_eq!(replay.message.response_model.as_deref(), Some("claude-test-20260101"));
    assert_eq!(replay.message.model, "claude-test");
}

fn body(request: &ModelRequest) -> Value {
    body_with(request, CacheRetention::None, &Repairs::default())
}

fn body_with(request: &ModelRequest, retention: CacheRetention, repairs: &Repairs) -> Value {
    serde_json::from_slice(&write(request, retention, repairs).unwrap().body).unwrap()
}

#[test]
fn golden_body_of_a_conversation_with_tools_images_and_caching() {
    let mut request = request(
        model(ANTHROPIC),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", "data": PNG, "mimeType": "image/jpeg"}]},
            {"role": "assistant", "stopReason": "toolUse", "content": [
                {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"},
                {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "ZGF0YQ==", "redacted": true},
                {"type": "text", "text": "I read."},
                {"type": "toolCall", "id": "a|b:c", "name": "read", "arguments": {"path": "x"}},
                {"type": "toolCall", "id": "t2", "name": "read", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "t2", "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}], "isError": false},
            {"role": "toolResult", "toolCallId": "a|b:c", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "isError": true},
            {"role": "user", "content": "Go on"}
        ]),
    );
    request.tools = vec![tool("read"), tool("write")].into();
    let png = json!({"type": "base64", "media_type": "image/png", "data": PNG});
    let short = json!({"type": "ephemeral"});
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let expected = json!({
        "model": "claude-test",
        "max_tokens": 32000,
        "stream": true,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": short}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image", "source": png}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZGF0YQ=="},
                {"type": "text", "text": "I read."},
                {"type": "tool_use", "id": "a_b_c", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a_b_c", "content": "one\ntwo", "is_error": true},
                {"type": "tool_result", "tool_use_id": "t2", "content": [
                    {"type": "text", "text": "(see attached image)"}, {"type": "image", "source": png}], "is_error": false},
                {"type": "text", "text": "Go on", "cache_control": short}]}
        ],
        "tools": [
            {"name": "read", "description": "Runs read.", "input_schema": schema, "eager_input_streaming": true},
            {"name": "write", "description": "Runs write.", "input_schema": schema, "eager_input_streaming": true, "cache_control": short}
        ]
    });
    let written = write(&request, CacheRetention::Short, &Repairs::default()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written.body).unwrap(), expected);
    // Key order too: prompt caches depend on it.
    assert_eq!(String::from_utf8(written.body).unwrap(), expected.to_string());
    assert!(written.has_images);
    assert_eq!(written.betas, ["interleaved-thinking-2025-05-14"]);
}

#[test]
fn cache_markers_follow_retention_and_provider() {
    let asked = |provider: &str, retention| {
        let mut request = request(Model { provider: provider.into(), ..model(ANTHROPIC) }, json!([{"role": "user", "content": "x"}]));
        request.tools = vec![tool("read")].into();
        body_with(&request, retention, &Repairs::default())
    };
    assert!(!asked("anthropic", CacheRetention::None).to_string().contains("cache_control"));
    let long = asked("anthropic", CacheRetention::Long);
    assert_eq!(long["system"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    let fireworks = asked("fireworks", CacheRetention::Long);
    assert_eq!(fireworks["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(fireworks["tools"][0].get("cache_control"), None);
    assert_eq!(fireworks["tools"][0].get("eager_input_streaming"), None);
}

#[test]
fn thinking_as_each_model_takes_it() {
    let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget, "display": "summarized"});
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let disabled = json!({"type": "disabled"});
    let none = Value::Null;
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, Xhigh};
    let plain = json!({});
    let force = json!({"forceAdaptiveThinking": true});
    let no_off = json!({"off": null});
    let max = json!({"xhigh": "max", "low": "tiny"});
    for (compat, map, level, cap, thinking, effort, max_tokens) in [
        (&plain, &plain, Off, None, &disabled, &none, 32_000),
        (&plain, &no_off, Off, None, &none, &none, 32_000),
        (&plain, &plain, Minimal, None, &enabled(1024), &none, 32_000),
        (&plain, &plain, Low, None, &enabled(2048), &none, 32_000),
        (&plain, &plain, Medium, None, &enabled(8192), &none, 32_000),
        (&plain, &plain, High, None, &enabled(16_384), &none, 32_000),
        (&plain, &plain, Xhigh, None, &enabled(16_384), &none, 32_000),
        (&plain, &plain, Medium, Some(1000), &enabled(8192), &none, 9192),
        (&plain, &plain, High, Some(30_000), &enabled(16_384), &none, 32_000),
        (&force, &plain, Off, None, &disabled, &none, 32_000),
        (&force, &plain, Minimal, None, &adaptive, &json!("low"), 32_000),
        (&force, &plain, Medium, None, &adaptive, &json!("medium"), 32_000),
        (&force, &plain, Xhigh, None, &adaptive, &json!("high"), 32_000),
        (&force, &max, Xhigh, Some(500), &adaptive, &json!("max"), 500),
        (&force, &max, Low, None, &adaptive, &json!("tiny"), 32_000),
    ] {
        let mut request = request(model(ANTHROPIC), json!([{"role": "user", "content": "x"}]));
        request.model.reasoning = true;
        request.model.compat = compat.as_object().cloned();
        request.model.thinking_level_map = Some(serde_json::from_value(map.clone()).unwrap());
        (request.thinking, request.max_tokens) = (level, cap);
        let body = body(&request);
        assert_eq!(&body["thinking"], thinking, "{compat} {map} {level} {cap:?}");
        assert_eq!(&body["output_config"]["effort"], effort, "{compat} {map} {level} {cap:?}");
        assert_eq!(body["max_tokens"], max_tokens, "{compat} {map} {level} {cap:?}");
    }
}

#[test]
fn thinking_is_off_where_the_budget_does_not_fit_or_a_tool_loop_did_not_begin_with_it() {
    let mut asked = request(model(ANTHROPIC), json!([{"role": "user", "content": "x"}]));
    (asked.model.reasoning, asked.thinking, asked.model.max_tokens) = (true, ThinkingLevel::High, 4096);
    let fits = body(&asked);
    assert_eq!((&fits["thinking"]["budget_tokens"], &fits["max_tokens"]), (&json!(3072), &json!(4096)));
    asked.model.max_tokens = 2000;
    assert_eq!(body(&asked)["thinking"], json!({"type": "disabled"}));

    let history = |first: &Value, more: bool| {
        let mut messages = json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [first, {"type": "toolCall", "id": "t", "name": "read", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "t", "content": [{"type": "text", "text": "y"}]}
        ]);
        if more {
            // A person steers, or prompts after an abort: it goes into the message of the results.
            messages.as_array_mut().unwrap().push(json!({"role": "user", "content": "z"}));
        }
        messages
    };
    for (first, on) in [
        (json!({"type": "thinking", "thinking": "", "thinkingSignature": "c2ln"}), true),
        (json!({"type": "thinking", "thinking": "Hm", "thinkingSignature": ""}), false),
        (json!({"type": "text", "text": "Hm"}), false),
    ] {
        for more in [false, true] {
            let mut asked = request(model(ANTHROPIC), history(&first, more));
            (asked.model.reasoning, asked.thinking) = (true, ThinkingLevel::Low);
            assert_eq!(body(&asked)["thinking"]["type"], if on { "enabled" } else { "disabled" }, "{first}");
            assert_eq!(
                body_with(&asked, CacheRetention::None, &{
                    let mut repairs = Repairs::default();
                    assert!(repairs.add(Repair::DropThinking));
                    repairs
                })["thinking"]["type"],
                "disabled"
            );
        }
    }
}

#[test]
fn thinking_goes_back_only_to_the_model_that_thought_it() {
    let history = |model: &str| {
        json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "model": model, "content": [
                {"type": "thinking", "thinking": "signed", "thinkingSignature": "c2ln"},
                {"type": "thinking", "thinking": "", "thinkingSignature": "ZW1wdHk="},
                {"type": "thinking", "thinking": "unsigned"},
                {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "ZGF0YQ==", "redacted": true},
                {"type": "text", "text": " \n"},
                {"type": "text", "text": "Answer"},
                {"type": "thinking", "thinking": "at the end", "thinkingSignature": "c2ln"}]},
            {"role": "user", "content": "y"}
        ])
    };
    let own = body(&request(model(ANTHROPIC), history("claude-test")));
    assert_eq!(
        own["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "signed", "signature": "c2ln"},
            {"type": "thinking", "thinking": "", "signature": "ZW1wdHk="},
            {"type": "text", "text": "unsigned"},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="},
            {"type": "text", "text": "Answer"}
        ])
    );
    let foreign = body(&request(model(ANTHROPIC), history("claude-other")));
    assert_eq!(
        foreign["messages"][1]["content"],
        json!([
            {"type": "text", "text": "signed"},
            {"type": "text", "text": "unsigned"},
            {"type": "text", "text": "Answer"},
            {"type": "text", "text": "at the end"}
        ])
    );
    let mut lenient = request(model(ANTHROPIC), history("claude-test"));
    lenient.model.compat = json!({"allowEmptySignature": true}).as_object().cloned();
    assert_eq!(body(&lenient)["messages"][1]["content"][2], json!({"type": "thinking", "thinking": "unsigned", "signature": ""}));
    let mut repairs = Repairs::default();
    repairs.add(Repair::DropThinking);
    let without = body_with(&request(model(ANTHROPIC), history("claude-test")), CacheRetention::None, &repairs);
    assert_eq!(without["messages"][1]["content"], json!([{"type": "text", "text": "Answer"}]));
}

#[test]
fn one_refused_image_or_schema_is_left_out_and_the_rest_stays() {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let mut request = request(
        model(ANTHROPIC),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "x"}, image, image]},
            {"role": "assistant", "content": [{"type": "toolCall", "id": "t", "name": "read", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "t", "content": [{"type": "text", "text": "y"}, image]}
        ]),
    );
    request.tools = vec![tool("read"), tool("write")].into();
    let refused = |path: &str| {
        let mut repairs = Repairs::default();
        let repair = crate::repair::repair_for(400, &json!({"error": {"message": path}}).to_string()).unwrap();
        assert!(repairs.add(repair));
        body_with(&request, CacheRetention::None, &repairs)
    };
    let note = json!({"type": "text", "text": "(image omitted: the provider refused it)"});
    let count = |body: &Value| body.to_string().matches("\"image\"").count();
    let user = refused("messages.0.content.2.image.source.base64: image exceeds 5 MB maximum");
    assert_eq!((&user["messages"][0]["content"][2], count(&user)), (&note, 2));
    let inner = refused("messages.2.content.0.tool_result.content.1.image.source.base64: too large");
    assert_eq!((&inner["messages"][2]["content"][0]["content"][1], count(&inner)), (&note, 2));
    let all = refused("Could not process image");
    assert_eq!(count(&all), 0);
    // Equal notes in a row become one.
    assert_eq!(all["messages"][0]["content"], json!([{"type": "text", "text": "x"}, note]));
    let schema = refused("tools.1.custom.input_schema: JSON schema is invalid");
    assert_eq!(schema["tools"][1]["input_schema"], json!({"type": "object", "properties": {}}));
    assert_ne!(schema["tools"][0], schema["tools"][1]);
}
