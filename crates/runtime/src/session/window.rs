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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wolli_protocol::entry::EntryBody;
    use wolli_protocol::message::{Message, UserMessage};

    use super::Window;
    use crate::session::file::SessionFile;
    use crate::session::{NewEntry, to_model_messages};

    fn user(id: &str) -> NewEntry {
        NewEntry { id: id.into(), timestamp: "2026-01-01T00:00:00.000Z".into(), body: said(id) }
    }

    fn said(text: &str) -> EntryBody {
        EntryBody::Message { message: Message::User(UserMessage::new(text, Vec::new(), 1)), idempotency_key: None }
    }

    fn compaction(id: &str, first_kept: &str, from_hook: bool) -> NewEntry {
        let body = EntryBody::Compaction {
            summary: format!("summary {id}"),
            first_kept_entry_id: first_kept.into(),
            tokens_before: 7,
            details: None,
            from_hook: Some(from_hook),
        };
        NewEntry { body, ..user(id) }
    }

    fn file(folder: &Path, entries: &[NewEntry]) -> SessionFile {
        let (mut file, _) = SessionFile::create(folder, &"s".into(), "2026-01-01T00:00:00.000Z", "/w").unwrap();
        file.append(entries, false).unwrap();
        file
    }

    fn ids(window: &Window) -> Vec<&str> {
        window.entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    /// What the model sees, as texts.
    fn seen(file: &mut SessionFile) -> Vec<String> {
        let messages = to_model_messages(&file.context().unwrap());
        messages
            .iter()
            .map(|message| match &**message {
                Message::User(user) => user.content.joined_text(),
                Message::CompactionSummary(compaction) => compaction.summary.clone(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn windows_begin_where_the_summary_before_ends() {
        for (entries, expected, previous, context) in [
            (vec![], vec![], None, vec![]),
            (vec![user("a"), user("b")], vec!["a", "b"], None, vec!["a", "b"]),
            (vec![user("a"), user("b"), compaction("k", "b", false)], vec![], None, vec!["summary k", "b"]),
            (
                vec![user("a"), user("b"), compaction("k", "b", false), user("c")],
                vec!["b", "k", "c"],
                Some(("summary k", false)),
                vec!["summary k", "b", "c"],
            ),
            // What was kept is gone.
            (vec![user("a"), compaction("k", "lost", true), user("c")], vec!["c"], Some(("summary k", true)), vec!["summary k", "c"]),
            // The second one kept an entry from before the first: the newest summary counts.
            (
                vec![user("a"), compaction("k", "a", false), user("b"), compaction("l", "a", false), user("c")],
                vec!["a", "k", "b", "l", "c"],
                Some(("summary l", false)),
                vec!["summary l", "a", "b", "c"],
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut file = file(folder.path(), &entries);
            let window = file.window().unwrap();
            assert_eq!(ids(&window), expected);
            assert_eq!(window.previous.as_ref().map(|previous| (previous.summary.as_str(), previous.from_hook)), previous);
            assert_eq!(seen(&mut file), context);
        }
    }
}
