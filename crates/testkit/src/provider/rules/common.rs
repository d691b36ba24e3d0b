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

/// What a service takes of images in one request.
#[derive(Debug)]
pub(super) struct ImageLimits {
    pub(super) count: usize,
    /// With more images than this, each may have only so many pixels a side.
    pub(super) many: (usize, u32),
    /// Pixels a side of any image.
    pub(super) side: u32,
    /// Of one image, as base64.
    pub(super) megabytes: usize,
}

/// The images of one request, as far as they have been looked at.
#[derive(Debug)]
pub(super) struct Images {
    limits: &'static ImageLimits,
    /// Where each stands, and its longer side.
    sides: Vec<(String, u32)>,
}

impl Images {
    pub(super) const fn new(limits: &'static ImageLimits) -> Self {
        Self { limits, sides: Vec::new() }
    }

    /// Takes base64 of one more image.
    pub(super) fn take(&mut self, at: &str, media_type: &str, data: &str) -> Verdict {
        let media = ["image/jpeg", "image/png", "image/gif", "image/webp"];
        require!(media.contains(&media_type), "{at}.media_type: Input should be {}", media.join(", "));
        require!(!data.is_empty(), "{at}.data: image cannot be empty");
        let (length, most) = (data.len(), self.limits.megabytes << 20);
        require!(length <= most, "{at}.data: image exceeds {} MB maximum: {length} bytes > {most} bytes", self.limits.megabytes);
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
        if let Some(side) = longer_side(&bytes) {
            let whole = media_type != "image/png" || bytes.ends_with(b"IEND\xae\x42\x60\x82");
            require!(side > 0 && whole, "Could not process image");
            let most = self.limits.side;
            require!(side <= most, "{at}.data: At least one of the image dimensions exceed max allowed size: {most} pixels");
            self.sides.push((at.to_owned(), side));
        } else {
            self.sides.push((at.to_owned(), 0));
        }
        Ok(())
    }

    /// What can be said only when all are there.
    pub(super) fn finish(&self) -> Verdict {
        let (count, most) = (self.sides.len(), self.limits.count);
        require!(count <= most, "Too many images in request: {count} > {most}");
        let (many, side_then) = self.limits.many;
        if self.sides.len() > many
            && let Some((at, _)) = self.sides.iter().find(|(_, side)| *side > side_then)
        {
            let limit = format!("max allowed size for many-image requests: {side_then} pixels");
            return Err(Refusal::invalid(format!("{at}.data: At least one of the image dimensions exceed {limit}")));
        }
        Ok(())
    }
}

/// Pixels of the longer side of a PNG or GIF, the kinds that say it in their first bytes.
fn longer_side(image: &[u8]) -> Option<u32> {
    if image.starts_with(b"\x89PNG") {
        let side = |at: usize| Some(u32::from_be_bytes(image.get(at..at + 4)?.try_into().ok()?));
        return Some(side(16)?.max(side(20)?));
    }
    let side = |at: usize| Some(u32::from(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?)));
    if image.starts_with(b"GIF8") { Some(side(6)?.max(side(8)?)) } else { None }
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
