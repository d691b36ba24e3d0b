//! Which models exist, which of them can be used, which one an agent starts with, and what authenticates a request.
//!
//! The catalogue (a data file) and the person's `models.json` are laid over each other once, in [`Registry::load`];
//! whether a model is available is asked anew each time, since credentials change. Nothing here reads a file or talks
//! to a network: texts, environment and credentials are handed in.

mod assemble;
mod attribution;
mod catalogue;
mod compat;
mod demo;
mod glob;
mod initial;
mod jsonc;
mod loaded;
mod models_json;
mod reference;
mod scope;

#[cfg(test)]
mod tests;

pub use catalogue::{Pricing, supported_apis};
pub use demo::{DEMO_API, DEMO_MODEL, DEMO_PROVIDER, demo_model};
pub use initial::{InitialModel, ModelSource, NO_MODEL, RecordedModel, SavedDefaults};
pub use jsonc::ConfigText;
pub use loaded::{Registry, RegistryInputs, SelectError};
pub use reference::{PatternMatch, Strictness, exact, fuzzy, pattern};
pub use scope::{Scope, ScopedModel, scope};
