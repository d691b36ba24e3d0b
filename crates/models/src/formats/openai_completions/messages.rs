//! The messages of a request.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use wolli_protocol::model::Model;
use wolli_protocol::text::byte_prefix;

use super::THINKING_FIELDS;
use super::compat::Compat;
use crate::prepare::{Part, Said, Turn, plain_id};

/// Opens the message that carries the images of tool results, which `tool` messages cannot.
const IMAGES_OF_RESULTS: &str = "Attached image(s) from tool result:";
/// What a tool result says that consists of images only.
const SEE_IMAGE: &str = "(see attached image)";
/// Stands between tool results and the person's next message for servers that want an answer there.
const BRIDGE: &str = "I have processed the tool results.";
/// Longest call id that OpenAI takes, and with it servers that hand requests on. A cut one is as good: nobody remembers ids between
/// requests.
pub(super) const CALL_ID_LIMIT: usize = 40;

#[derive(Debug, Default, Serialize)]
pub(super) struct WireMessage<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Value>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
}

#[derive(Debug, Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Debug, Serialize)]
struct WireCall {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction,
}

#[derive(Debug, Serialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

/// An id as the target takes it: what stands before `|` (ids of other kinds have two halves), cut to 40 characters. The letters of other
/// ids stay: some servers read a meaning out of their own.
pub(super) fn call_id(id: &str) -> String {
    match id.split_once('|') {
        Some((call, _)) => plain_id(call, CALL_ID_LIMIT),
        None => byte_prefix(id, CALL_ID_LIMIT).to_owned(),
    }
}

/// The messages for the turns, the system prompt first.
pub(super) fn messages<'a>(
    system: &'a str,
    turns: Vec<Turn<'a>>,
    model: &Model,
    compat: &Compat,
) -> Result<Vec<WireMessage<'a>>, serde_json::Error> {
    let mut messages = Vec::with_capacity(turns.len() + 1);
    if !system.trim().is_empty() {
        let role = if model.reasoning && compat.developer_role { "developer" } else { "system" };
        messages.push(WireMessage { role, content: Some(Content::Text(system.into())), ..WireMessage::default() });
    }
    let mut pending_images = Vec::new();
    for turn in turns {
        if !matches!(turn, Turn::Result { .. }) {
            flush_images(&mut messages, &mut pending_images, compat);
        }
        match turn {
            Turn::User(parts) => user(&mut messages, content(parts), compat),
            Turn::Assistant(said) => messages.extend(answer(said, compat)?),
            Turn::Result { call_id, name, parts, .. } => {
                let (images, texts): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| matches!(part, Part::Image { .. }));
                let texts: Vec<_> = texts.into_iter().filter_map(as_text).collect();
                let text = if texts.is_empty() { SEE_IMAGE.into() } else { join(texts, "\n") };
                pending_images.extend(images);
                messages.push(WireMessage {
                    role: "tool",
                    content: Some(Content::Text(text)),
                    tool_call_id: Some(call_id),
                    name: compat.tool_result_name.then_some(name),
                    ..WireMessage::default()
                });
            }
        }
    }
    flush_images(&mut messages, &mut pending_images, compat);
    Ok(messages)
}

/// Marks what is worth caching: the system text and the last text of the conversation.
pub(super) fn mark_cache(messages: &mut [WireMessage<'_>]) {
    if let Some(system) = messages.first_mut().filter(|message| matches!(message.role, "system" | "developer")) {
        mark(system);
    }
    for message in messages.iter_mut().rev() {
        if matches!(message.role, "user" | "assistant") && mark(message) {
            return;
        }
    }
}

pub(super) fn cache_control() -> Value {
    serde_json::json!({"type": "ephemeral"})
}

/// Marks the last text of a message; false if it has none.
fn mark(message: &mut WireMessage<'_>) -> bool {
    match message.content.take() {
        Some(Content::Text(text)) if !text.is_empty() => {
            message.content = Some(Content::Parts(vec![WirePart::Text { text, cache_control: Some(cache_control()) }]));
            true
        }
        Some(Content::Parts(mut parts)) => {
            let last = parts.iter_mut().rev().find_map(|part| match part {
                WirePart::Text { cache_control, .. } => Some(cache_control),
                WirePart::ImageUrl { .. } => None,
            });
            let found = last.is_some();
            if let Some(slot) = last {
                *slot = Some(cache_control());
            }
            message.content = Some(Content::Parts(parts));
            found
        }
        other => {
            message.content = other;
            false
        }
    }
}

fn user<'a>(messages: &mut Vec<WireMessage<'a>>, content: Content<'a>, compat: &Compat) {
    if compat.assistant_after_tool_result && messages.last().is_some_and(|last| last.role == "tool") {
        messages.push(WireMessage { role: "assistant", content: Some(Content::Text(BRIDGE.into())), ..WireMessage::default() });
    }
    messages.push(WireMessage { role: "user", content: Some(content), ..WireMessage::default() });
}

fn flush_images<'a>(messages: &mut Vec<WireMessage<'a>>, images: &mut Vec<Part<'a>>, compat: &Compat) {
    if images.is_empty() {
        return;
    }
    let mut parts = vec![Part::Text(IMAGES_OF_RESULTS.into())];
    parts.append(images);
    user(messages, content(parts), compat);
}

/// A plain string if there is one text and nothing else, which all servers take; else parts.
fn content(mut parts: Vec<Part<'_>>) -> Content<'_> {
    if parts.len() == 1 && matches!(parts.first(), Some(Part::Text(_))) {
        return Content::Text(parts.pop().and_then(as_text).unwrap_or_default());
    }
    Content::Parts(
        parts
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => WirePart::Text { text, cache_control: None },
                Part::Image { mime_type, data } => {
                    WirePart::ImageUrl { image_url: ImageUrl { url: format!("data:{mime_type};base64,{data}") } }
                }
            })
            .collect(),
    )
}

fn answer<'a>(said: Vec<Said<'a>>, compat: &Compat) -> Result<Option<WireMessage<'a>>, serde_json::Error> {
    let mut message = WireMessage { role: "assistant", ..WireMessage::default() };
    let mut texts: Vec<Cow<'a, str>> = Vec::new();
    let mut thoughts: Vec<&str> = Vec::new();
    let mut field = None;
    for block in said {
        match block {
            Said::Text(text) => texts.push(text.into()),
            Said::Thinking { text, signature } => {
                if !text.trim().is_empty() {
                    field = field.or(signature);
                    thoughts.push(text);
                }
            }
            Said::Redacted { .. } => {}
            Said::Call { id, name, arguments, thought_signature } => {
                message.reasoning_details.extend(thought_signature.and_then(|detail| serde_json::from_str::<Value>(detail).ok()));
                let function = WireFunction { name, arguments: serde_json::to_string(arguments)? };
                message.tool_calls.push(WireCall { id, kind: "function", function });
            }
        }
    }
    if texts.is_empty() && message.tool_calls.is_empty() {
        return Ok(None);
    }
    let text = (!texts.is_empty()).then(|| join(texts, ""));
    if compat.thinking_as_text && !thoughts.is_empty() {
        let thought = WirePart::Text { text: thoughts.join("\n\n").into(), cache_control: None };
        let text = text.map(|text| WirePart::Text { text, cache_control: None });
        message.content = Some(Content::Parts(std::iter::once(thought).chain(text).collect()));
    } else {
        message.content = text.map(Content::Text);
        if !thoughts.is_empty() {
            let joined = thoughts.join("\n");
            match THINKING_FIELDS.iter().position(|known| Some(*known) == field) {
                Some(0) => message.reasoning_content = Some(joined),
                Some(1) => message.reasoning = Some(joined),
                Some(2) => message.reasoning_text = Some(joined),
                _ => {}
            }
        }
    }
    if compat.assistant_after_tool_result {
        message.content.get_or_insert(Content::Text("".into()));
    }
    if compat.reasoning_content_required {
        message.reasoning_content.get_or_insert_default();
    }
    Ok(Some(message))
}

fn join<'a>(mut texts: Vec<Cow<'a, str>>, separator: &str) -> Cow<'a, str> {
    if texts.len() == 1 { texts.swap_remove(0) } else { texts.join(separator).into() }
}

fn as_text(part: Part<'_>) -> Option<Cow<'_, str>> {
    match part {
        Part::Text(text) => Some(text),
        Part::Image { .. } => None,
    }
}
