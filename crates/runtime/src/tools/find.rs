//! `find`: files by glob.

use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Map, json};
use wolli_exec::truncate_head;
use wolli_protocol::message::JsonObject;

use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::path;
use super::report::{self, BYTE_LIMIT_REACHED, BYTES_ONLY};
use super::search::{Next, Rules, relative, walk};
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};

const DEFAULT_LIMIT: f64 = 1000.0;

#[derive(Debug)]
struct Find(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Find(builtin(
        "find",
        "find",
        Execution::Parallel,
        "Find files and folders by glob, in a folder and all below it. `*.rs` matches names; a pattern with a slash matches paths (`src/**/*.rs`). \
         Honours ignore files such as .gitignore, includes hidden files, sorts by path. At most 1000 results (or `limit`) and 50KB.",
        json!({
            "type": "object",
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "description": "The glob, such as `*.ts`, `**/*.json` or `src/**/test_*`"},
                "path": {"type": "string", "description": "The folder to search (default: your home)"},
                "limit": {"type": "number", "description": "The most results (default: 1000)"}
            }
        }),
        "Find files by glob",
        &[],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    limit: Option<f64>,
}

impl Tool for Find {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { pattern, path: argument, limit } = typed(arguments)?;
            let folder = path::resolve(argument.as_deref().unwrap_or("."), context);
            let limit = report::count(limit.unwrap_or(DEFAULT_LIMIT), 1);
            blocking(&context.cancel, move |abort| find(&folder, &Pattern::new(&pattern)?, limit, abort)).await
        })
    }
}

/// A glob for names, or for whole paths.
struct Pattern {
    glob: GlobMatcher,
    on_paths: bool,
}

impl Pattern {
    fn new(pattern: &str) -> Result<Self, ToolFailure> {
        let on_paths = pattern.contains('/');
        let is_anchored = pattern.starts_with('/') || pattern.starts_with("**/") || pattern == "**";
        let glob = if on_paths && !is_anchored { format!("**/{pattern}") } else { pattern.to_owned() };
        let glob = GlobBuilder::new(&glob)
            .literal_separator(true)
            // Capitals mean something only if somebody typed one.
            .case_insensitive(!pattern.chars().any(char::is_uppercase))
            .build()
            .map_err(|error| ToolFailure::text(format!("Invalid glob pattern: {error}")))?;
        Ok(Self { glob: glob.compile_matcher(), on_paths })
    }

    fn matches(&self, path: &Path) -> bool {
        if self.on_paths { self.glob.is_match(path) } else { path.file_name().is_some_and(|name| self.glob.is_match(name)) }
    }
}

fn find(folder: &Path, pattern: &Pattern, limit: usize, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let metadata = std::fs::metadata(folder).map_err(|_| ToolFailure::text(format!("Path not found: {}", folder.display())))?;
    if !metadata.is_dir() {
        return Err(ToolFailure::text(format!("Not a directory: {}", folder.display())));
    }
    let (mut found, mut all) = (0_usize, String::new());
    walk(folder, Rules::Find, None, abort, |entry| {
        if entry.depth() == 0 || !pattern.matches(entry.path()) {
            return Ok(Next::Go);
        }
        if found > 0 {
            all.push('\n');
        }
        all.push_str(&relative(entry.path(), folder));
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            all.push('/');
        }
        found += 1;
        Ok(if found >= limit || all.len() > report::RAW_LIMIT { Next::Stop } else { Next::Go })
    })?;
    if found == 0 {
        return Ok(ToolOutput::text("No files found matching pattern"));
    }
    let shown = truncate_head(&all, BYTES_ONLY);
    let (mut text, mut notices, mut details) = (shown.content.into_owned(), Vec::new(), Map::new());
    if found >= limit {
        notices.push(format!("{limit} results limit reached. Use limit={} for more, or refine pattern", limit.saturating_mul(2)));
        details.insert("resultLimitReached".to_owned(), json!(limit));
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

    fn home() -> Home {
        let home = Home::new();
        for name in ["b.rs", "a.rs", "src/lib.rs", "src/deep/x.RS", ".hidden/y.rs", "target/z.rs", ".git/config.rs", "note.txt"] {
            home.write(name, "");
        }
        home.write(".gitignore", "target/\n");
        home
    }

    #[tokio::test]
    async fn by_name_sorted_and_ignored() {
        let home = home();
        let expected = ".hidden/y.rs\na.rs\nb.rs\nsrc/deep/x.RS\nsrc/lib.rs";
        assert_eq!(home.call("find", json!({"pattern": "*.rs"})).await, ToolOutput::text(expected));
        assert_eq!(home.good("find", json!({"pattern": "*.RS"})).await, "src/deep/x.RS");
        assert_eq!(home.good("find", json!({"pattern": "s*"})).await, "src/");
        assert_eq!(home.good("find", json!({"pattern": "{a,b}.rs", "path": "."})).await, "a.rs\nb.rs");
        assert_eq!(home.good("find", json!({"pattern": "*", "path": ".git"})).await, "config.rs");
    }

    #[tokio::test]
    async fn by_path() {
        let home = home();
        for (pattern, expected) in [
            ("src/*.rs", "src/lib.rs"),
            ("src/**", "src/deep/\nsrc/deep/x.RS\nsrc/lib.rs"),
            ("**/lib.rs", "src/lib.rs"),
            ("deep/x.rs", "src/deep/x.RS"),
            ("/nowhere/*.rs", "No files found matching pattern"),
            ("*.py", "No files found matching pattern"),
        ] {
            assert_eq!(home.good("find", json!({"pattern": pattern})).await, expected, "{pattern}");
        }
        let absolute = format!("{}/*.txt", home.path("").display());
        assert_eq!(home.good("find", json!({"pattern": absolute})).await, "note.txt");
    }

    #[tokio::test]
    async fn linked_folders_are_searched_when_named() {
        let home = home();
        std::os::unix::fs::symlink("src", home.path("linked")).unwrap();
        assert_eq!(home.good("find", json!({"pattern": "lib.rs"})).await, "src/lib.rs");
        assert_eq!(home.good("find", json!({"pattern": "lib.rs", "path": "linked"})).await, "lib.rs");
        home.write("src/lib.rs", "needle\n");
        assert_eq!(home.good("grep", json!({"pattern": "needle", "path": "linked"})).await, "lib.rs:1: needle");
        std::os::unix::fs::symlink("src/lib.rs", home.path("file")).unwrap();
        assert_eq!(home.good("grep", json!({"pattern": "needle", "path": "file"})).await, "file:1: needle");
        assert_eq!(home.good("grep", json!({"pattern": "needle"})).await, "src/lib.rs:1: needle");
    }

    #[tokio::test]
    async fn limits_and_errors() {
        let home = home();
        let output = home.call("find", json!({"pattern": "*.rs", "limit": 2})).await;
        let notice = "[2 results limit reached. Use limit=4 for more, or refine pattern]";
        assert_eq!(text(&output), format!(".hidden/y.rs\na.rs\n\n{notice}"));
        assert_eq!(output.details, Some(json!({"resultLimitReached": 2})));
        assert_eq!(home.bad("find", json!({"pattern": "*", "path": "none"})).await, "Path not found: HOME/none");
        assert_eq!(home.bad("find", json!({"pattern": "*", "path": "a.rs"})).await, "Not a directory: HOME/a.rs");
        assert!(home.bad("find", json!({"pattern": "a{b"})).await.starts_with("Invalid glob pattern: "));

        for index in 0..300 {
            home.write(&format!("many/{index:03}{}", "x".repeat(200)), "");
        }
        let output = home.call("find", json!({"pattern": "*x*", "path": "many"})).await;
        assert!(text(&output).ends_with("\n\n[50.0KB limit reached]"));
        assert_eq!(output.details.unwrap()["truncation"]["totalLines"], 300);
    }
}
