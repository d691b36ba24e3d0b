//! Server-sent events in both directions, as plain functions on bytes.
//!
//! [`Decoder`] reads a stream by the rules of the HTML standard, however it is cut into chunks; [`encode_frame`] writes
//! frames exactly as the daemon sends them: `event`, `data`, `id`, an empty line, LF only.
//! Invariant: what the encoder writes, the decoder reads back (line breaks in data become LF).
//! Not here: what the data means, reconnecting, sockets.

mod decode;
mod encode;

pub use decode::{DEFAULT_EVENT_NAME, DecodeError, Decoder, Event};
pub use encode::{PING, encode_frame, encode_json};

#[cfg(test)]
mod tests;
