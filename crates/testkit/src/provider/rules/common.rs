//! Checks that both services make.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Refusal, Verdict, require};

/// Refuses keys that are neither in `known` nor allowed by the test.
pub(super) fn known_fields(at: &str, value: &Value, known: &[&str], allowed: &BTreeSet<String>) -> Verdict {
    let Some(object) = value.as_object() else {
        return Err(Refusal::invalid(format!("{at}: Input should be an object")));
    };
    for key in object.keys() {
        let dot = if at.is_empty() { "" } else { "." };
        require!(known.contains(&key.as_str()) || allowed.contains(key), "{at}{dot}{key}: Extra inputs are not permitted");
    }
    Ok(())
}

/// A name or id of the letters that both services take.
pub(super) fn is_plain(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Base64 of an image that the services take.
pub(super) fn image_data(at: &str, media_type: &str, data: &str) -> Verdict {
    let media = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    require!(media.contains(&media_type), "{at}.media_type: Input should be {}", media.join(", "));
    require!(!data.is_empty(), "{at}.data: image cannot be empty");
    require!(data.len() <= 5 << 20, "{at}.data: image exceeds 5 MB maximum: {} bytes", data.len());
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(Refusal::invalid(format!("{at}.data: invalid base64 data")));
    };
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let found = match media_type {
        "image/jpeg" => begins(b"\xFF\xD8\xFF"),
        "image/png" => begins(b"\x89PNG\r\n\x1A\n"),
        "image/gif" => begins(b"GIF8"),
        _ => begins(b"RIFF"),
    };
    require!(found, "{at}: Image does not match the provided media type {media_type}");
    Ok(())
}

/// The schema of a tool's arguments, which must be an object's.
pub(super) fn object_schema(at: &str, schema: &Value) -> Verdict {
    require!(schema["type"] == "object", "{at}.type: Input should be 'object', got {}", schema["type"]);
    let properties = &schema["properties"];
    require!(properties.is_null() || properties.is_object(), "{at}.properties: Input should be an object");
    let required = &schema["required"];
    let texts = required.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    require!(required.is_null() || texts, "{at}.required: Input should be an array of strings");
    Ok(())
}

/// The field as a list; a missing one is empty.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
