//! `config.toml`: what is new since wolli 0.0.2, for all agents in the root and for one agent in its home.
//!
//! Reading is strict: an unknown key or bad value is a diagnostic with file, line and what would be valid. The command line makes
//! an error of it; the daemon starts all the same, with the key as if it were absent, and in `[approvals]` and `[security]` with the
//! strictest value. Adding a section: a struct in `schema` and a row for each of its keys in `keys`.

mod diagnostic;
mod keys;
mod load;
mod render;
mod schema;
mod value;

#[cfg(test)]
mod tests;

pub use diagnostic::{ConfigError, Diagnostic};
pub use load::{Configuration, Origin, load, load_strictly};
pub use schema::{Config, Events, Limits, LogLevel, Logs, Models, Notice, Resume, Security, View};

/// The commented default, with every key.
pub const DEFAULT_TEXT: &str = include_str!("../../../../config/config.toml");
