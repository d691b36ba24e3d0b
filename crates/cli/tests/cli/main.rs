//! The command line through the real binary, each test in a home of its own.

mod chat;
mod commands;
mod doctor;
mod logs;
mod print;
mod scripts;
mod service;
mod sessions;
mod support;
