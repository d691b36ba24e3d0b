//! Answers as Anthropic Messages streams them.

use serde_json::{Value, json};

use super::answer::{Answer, Block};
use super::record::{Issued, RecordedRequest, Thought};

fn event(name: &str, data: &Value) -> Vec<u8> {
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}

fn typed(mut data: Value, kind: &str) -> Vec<u8> {
    // The type stands first, as the service writes it.
    let mut object = serde_json::Map::from_iter([("type".to_owned(), json!(kind))]);
    if let Some(fields) = data.as_object_mut() {
        object.append(fields);
    }
    event(kind, &Value::Object(object))
}

/// The body of an error.
pub(super) fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})
}

/// An error inside a stream.
pub(super) fn error_event(kind: &str, message: &str) -> Vec<u8> {
    event("error", &json!({"type": "error", "error": {"type": kind, "message": message}}))
}

/// The events of an answer; what must come back unchanged goes to `issued`.
pub(super) fn render(answer: &Answer, request: &RecordedRequest, issued: &mut Issued) -> Vec<Vec<u8>> {
    let model = answer.response_model.as_deref().or(request.body["model"].as_str()).unwrap_or_default();
    let usage = answer.usage;
    let started = json!({
        "input_tokens": usage.input, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read, "output_tokens": 1,
    });
    let message = json!({
        "id": format!("msg_{:04}", request.number), "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": started,
    });
    let mut signatures = Vec::new();
    let mut events = vec![typed(json!({"message": message}), "message_start"), typed(json!({}), "ping")];
    for (index, block) in answer.blocks.iter().enumerate() {
        let start = |block: Value| typed(json!({"index": index, "content_block": block}), "content_block_start");
        let delta = |delta: Value| typed(json!({"index": index, "delta": delta}), "content_block_delta");
        match block {
            Block::Text(deltas) => {
                events.push(start(json!({"type": "text", "text": ""})));
                events.extend(deltas.iter().map(|text| delta(json!({"type": "text_delta", "text": text}))));
            }
            Block::Thinking { deltas, signature } => {
                let made_up = format!("sig-{:04}-{index}==", request.number);
                let signature = signature.clone().unwrap_or(made_up);
                events.push(start(json!({"type": "thinking", "thinking": "", "signature": ""})));
                events.extend(deltas.iter().map(|text| delta(json!({"type": "thinking_delta", "thinking": text}))));
                events.push(delta(json!({"type": "signature_delta", "signature": signature})));
                signatures.push(signature.clone());
                let asked = request.body["model"].as_str().map(str::to_owned);
                issued.thinking.insert(signature, Thought { text: deltas.concat(), model: asked });
            }
            Block::Redacted(data) => {
                events.push(start(json!({"type": "redacted_thinking", "data": data})));
                issued.redacted.insert(data.clone());
                signatures.push(data.clone());
            }
            Block::ToolCall { id, name, deltas } => {
                events.push(start(json!({"type": "tool_use", "id": id, "name": name, "input": {}})));
                events.extend(deltas.iter().map(|text| delta(json!({"type": "input_json_delta", "partial_json": text}))));
            }
        }
        events.push(typed(json!({"index": index}), "content_block_stop"));
    }
    if !signatures.is_empty() {
        issued.answers.push(signatures);
    }
    let calls = answer.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
    let stop = answer.stop.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned());
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    events.push(typed(json!({"delta": delta, "usage": {"output_tokens": usage.output}}), "message_delta"));
    if !answer.without_end {
        events.push(typed(json!({}), "message_stop"));
    }
    events
}
