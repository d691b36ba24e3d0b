//! Where a history is cut: what a summary replaces, and what stays word for word.
//!
//! Invariant: tool results stay with the answer that asked for them. Pure.

use std::ops::Range;

use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::Message;

use super::estimate::message_tokens;

/// A cut through the entries of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) first_kept: EntryId,
    /// Whole turns that are summarised.
    pub(super) history: Range<usize>,
    /// The beginning of a turn whose end is kept; empty if the cut is between turns.
    pub(super) prefix: Range<usize>,
    /// Where the kept entries begin.
    pub(super) kept: usize,
}

/// How far a cut may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only if more than the tokens to keep are there.
    Spare,
    /// Keeps half as much, and half again, until something is cut: the context does not fit, or a person wants it so.
    Force,
}

/// Finds the cut that keeps about `keep` tokens; `None` if nothing would be summarised. `failed` is an answer at the end that the
/// model is not sent.
pub(super) fn find(entries: &[Entry], keep: u64, reach: Reach, failed: Option<&EntryId>) -> Option<Cut> {
    let points = cut_points(entries, failed);
    let mut keep = keep;
    loop {
        let cut = cut_at(entries, point(entries, &points, keep)?);
        if says_something(&entries[cut.history.clone()]) || says_something(&entries[cut.prefix.clone()]) {
            return Some(cut);
        }
        if reach == Reach::Spare || keep == 0 {
            return None;
        }
        keep /= 2;
    }
}

fn message(entry: &Entry) -> Option<&Message> {
    match &entry.body {
        EntryBody::Message { message, .. } => Some(message),
        _ => None,
    }
}

/// True if there is anything to summarise.
fn says_something(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        matches!(entry.body, EntryBody::Message { .. } | EntryBody::CustomMessage { .. })
            || matches!(&entry.body, EntryBody::BranchSummary { summary, .. } if !summary.is_empty())
    })
}

/// Places where what is kept may begin.
fn cut_points(entries: &[Entry], failed: Option<&EntryId>) -> Vec<usize> {
    let mut points: Vec<usize> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| match &entry.body {
            EntryBody::Message { message, .. } => !matches!(message, Message::ToolResult(_)),
            EntryBody::CustomMessage { .. } | EntryBody::BranchSummary { .. } => true,
            _ => false,
        })
        .map(|(index, _)| index)
        .collect();
    // A failed answer is not sent. Keeping nothing else is right after tool results, which a summary can stand for, and wrong
    // after what a person said and still wants answered.
    if let Some(last) = points.last().copied()
        && Some(&entries[last].id) == failed
    {
        let before = entries[..last].iter().rev().find_map(message);
        if !matches!(before, Some(Message::ToolResult(_))) {
            points.pop();
        }
    }
    points
}

/// The place to cut at: the first one from where `keep` tokens follow.
fn point(entries: &[Entry], points: &[usize], keep: u64) -> Option<usize> {
    let mut tokens = 0;
    for (index, entry) in entries.iter().enumerate().rev() {
        let Some(message) = message(entry) else { continue };
        tokens += message_tokens(message);
        if tokens >= keep {
            // Tool results at the end stay with the answer that asked for them.
            return points.iter().copied().find(|point| *point >= index).or_else(|| points.last().copied());
        }
    }
    points.first().copied()
}

fn cut_at(entries: &[Entry], point: usize) -> Cut {
    let mut kept = point;
    while kept > 0 && !matches!(entries[kept - 1].body, EntryBody::Message { .. } | EntryBody::Compaction { .. }) {
        kept -= 1;
    }
    let turn_start = match message(&entries[point]) {
        Some(Message::User(_)) => None,
        _ => entries[..=point].iter().rposition(begins_turn).filter(|start| *start < kept),
    };
    let split = turn_start.unwrap_or(kept);
    Cut { first_kept: entries[kept].id.clone(), history: 0..split, prefix: split..kept, kept }
}

fn begins_turn(entry: &Entry) -> bool {
    match &entry.body {
        EntryBody::Message { message, .. } => matches!(message, Message::User(_) | Message::BashExecution(_)),
        EntryBody::CustomMessage { .. } | EntryBody::BranchSummary { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
