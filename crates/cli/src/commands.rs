//! One file per command word.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod new;
pub(crate) mod prompt;
pub(crate) mod requests;
pub(crate) mod restart;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
