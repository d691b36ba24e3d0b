//! The body of a request.
//!
//! Invariant: no blank texts, no empty messages, roles alternate beginning with `user`, and the results of an answer's
//! calls stand first in the message after it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use wolli_protocol::message::JsonObject;
use wolli_protocol::model::{Model, ThinkingLevel};

use super::super::{Written, level_word, mapped};
use super::Compat;
use crate::prepare::{self, ImageLimits, ImageRule, Part, Rules, Said, Turn, WireTool, plain_id, wire_tools};
use crate::refused::Fingerprint;
use crate::repair::{ImagePlace, Repairs};
use crate::request::{CacheRetention, ModelRequest};

/// Longest call id that is taken.
const CALL_ID_LIMIT: usize = 64;
/// The documented limits. The length is that of the base64 itself; a whole request may have 32 MiB, of which images get three quarters.
const IMAGES: ImageLimits = ImageLimits { max_length: 5 << 20, max_side: 8000, max_total: 24 << 20, max_count: 100, many: (20, 2000) };
/// Smallest thinking budget that is taken.
const LEAST_BUDGET: u64 = 1024;
/// Tokens that are left for the answer itself when the budget would take them all.
const ANSWER_RESERVE: u64 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: String,
        input: &'a JsonObject,
    },
    ToolResult {
        tool_use_id: String,
        content: ResultContent<'a>,
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Tool<'a> {
    name: String,
    description: &'a str,
    input_schema: JsonObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    eager_input_streaming: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// Writes the body for a request.
pub(crate) fn write(request: &ModelRequest, retention: CacheRetention, repairs: &Repairs) -> Result<Written, serde_json::Error> {
    let model = &request.model;
    let compat = Compat::of(model);
    let cache = cache_control(retention, compat);
    let rules = Rules {
        model,
        images: if repairs.drop_all_images {
            ImageRule::Refused
        } else if model.accepts_images() {
            ImageRule::Send(IMAGES)
        } else {
            ImageRule::TextOnly
        },
        drop_thinking: repairs.drop_thinking,
        known: &repairs.known,
        call_id: |id| plain_id(id, CALL_ID_LIMIT),
        call_id_limit: CALL_ID_LIMIT,
    };
    let turns = prepare::turns(&request.messages, &rules);
    let thinks_before_tools = tool_loop_has_thinking(&turns);
    let mut messages = messages(turns, compat);
    let mut left_out = prepare::left_out(&request.messages, model, repairs.drop_thinking, repairs.drop_all_images);
    for place in &repairs.drop_images {
        left_out.extend(drop_image(&mut messages, *place).map(|data| Fingerprint::image(&model.provider, data)));
    }
    let has_images = messages.iter().any(|message| message.content.iter().any(has_image));
    mark_last_user(&mut messages, cache);
    let (tools, names) = wire_tools(&request.tools, |index, name, tool| repairs.relaxes(index, name, &model.provider, tool, &mut left_out));
    let mut betas = Vec::new();
    if !tools.is_empty() && !compat.eager_tool_input_streaming {
        betas.push("fine-grained-tool-streaming-2025-05-14");
    }
    if !compat.force_adaptive_thinking {
        betas.push("interleaved-thinking-2025-05-14");
    }
    let thinking = thinking(model, compat, request.thinking, request.max_tokens, repairs.max_tokens, thinks_before_tools);
    let system = if request.system.trim().is_empty() {
        Vec::new()
    } else {
        vec![Block::Text { text: Cow::Borrowed(&request.system), cache_control: cache }]
    };
    let body = Body {
        model: &model.id,
        max_tokens: thinking.max_tokens,
        stream: true,
        system,
        messages,
        tools: offer(tools, compat, cache),
        thinking: thinking.thinking,
        output_config: thinking.output_config,
    };
    Ok(Written { body: serde_json::to_vec(&body)?, names, betas, has_images, left_out })
}

fn cache_control(retention: CacheRetention, compat: Compat) -> Option<CacheControl> {
    match retention {
        CacheRetention::None => None,
        CacheRetention::Long if compat.long_cache_retention => Some(CacheControl { kind: "ephemeral", ttl: Some("1h") }),
        CacheRetention::Short | CacheRetention::Long => Some(CacheControl { kind: "ephemeral", ttl: None }),
    }
}

fn offer(tools: Vec<WireTool<'_>>, compat: Compat, cache: Option<CacheControl>) -> Vec<Tool<'_>> {
    let last = tools.len().saturating_sub(1);
    tools
        .into_iter()
        .enumerate()
        .map(|(index, tool)| Tool {
            name: tool.name,
            description: tool.description,
            input_schema: input_schema(tool.schema),
            eager_input_streaming: compat.eager_tool_input_streaming.then_some(true),
            cache_control: cache.filter(|_| index == last && compat.cache_control_on_tools),
        })
        .collect()
}

/// Only what is understood at the top of a schema; unions and the like are refused there.
fn input_schema(schema: JsonObject) -> JsonObject {
    const KEPT: [&str; 5] = ["type", "properties", "required", "$defs", "definitions"];
    schema.into_iter().filter(|(key, _)| KEPT.contains(&key.as_str())).collect()
}

struct Thinking {
    max_tokens: u64,
    thinking: Option<Value>,
    output_config: Option<Value>,
}

fn thinking(
    model: &Model,
    compat: Compat,
    level: ThinkingLevel,
    asked_cap: Option<u64>,
    repaired_cap: Option<u64>,
    thinks_before_tools: bool,
) -> Thinking {
    let model_cap = model.max_tokens.max(1);
    let capped = |tokens: u64| tokens.min(repaired_cap.unwrap_or(u64::MAX)).max(1);
    let mut plan = Thinking { max_tokens: capped(asked_cap.unwrap_or(model_cap)), thinking: None, output_config: None };
    if !model.reasoning {
        return plan;
    }
    let level = if level == ThinkingLevel::Off { level } else { model.clamp(level) };
    let off = (mapped(model, ThinkingLevel::Off) != Some(None)).then(|| json!({"type": "disabled"}));
    let budget = match level {
        ThinkingLevel::Off => {
            plan.thinking = off;
            return plan;
        }
        ThinkingLevel::Minimal => 1024,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High | ThinkingLevel::Xhigh => 16_384,
    };
    if compat.force_adaptive_thinking {
        let default = match level {
            ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High | ThinkingLevel::Xhigh => "high",
        };
        let effort = mapped(model, level).flatten().map_or(default, |_| level_word(model, level));
        plan.thinking = Some(json!({"type": "adaptive", "display": "summarized"}));
        plan.output_config = Some(json!({"effort": effort}));
        return plan;
    }
    let max_tokens = capped(asked_cap.map_or(model_cap, |cap| cap.saturating_add(budget).min(model_cap)));
    let budget = if max_tokens <= budget { max_tokens.saturating_sub(ANSWER_RESERVE) } else { budget };
    if budget < LEAST_BUDGET || !thinks_before_tools {
        // A smaller budget is refused, and so is thinking when the answer that made the last calls did not begin with it.
        plan.thinking = off;
        return plan;
    }
    plan.max_tokens = max_tokens;
    plan.thinking = Some(json!({"type": "enabled", "budget_tokens": budget, "display": "summarized"}));
    plan
}

/// False if the last answer called tools whose results follow it, and does not begin with thinking. What a person says behind the results
/// changes nothing: it stands in the same message.
fn tool_loop_has_thinking(turns: &[Turn<'_>]) -> bool {
    let Some(last) = turns.iter().rposition(|turn| matches!(turn, Turn::Assistant(_))) else { return true };
    if !turns[last..].iter().any(|turn| matches!(turn, Turn::Result { .. })) {
        return true;
    }
    matches!(
        &turns[last],
        Turn::Assistant(said) if matches!(said.first(), Some(Said::Thinking { signature: Some(_), .. } | Said::Redacted { .. }))
    )
}

fn messages(turns: Vec<Turn<'_>>, compat: Compat) -> Vec<WireMessage<'_>> {
    let mut messages: Vec<WireMessage<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let (role, mut content) = match turn {
            Turn::User(parts) => ("user", parts.into_iter().map(part).collect()),
            Turn::Result { call_id, parts, is_error, .. } => {
                let content = result_content(parts);
                ("user", vec![Block::ToolResult { tool_use_id: call_id, content, is_error, cache_control: None }])
            }
            Turn::Assistant(said) => ("assistant", answer(said, compat)),
        };
        match messages.last_mut() {
            // The API would join them itself, other servers refuse them.
            Some(last) if last.role == role => last.content.append(&mut content),
            _ => messages.push(WireMessage { role, content }),
        }
    }
    messages
}

fn part(part: Part<'_>) -> Block<'_> {
    match part {
        Part::Text(text) => Block::Text { text, cache_control: None },
        Part::Image { mime_type, data } => {
            Block::Image { source: Source { kind: "base64", media_type: mime_type, data }, cache_control: None }
        }
    }
}

fn result_content(parts: Vec<Part<'_>>) -> ResultContent<'_> {
    let has_image = parts.iter().any(|it| matches!(it, Part::Image { .. }));
    if !has_image {
        let mut texts: Vec<Cow<'_, str>> = parts.into_iter().filter_map(as_text).collect();
        return ResultContent::Text(if texts.len() == 1 { texts.swap_remove(0) } else { texts.join("\n").into() });
    }
    let mut blocks = Vec::with_capacity(parts.len() + 1);
    if !parts.iter().any(|it| matches!(it, Part::Text(_))) {
        blocks.push(Block::Text { text: "(see attached image)".into(), cache_control: None });
    }
    blocks.extend(parts.into_iter().map(part));
    ResultContent::Blocks(blocks)
}

fn as_text(part: Part<'_>) -> Option<Cow<'_, str>> {
    match part {
        Part::Text(text) => Some(text),
        Part::Image { .. } => None,
    }
}

fn answer(said: Vec<Said<'_>>, compat: Compat) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::with_capacity(said.len());
    for block in said {
        match block {
            Said::Text(text) => blocks.push(Block::Text { text: text.into(), cache_control: None }),
            Said::Thinking { text, signature: Some(signature) } => blocks.push(Block::Thinking { thinking: text, signature }),
            Said::Thinking { text, signature: None } if compat.allow_empty_signature => {
                blocks.push(Block::Thinking { thinking: text, signature: "" });
            }
            Said::Thinking { text, signature: None } => blocks.push(Block::Text { text: text.into(), cache_control: None }),
            Said::Redacted { data } => blocks.push(Block::RedactedThinking { data }),
            Said::Call { id, name, arguments, .. } => blocks.push(Block::ToolUse { id, name, input: arguments }),
        }
    }
    // An answer must not end in thinking.
    while matches!(blocks.last(), Some(Block::Thinking { .. } | Block::RedactedThinking { .. })) {
        blocks.pop();
    }
    blocks
}

/// Puts the note in the place of an image that the provider refused, or of all images of a tool result. Gives the first of them back.
fn drop_image<'a>(messages: &mut [WireMessage<'a>], place: ImagePlace) -> Option<&'a str> {
    let mut dropped = None;
    let note = || Block::Text { text: prepare::REFUSED_NOTE.into(), cache_control: None };
    let block = messages.get_mut(place.message).and_then(|message| message.content.get_mut(place.block));
    match (block, place.inner) {
        (Some(Block::Image { source, .. }), _) => {
            dropped = Some(source.data);
            messages[place.message].content[place.block] = note();
        }
        (Some(Block::ToolResult { content: ResultContent::Blocks(blocks), .. }), inner) => {
            for (index, block) in blocks.iter_mut().enumerate() {
                if let Block::Image { source, .. } = block
                    && inner.is_none_or(|inner| inner == index)
                {
                    dropped = dropped.or(Some(source.data));
                    *block = note();
                }
            }
        }
        _ => {}
    }
    dropped
}

fn has_image(block: &Block<'_>) -> bool {
    match block {
        Block::Image { .. } => true,
        Block::ToolResult { content: ResultContent::Blocks(blocks), .. } => blocks.iter().any(has_image),
        _ => false,
    }
}

/// The whole conversation so far is worth caching: the next request begins with it.
fn mark_last_user(messages: &mut [WireMessage<'_>], cache: Option<CacheControl>) {
    let last = messages.iter_mut().rev().find(|message| message.role == "user").and_then(|message| message.content.last_mut());
    if let Some(Block::Text { cache_control, .. } | Block::Image { cache_control, .. } | Block::ToolResult { cache_control, .. }) = last {
        *cache_control = cache;
    }
}
