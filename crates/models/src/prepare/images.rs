//! Images as a provider takes them, or a note where it would not.
//!
//! The kind of an image is read from its first bytes, not believed: a wrong one is refused by providers, and the image
//! would be sent again with every later request. Decoding and scaling is not done here, nor is what images may be together.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wolli_protocol::message::{CustomMessage, ImageContent, Message, ToolResultMessage, UserBlock, UserContent, UserMessage};

use super::image_limits::ImageLimits;
use super::image_size::longer_side;
use super::{Part, Turn, text_part};

/// What to do with images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageRule {
    /// Send them, within the limits of the provider.
    Send(ImageLimits),
    /// The model reads text only.
    TextOnly,
    /// The provider refused an image of this request.
    Refused,
}

/// Where an image stands; the notes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    User,
    ToolResult,
}

/// Note for an image that the provider refused.
pub(crate) const REFUSED_NOTE: &str = "(image omitted: the provider refused it)";

/// How much base64 is decoded to tell the kind: 24 characters are 18 bytes, more than any magic number below.
const MAGIC_LENGTH: usize = 24;

/// The parts of blocks; a run of equal notes becomes one.
pub(super) fn parts(blocks: &[UserBlock], rule: ImageRule, place: Place) -> Vec<Part<'_>> {
    let mut parts = Vec::with_capacity(blocks.len());
    let mut last_note: Option<Cow<'static, str>> = None;
    for block in blocks {
        let UserBlock::Image(image) = block else {
            if let Some(part) = text_part(block) {
                parts.push(part);
                last_note = None;
            }
            continue;
        };
        match check(image, rule, place) {
            Ok(part) => {
                parts.push(part);
                last_note = None;
            }
            Err(note) if last_note.as_ref() == Some(&note) => {}
            Err(note) => {
                parts.push(Part::Text(note.clone()));
                last_note = Some(note);
            }
        }
    }
    parts
}

/// The image as a part, or the note that stands for it.
fn check(image: &ImageContent, rule: ImageRule, place: Place) -> Result<Part<'_>, Cow<'static, str>> {
    let limits = match (rule, place) {
        (ImageRule::TextOnly, Place::User) => return Err("(image omitted: model does not support images)".into()),
        (ImageRule::TextOnly, Place::ToolResult) => return Err("(tool image omitted: model does not support images)".into()),
        (ImageRule::Refused, _) => return Err(REFUSED_NOTE.into()),
        (ImageRule::Send(limits), _) => limits,
    };
    let data = strip_data_url(image.data.trim());
    if data.is_empty() {
        return Err("(image omitted: it has no data)".into());
    }
    if data.len() > limits.max_length {
        return Err(format!("(image omitted: as base64 it is larger than {} MB)", limits.max_length / (1024 * 1024)).into());
    }
    if !is_base64(data) {
        return Err("(image omitted: its data is not base64)".into());
    }
    let Some(mime_type) = kind(data) else {
        return Err("(image omitted: it is not a PNG, JPEG, GIF or WebP image)".into());
    };
    match longer_side(data) {
        Some(0) => Err("(image omitted: it is damaged)".into()),
        Some(side) if side > limits.max_side => {
            Err(format!("(image omitted: a side has {side} pixels, and the provider takes {})", limits.max_side).into())
        }
        // What its beginning does not tell, the provider may find out.
        Some(_) | None => Ok(Part::Image { mime_type, data }),
    }
}

/// Puts the note of a refusal in the place of images.
pub(super) fn leave_out(turns: &mut [Turn<'_>], is_refused: impl Fn(&str) -> bool) {
    for turn in turns {
        if let Turn::User(parts) | Turn::Result { parts, .. } = turn {
            for part in parts {
                if matches!(part, Part::Image { data, .. } if is_refused(data)) {
                    *part = Part::Text(REFUSED_NOTE.into());
                }
            }
        }
    }
}

/// Base64 of all images of a message.
pub(super) fn data(message: &Message) -> impl Iterator<Item = &str> {
    let blocks = match message {
        Message::User(UserMessage { content: UserContent::Blocks(blocks), .. })
        | Message::Custom(CustomMessage { content: UserContent::Blocks(blocks), .. })
        | Message::ToolResult(ToolResultMessage { content: blocks, .. }) => blocks.as_slice(),
        _ => &[],
    };
    blocks.iter().filter_map(|block| match block {
        UserBlock::Image(image) => Some(strip_data_url(image.data.trim())),
        UserBlock::Text(_) => None,
    })
}

/// Tolerates a data URL where bare base64 belongs.
fn strip_data_url(data: &str) -> &str {
    data.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")).map_or(data, |(_, bare)| bare)
}

/// The alphabet and the padding are right; providers refuse anything else.
fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    data.len().is_multiple_of(4)
        && data.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

/// The kind by the first bytes.
fn kind(data: &str) -> Option<&'static str> {
    let head = STANDARD.decode(data.get(..MAGIC_LENGTH.min(data.len()))?).ok()?;
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if head.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}
