//! One compaction as plain data: what is summarised, what the model is told, and what becomes of its answers. Pure.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::Message;
use wolli_protocol::text::byte_prefix;

use super::conversation::{fit, serialise};
use super::cut::{self, Reach};
use super::files::{FileLists, without_blocks};
use super::prompts;
use crate::session::{Window, context_message};

/// Bytes of a conversation that are sent at least, however small a window is said to be.
pub(super) const LEAST_ROOM: usize = 256;

/// What is going to be summarised.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) first_kept: EntryId,
    /// Whole turns as text; empty if there are none.
    history: String,
    /// The beginning of a turn that was split; empty if none was.
    prefix: String,
    /// The summary that is replaced.
    previous: Option<String>,
    files: FileLists,
    /// Messages that stay visible behind the summary.
    pub(super) kept_messages: u64,
}

/// What the model is asked, at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Questions {
    pub(super) history: Option<String>,
    pub(super) prefix: Option<String>,
}

impl Plan {
    /// Plans to keep about `keep` tokens; `None` if there is nothing to summarise.
    pub(super) fn new(window: &Window, keep: u64, reach: Reach, failed: Option<&EntryId>) -> Option<Self> {
        let entries = &window.entries;
        let cut = cut::find(entries, keep, reach, failed)?;
        let mut files = FileLists::default();
        if let Some(previous) = window.previous.as_ref().filter(|previous| !previous.from_hook) {
            files.add_details(previous.details.as_ref().unwrap_or(&Value::Null));
        }
        let part = |range: Range<usize>| -> Vec<Arc<Message>> { entries[range].iter().filter_map(spoken).collect() };
        let (history, prefix) = (part(cut.history), part(cut.prefix));
        history.iter().chain(&prefix).for_each(|message| files.add_message(message));
        Some(Self {
            first_kept: cut.first_kept,
            history: serialise(history.iter().map(Arc::as_ref)),
            prefix: serialise(prefix.iter().map(Arc::as_ref)),
            previous: window.previous.as_ref().map(|previous| without_blocks(&previous.summary).to_owned()),
            files,
            kept_messages: part(cut.kept..entries.len()).len() as u64,
        })
    }

    /// Bytes of the longer text that is summarised.
    pub(super) fn length(&self) -> usize {
        self.history.len().max(self.prefix.len()) + self.previous.as_ref().map_or(0, String::len)
    }

    /// The requests, each with at most about `room` bytes of the conversation. `focus` is what the person wants to be kept.
    pub(super) fn questions(&self, room: usize, focus: Option<&str>) -> Questions {
        let room = room.max(LEAST_ROOM);
        let focus = focus.map(|focus| byte_prefix(focus, room / 4));
        let previous = self.previous.as_deref().map(|previous| fit(previous, room / 3));
        let rest = room - focus.map_or(0, str::len) - previous.as_ref().map_or(0, |previous| previous.len().min(room / 3));
        let instruction = if previous.is_some() { prompts::UPDATE } else { prompts::FIRST };
        Questions {
            history: (!self.history.is_empty())
                .then(|| prompts::request(&fit(&self.history, rest), previous.as_deref(), instruction, focus)),
            prefix: (!self.prefix.is_empty()).then(|| prompts::request(&fit(&self.prefix, rest), None, prompts::PREFIX, focus)),
        }
    }

    /// The text of the compaction entry.
    pub(super) fn summary(&self, history: Option<String>, prefix: Option<String>) -> String {
        // Without whole turns the summary before still tells what came earlier.
        let history = history.or_else(|| self.previous.clone()).unwrap_or_else(|| prompts::NO_HISTORY.to_owned());
        let mut summary = match prefix {
            Some(prefix) => prompts::joined(&history, &prefix),
            None => history,
        };
        summary.push_str(&self.files.blocks());
        summary
    }

    pub(super) fn details(&self) -> Value {
        self.files.details()
    }
}

/// What an entry says to the model. A compaction is no part of the conversation.
fn spoken(entry: &Entry) -> Option<Arc<Message>> {
    if matches!(entry.body, EntryBody::Compaction { .. }) {
        return None;
    }
    context_message(&entry.id, &entry.timestamp, &entry.body).map(|visible| visible.message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Plan, Questions, Reach};
    use crate::session::{PreviousCompaction, Window};

    fn window(previous: Option<PreviousCompaction>, messages: serde_json::Value) -> Window {
        let messages: Vec<serde_json::Value> = serde_json::from_value(messages).unwrap();
        let entries = messages.into_iter().enumerate().map(|(index, message)| {
            serde_json::from_value(
                json!({"type": "message", "id": format!("e{index}"), "parentId": null, "timestamp": "t", "message": message}),
            )
            .unwrap()
        });
        Window { previous, entries: entries.collect() }
    }

    fn user(text: &str) -> serde_json::Value {
        json!({"role": "user", "content": text, "timestamp": 1})
    }

    fn answer(text: &str, path: &str) -> serde_json::Value {
        json!({"role": "assistant", "api": "x", "provider": "p", "model": "m", "stopReason": "stop", "timestamp": 1,
            "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
            "content": [{"type": "text", "text": text}, {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": path}}]})
    }

    fn previous(from_hook: bool) -> PreviousCompaction {
        PreviousCompaction {
            summary: "## Goal\nold\n\n<read-files>\nold.txt\n</read-files>".into(),
            details: Some(json!({"readFiles": ["old.txt"], "modifiedFiles": []})),
            from_hook,
        }
    }

    #[test]
    fn a_first_summary() {
        let window = window(None, json!([user("one"), answer("first", "a.txt"), user(&"x".repeat(80)), answer("second", "b.txt")]));
        let plan = Plan::new(&window, 20, Reach::Spare, None).unwrap();
        assert_eq!((plan.first_kept.as_str(), plan.kept_messages), ("e2", 2));
        let Questions { history: Some(history), prefix: None } = plan.questions(9000, Some("names")) else { panic!("{plan:?}") };
        assert!(history.starts_with("<conversation>\n[User]: one\n\n[Assistant]: first\n\n[Assistant tool calls]: read(path=\"a.txt\")\n</conversation>\n\nSummarise"));
        assert!(history.ends_with("Additional focus: names"));
        assert_eq!(plan.summary(Some("sum".into()), None), "sum\n\n<read-files>\na.txt\n</read-files>");
        assert_eq!(plan.details(), json!({"readFiles": ["a.txt"], "modifiedFiles": []}));
    }

    #[test]
    fn an_update_takes_over_what_was_known() {
        let messages = json!([user("one"), answer("first", "a.txt"), user(&"x".repeat(80))]);
        let plan = Plan::new(&window(Some(previous(false)), messages.clone()), 20, Reach::Spare, None).unwrap();
        let history = plan.questions(9000, None).history.unwrap();
        assert!(history.contains("<previous-summary>\n## Goal\nold\n</previous-summary>\n\nThe conversation above follows"), "{history}");
        assert_eq!(plan.summary(Some("new".into()), None), "new\n\n<read-files>\na.txt\nold.txt\n</read-files>");
        let hooked = Plan::new(&window(Some(previous(true)), messages), 20, Reach::Spare, None).unwrap();
        assert_eq!(hooked.details(), json!({"readFiles": ["a.txt"], "modifiedFiles": []}));
    }

    #[test]
    fn a_split_turn_is_told_apart_from_what_came_before_it() {
        let messages = json!([user("one"), answer("first", "a.txt"), answer(&"x".repeat(80), "b.txt")]);
        let split = Plan::new(&window(None, messages.clone()), 20, Reach::Spare, None).unwrap();
        let Questions { history: None, prefix: Some(prefix) } = split.questions(9000, None) else { panic!("{split:?}") };
        assert!(prefix.contains("[User]: one") && prefix.contains("## Original Request"));
        let marked = "\n\n---\n\n**Turn Context (split turn):**\n\np\n\n<read-files>\na.txt\n</read-files>";
        assert_eq!(split.summary(None, Some("p".into())), format!("No prior history.{marked}"));
        // The summary before is not lost when no whole turn came after it.
        let update = Plan::new(&window(Some(previous(true)), messages), 20, Reach::Spare, None).unwrap();
        assert_eq!(update.summary(None, Some("p".into())), format!("## Goal\nold{marked}"));
    }

    #[test]
    fn what_is_sent_fits_the_room() {
        let messages = json!([user(&"a".repeat(500_000)), user("last")]);
        let window = window(Some(PreviousCompaction { summary: "s".repeat(400_000), ..previous(true) }), messages);
        let plan = Plan::new(&window, 1, Reach::Spare, None).unwrap();
        for room in [0, 5000, 50_000] {
            let history = plan.questions(room, Some(&"f".repeat(300_000))).history.unwrap();
            assert!(history.len() < room.max(256) + 1500, "{} in {room}", history.len());
        }
        assert_eq!(plan.length(), 900_008);
    }
}
