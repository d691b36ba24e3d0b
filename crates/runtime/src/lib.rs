//! The agent: everything one agent is and does.

pub mod tools;
