//! The agent as a whole: opens its home, makes sessions resident, and ends everything in order.

mod changes;
mod control;
mod credentials;
mod current;
mod diagnostics;
mod dialogs;
mod examine;
mod hubs;
mod logins;
mod models;
mod open;
mod overview;
mod plugins;
mod reload;
mod resources;
mod scope;
mod services;
mod sessions;
mod sources;

pub use control::{ControlEnd, ControlReader};
pub use examine::{FoundModel, ModelFacts, model_facts};
pub use logins::LoginError;
pub use open::{Inputs, OpenError, Runtime};
pub use plugins::PluginError;
pub use sessions::{AttachedSession, SessionError};

pub(crate) use services::Services;
