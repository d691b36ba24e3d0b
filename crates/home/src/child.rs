//! Test support: a part of a test in a process of its own, which is the test program started again.
//!
//! The part is an ignored test that does nothing without its argument.

use std::process::{Command, Stdio};

const ARGUMENT: &str = "WOLLI_HOME_TEST_CHILD";

/// A command that runs the ignored test `path` (without the crate's name) with `argument`, and nothing else of our environment.
pub(crate) fn command(path: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([path, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env_clear()
        .env(ARGUMENT, argument)
        .stdin(Stdio::null());
    command
}

/// The argument, in a process that [`command`] started.
pub(crate) fn argument() -> Option<String> {
    std::env::var(ARGUMENT).ok()
}
