//! What the themes share: an agent with its daemon and provider, readers that fold what they read, checks of frames.

mod dice;
pub(crate) mod frames;
mod reader;
pub(crate) mod strace;
pub(crate) mod strict;
pub(crate) mod systemd;
mod world;

pub(crate) use dice::Dice;
pub(crate) use reader::Reader;
pub(crate) use world::{World, newest_session};

use serde_json::Value;

/// `usual` on every day, `soak` when there is an hour.
pub(crate) fn count(usual: usize, soak: usize) -> usize {
    if std::env::var_os("WOLLI_SOAK").is_some_and(|value| value == "1") { soak } else { usual }
}

/// All text of a message, whatever its shape.
pub(crate) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Texts of the messages with that role, in order.
pub(crate) fn texts_of(messages: &[Value], role: &str) -> Vec<String> {
    messages.iter().filter(|message| message["role"] == role).map(text_of).collect()
}

/// Roles of messages, in order.
pub(crate) fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap_or("?")).collect()
}
