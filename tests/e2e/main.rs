//! The real program, end to end: its process, its sockets, its files, and a provider whose every word the test chose.
//!
//! Each module is one theme. Counts are small enough for every day; `WOLLI_SOAK=1` makes them large. What is random is seeded, and a
//! failure names its seed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

mod support;

mod appending;
mod bad_input;
mod client_property;
mod compaction;
mod concurrency;
mod cut_and_resume;
mod damaged_home;
mod deleting;
mod full_disk;
mod fuzz;
mod histories;
mod home_of_002;
mod kill;
mod kill_at_writes;
mod overload;
mod readers;
mod real_turn;
mod service;
mod shutdown;
mod skills;
mod snapshots;
mod turn_ends;
