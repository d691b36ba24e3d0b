//! The end of the active branch that a compaction works on: what the model sees word for word. Blocking.

use std::fs::File;

use serde_json::Value;
use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::surrogates;

use super::branch::Node;
use super::file::for_each_line;
use super::line::LineKind;

/// What can be compacted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// What stands for everything before the entries.
    pub(crate) previous: Option<PreviousCompaction>,
    /// From the first entry that the previous compaction kept (or the one behind it, or the root) to the active position.
    /// Empty if the branch is, or ends with a compaction.
    pub(crate) entries: Vec<Entry>,
}

/// The compaction before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PreviousCompaction {
    pub(crate) summary: String,
    pub(crate) details: Option<Value>,
    /// Its details have a meaning that we do not know.
    pub(crate) from_hook: bool,
}

/// Reads the window of a branch.
pub(super) fn read(file: &File, branch: &[&Node]) -> std::io::Result<Window> {
    if branch.last().is_none_or(|last| matches!(last.kind, LineKind::Compaction { .. })) {
        return Ok(Window::default());
    }
    let compacted = branch.iter().rposition(|node| matches!(node.kind, LineKind::Compaction { .. }));
    let start = compacted.map_or(0, |compacted| {
        let LineKind::Compaction { first_kept } = &branch[compacted].kind else { return compacted };
        branch[..compacted].iter().position(|node| *node.id == **first_kept).unwrap_or(compacted)
    });
    let mut window = Window::default();
    for_each_line(file, &branch[start..], |_, line| {
        // What we cannot read is kept in the file and cannot be summarised.
        let Ok(entry) = surrogates::from_json::<Entry>(line) else { return true };
        if let EntryBody::Compaction { summary, details, from_hook, .. } = &entry.body {
            // Of several, which a first kept entry before an earlier one leaves, the last one counts.
            window.previous =
                Some(PreviousCompaction { summary: summary.clone(), details: details.clone(), from_hook: *from_hook == Some(true) });
        }
        window.entries.push(entry);
        true
    })?;
    if compacted == Some(start) {
        // What was kept is gone: the window begins behind the compaction.
        window.entries.remove(0);
    }
    Ok(window)
}
