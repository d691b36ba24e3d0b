//! Building blocks of the tests in this crate: models, histories, and the replay of a recorded stream.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use wolli_protocol::event::AssistantMessageEvent as Event;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, TextContent, ThinkingContent, ToolCall};
use wolli_protocol::model::{Model, ModelCost, ThinkingLevel};
use wolli_protocol::number::Number;
use wolli_protocol::partial_json;
use wolli_protocol::sse::Decoder;

use crate::auth::RequestAuth;
use crate::formats::{Failure, Fed, Folder, Kind};
use crate::prepare::ToolNames;
use crate::request::{ModelRequest, ToolSpec};

/// A PNG of one pixel.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(crate) const ANTHROPIC: &str = "anthropic-messages";
pub(crate) const OPENAI: &str = "openai-completions";

pub(crate) fn model(api: &str) -> Model {
    let (provider, id, base_url) = match api {
        ANTHROPIC => ("anthropic", "claude-test", "https://api.anthropic.com"),
        _ => ("openai", "gpt-test", "https://api.openai.com/v1"),
    };
    Model {
        id: id.into(),
        name: id.into(),
        api: api.into(),
        provider: provider.into(),
        base_url: base_url.into(),
        reasoning: false,
        input: vec!["text".into(), "image".into()],
        cost: ModelCost { input: Number(1.0), output: Number(2.0), cache_read: Number(0.5), cache_write: Number(4.0) },
        context_window: 200_000,
        max_tokens: 32_000,
        ..Model::placeholder()
    }
}

pub(crate) fn request(model: Model, messages: Value) -> ModelRequest {
    ModelRequest {
        model,
        system: "Be brief.".into(),
        messages: history(messages),
        tools: Arc::from([]),
        thinking: ThinkingLevel::Off,
        session_id: "session-1".into(),
        auth: RequestAuth { key: Some("sk-test-planted-key".into()), headers: Vec::new() },
        max_tokens: None,
        chosen_by_name: true,
    }
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    let parameters = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": false
    });
    ToolSpec { name: name.into(), description: format!("Runs {name}."), parameters }
}

/// Messages in a short form: the fields that do not matter here are filled in.
pub(crate) fn history(messages: Value) -> Vec<Arc<Message>> {
    let Value::Array(messages) = messages else { panic!("a history is a list") };
    messages
        .into_iter()
        .map(|mut message| {
            let role = message["role"].as_str().unwrap().to_owned();
            let fields = message.as_object_mut().unwrap();
            let mut default = |key: &str, value: Value| {
                fields.entry(key).or_insert(value);
            };
            default("timestamp", json!(1));
            match role.as_str() {
                "assistant" => {
                    default("api", json!(ANTHROPIC));
                    default("provider", json!("anthropic"));
                    default("model", json!("claude-test"));
                    default("stopReason", json!("stop"));
                    default("usage", serde_json::to_value(wolli_protocol::message::Usage::default()).unwrap());
                }
                "toolResult" => {
                    default("toolName", json!("read"));
                    default("isError", json!(false));
                }
                _ => {}
            }
            Arc::new(serde_json::from_value(message).unwrap())
        })
        .collect()
}

/// What a stream came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    pub(crate) steps: Vec<Event>,
    pub(crate) message: AssistantMessage,
    /// The failure of the stream itself, if it did not complete.
    pub(crate) failure: Option<Failure>,
}

/// Feeds a stream in pieces, as a connection would that ends after them.
pub(crate) fn replay<'a>(model: &Model, pieces: impl IntoIterator<Item = &'a [u8]>) -> Replay {
    let kind = Kind::of(&model.api).unwrap();
    let mut folder = Folder::new(kind, model, ToolNames::default(), 7);
    let mut decoder = Decoder::new(1 << 20);
    let mut steps = VecDeque::new();
    let mut pieces = pieces.into_iter();
    loop {
        for event in decoder.by_ref() {
            let event = event.unwrap();
            match folder.feed(&event.name, &event.data, &mut steps) {
                Fed::More => {}
                Fed::Complete => {
                    let message = folder.finish(&mut steps);
                    return Replay { steps: steps.into(), message, failure: None };
                }
                Fed::Unreadable(text) => {
                    let message = folder.fail(StopReason::Error, text.clone());
                    return Replay { steps: steps.into(), message, failure: Some(Failure::lasting(text)) };
                }
                Fed::Failed(failure) => {
                    let message = folder.fail(StopReason::Error, failure.text.clone());
                    return Replay { steps: steps.into(), message, failure: Some(failure) };
                }
            }
        }
        match pieces.next() {
            Some(piece) => decoder.feed(piece),
            None => break,
        }
    }
    match folder.at_end() {
        Ok(()) => {
            let message = folder.finish(&mut steps);
            Replay { steps: steps.into(), message, failure: None }
        }
        Err(text) => {
            let message = folder.fail(StopReason::Error, text.to_owned());
            Replay { steps: steps.into(), message, failure: Some(Failure { text: text.to_owned(), may_pass: true }) }
        }
    }
}

/// Replays a stream whole, byte by byte and cut at every position, checks what must hold for each, and gives the whole one.
///
/// `end_text` is the error of a stream that ends too soon.
pub(crate) fn replay_every_way(model: &Model, stream: &str, end_text: &str) -> Replay {
    let bytes = stream.as_bytes();
    let whole = replay(model, [bytes]);
    assert_sum_of_steps(&whole);
    assert_eq!(replay(model, bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(replay(model, bytes.chunks(7)), whole, "in sevens");
    for cut in 0..bytes.len() {
        let part = replay(model, [&bytes[..cut]]);
        assert_sum_of_steps(&part);
        assert!(whole.steps.starts_with(&part.steps) || part.failure.is_none(), "cut at {cut}");
        if part.message.stop_reason != StopReason::Error {
            // Only what the provider itself called finished counts as an answer.
            assert_eq!(part.message.content, whole.message.content, "cut at {cut}");
        } else if let Some(failure) = &part.failure {
            assert!(failure.text == end_text || part.message == whole.message, "cut at {cut}: {}", failure.text);
        }
    }
    whole
}

/// The message is what a reader makes of the steps alone. Signatures do not show in steps, so they are left aside.
pub(crate) fn assert_sum_of_steps(replay: &Replay) {
    let mut content: Vec<AssistantBlock> = Vec::new();
    let mut arguments: Vec<String> = Vec::new();
    for step in &replay.steps {
        let index = step.content_index();
        if index == content.len() {
            arguments.push(String::new());
        }
        match step {
            Event::TextStart { .. } => content.push(AssistantBlock::Text(TextContent::default())),
            Event::ThinkingStart { .. } => content.push(AssistantBlock::Thinking(ThinkingContent::default())),
            Event::ToolcallStart { tool_call_id, tool_name, .. } => content.push(AssistantBlock::ToolCall(ToolCall {
                id: tool_call_id.clone().unwrap(),
                name: tool_name.clone().unwrap(),
                arguments: serde_json::Map::new(),
                thought_signature: None,
            })),
            Event::TextDelta { delta, .. } => match &mut content[index] {
                AssistantBlock::Text(text) => text.text.push_str(delta),
                other => panic!("text for {other:?}"),
            },
            Event::ThinkingDelta { delta, .. } => match &mut content[index] {
                AssistantBlock::Thinking(thinking) => thinking.thinking.push_str(delta),
                other => panic!("thinking for {other:?}"),
            },
            Event::ToolcallDelta { delta, .. } => {
                arguments[index].push_str(delta);
                match &mut content[index] {
                    AssistantBlock::ToolCall(call) => call.arguments = partial_json::parse(&arguments[index]),
                    other => panic!("arguments for {other:?}"),
                }
            }
            Event::TextEnd { content: text, .. } => assert!(matches!(&content[index], AssistantBlock::Text(it) if it.text == *text)),
            Event::ThinkingEnd { content: text, .. } => {
                assert!(matches!(&content[index], AssistantBlock::Thinking(it) if it.thinking == *text || it.thinking.is_empty()));
            }
            Event::ToolcallEnd { tool_call, .. } => {
                let AssistantBlock::ToolCall(call) = &mut content[index] else { panic!("no call at {index}") };
                call.thought_signature.clone_from(&tool_call.thought_signature);
                assert_eq!(call, tool_call);
            }
        }
    }
    let mut bare = replay.message.content.clone();
    for block in &mut bare {
        match block {
            AssistantBlock::Thinking(thinking) => {
                if thinking.redacted == Some(true) {
                    thinking.thinking.clear();
                }
                (thinking.thinking_signature, thinking.redacted) = (None, None);
            }
            AssistantBlock::ToolCall(call) => call.thought_signature = None,
            AssistantBlock::Text(_) => {}
        }
    }
    for block in &mut content {
        if let AssistantBlock::ToolCall(call) = block {
            call.thought_signature = None;
        }
    }
    assert_eq!(content, bare);
}
