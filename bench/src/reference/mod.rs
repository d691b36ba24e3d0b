//! The reference: what broadcasting costs when nothing but broadcasting is done.
//!
//! A bare hyper server, run as a process of its own with as many workers as the daemon: what arrives on its feed is cut into frames
//! and sent to every reader as it is. Measured by the same readers, under the same window, with bytes that the daemon sent.
//! Not here: numbers, replay, commands, checks.

mod process;
mod server;

pub use process::{Feed, Reference};
pub use server::serve;
