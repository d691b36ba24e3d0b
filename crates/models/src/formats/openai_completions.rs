//! Wire kind `openai-completions`: one request to `/chat/completions`, one stream of chunks back. Many servers speak it, each
//! a little differently; `compat` says how.

mod body;
mod compat;
mod folder;
mod messages;
mod options;
#[cfg(test)]
mod tests;

pub(crate) use body::write;
pub(crate) use compat::Compat;
pub(crate) use folder::Folder;

/// `api` of models of this kind.
pub(crate) const API: &str = "openai-completions";

/// Fields that servers put thinking into, in the order in which they are looked at.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
