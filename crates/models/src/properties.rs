//! What must hold for any history and any stream, by chance.
//!
//! The judge of a body is a strict reading of each API's rules: pairing, roles, no blank text, valid ids and names.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use wolli_protocol::message::Message;
use wolli_protocol::model::ThinkingLevel;

use crate::formats::Kind;
use crate::repair::{ImagePlace, Repair, Repairs, ToolPlace};
use crate::request::{CacheRetention, ModelRequest, ToolSpec};
use crate::testing::{ANTHROPIC, OPENAI, PNG, assert_sum_of_steps, history, model, replay, request};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" \n".to_owned()), Just("words 😀".to_owned()), ".{0,8}"]
}

fn call_ids() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just(String::new()),
        Just("call|item".to_owned()),
        Just("x".repeat(90)),
        "[a-c.é]{1,3}"
    ]
}

fn user_block() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        prop_oneof![Just(PNG), Just(""), Just("AAAA"), Just("not base64!")]
            .prop_map(|data| json!({"type": "image", "data": data, "mimeType": "image/png"})),
    ]
}

fn assistant_block() -> impl Strategy<Value = Value> {
    let signature = prop_oneof![Just(Value::Null), Just(json!("")), Just(json!("c2ln")), Just(json!("reasoning_content"))];
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        (text(), signature, any::<bool>()).prop_map(|(text, signature, redacted)| {
            json!({"type": "thinking", "thinking": text, "thinkingSignature": signature, "redacted": redacted})
        }),
        (call_ids(), prop_oneof![Just("read"), Just(""), Just("odd name.x")], any::<bool>()).prop_map(|(id, name, signed)| {
            let signature = if signed { json!("{\"type\":\"reasoning.encrypted\"}") } else { Value::Null };
            json!({"type": "toolCall", "id": id, "name": name, "arguments": {"path": "x"}, "thoughtSignature": signature})
        }),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let origin = prop_oneof![Just((ANTHROPIC, "anthropic", "claude-test")), Just((OPENAI, "openai", "gpt-test")), Just(("x", "y", "z"))];
    let stop = prop_oneof![4 => Just("stop"), 4 => Just("toolUse"), 1 => Just("length"), 1 => Just("error"), 1 => Just("aborted")];
    prop_oneof![
        3 => text().prop_map(|text| json!({"role": "user", "content": text})),
        2 => prop::collection::vec(user_block(), 0..4).prop_map(|blocks| json!({"role": "user", "content": blocks})),
        5 => (prop::collection::vec(assistant_block(), 0..5), origin, stop).prop_map(|(blocks, (api, provider, model), stop)| {
            json!({"role": "assistant", "content": blocks, "api": api, "provider": provider, "model": model, "stopReason": stop})
        }),
        5 => (call_ids(), prop::collection::vec(user_block(), 0..3), any::<bool>()).prop_map(|(id, blocks, error)| {
            json!({"role": "toolResult", "toolCallId": id, "content": blocks, "isError": error})
        }),
        1 => text().prop_map(|text| json!({"role": "compactionSummary", "summary": text, "tokensBefore": 1})),
        1 => text().prop_map(|text| json!({"role": "branchSummary", "summary": text, "fromId": "f"})),
        1 => text().prop_map(|text| json!({"role": "custom", "customType": "c", "content": text, "display": false})),
        1 => (text(), any::<bool>()).prop_map(|(text, hidden)| {
            json!({"role": "bashExecution", "command": "ls", "output": text, "cancelled": false, "truncated": false, "excludeFromContext": hidden})
        }),
    ]
}

fn repairs() -> impl Strategy<Value = Repairs> {
    let repair = prop_oneof![
        (0usize..6, 0usize..4, prop::option::of(0usize..3)).prop_map(|(message, block, inner)| Repair::DropImage(Some(ImagePlace {
            message,
            block,
            inner
        }))),
        Just(Repair::DropImage(None)),
        Just(Repair::DropThinking),
        Just(Repair::RelaxSchema(Some(ToolPlace::Index(0)))),
        Just(Repair::CapAnswer(1500)),
    ];
    prop::collection::vec(repair, 0..3).prop_map(|all| {
        let mut repairs = Repairs::default();
        for repair in all {
            repairs.add(repair);
        }
        repairs
    })
}

fn asked(api: &str, messages: Vec<Value>, images: bool, thinking: ThinkingLevel) -> ModelRequest {
    let mut request = request(model(api), json!([]));
    request.messages = history(Value::Array(messages));
    request.model.reasoning = true;
    if !images {
        request.model.input = vec!["text".into()];
    }
    request.thinking = thinking;
    let tool = |name: &str, parameters: Value| ToolSpec { name: name.into(), description: "d".into(), parameters };
    request.tools = Arc::from([tool("read", json!({"type": "object"})), tool("read", json!(7)), tool("odd name.x", json!({"anyOf": []}))]);
    request
}

fn written(request: &ModelRequest, repairs: &Repairs) -> Value {
    let kind = Kind::of(&request.model.api).unwrap();
    serde_json::from_slice(&kind.write(request, CacheRetention::Short, repairs).unwrap().body).unwrap()
}

fn is_name(text: &Value, limit: usize) -> bool {
    text.as_str().is_some_and(|text| {
        (1..=limit).contains(&text.len()) && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-'))
    })
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn judge_anthropic(body: &Value) -> Result<(), String> {
    let ensure = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(rule.to_owned()) };
    let messages = body["messages"].as_array().ok_or("messages")?;
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        let role = if position % 2 == 0 { "user" } else { "assistant" };
        ensure(message["role"] == role, "roles alternate and begin with user")?;
        let blocks = message["content"].as_array().ok_or("content")?;
        ensure(!blocks.is_empty(), "no empty messages")?;
        let mut results = Vec::new();
        let mut other_seen = false;
        for block in blocks {
            match block["type"].as_str().unwrap_or("") {
                "text" => ensure(!is_blank(&block["text"]), "no blank texts")?,
                "image" => {
                    ensure(role == "user", "images are the person's")?;
                    ensure(block["source"]["media_type"] == "image/png" && !is_blank(&block["source"]["data"]), "images have data")?;
                }
                "thinking" => ensure(role == "assistant" && !is_blank(&block["signature"]), "thinking is signed")?,
                "redacted_thinking" => ensure(role == "assistant" && !is_blank(&block["data"]), "redacted thinking has data")?,
                "tool_use" => {
                    ensure(role == "assistant" && is_name(&block["id"], 64) && is_name(&block["name"], 64), "calls have valid names")?;
                    let id = block["id"].as_str().unwrap().to_owned();
                    ensure(ids.insert(id.clone()), "call ids are unique")?;
                    open.push(id);
                }
                "tool_result" => {
                    ensure(!other_seen, "results come first")?;
                    results.push(block["tool_use_id"].as_str().unwrap_or("").to_owned());
                    let content = &block["content"];
                    ensure(
                        content.as_str().map_or_else(|| !content.as_array().unwrap().is_empty(), |it| !it.trim().is_empty()),
                        "results say something",
                    )?;
                }
                other => return Err(format!("unknown block {other:?}")),
            }
            other_seen |= block["type"] != "tool_result";
        }
        if role == "user" {
            ensure(results == open, "each call has its result at once, in order")?;
            open.clear();
        } else {
            let last = blocks.last().unwrap()["type"].as_str().unwrap();
            ensure(!last.contains("thinking"), "an answer does not end in thinking")?;
        }
    }
    ensure(messages.len() % 2 == 1, "the person has the last word")?;
    let thinking = &body["thinking"];
    if thinking["type"] == "enabled" {
        ensure(thinking["budget_tokens"].as_u64() < body["max_tokens"].as_u64(), "the budget leaves room")?;
        ensure(thinking["budget_tokens"].as_u64() >= Some(1024), "the budget is large enough")?;
        let in_tool_loop = messages.last().unwrap()["content"][0]["type"] == "tool_result"
            && messages.last().unwrap()["content"].as_array().unwrap().iter().all(|block| block["type"] == "tool_result");
        if in_tool_loop {
            let first = messages[messages.len() - 2]["content"][0]["type"].as_str().unwrap();
            ensure(first.contains("thinking"), "a tool loop begins with thinking")?;
        }
    }
    let names: HashSet<_> = body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()).collect();
    ensure(names.len() == body["tools"].as_array().unwrap().len(), "tool names are unique")?;
    ensure(
        body["tools"].as_array().unwrap().iter().all(|tool| is_name(&tool["name"], 64) && tool["input_schema"]["type"] == "object"),
        "tools",
    )?;
    ensure(body.to_string().matches("cache_control").count() <= 4, "at most four cache markers")
}

fn judge_openai(body: &Value) -> Result<(), String> {
    let ensure = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(rule.to_owned()) };
    let messages = body["messages"].as_array().ok_or("messages")?;
    ensure(messages[0]["role"] == "developer" && messages[1]["role"] == "user", "the system prompt, then the person")?;
    let mut open: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    for message in &messages[1..] {
        let role = message["role"].as_str().unwrap_or("");
        ensure(role == "tool" || open.is_empty(), "results follow their calls")?;
        match role {
            "user" => {
                let blank = message["content"].as_array().map_or_else(
                    || is_blank(&message["content"]),
                    |parts| parts.is_empty() || parts.iter().any(|part| part["type"] == "text" && is_blank(&part["text"])),
                );
                ensure(!blank, "no blank texts")?;
            }
            "assistant" => {
                let calls = message.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
                ensure(!calls.is_empty() || !is_blank(&message["content"]), "an answer has text or calls")?;
                for call in calls {
                    let id = call["id"].as_str().unwrap().to_owned();
                    ensure(!id.is_empty() && id.chars().count() <= 40 && ids.insert(id.clone()), "call ids are short and unique")?;
                    ensure(is_name(&call["function"]["name"], 64), "names are valid")?;
                    ensure(serde_json::from_str::<Value>(call["function"]["arguments"].as_str().unwrap()).is_ok(), "arguments are JSON")?;
                    open.push(id);
                }
            }
            "tool" => {
                ensure(!open.is_empty() && open.remove(0) == message["tool_call_id"].as_str().unwrap(), "each result has its call")?;
                ensure(!is_blank(&message["content"]), "results say something")?;
            }
            other => return Err(format!("unknown role {other:?}")),
        }
    }
    ensure(open.is_empty(), "each call has its result")?;
    ensure(messages.last().unwrap()["role"] != "assistant", "the model does not have the last word")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_history_makes_a_body_that_both_apis_take(
        messages in prop::collection::vec(message(), 0..12),
        images in any::<bool>(),
        level in 0usize..6,
        repairs in repairs(),
    ) {
        let level = ThinkingLevel::ALL[level];
        for (api, judge) in [(ANTHROPIC, judge_anthropic as fn(&Value) -> Result<(), String>), (OPENAI, judge_openai)] {
            let request = asked(api, messages.clone(), images, level);
            let before: Vec<Message> = request.messages.iter().map(|message| message.as_ref().clone()).collect();
            let body = written(&request, &repairs);
            if let Err(rule) = judge(&body) {
                prop_assert!(false, "{api}: {rule}: {body:#}");
            }
            let after: Vec<Message> = request.messages.iter().map(|message| message.as_ref().clone()).collect();
            prop_assert_eq!(before, after);
            // What is sent does not depend on chance: prompt caches would miss.
            prop_assert_eq!(body, written(&request, &repairs));
        }
    }

    /// The start of a longer history is written like the whole shorter one, so that the prompt cache hits.
    #[test]
    fn a_longer_history_begins_like_the_shorter_one(turns in prop::collection::vec(text(), 1..6)) {
        let messages: Vec<Value> = turns.iter().enumerate().flat_map(|(number, text)| [
            json!({"role": "user", "content": format!("q{text}")}),
            json!({"role": "assistant", "content": [{"type": "text", "text": format!("a{text}")}, {"type": "toolCall", "id": "call_0", "name": "read", "arguments": {}}]}),
            json!({"role": "toolResult", "toolCallId": "call_0", "content": [{"type": "text", "text": format!("r{number}")}]}),
        ]).collect();
        for api in [ANTHROPIC, OPENAI] {
            let whole = written_without_cache(&asked(api, messages.clone(), true, ThinkingLevel::Off));
            let shorter = written_without_cache(&asked(api, messages[..messages.len() - 3].to_vec(), true, ThinkingLevel::Off));
            let (whole, shorter) = (whole["messages"].as_array().unwrap(), shorter["messages"].as_array().unwrap());
            if messages.len() > 3 {
                // The last message may grow: it takes in what the person says next.
                prop_assert_eq!(&whole[..shorter.len() - 1], &shorter[..shorter.len() - 1]);
            }
        }
    }

    #[test]
    fn any_damage_to_a_stream_leaves_a_message_that_is_the_sum_of_its_steps(
        kind in any::<bool>(),
        damage in prop::collection::vec((0usize..4000, any::<u8>(), 0u8..4), 0..6),
        size in 1usize..40,
    ) {
        let (api, stream) = if kind { (ANTHROPIC, ANTHROPIC_STREAM) } else { (OPENAI, OPENAI_STREAM) };
        let mut bytes = stream.as_bytes().to_vec();
        for (at, byte, what) in damage {
            let at = at % bytes.len();
            match what {
                0 => bytes[at] = byte,
                1 => { bytes.remove(at); }
                2 => bytes.insert(at, byte),
                // A line goes missing.
                _ => {
                    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |it| it + 1);
                    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |it| at + it);
                    bytes.drain(start..end);
                }
            }
            if bytes.is_empty() { break }
        }
        let outcome = replay(&model(api), bytes.chunks(size));
        assert_sum_of_steps(&outcome);
    }
}

fn written_without_cache(request: &ModelRequest) -> Value {
    let kind = Kind::of(&request.model.api).unwrap();
    serde_json::from_slice(&kind.write(request, CacheRetention::None, &Repairs::default()).unwrap().body).unwrap()
}

const ANTHROPIC_STREAM: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude-test\",\"usage\":{\"input_tokens\":3}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"Hm\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"read\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"x\\\"}\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const OPENAI_STREAM: &str = concat!(
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"Hm\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi 😀\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"read\",\"arguments\":\"{\\\"pa\"}}]}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"th\\\":1}\"}}]}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9}}\n\n",
    "data: [DONE]\n\n",
);

/// Each delta costs its own length: a copy of the message per delta would take minutes here.
#[test]
fn a_long_answer_is_folded_in_linear_time() {
    let started = std::time::Instant::now();
    let mut stream = String::from(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"write\",\"input\":{}}}\n\n",
    );
    for piece in ["{\\\"path\\\":\\\""].into_iter().chain(std::iter::repeat_n("some words that are written ", 80_000)) {
        stream.push_str("data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"");
        stream.push_str(piece);
        stream.push_str("\"}}\n\n");
    }
    stream.push_str("data: {\"type\":\"message_stop\"}\n\n");
    let outcome = replay(&model(ANTHROPIC), stream.as_bytes().chunks(1400));
    let call = outcome.message.tool_calls().next().unwrap();
    assert_eq!(call.arguments["path"].as_str().unwrap().len(), 28 * 80_000);
    assert!(started.elapsed().as_secs() < 30);
}
