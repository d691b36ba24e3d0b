//! `ls`: the names in a folder.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, json};
use wolli_exec::truncate_head;
use wolli_protocol::message::JsonObject;

use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::report::{self, BYTE_LIMIT_REACHED, BYTES_ONLY};
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};
use super::{collation, path};

const DEFAULT_LIMIT: f64 = 500.0;

#[derive(Debug)]
struct Ls(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Ls(builtin(
        "ls",
        "ls",
        Execution::Parallel,
        "List a folder, sorted by name, dotfiles included; folders end in `/`. At most 500 entries (or `limit`) and 50KB.",
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The folder (default: your home)"},
                "limit": {"type": "number", "description": "The most entries to list (default: 500)"}
            }
        }),
        "List a folder",
        &[],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    limit: Option<f64>,
}

impl Tool for Ls {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { path: argument, limit } = typed(arguments)?;
            let folder = path::resolve(argument.as_deref().unwrap_or("."), context);
            let limit = report::count(limit.unwrap_or(DEFAULT_LIMIT), 1);
            blocking(&context.cancel, move |abort| list(&folder, limit, abort)).await
        })
    }
}

fn list(folder: &Path, limit: usize, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let metadata = std::fs::metadata(folder).map_err(|_| ToolFailure::text(format!("Path not found: {}", folder.display())))?;
    if !metadata.is_dir() {
        return Err(ToolFailure::text(format!("Not a directory: {}", folder.display())));
    }
    let cannot_read = |error: std::io::Error| {
        let failure = ToolFailure::file(&error, "scandir", folder);
        ToolFailure::text(format!("Cannot read directory: {failure}"))
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot_read)? {
        abort.check()?;
        names.push(entry.map_err(cannot_read)?.file_name());
    }
    names.sort_by_cached_key(|name| (collation::key(&name.to_string_lossy()), name.clone()));

    let mut lines = Vec::new();
    let mut limit_reached = false;
    for name in names {
        abort.check()?;
        if lines.len() == limit {
            limit_reached = true;
            break;
        }
        // Dangling links and what vanished meanwhile.
        let Ok(metadata) = std::fs::metadata(folder.join(&name)) else { continue };
        let end = if metadata.is_dir() { "/" } else { "" };
        lines.push(format!("{}{end}", name.to_string_lossy()));
    }
    if lines.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    let all = lines.join("\n");
    let shown = truncate_head(&all, BYTES_ONLY);
    let (mut text, mut notices, mut details) = (shown.content.into_owned(), Vec::new(), Map::new());
    if limit_reached {
        notices.push(format!("{limit} entries limit reached. Use limit={} for more", limit.saturating_mul(2)));
        details.insert("entryLimitReached".to_owned(), json!(limit));
    }
    if shown.truncation.truncated() {
        notices.push(BYTE_LIMIT_REACHED.to_owned());
        details.insert("truncation".to_owned(), report::truncation(&shown.truncation));
    }
    report::add_notices(&mut text, &notices);
    Ok(ToolOutput::text(text).with_details((!details.is_empty()).then(|| details.into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{Home, text};

    #[tokio::test]
    async fn sorted_with_marks() {
        let home = Home::new();
        for name in ["b.txt", "A.txt", ".hidden", "dir/x", "_x", "10"] {
            home.write(name, "");
        }
        std::os::unix::fs::symlink("dir", home.path("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", home.path("dangling")).unwrap();
        let output = home.call("ls", json!({})).await;
        assert_eq!(output, ToolOutput::text("_x\n.hidden\n10\nA.txt\nb.txt\ndir/\nlink/"));
        std::fs::create_dir(home.path("empty")).unwrap();
        assert_eq!(home.good("ls", json!({"path": "empty"})).await, "(empty directory)");
    }

    #[tokio::test]
    async fn limits_are_told() {
        let home = Home::new();
        for name in ["a", "b", "c"] {
            home.write(name, "");
        }
        let output = home.call("ls", json!({"limit": 2})).await;
        assert_eq!(text(&output), "a\nb\n\n[2 entries limit reached. Use limit=4 for more]");
        assert_eq!(output.details, Some(json!({"entryLimitReached": 2})));
        assert_eq!(home.call("ls", json!({"limit": 3})).await, ToolOutput::text("a\nb\nc"));

        for index in 0..260 {
            home.write(&format!("many/{index:03}{}", "x".repeat(200)), "");
        }
        let output = home.call("ls", json!({"path": "many", "limit": 255})).await;
        assert!(
            text(&output).ends_with("\n\n[255 entries limit reached. Use limit=510 for more. 50.0KB limit reached]"),
            "{}",
            text(&output)
        );
        let details = output.details.unwrap();
        assert_eq!((&details["entryLimitReached"], &details["truncation"]["truncatedBy"]), (&json!(255), &json!("bytes")));
        assert_eq!(details["truncation"]["maxLines"], json!(9_007_199_254_740_991_u64));
    }

    #[tokio::test]
    async fn errors() {
        let home = Home::new();
        home.write("file", "");
        assert_eq!(home.bad("ls", json!({"path": "none"})).await, "Path not found: HOME/none");
        assert_eq!(home.bad("ls", json!({"path": "file"})).await, "Not a directory: HOME/file");
    }
}
