//! Tokens and money: per session, per local day, and in all.
//!
//! One small file in the home, `usage.jsonl`, has a line per answer and is rewritten as sums when it has grown. Invariant: an
//! answer is in it before its entry is in the session file, and once: whoever sees an entry has it counted, also after `kill -9`. When the file
//! is missing, it is made anew from the answers in the session files. Not here: prices, which the answers carry already.

mod book;
mod counter;
mod day;
mod rebuild;

pub(crate) use counter::UsageCounter;
pub(crate) use day::LocalDays;

#[cfg(test)]
mod tests;
