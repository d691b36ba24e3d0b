//! Running other programs safely.
//!
//! A program is started by argument vector, with the environment it is given and nothing else, in a session and process group of
//! its own, and it never outlives its [`ProcessGuard`]. Its output is collected under bounds, whatever it prints and whoever
//! holds the pipe. Nothing here knows about agents, models, tools or their texts.
//!
//! * [`program`]: what to start ([`Program`]), how it ended ([`Exit`]), why it did not start ([`SpawnError`])
//! * [`guard`]: one running program with all its descendants ([`ProcessGuard`])
//! * [`mod@run`]: start, collect, end on cancel or time limit ([`run()`])
//! * [`collect`], [`spill`], [`utf8`], [`truncate`]: text out of bytes, bounded
//! * [`ledger`]: what was started, on disk, so that a successor can end what a killed daemon left
//! * [`memory`]: what this process holds and does not use
//! * [`shield`]: what programs may see of this process
//! * [`process_table`]: who is whose child, from `/proc`

pub mod collect;
pub mod guard;
pub mod ledger;
pub mod memory;
pub mod process_table;
pub mod program;
mod record;
pub mod run;
pub mod shield;
mod spawner;
pub mod spill;
pub mod truncate;
pub mod utf8;

pub use collect::{Collected, Collector, CollectorSettings};
pub use guard::{Ended, ProcessGuard};
pub use ledger::Ledger;
pub use process_table::ProcessIdentity;
pub use program::{Exit, Output, Program, SpawnError, Stdin};
pub use run::{Background, Ending, Finished, RunSettings, Update, Updates, run};
pub use spill::{SpillReport, SpillSettings};
pub use truncate::{Limits, Truncated, TruncatedBy, Truncation, truncate_head, truncate_tail};
