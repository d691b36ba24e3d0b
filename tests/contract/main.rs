//! The wire contract, sentence by sentence: a table of everything that a client can see of a daemon, and the tests that show it.
//!
//! The table ([`sections`]) names tests of the whole workspace; the modules below have those that are about bytes, and those that exist
//! for the contract alone. What wolli does otherwise than wolli 0.0.2 stands in the table too, with its reason.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

#[expect(dead_code, unused_imports, reason = "the end-to-end tests use the rest")]
#[path = "../e2e/support/mod.rs"]
mod support;

mod sections;
mod sources;
mod table;
mod wire;

mod access;
mod commands;
mod compaction;
mod control_stream;
mod dialogs;
mod envelope;
mod frames;
mod node;
mod order;
mod positions;
mod residency;
mod worked_example;
