//! Wire kind `anthropic-messages`: one request to `/v1/messages`, one stream of named events back.

mod body;
mod compat;
mod folder;
#[cfg(test)]
mod tests;

pub(crate) use body::write;
pub(crate) use compat::Compat;
pub(crate) use folder::Folder;

/// `api` of models of this kind.
pub(crate) const API: &str = "anthropic-messages";
/// Value of the header `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";
