//! Talking to model providers: which models exist, with which key a request goes out, and one stream of events from any of them.

pub mod auth;
pub mod credentials;
pub mod indirection;
pub mod registry;
