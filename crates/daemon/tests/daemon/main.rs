//! The daemon over real sockets, with raw bytes on our side.

mod access;
mod control;
mod limits;
mod process;
mod shutdown;
mod streams;
mod support;
