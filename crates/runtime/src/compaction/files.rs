//! Which files the summarised part of a conversation read and changed.
//!
//! The names outlive the messages: each compaction takes over the lists of the one before. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use wolli_protocol::message::Message;

/// Paths as the model wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileLists {
    read: BTreeSet<String>,
    modified: BTreeSet<String>,
}

impl FileLists {
    /// Takes over what an earlier compaction noted in its `details`.
    pub(super) fn add_details(&mut self, details: &Value) {
        let paths = |key: &str| details[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        self.read.extend(paths("readFiles"));
        self.modified.extend(paths("modifiedFiles"));
    }

    /// Takes in the tool calls of a message.
    pub(super) fn add_message(&mut self, message: &Message) {
        let Message::Assistant(answer) = message else { return };
        for call in answer.tool_calls() {
            let Some(path) = call.arguments.get("path").and_then(Value::as_str) else { continue };
            match call.name.as_str() {
                "read" => drop(self.read.insert(path.to_owned())),
                "write" | "edit" => drop(self.modified.insert(path.to_owned())),
                _ => {}
            }
        }
    }

    /// Files that were only read, in order.
    fn only_read(&self) -> Vec<&str> {
        self.read.difference(&self.modified).map(String::as_str).collect()
    }

    fn modified(&self) -> Vec<&str> {
        self.modified.iter().map(String::as_str).collect()
    }

    /// The `details` of a compaction entry.
    pub(super) fn details(&self) -> Value {
        json!({ "readFiles": self.only_read(), "modifiedFiles": self.modified() })
    }

    /// What follows a summary; empty if no file was touched.
    pub(super) fn blocks(&self) -> String {
        let mut text = String::new();
        for (tag, paths) in [(READ, self.only_read()), (MODIFIED, self.modified())] {
            if !paths.is_empty() {
                text.extend(["\n\n<", tag, ">\n", &paths.join("\n"), "\n</", tag, ">"]);
            }
        }
        text
    }
}

const READ: &str = "read-files";
const MODIFIED: &str = "modified-files";

/// A summary without the blocks that [`FileLists::blocks`] put behind it.
pub(super) fn without_blocks(summary: &str) -> &str {
    let mut text = summary.trim_end();
    for tag in [MODIFIED, READ] {
        let opening = format!("<{tag}>\n");
        if text.ends_with(&format!("</{tag}>"))
            && let Some(start) = text.rfind(&opening)
        {
            text = text[..start].trim_end();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, ToolCall};
    use wolli_protocol::model::Model;

    use super::{FileLists, without_blocks};

    fn calls(calls: &[(&str, Value)]) -> Message {
        let mut answer = AssistantMessage::begin(&Model::placeholder(), 1);
        for (name, arguments) in calls {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            answer.content.push(AssistantBlock::ToolCall(ToolCall {
                id: "c".into(),
                name: (*name).into(),
                arguments,
                thought_signature: None,
            }));
        }
        Message::Assistant(answer)
    }

    #[test]
    fn a_file_that_was_changed_is_not_listed_as_read() {
        let mut files = FileLists::default();
        assert_eq!(files.blocks(), "");
        files.add_details(&json!({"readFiles": ["old.txt", "b.rs", 7], "modifiedFiles": ["z.rs"], "more": 1}));
        files.add_details(&json!(null));
        files.add_message(&calls(&[
            ("read", json!({"path": "a.txt"})),
            ("edit", json!({"path": "b.rs"})),
            ("write", json!({"path": "c.rs"})),
            ("write", json!({})),
            ("bash", json!({"command": "cat d", "path": "d"})),
        ]));
        assert_eq!(files.details(), json!({"readFiles": ["a.txt", "old.txt"], "modifiedFiles": ["b.rs", "c.rs", "z.rs"]}));
        let blocks = "\n\n<read-files>\na.txt\nold.txt\n</read-files>\n\n<modified-files>\nb.rs\nc.rs\nz.rs\n</modified-files>";
        assert_eq!(files.blocks(), blocks);
        assert_eq!(without_blocks(&format!("## Goal\nx{blocks}")), "## Goal\nx");
        assert_eq!(without_blocks("no blocks <read-files> here"), "no blocks <read-files> here");
    }
}
