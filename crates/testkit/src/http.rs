//! HTTP/1.1 on a bare socket, for tests that care about bytes.
//!
//! Nothing is retried, pooled or hidden: what is sent is what the test wrote, and what came in is kept as it came.

mod client;
mod connection;
mod events;
mod message;

pub use client::Client;
pub use connection::Connection;
pub use events::{EventStream, frame_id};
pub use message::{BodyKind, Head, Response};
pub(crate) use message::{ChunkDecoder, MAX_HEAD, head_end};

#[cfg(test)]
mod tests;
