//! `memory`: durable notes in MEMORY.md and USER.md, line by line, within a budget.
//!
//! Refusals are normal results, so that the model reads them as advice and not as a fault. What a change makes of a file is a pure function.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use wolli_protocol::message::JsonObject;
use wolli_protocol::text::utf16_len;

use super::atomic::{self, PRIVATE};
use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};
use super::{locks, path};

/// The most a curated file may hold, in UTF-16 code units: all of them go into every prompt.
pub(super) const BUDGET: usize = 8000;

/// How many lines are shown when a match is not unique.
const MATCHES_SHOWN: usize = 5;

#[derive(Debug)]
struct Memory(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Memory(builtin(
        "memory",
        "Memory",
        Execution::Sequential,
        "Keep durable notes that future sessions start with. MEMORY holds facts about your work and environment, USER holds facts about your human. \
         `add` appends one line. `replace` and `remove` change the one line that contains `match`; `replace` without `match` rewrites the whole file. \
         Each file holds at most 8000 characters, so keep entries short and drop stale ones. Changes show in your prompt from the next session on.",
        json!({
            "type": "object",
            "required": ["file", "op"],
            "properties": {
                "file": {
                    "anyOf": [{"const": "MEMORY", "type": "string"}, {"const": "USER", "type": "string"}],
                    "description": "Which notes: MEMORY (work, environment) or USER (the human)"
                },
                "op": {
                    "anyOf": [{"const": "add", "type": "string"}, {"const": "replace", "type": "string"}, {"const": "remove", "type": "string"}],
                    "description": "What to do"
                },
                "content": {"type": "string", "description": "The text to add, or the new text for replace"},
                "match": {"type": "string", "description": "A part of the one line to replace or remove"}
            }
        }),
        "Save, change or remove durable notes (MEMORY.md, USER.md)",
        &["Save lasting facts with memory as soon as you learn them; do not edit MEMORY.md or USER.md with file tools"],
    )))
}

#[derive(Debug, Clone, Deserialize)]
struct Arguments {
    file: String,
    op: String,
    #[serde(default)]
    content: Option<String>,
    #[serde(default, rename = "match")]
    matching: Option<String>,
}

impl Tool for Memory {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = typed(arguments)?;
            let file = path::real(&context.home.join(format!("{}.md", arguments.file)));
            let lock = locks::lock(&file, &context.cancel).await?;
            blocking(&context.cancel, move |abort| {
                let _held = lock;
                apply(&file, &arguments, abort)
            })
            .await
        })
    }
}

fn apply(file: &Path, arguments: &Arguments, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let old = read_or_empty(file)?;
    let outcome = change(&old, arguments);
    let (text, length) = match outcome {
        Ok(new) => {
            atomic::replace(file, new.as_bytes(), Some(PRIVATE), abort)?;
            (format!("Saved to {}.md. Effective next session.", arguments.file), Some(utf16_len(&new)))
        }
        Err(refusal) => (refusal, None),
    };
    let mut details = json!({"file": arguments.file, "op": arguments.op, "applied": length.is_some()});
    if let Some(length) = length {
        details["bytes"] = json!(length);
    }
    Ok(ToolOutput::text(text).with_details(Some(details)))
}

fn read_or_empty(file: &Path) -> Result<String, ToolFailure> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(ToolFailure::file(&error, "open", file)),
    }
}

/// The new content, or the refusal.
fn change(old: &str, arguments: &Arguments) -> Result<String, String> {
    let Arguments { file, op, content, matching } = arguments;
    let content = content.as_deref().unwrap_or_default();
    let matching = matching.as_deref().unwrap_or_default();
    let new = match (op.as_str(), matching) {
        ("add", _) => match content.trim() {
            "" => return Err("add requires non-empty content.".to_owned()),
            line => {
                let old = old.trim_end_matches('\n');
                let separator = if old.is_empty() { "" } else { "\n" };
                format!("{old}{separator}{line}\n")
            }
        },
        ("replace", "") => match content.trim() {
            "" => String::new(),
            text => format!("{text}\n"),
        },
        ("replace", _) => with_one_line(old, file, matching, Some(content))?,
        (_, "") => return Err("remove requires a `match` substring.".to_owned()),
        (_, _) => with_one_line(old, file, matching, None)?,
    };
    let length = utf16_len(&new);
    if length > BUDGET {
        return Err(format!(
            "Not saved: {file}.md would be {length} chars, over the {BUDGET} budget. Remove or shorten existing entries first."
        ));
    }
    Ok(new)
}

/// Replaces (or deletes) the only line that contains `matching`.
fn with_one_line(old: &str, file: &str, matching: &str, new: Option<&str>) -> Result<String, String> {
    let mut lines: Vec<&str> = old.split('\n').collect();
    let hits: Vec<usize> = (0..lines.len()).filter(|&index| lines.get(index).is_some_and(|line| line.contains(matching))).collect();
    match hits[..] {
        [] => Err(format!("No line in {file}.md contains \"{matching}\".")),
        [hit] => {
            lines.splice(hit..=hit, new);
            Ok(lines.join("\n"))
        }
        _ => {
            let mut text = format!("\"{matching}\" matches {} lines in {file}.md; be more specific:", hits.len());
            for line in hits.iter().take(MATCHES_SHOWN).filter_map(|&hit| lines.get(hit)) {
                text.push_str("\n  - ");
                text.push_str(line.trim());
            }
            Err(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{Home, text};

    fn arguments(op: &str, content: Option<&str>, matching: Option<&str>) -> Arguments {
        Arguments { file: "USER".into(), op: op.into(), content: content.map(Into::into), matching: matching.map(Into::into) }
    }

    #[test]
    fn table() {
        let several = "\"a\" matches 7 lines in USER.md; be more specific:\n  - a1\n  - a2\n  - a3\n  - a4\n  - a5";
        for (old, op, content, matching, expected) in [
            ("", "add", Some("  first \n"), None, Ok("first\n")),
            ("a\n\n\n", "add", Some("b"), None, Ok("a\nb\n")),
            ("a", "add", Some("b"), None, Ok("a\nb\n")),
            ("\n", "add", Some("b"), None, Ok("b\n")),
            ("a\n", "add", Some(" \n "), None, Err("add requires non-empty content.")),
            ("a\n", "add", None, None, Err("add requires non-empty content.")),
            ("a\nb\n", "replace", Some(" new \n"), None, Ok("new\n")),
            ("a\nb\n", "replace", Some("new"), Some(""), Ok("new\n")),
            ("a\nb\n", "replace", None, None, Ok("")),
            ("a\nb\nc\n", "replace", Some("B"), Some("b"), Ok("a\nB\nc\n")),
            ("a\nb\nc\n", "replace", None, Some("b"), Ok("a\n\nc\n")),
            ("a\nb\nc\n", "remove", None, Some("b"), Ok("a\nc\n")),
            ("a\nb", "remove", None, Some("b"), Ok("a")),
            ("a\nb\n", "remove", None, None, Err("remove requires a `match` substring.")),
            ("a\nb\n", "remove", Some("x"), Some(""), Err("remove requires a `match` substring.")),
            ("a\nb\n", "remove", None, Some("x"), Err("No line in USER.md contains \"x\".")),
            (" a1\na2 \na3\na4\na5\na6\na7", "replace", Some("x"), Some("a"), Err(several)),
        ] {
            let result = change(old, &arguments(op, content, matching));
            assert_eq!(result, expected.map(str::to_owned).map_err(str::to_owned), "{old:?} {op} {content:?} {matching:?}");
        }
    }

    #[test]
    fn the_budget_counts_code_units() {
        let at = |count: usize| change("", &arguments("add", Some(&"é".repeat(count)), None));
        assert_eq!(utf16_len(&at(7999).unwrap()), 8000);
        let over = "Not saved: USER.md would be 8001 chars, over the 8000 budget. Remove or shorten existing entries first.";
        assert_eq!(at(8000), Err(over.to_owned()));
        assert!(change("", &arguments("add", Some(&"😀".repeat(4000)), None)).is_err());
    }

    #[tokio::test]
    async fn saved_privately_and_told() {
        let home = Home::new();
        let output = home.call("memory", json!({"file": "MEMORY", "op": "add", "content": "é fact"})).await;
        assert_eq!(text(&output), "Saved to MEMORY.md. Effective next session.");
        assert_eq!(output.details, Some(json!({"file": "MEMORY", "op": "add", "applied": true, "bytes": 7})));
        assert_eq!(home.read("MEMORY.md"), "é fact\n");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(home.path("MEMORY.md")).unwrap());
        assert_eq!(mode & 0o777, 0o600);

        let output = home.call("memory", json!({"file": "MEMORY", "op": "remove", "match": "nothing"})).await;
        assert!(!output.is_error);
        assert_eq!(output.details, Some(json!({"file": "MEMORY", "op": "remove", "applied": false})));
        assert!(
            home.bad("memory", json!({"file": "SOUL", "op": "add", "content": "x"})).await.contains("file: must match a schema in anyOf")
        );
    }

    #[tokio::test]
    async fn two_at_once_lose_nothing() {
        let home = Home::new();
        let calls = (0..20).map(|index| home.call("memory", json!({"file": "USER", "op": "add", "content": format!("n{index}")})));
        futures_util::future::join_all(calls).await;
        assert_eq!(home.read("USER.md").lines().count(), 20);
    }
}
