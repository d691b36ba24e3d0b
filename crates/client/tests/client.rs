//! The client against a daemon that is made up here, on real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helper functions, too")]

mod suite {
    mod commands;
    mod connecting;
    pub(crate) mod fake;
    mod service;
    mod streams;
}
