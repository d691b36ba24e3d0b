//! The body of a request.

use serde::Serialize;
use serde_json::Value;
use wolli_protocol::message::JsonObject;

use super::super::Written;
use super::compat::Compat;
use super::messages::{CALL_ID_LIMIT, WireMessage, cache_control, call_id, mark_cache, messages};
use super::options::{after_tools, before_tools};
use crate::prepare::{self, ImageLimits, ImageRule, Part, Rules, Said, Turn, WireTool, wire_tools};
use crate::repair::Repairs;
use crate::request::{CacheRetention, ModelRequest};

/// What OpenAI documents for a request; of its 50 MB, images get most. Servers that take less say so.
const IMAGES: ImageLimits = ImageLimits { max_count: 500, max_total: 44 << 20, ..ImageLimits::NONE };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    stream: bool,
    #[serde(flatten)]
    before_tools: JsonObject,
    /// Also an empty list: some servers refuse a history with calls when the field is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Tool<'a>>>,
    #[serde(flatten)]
    after_tools: JsonObject,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: String,
    description: &'a str,
    parameters: JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Writes the body for a request.
pub(crate) fn write(request: &ModelRequest, retention: CacheRetention, repairs: &Repairs) -> Result<Written, serde_json::Error> {
    let model = &request.model;
    let compat = Compat::of(model);
    // A place inside a request of another kind means nothing here, so one refused image is all of them.
    let drop_images = repairs.drop_all_images || !repairs.drop_images.is_empty();
    let rules = Rules {
        model,
        images: if drop_images {
            ImageRule::Refused
        } else if model.accepts_images() {
            ImageRule::Send(IMAGES)
        } else {
            ImageRule::TextOnly
        },
        drop_thinking: repairs.drop_thinking,
        known: &repairs.known,
        call_id,
        call_id_limit: CALL_ID_LIMIT,
    };
    let turns = prepare::turns(&request.messages, &rules);
    let has_images = turns.iter().any(has_image);
    let has_calls = turns.iter().any(has_call);
    let mut messages = messages(&request.system, turns, model, &compat)?;
    let mut left_out = prepare::left_out(&request.messages, model, repairs.drop_thinking, drop_images);
    let (tools, names) = wire_tools(&request.tools, |index, name, tool| repairs.relaxes(index, name, &model.provider, tool, &mut left_out));
    let marked = compat.anthropic_cache_control && retention != CacheRetention::None;
    if marked {
        mark_cache(&mut messages);
    }
    let has_tools = !tools.is_empty();
    let body = Body {
        model: &model.id,
        messages,
        stream: true,
        before_tools: before_tools(request, &compat, retention, repairs.max_tokens.or(request.max_tokens)),
        tools: (has_tools || has_calls).then(|| offer(tools, &compat, marked)),
        after_tools: after_tools(request, &compat, has_tools),
    };
    Ok(Written { body: serde_json::to_vec(&body)?, names, betas: Vec::new(), has_images, left_out })
}

fn offer<'a>(tools: Vec<WireTool<'a>>, compat: &Compat, marked: bool) -> Vec<Tool<'a>> {
    let last = tools.len().saturating_sub(1);
    tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| Tool {
            kind: "function",
            function: Function {
                name: tool.name,
                description: tool.description,
                parameters: tool.schema,
                strict: compat.strict_mode.then_some(false),
            },
            cache_control: (marked && index == last).then(cache_control),
        })
        .collect()
}

fn has_image(turn: &Turn<'_>) -> bool {
    match turn {
        Turn::User(parts) | Turn::Result { parts, .. } => parts.iter().any(|part| matches!(part, Part::Image { .. })),
        Turn::Assistant(_) => false,
    }
}

fn has_call(turn: &Turn<'_>) -> bool {
    matches!(turn, Turn::Assistant(said) if said.iter().any(|block| matches!(block, Said::Call { .. })))
}
