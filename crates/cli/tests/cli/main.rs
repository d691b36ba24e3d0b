//! The command line through the real binary, each test in a home of its own.

mod chat;
mod commands;
mod print;
mod scripts;
mod sessions;
mod support;
