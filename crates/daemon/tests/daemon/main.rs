//! The daemon over real sockets, with raw bytes on our side.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod access;
mod control;
mod limits;
mod logins;
mod process;
mod reference;
mod reload;
mod resources;
mod shutdown;
mod streams;
mod support;
