//! Talking to model providers: which models exist, with which key a request goes out, and one stream of events from any of them.

pub mod auth;
pub mod client;
pub mod credentials;
mod echo;
pub mod event;
mod formats;
mod headers;
pub mod indirection;
pub mod overflow;
pub mod port;
mod prepare;
#[cfg(test)]
mod properties;
mod refused;
pub mod registry;
mod repair;
pub mod request;
mod retry;
pub mod stream;
#[cfg(test)]
mod testing;
mod transport;

pub use prepare::spoken_text;
