//! Answers as OpenAI chat completions stream them.

use serde_json::{Value, json};

use super::answer::{Answer, Block};
use super::record::{Issued, RecordedRequest};

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

/// The body of an error.
pub(super) fn error_body(kind: &str, message: &str, param: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": kind, "param": param, "code": null}})
}

/// An error inside a stream.
pub(super) fn error_event(kind: &str, message: &str) -> Vec<u8> {
    data(&error_body(kind, message, None))
}

/// The events of an answer; what must come back unchanged goes to `issued`.
pub(super) fn render(answer: &Answer, request: &RecordedRequest, issued: &mut Issued) -> Vec<Vec<u8>> {
    let model = answer.response_model.as_deref().or(request.body["model"].as_str()).unwrap_or_default();
    let id = format!("chatcmpl-{:04}", request.number);
    let wants_usage = request.body["stream_options"]["include_usage"] == true;
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": 1_772_355_600, "model": model, "choices": choices,
        });
        if wants_usage {
            // The service sends `null` in all chunks but the last.
            chunk["usage"] = usage.unwrap_or(Value::Null);
        }
        data(&chunk)
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for block in &answer.blocks {
        match block {
            Block::Text(deltas) => events.extend(deltas.iter().map(|text| delta(json!({"content": text})))),
            Block::Thinking { deltas, .. } => {
                events.extend(deltas.iter().map(|text| delta(json!({"reasoning_content": text}))));
                issued.reasoning.insert(deltas.concat());
            }
            Block::Redacted(_) => {}
            Block::ToolCall { id, name, deltas } => {
                let function = json!({"name": name, "arguments": ""});
                events.push(delta(json!({"tool_calls": [{"index": calls, "id": id, "type": "function", "function": function}]})));
                events.extend(deltas.iter().map(|text| delta(json!({"tool_calls": [{"index": calls, "function": {"arguments": text}}]}))));
                calls += 1;
            }
        }
    }
    let stop = answer.stop.clone().unwrap_or_else(|| if calls > 0 { "tool_calls" } else { "stop" }.to_owned());
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": stop}]), None));
    if wants_usage {
        let usage = answer.usage;
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        events.push(chunk(
            json!([]),
            Some(json!({
                "prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output,
                "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
            })),
        ));
    }
    if !answer.without_end {
        events.push(b"data: [DONE]\n\n".to_vec());
    }
    events
}
