//! One run: from `agent_start` to `agent_end`, turn by turn.

mod after;
mod run;
mod toolcalls;

pub(crate) use run::{Run, RunContext};
