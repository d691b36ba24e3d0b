//! The rules of Anthropic Messages.

use std::collections::BTreeSet;

use serde_json::Value;

use super::common::{ImageLimits, Images, is_plain, known_fields, list, object_schema, text};
use super::{Refusal, Verdict, require};
use crate::provider::record::{Issued, RecordedRequest, Thought};

const REQUEST: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "tools",
    "tool_choice",
    "metadata",
    "thinking",
    "output_config",
    "service_tier",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
];
const TOOL: &[&str] = &[
    "name",
    "description",
    "input_schema",
    "cache_control",
    "eager_input_streaming",
    "type",
    "strict",
    "defer_loading",
    "allowed_callers",
    "input_examples",
];

/// Bytes of a whole request.
const MAX_REQUEST: usize = 32 << 20;

/// Marks of what is to be cached that one request may have.
const MAX_CACHE_MARKS: usize = 4;

const IMAGES: ImageLimits = ImageLimits { count: 100, many: (20, 2000), side: 8000, megabytes: 5 };

pub(super) fn check(request: &RecordedRequest, issued: &Issued, allowed: &BTreeSet<String>) -> Verdict {
    let body = &request.body;
    let key = request.header("x-api-key").or(request.header("authorization")).unwrap_or_default();
    if key.trim().is_empty() {
        return Err(Refusal::unauthorized("authentication_error", "x-api-key header is required".into()));
    }
    require!(request.header("anthropic-version").is_some(), "anthropic-version: header is required");
    if request.raw.len() > MAX_REQUEST {
        let message = "Request exceeds the maximum size".to_owned();
        return Err(Refusal { status: 413, kind: "request_too_large", message });
    }
    known_fields("", body, REQUEST, allowed)?;
    require!(!text(&body["model"]).is_empty(), "model: Field required");
    require!(!body["max_tokens"].is_null(), "max_tokens: Field required");
    let max_tokens = body["max_tokens"].as_u64().unwrap_or_default();
    require!(max_tokens >= 1, "max_tokens: Input should be greater than or equal to 1");
    require!(body["stream"] == true, "stream: only streams are served here");
    thinking_setting(body, max_tokens)?;
    system(&body["system"], allowed)?;
    tools(body, allowed)?;
    messages(body, issued, allowed)?;
    let marks = request.raw.windows(b"\"cache_control\":".len()).filter(|window| *window == b"\"cache_control\":").count();
    require!(marks <= MAX_CACHE_MARKS, "A maximum of 4 blocks with cache_control may be provided. Found {marks}.");
    Ok(())
}

fn thinking_setting(body: &Value, max_tokens: u64) -> Verdict {
    let thinking = &body["thinking"];
    if thinking.is_null() {
        return Ok(());
    }
    match text(&thinking["type"]) {
        "enabled" => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
            require!(budget >= 1024, "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
            require!(budget < max_tokens, "`max_tokens` must be greater than `thinking.budget_tokens`.");
        }
        "adaptive" | "disabled" => require!(thinking["budget_tokens"].is_null(), "thinking.budget_tokens: Extra inputs are not permitted"),
        other => {
            return Err(Refusal::invalid(format!(
                "thinking: Input tag '{other}' found using 'type' does not match any of the expected tags"
            )));
        }
    }
    let warm = body["temperature"].is_null() || body["temperature"].as_f64() == Some(1.0);
    require!(thinking["type"] == "disabled" || warm, "`temperature` may only be set to 1 when thinking is enabled");
    Ok(())
}

fn system(system: &Value, allowed: &BTreeSet<String>) -> Verdict {
    for (index, block) in list(system).iter().enumerate() {
        known_fields(&format!("system.{index}"), block, &["type", "text", "cache_control"], allowed)?;
        require!(!text(&block["text"]).trim().is_empty(), "system: text content blocks must be non-empty");
    }
    require!(system.is_null() || system.is_array() || system.is_string(), "system: Input should be a valid string or list");
    Ok(())
}

fn tools(body: &Value, allowed: &BTreeSet<String>) -> Verdict {
    let mut names = BTreeSet::new();
    for (index, tool) in list(&body["tools"]).iter().enumerate() {
        let at = format!("tools.{index}.custom");
        known_fields(&at, tool, TOOL, allowed)?;
        let name = text(&tool["name"]);
        require!(is_plain(name, 128), "{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'");
        require!(names.insert(name), "tools: Tool names must be unique.");
        require!(tool["description"].is_null() || tool["description"].is_string(), "{at}.description: Input should be a valid string");
        object_schema(&format!("{at}.input_schema"), &tool["input_schema"])?;
    }
    Ok(())
}

/// Blocks of one turn; messages of one role that follow each other are one turn for the service.
struct Turn<'a> {
    role: &'a str,
    /// Number of its first message.
    number: usize,
    blocks: Vec<&'a Value>,
}

fn messages(body: &Value, issued: &Issued, allowed: &BTreeSet<String>) -> Verdict {
    let messages = list(&body["messages"]);
    require!(!messages.is_empty(), "messages: at least one message is required");
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut images = Images::new(&IMAGES);
    for (number, message) in messages.iter().enumerate() {
        let at = format!("messages.{number}");
        known_fields(&at, message, &["role", "content"], allowed)?;
        let role = text(&message["role"]);
        require!(
            matches!(role, "user" | "assistant"),
            "messages: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\"."
        );
        let content = &message["content"];
        require!(content.is_string() || content.is_array(), "{at}.content: Input should be a valid list");
        let empty = content.as_str().is_some_and(|text| text.trim().is_empty()) || content.as_array().is_some_and(Vec::is_empty);
        require!(!empty, "{at}: all messages must have non-empty content except for the optional final assistant message");
        for (index, block) in list(content).iter().enumerate() {
            check_block(&format!("{at}.content.{index}"), role, block, body, issued, &mut images, allowed)?;
        }
        match turns.last_mut() {
            Some(turn) if turn.role == role => turn.blocks.extend(list(content)),
            _ => turns.push(Turn { role, number, blocks: list(content).iter().collect() }),
        }
    }
    require!(turns[0].role == "user", "messages: first message must use the \"user\" role");
    require!(
        turns[turns.len() - 1].role == "user",
        "This model does not support assistant message prefill. The conversation must end with a user message."
    );
    images.finish()?;
    pairs(&turns)?;
    thinking_comes_first(body, &turns)?;
    thinking_is_whole(&turns, issued)
}

fn check_block(
    at: &str,
    role: &str,
    block: &Value,
    body: &Value,
    issued: &Issued,
    images: &mut Images,
    allowed: &BTreeSet<String>,
) -> Verdict {
    let kind = text(&block["type"]);
    let places = match kind {
        "text" => "user assistant",
        "image" | "tool_result" | "document" => "user",
        "thinking" | "redacted_thinking" | "tool_use" => "assistant",
        _ => return Err(Refusal::invalid(format!("{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags"))),
    };
    require!(places.contains(role), "{at}: `{kind}` blocks are not permitted in `{role}` messages");
    match kind {
        "text" => {
            known_fields(at, block, &["type", "text", "cache_control", "citations"], allowed)?;
            let text = text(&block["text"]);
            require!(!text.is_empty(), "messages: text content blocks must be non-empty");
            require!(!text.trim().is_empty(), "messages: text content blocks must contain non-whitespace text");
        }
        "image" => image(at, block, images, allowed)?,
        "thinking" => {
            known_fields(at, block, &["type", "thinking", "signature"], allowed)?;
            let known = issued.thinking.get(text(&block["signature"]));
            let own = |thought: &Thought| thought.model.as_deref().is_none_or(|model| body["model"] == model);
            require!(known.is_some_and(own), "{at}: Invalid `signature` in `thinking` block");
            require!(
                known.map(|thought| thought.text.as_str()) == block["thinking"].as_str(),
                "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
            );
        }
        "redacted_thinking" => {
            known_fields(at, block, &["type", "data"], allowed)?;
            require!(issued.redacted.contains(text(&block["data"])), "{at}: Invalid `data` in `redacted_thinking` block");
        }
        "tool_use" => {
            known_fields(at, block, &["type", "id", "name", "input", "cache_control", "caller"], allowed)?;
            require!(is_plain(text(&block["id"]), 64), "{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'");
            require!(is_plain(text(&block["name"]), 200), "{at}.tool_use.name: String should have at least 1 character");
            require!(block["input"].is_object(), "{at}.tool_use.input: Input should be a valid dictionary");
        }
        "tool_result" => {
            known_fields(at, block, &["type", "tool_use_id", "content", "is_error", "cache_control"], allowed)?;
            let content = &block["content"];
            require!(
                content.is_null() || content.is_string() || content.is_array(),
                "{at}.tool_result.content: Input should be a valid list"
            );
            for (index, part) in list(content).iter().enumerate() {
                let at = format!("{at}.tool_result.content.{index}");
                match text(&part["type"]) {
                    "text" => require!(!text(&part["text"]).is_empty(), "messages: text content blocks must be non-empty"),
                    "image" => image(&at, part, images, allowed)?,
                    other => return Err(Refusal::invalid(format!("{at}: Input tag '{other}' is not permitted in a tool result"))),
                }
            }
            let empty = content.is_null() || content.as_str() == Some("") || content.as_array().is_some_and(Vec::is_empty);
            require!(block["is_error"] != true || !empty, "{at}.tool_result: content cannot be empty if `is_error` is true");
        }
        _ => {}
    }
    Ok(())
}

fn image(at: &str, block: &Value, images: &mut Images, allowed: &BTreeSet<String>) -> Verdict {
    known_fields(at, block, &["type", "source", "cache_control"], allowed)?;
    let source = &block["source"];
    require!(source["type"] == "base64", "{at}.source: only base64 images are served here");
    known_fields(&format!("{at}.source"), source, &["type", "media_type", "data"], allowed)?;
    images.take(&format!("{at}.image.source.base64"), text(&source["media_type"]), text(&source["data"]))
}

/// Every call has its result at the beginning of the next turn, and every result its call in the one before.
fn pairs(turns: &[Turn<'_>]) -> Verdict {
    let mut all_ids = BTreeSet::new();
    for (index, turn) in turns.iter().enumerate() {
        let of_kind = |turn: &Turn<'_>, kind: &str, key: &str| -> Vec<String> {
            turn.blocks.iter().filter(|block| block["type"] == kind).map(|block| text(&block[key]).to_owned()).collect()
        };
        if turn.role == "assistant" {
            let calls = of_kind(turn, "tool_use", "id");
            for id in &calls {
                require!(all_ids.insert(id.clone()), "messages.{}: `tool_use` ids must be unique", turn.number);
            }
            let next = turns.get(index + 1);
            let leading = next.map_or(0, |next| next.blocks.iter().take_while(|block| block["type"] == "tool_result").count());
            let answered: Vec<_> =
                next.map_or(&[][..], |next| &next.blocks[..leading]).iter().map(|block| text(&block["tool_use_id"])).collect();
            let missing: Vec<_> = calls.iter().filter(|id| !answered.contains(&id.as_str())).cloned().collect();
            require!(
                missing.is_empty(),
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must have \
                 a corresponding `tool_result` block in the next message.",
                turn.number,
                missing.join(", ")
            );
        } else {
            let calls = index.checked_sub(1).map_or_else(Vec::new, |before| of_kind(&turns[before], "tool_use", "id"));
            let mut seen = BTreeSet::new();
            for id in of_kind(turn, "tool_result", "tool_use_id") {
                require!(
                    calls.contains(&id),
                    "messages.{}.content: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
                     corresponding `tool_use` block in the previous message.",
                    turn.number
                );
                require!(
                    seen.insert(id.clone()),
                    "each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
                );
            }
        }
    }
    Ok(())
}

/// What is left of the thinking of an answer is its beginning, in order: none is missing between two others.
fn thinking_is_whole(turns: &[Turn<'_>], issued: &Issued) -> Verdict {
    for turn in turns.iter().filter(|turn| turn.role == "assistant") {
        let signature = |block: &&Value| match text(&block["type"]) {
            "thinking" => Some(text(&block["signature"]).to_owned()),
            "redacted_thinking" => Some(text(&block["data"]).to_owned()),
            _ => None,
        };
        let told: Vec<String> = turn.blocks.iter().filter_map(signature).collect();
        let whole = issued.answers.iter().find(|answer| told.iter().any(|told| answer.contains(told)));
        require!(
            whole.is_none_or(|whole| whole.starts_with(&told)),
            "messages.{}.content: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks \
             must remain as they were in the original response.",
            turn.number
        );
        let last = turn.blocks.last().map_or("", |block| text(&block["type"]));
        require!(!last.ends_with("thinking"), "messages.{}: The final block in an assistant message cannot be `thinking`.", turn.number);
    }
    Ok(())
}

/// With thinking on, the answer whose tools just ran must begin with its thinking.
fn thinking_comes_first(body: &Value, turns: &[Turn<'_>]) -> Verdict {
    let results = turns[turns.len() - 1].blocks.iter().any(|block| block["type"] == "tool_result");
    if body["thinking"]["type"] != "enabled" || !results {
        return Ok(());
    }
    let Some(answer) = turns.len().checked_sub(2).map(|index| &turns[index]) else {
        return Ok(());
    };
    let first = answer.blocks.first().map_or("", |block| text(&block["type"]));
    require!(
        matches!(first, "thinking" | "redacted_thinking"),
        "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final \
         `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
        answer.number
    );
    Ok(())
}
