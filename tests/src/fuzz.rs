//! What is fuzzed: one function from bytes to a panic, for each thing that reads bytes of others.
//!
//! The same functions are called by the targets of cargo-fuzz (`fuzz/`), and by a test that runs every seed and some changes of it
//! without any of that. A body panics for a broken promise; bytes that make no sense are no such thing.

#![expect(clippy::unwrap_used, reason = "a body that cannot go on has found something")]

pub mod command;
pub mod frames;
mod mutate;
pub mod partial_json;
pub mod session_file;
pub mod sse;

pub use mutate::{Random, mutate};

/// A body and where its seeds are.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target in `fuzz/`, and of its folder below `fuzz/seeds/`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// What one run costs, in runs of the cheapest: the slow ones are run less often.
    pub cost: usize,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "sse", run: sse::run, cost: 1 },
    Target { name: "frames", run: frames::run, cost: 4 },
    Target { name: "partial_json", run: partial_json::run, cost: 2 },
    Target { name: "command", run: command::run, cost: 1 },
    Target { name: "session_file", run: session_file::run, cost: 20 },
];
