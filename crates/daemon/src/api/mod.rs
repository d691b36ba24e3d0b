//! What each route does: HTTP in, calls of the runtime, HTTP out. Holds no state of the agent.

pub(crate) mod commands;
pub(crate) mod control;
pub(crate) mod dialogs;
pub(crate) mod envelope;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod opening;
pub(crate) mod reference;
pub(crate) mod service;
pub(crate) mod sessions;
