//! Measurements of the promises that have numbers: the real binary, real sockets, a load that stays out of the way.
//!
//! Invariants: every measurement is bounded in count and time; nothing leaves the loopback interface; everything that was started
//! or written is gone afterwards; a time is judged as a ratio against a reference of the same run wherever there is one.
//! Not here: tests of behaviour. A measurement that cannot be taken says so, it never guesses.
//!
//! | module | owns |
//! |---|---|
//! | [`harness`] | a temporary home, the daemon's process, what the system says about a process |
//! | [`provider`] | the scripted model provider |
//! | [`wire`] | raw HTTP requests over one connection |
//! | [`scan`] | counting frames in raw bytes |
//! | [`readers`] | many attached readers in one thread |
//! | [`pacing`] | how far a sender may be ahead of the readers |
//! | [`mod@reference`] | the bare broadcaster that a daemon is compared with |
//! | [`statistics`] | percentiles |
//! | [`measurements`] | one file per promise |
//! | [`report`] | the table and the JSON |

pub mod harness;
pub mod measurements;
pub mod pacing;
pub mod provider;
pub mod readers;
pub mod reference;
pub mod report;
pub mod scan;
pub mod statistics;
pub mod wire;
