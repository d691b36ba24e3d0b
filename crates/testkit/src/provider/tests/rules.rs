//! One case per rule: a request that breaks it is refused with the service's words, and its neighbours pass.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::provider::record::{Issued, Kind, RecordedRequest, Thought};
use crate::provider::rules::check;

const PNG: &str = "iVBORw0KGgo=";

fn issued() -> Issued {
    let mut issued = Issued::default();
    issued.thinking.insert("sig".into(), Thought { text: "Hm.".into(), model: Some("m".into()) });
    issued.answers.push(vec!["sig".into(), "enc".into()]);
    issued.redacted.insert("enc".into());
    issued.reasoning.insert("Hm.".into());
    issued
}

/// The refusal of a body, or nothing.
fn refusal(kind: Kind, body: &Value) -> Option<String> {
    let headers = super::HEADERS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let (path, raw) = (super::path(kind).to_owned(), body.to_string().into_bytes());
    let request = RecordedRequest { number: 0, kind, path, headers, body: body.clone(), raw };
    check(&request, &issued(), &BTreeSet::new()).err().map(|refusal| refusal.message)
}

/// Checks that the change of a good body is refused with a text that has this part, or passes if it is empty.
fn cases(kind: Kind, good: &Value, cases: &[(&str, Value, &str)]) {
    assert_eq!(refusal(kind, good), None);
    for (pointer, value, part) in cases {
        let mut body = good.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(items) if key == "-" => items.push(value.clone()),
            Value::Array(items) if value == "REMOVE" => drop(items.remove(key.parse::<usize>().unwrap())),
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            Value::Object(object) if value == "REMOVE" => drop(object.remove(key)),
            parent => parent[key] = value.clone(),
        }
        match refusal(kind, &body) {
            None => assert_eq!(*part, "", "{pointer} = {value} passed"),
            Some(text) => assert!(!part.is_empty() && text.contains(part), "{pointer} = {value}: {text}"),
        }
    }
}

#[test]
fn anthropics_rules() {
    let good = json!({
        "model": "m", "max_tokens": 8000, "stream": true, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "read", "description": "d", "input_schema": {"type": "object", "properties": {}, "required": []}},
                  {"name": "ls", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "redacted_thinking", "data": "enc"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {}}, {"type": "tool_use", "id": "t2", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "ok", "is_error": false},
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}]}, {"type": "text", "text": "and?"}]},
        ],
    });
    let text = json!([{"type": "text", "text": "x"}]);
    let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "read", "input": {}}]);
    cases(
        Kind::Anthropic,
        &good,
        &[
            ("/max_tokens", json!("REMOVE"), "max_tokens: Field required"),
            ("/max_tokens", json!(0), "greater than or equal to 1"),
            ("/max_tokens", json!(1024), "must be greater than `thinking.budget_tokens`"),
            ("/model", json!(""), "model: Field required"),
            ("/stream", json!(false), "stream"),
            ("/store", json!(false), "store: Extra inputs are not permitted"),
            ("/temperature", json!(0.5), "`temperature` may only be set to 1"),
            ("/temperature", json!(1), ""),
            ("/thinking", json!({"type": "enabled", "budget_tokens": 10}), "greater than or equal to 1024"),
            ("/thinking", json!({"type": "adaptive"}), ""),
            ("/thinking", json!({"type": "on"}), "does not match any of the expected tags"),
            ("/system", json!("text"), ""),
            ("/system", json!([{"type": "text", "text": " "}]), "text content blocks must be non-empty"),
            ("/tools/1/name", json!("read"), "Tool names must be unique"),
            ("/tools/1/name", json!("a b"), "should match pattern"),
            ("/tools/1/input_schema", json!({"type": "string"}), "should be 'object'"),
            ("/tools/1/input_schema", json!("REMOVE"), "should be 'object'"),
            ("/tools/1/input_schema/required", json!([1]), "array of strings"),
            ("/tools/1/parameters", json!({}), "Extra inputs"),
            ("/messages", json!([]), "at least one message is required"),
            ("/messages/0", json!("REMOVE"), "first message must use the \"user\" role"),
            ("/messages/0/role", json!("system"), "Unexpected role \"system\""),
            ("/messages/0/content", json!(""), "all messages must have non-empty content"),
            ("/messages/0/content", json!([]), "all messages must have non-empty content"),
            ("/messages/0/name", json!("x"), "Extra inputs"),
            ("/messages/0/content/0/text", json!(""), "text content blocks must be non-empty"),
            ("/messages/0/content/0/text", json!(" \n"), "non-whitespace"),
            ("/messages/0/content/0/textSignature", json!("x"), "Extra inputs"),
            ("/messages/0/content/0", json!({"type": "toolCall"}), "does not match any of the expected tags"),
            ("/messages/0/content/0", json!({"type": "thinking", "thinking": "Hm.", "signature": "sig"}), "not permitted in `user`"),
            ("/messages/0/content/1/source/data", json!(""), "image cannot be empty"),
            ("/messages/0/content/1/source/data", json!("?"), "invalid base64"),
            ("/messages/0/content/1/source/data", json!("aGk="), "does not match the provided media type"),
            ("/messages/0/content/1/source/media_type", json!("image/bmp"), "media_type"),
            ("/messages/1/content/0/signature", json!("other"), "Invalid `signature` in `thinking` block"),
            ("/messages/1/content/0/thinking", json!("Hm"), "cannot be modified"),
            ("/messages/1/content/1/data", json!("x"), "Invalid `data`"),
            ("/messages/1/content/0", json!("REMOVE"), "must remain as they were"),
            ("/messages/1/content/-", json!({"type": "redacted_thinking", "data": "enc"}), "must remain as they were"),
            ("/model", json!("other"), "Invalid `signature` in `thinking` block"),
            ("/messages/1/content/2/id", json!("a|b"), "should match pattern"),
            ("/messages/1/content/2/id", json!("t2"), "must be unique"),
            ("/messages/1/content/2/input", json!("{}"), "valid dictionary"),
            ("/messages/1/content/-", json!({"type": "image"}), "not permitted in `assistant`"),
            ("/messages/1/content", call("t3"), "without `tool_result` blocks immediately after: t3"),
            ("/messages/1/content", text.clone(), "unexpected `tool_use_id` found in `tool_result` blocks: t2"),
            ("/messages/1/content/0", json!({"type": "text", "text": "first"}), "must start with a thinking block"),
            ("/messages/2/content/0/tool_use_id", json!("t1"), "without `tool_result` blocks immediately after: t2"),
            ("/messages/2/content/0", json!({"type": "text", "text": "first"}), "immediately after: t1, t2"),
            ("/messages/2/content/-", json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"}), "Found multiple"),
            ("/messages/2/content/0/content", json!([{"type": "text", "text": ""}]), "must be non-empty"),
            ("/messages/2/content/0/content", json!(""), ""),
            (
                "/messages/2/content/0",
                json!({"type": "tool_result", "tool_use_id": "t2", "content": "", "is_error": true}),
                "cannot be empty if `is_error`",
            ),
            ("/messages/2/content/2/cache_control", json!({"type": "ephemeral"}), ""),
            ("/messages/-", json!({"role": "assistant", "content": text}), "must end with a user message"),
            ("/messages/-", json!({"role": "user", "content": "more"}), ""),
        ],
    );
    let marks = json!([0, 1, 2, 3].map(|_| json!({"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}})));
    cases(Kind::Anthropic, &good, &[("/system", marks, "Found 5")]);
}

/// Base64 of a picture of that size.
fn picture(width: u32, height: u32) -> String {
    STANDARD.encode(crate::picture::png(width, height))
}

#[test]
fn images_have_limits() {
    let whole = crate::picture::png(2, 2);
    let cut = STANDARD.encode(&whole[..whole.len() - 9]);
    for (images, part, at_openai) in [
        (vec![picture(8000, 1); 20], "", ""),
        (vec![picture(8001, 1)], "exceed max allowed size: 8000 pixels", ""),
        (vec![picture(1, 9000)], "exceed max allowed size: 8000 pixels", ""),
        (vec![picture(2000, 1); 100], "", ""),
        (vec![picture(1, 1); 101], "Too many images", ""),
        ([vec![picture(1, 1); 20], vec![picture(1, 2001)]].concat(), "many-image requests: 2000 pixels", ""),
        (vec![picture(2400, 2400)], "image exceeds 5 MB maximum", ""),
        (vec![cut], "Could not process image", "Could not process image"),
        (vec![picture(1, 1); 501], "Too many images", "Too many images"),
    ] {
        let block = |data: &String| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
        let part_of = |data: &String| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
        let blocks: Vec<_> = images.iter().map(block).collect();
        let parts: Vec<_> = images.iter().map(part_of).collect();
        let anthropic = json!({"model": "m", "max_tokens": 1, "stream": true, "messages": [{"role": "user", "content": blocks}]});
        let openai = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": parts}]});
        for (kind, body, part) in [(Kind::Anthropic, anthropic, part), (Kind::OpenAi, openai, at_openai)] {
            let text = refusal(kind, &body).unwrap_or_default();
            assert!(text.contains(part) && text.is_empty() == part.is_empty(), "{part:?}: {text}");
        }
    }
}

#[test]
fn openais_rules() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"p\":1}"}});
    let good = json!({
        "model": "m", "stream": true, "store": false, "stream_options": {"include_usage": true}, "max_completion_tokens": 9,
        "tools": [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object"}, "strict": false}},
                  {"type": "function", "function": {"name": "ls"}}],
        "messages": [
            {"role": "developer", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]},
            {"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": [call("t1"), call("t2")]},
            {"role": "tool", "tool_call_id": "t2", "content": "ok"},
            {"role": "tool", "tool_call_id": "t1", "content": "ok"},
        ],
    });
    cases(
        Kind::OpenAi,
        &good,
        &[
            ("/model", json!("REMOVE"), "model parameter"),
            ("/stream", json!("REMOVE"), "stream"),
            ("/enable_thinking", json!(true), "Unrecognized request argument supplied: enable_thinking"),
            ("/max_tokens", json!(5), "at the same time"),
            ("/tools", json!([]), ""),
            ("/tools/1/function/name", json!("read"), "must be unique"),
            ("/tools/1/function/name", json!("a.b"), "does not match pattern"),
            ("/tools/0/function/parameters", json!({}), "Invalid schema for function 'read'"),
            ("/tools/0/name", json!("x"), "Extra inputs"),
            ("/messages", json!([]), "empty array"),
            ("/messages/0/content", json!(""), "must not be empty"),
            ("/messages/0/role", json!("person"), "Invalid value: 'person'"),
            ("/messages/1/content/0/text", json!(""), "must not be empty"),
            ("/messages/1/content/1/image_url/url", json!("data:image/png;base64,"), "image cannot be empty"),
            ("/messages/1/content/1/image_url/url", json!("http://x/y.png"), "Invalid base64 image_url"),
            ("/messages/1/timestamp", json!(1), "Extra inputs"),
            ("/messages/2/reasoning_content", json!("Ha."), "not what the model said"),
            ("/messages/2/content", json!("text"), ""),
            ("/messages/2/tool_calls", json!([]), "is too short"),
            ("/messages/2/tool_calls/0/id", json!("x".repeat(41)), "maximum length 40"),
            ("/messages/2/tool_calls/0/id", json!("t2"), "Duplicate tool call id"),
            ("/messages/2/tool_calls/0/type", json!("REMOVE"), "'messages[2].tool_calls[0].type'"),
            ("/messages/2/tool_calls/0/function/arguments", json!("{\"p\""), "must be the JSON text of an object"),
            ("/messages/2/tool_calls/0/function/arguments", json!({"p": 1}), "must be the JSON text of an object"),
            ("/messages/2", json!({"role": "assistant", "content": null}), "got null"),
            ("/messages/2", json!({"role": "assistant", "content": "x"}), "must be a response to a preceeding message"),
            ("/messages/3/tool_call_id", json!("t9"), "'t9' not found"),
            ("/messages/3/tool_call_id", json!("t1"), "Duplicate tool result"),
            ("/messages/3/content", json!(""), "must not be empty"),
            ("/messages/3", json!({"role": "user", "content": "x"}), "did not have response messages: t1, t2"),
            ("/messages/4", json!("REMOVE"), "did not have response messages: t1"),
            ("/messages/-", json!({"role": "assistant", "content": "x"}), "must end with a user or tool message"),
            ("/messages/-", json!({"role": "user", "content": "x"}), ""),
        ],
    );
}

#[test]
fn keys_are_needed() {
    for (kind, text) in [(Kind::Anthropic, "x-api-key header is required"), (Kind::OpenAi, "You didn't provide an API key")] {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = super::request(kind, "x");
        let raw = body.to_string().into_bytes();
        let request = RecordedRequest { number: 0, kind, path: String::new(), headers, body, raw };
        let refused = check(&request, &Issued::default(), &BTreeSet::new()).unwrap_err();
        assert!(refused.status == 401 && refused.message.contains(text), "{refused:?}");
    }
}
