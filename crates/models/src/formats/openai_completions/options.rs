//! The part of a body that depends on what the server can do: caching, caps, thinking, routing. In the order of the wire.

use serde_json::{Value, json};
use wolli_protocol::message::JsonObject;
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::text::utf16_prefix;

use super::super::{level_word, mapped};
use super::compat::{Compat, ThinkingFormat};
use crate::request::{CacheRetention, ModelRequest};

/// Longest cache key that is taken.
const CACHE_KEY_LIMIT: usize = 64;

/// Options that stand before the tools.
pub(super) fn before_tools(request: &ModelRequest, compat: &Compat, retention: CacheRetention, cap: Option<u64>) -> JsonObject {
    let mut options = JsonObject::new();
    let long = retention == CacheRetention::Long && compat.long_cache_retention;
    let openai = request.model.base_url.contains("api.openai.com");
    if !request.session_id.is_empty() && ((openai && retention != CacheRetention::None) || long) {
        options.insert("prompt_cache_key".into(), json!(utf16_prefix(&request.session_id, CACHE_KEY_LIMIT)));
    }
    if long {
        options.insert("prompt_cache_retention".into(), json!("24h"));
    }
    if compat.usage_in_streaming {
        options.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if compat.store {
        options.insert("store".into(), json!(false));
    }
    if let Some(cap) = cap {
        options.insert(compat.max_tokens_field.into(), json!(cap));
    }
    options
}

/// Options that stand after the tools.
pub(super) fn after_tools(request: &ModelRequest, compat: &Compat, has_tools: bool) -> JsonObject {
    let mut options = JsonObject::new();
    if compat.zai_tool_stream && has_tools {
        options.insert("tool_stream".into(), json!(true));
    }
    thinking(&request.model, compat, request.thinking, &mut options);
    if let Some(routing) = &compat.open_router_routing {
        options.insert("provider".into(), Value::Object(routing.clone()));
    }
    if let Some(routing) = &compat.vercel_gateway_routing
        && request.model.base_url.contains("ai-gateway.vercel.sh")
    {
        options.insert("providerOptions".into(), json!({"gateway": routing}));
    }
    options
}

fn thinking(model: &Model, compat: &Compat, level: ThinkingLevel, options: &mut JsonObject) {
    if !model.reasoning {
        return;
    }
    let level = if level == ThinkingLevel::Off { level } else { model.clamp(level) };
    let on = level != ThinkingLevel::Off;
    let effort = level_word(model, level);
    // The word for "off": absent in the map, `null` (cannot be said), or a word.
    let off = mapped(model, ThinkingLevel::Off);
    let mut set = |key: &str, value: Value| {
        options.insert(key.to_owned(), value);
    };
    let kind = json!({"type": if on { "enabled" } else { "disabled" }});
    match compat.thinking_format {
        ThinkingFormat::OpenAi => {
            let word = if on { Some(effort) } else { off.flatten() };
            if let Some(word) = word.filter(|_| compat.reasoning_effort) {
                set("reasoning_effort", json!(word));
            }
        }
        ThinkingFormat::OpenRouter => match (on, off) {
            (true, _) => set("reasoning", json!({"effort": effort})),
            (false, Some(None)) => {}
            (false, word) => set("reasoning", json!({"effort": word.flatten().unwrap_or("none")})),
        },
        ThinkingFormat::DeepSeek => {
            set("thinking", kind);
            if on && compat.reasoning_effort {
                set("reasoning_effort", json!(effort));
            }
        }
        ThinkingFormat::Zai => set("thinking", kind),
        ThinkingFormat::Together => {
            set("reasoning", json!({"enabled": on}));
            if on && compat.reasoning_effort {
                set("reasoning_effort", json!(effort));
            }
        }
        ThinkingFormat::Qwen => set("enable_thinking", json!(on)),
        ThinkingFormat::QwenChatTemplate => {
            set("chat_template_kwargs", json!({"enable_thinking": on, "preserve_thinking": true}));
        }
        ThinkingFormat::StringThinking => match (on, off) {
            (true, _) => set("thinking", json!(effort)),
            (false, Some(None)) => {}
            (false, word) => set("thinking", json!(word.flatten().unwrap_or("none"))),
        },
        ThinkingFormat::AntLing => {
            if let Some(word) = mapped(model, level).flatten().filter(|_| on) {
                set("reasoning", json!({"effort": word}));
            }
        }
    }
}
