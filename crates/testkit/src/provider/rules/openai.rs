//! The rules of OpenAI chat completions, and of the stricter servers that copy it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::common::{ImageLimits, Images, is_plain, known_fields, list, object_schema, text};
use super::{Refusal, Verdict, require};
use crate::provider::record::{Issued, RecordedRequest};

const REQUEST: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "store",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "verbosity",
    "prompt_cache_key",
    "prompt_cache_retention",
    "response_format",
    "stop",
    "seed",
    "user",
    "metadata",
    "n",
    "logit_bias",
    "service_tier",
    "safety_identifier",
    "presence_penalty",
    "frequency_penalty",
];

/// Fields under which compatible servers take thinking back.
const REASONING: &[&str] = &["reasoning_content", "reasoning", "reasoning_text"];

const IMAGES: ImageLimits = ImageLimits { count: 500, many: (usize::MAX, u32::MAX), side: u32::MAX, megabytes: 20 };

pub(super) fn check(request: &RecordedRequest, issued: &Issued, allowed: &BTreeSet<String>) -> Verdict {
    let body = &request.body;
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if bearer.trim().is_empty() {
        let message = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth";
        return Err(Refusal::unauthorized("invalid_request_error", message.into()));
    }
    for key in body.as_object().into_iter().flatten().map(|(key, _)| key) {
        require!(REQUEST.contains(&key.as_str()) || allowed.contains(key), "Unrecognized request argument supplied: {key}");
    }
    require!(!text(&body["model"]).is_empty(), "you must provide a model parameter");
    require!(body["stream"] == true, "stream: only streams are served here");
    let both = !body["max_tokens"].is_null() && !body["max_completion_tokens"].is_null();
    require!(!both, "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    tools(body, allowed)?;
    messages(body, issued, allowed)
}

fn tools(body: &Value, allowed: &BTreeSet<String>) -> Verdict {
    let mut names = BTreeSet::new();
    for (index, tool) in list(&body["tools"]).iter().enumerate() {
        let at = format!("tools[{index}]");
        known_fields(&at, tool, &["type", "function"], allowed)?;
        require!(tool["type"] == "function", "Invalid value: '{}'. Supported values are: 'function'.", text(&tool["type"]));
        let function = &tool["function"];
        known_fields(&format!("{at}.function"), function, &["name", "description", "parameters", "strict"], allowed)?;
        let name = text(&function["name"]);
        require!(is_plain(name, 64), "Invalid '{at}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'");
        require!(names.insert(name), "Tool names must be unique: {name}");
        if !function["parameters"].is_null() {
            object_schema(&format!("Invalid schema for function '{name}': parameters"), &function["parameters"])?;
        }
    }
    Ok(())
}

fn messages(body: &Value, issued: &Issued, allowed: &BTreeSet<String>) -> Verdict {
    let messages = list(&body["messages"]);
    require!(!messages.is_empty(), "Invalid 'messages': empty array. Expected an array with minimum length 1");
    // Calls of the last assistant message that have no result yet, and all of them.
    let (mut open, mut calls): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut images = Images::new(&IMAGES);
    for (index, message) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let role = text(&message["role"]);
        if role == "tool" {
            let id = text(&message["tool_call_id"]);
            require!(
                !calls.is_empty(),
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            );
            require!(
                calls.iter().any(|call| call == id),
                "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message."
            );
            require!(open.iter().any(|call| call == id), "Duplicate tool result for 'tool_call_id' '{id}'");
            open.retain(|call| call != id);
            known_fields(&at, message, &["role", "content", "tool_call_id", "name"], allowed)?;
            require!(!content_is_empty(&message["content"]), "{at}.content: a tool message must not be empty");
            content(&at, &message["content"], None, allowed)?;
            continue;
        }
        all_answered(&open)?;
        (open, calls) = (Vec::new(), Vec::new());
        match role {
            "system" | "developer" | "user" => {
                known_fields(&at, message, &["role", "content", "name"], allowed)?;
                require!(!content_is_empty(&message["content"]), "{at}.content: a {role} message must not be empty");
                content(&at, &message["content"], (role == "user").then_some(&mut images), allowed)?;
            }
            "assistant" => {
                calls = assistant(&at, message, issued, allowed)?;
                open.clone_from(&calls);
            }
            other => {
                let supported = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'";
                return Err(Refusal::invalid(format!("Invalid value: '{other}'. Supported values are: {supported}.")));
            }
        }
    }
    all_answered(&open)?;
    images.finish()?;
    let last = text(&messages[messages.len() - 1]["role"]);
    require!(matches!(last, "user" | "tool"), "The conversation must end with a user or tool message, not '{last}'");
    Ok(())
}

fn all_answered(open: &[String]) -> Verdict {
    require!(
        open.is_empty(),
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following \
         tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Ok(())
}

fn content_is_empty(content: &Value) -> bool {
    content.is_null() || content.as_str().is_some_and(str::is_empty) || content.as_array().is_some_and(Vec::is_empty)
}

fn content(at: &str, content: &Value, mut images: Option<&mut Images>, allowed: &BTreeSet<String>) -> Verdict {
    require!(content.is_string() || content.is_array(), "Invalid type for '{at}.content': expected a string or an array");
    for (index, part) in list(content).iter().enumerate() {
        let at = format!("{at}.content[{index}]");
        match text(&part["type"]) {
            "text" => {
                known_fields(&at, part, &["type", "text"], allowed)?;
                require!(!text(&part["text"]).is_empty(), "{at}.text: must not be empty");
            }
            "image_url" if images.is_some() => {
                known_fields(&at, part, &["type", "image_url"], allowed)?;
                known_fields(&format!("{at}.image_url"), &part["image_url"], &["url", "detail"], allowed)?;
                let url = text(&part["image_url"]["url"]);
                let Some((media_type, data)) = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) else {
                    return Err(Refusal::invalid(format!("Invalid base64 image_url in {at}")));
                };
                if let Some(images) = &mut images {
                    images.take(&at, media_type, data)?;
                }
            }
            other => return Err(Refusal::invalid(format!("Invalid value: '{other}' for '{at}.type'"))),
        }
    }
    Ok(())
}

/// Gives the ids of its calls back.
fn assistant(at: &str, message: &Value, issued: &Issued, allowed: &BTreeSet<String>) -> Result<Vec<String>, Refusal> {
    let known = [&["role", "content", "tool_calls", "refusal", "name"][..], REASONING].concat();
    known_fields(at, message, &known, allowed)?;
    for field in REASONING {
        let told = message[*field].as_str();
        require!(told.is_none_or(|told| issued.reasoning.contains(told)), "{at}.{field}: this is not what the model said");
    }
    let tool_calls = &message["tool_calls"];
    require!(tool_calls.as_array().is_none_or(|calls| !calls.is_empty()), "[] is too short - '{at}.tool_calls'");
    let speaks = !content_is_empty(&message["content"]);
    require!(speaks || tool_calls.is_array(), "Invalid value for 'content': expected a string, got null in {at}.");
    if speaks {
        content(at, &message["content"], None, allowed)?;
    }
    let mut ids = Vec::new();
    for (index, call) in list(tool_calls).iter().enumerate() {
        let at = format!("{at}.tool_calls[{index}]");
        known_fields(&at, call, &["id", "type", "function"], allowed)?;
        let id = text(&call["id"]);
        require!(!id.is_empty(), "Missing required parameter: '{at}.id'.");
        require!(
            id.len() <= 40,
            "Invalid '{at}.id': string too long. Expected a string with maximum length 40, but got length {}.",
            id.len()
        );
        require!(call["type"] == "function", "Missing required parameter: '{at}.type'.");
        require!(!ids.iter().any(|other| other == id), "Duplicate tool call id: {id}");
        known_fields(&format!("{at}.function"), &call["function"], &["name", "arguments"], allowed)?;
        require!(is_plain(text(&call["function"]["name"]), 64), "Invalid '{at}.function.name'");
        let arguments = serde_json::from_str::<Value>(text(&call["function"]["arguments"]));
        require!(arguments.is_ok_and(|arguments| arguments.is_object()), "{at}.function.arguments: must be the JSON text of an object");
        ids.push(id.to_owned());
    }
    Ok(ids)
}
