//! `grep`: lines that match, in a file or a tree.
//!
//! Works like ripgrep, with its libraries, but in the order of paths and only as far as is shown. Memory is bounded by what is collected, not by files or lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::overrides::{Override, OverrideBuilder};
use serde::Deserialize;
use serde_json::{Map, json};
use wolli_exec::truncate_head;
use wolli_protocol::message::JsonObject;
use wolli_protocol::text::utf16_prefix;

use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::path;
use super::report::{self, BYTE_LIMIT_REACHED, BYTES_ONLY};
use super::search::{Next, Rules, relative, walk};
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};

const DEFAULT_LIMIT: f64 = 100.0;

/// UTF-16 code units of one line that are shown.
const LINE_LIMIT: usize = 500;

/// More than fits into a result in any case.
const MAX_CONTEXT: usize = 1000;

/// A file with a longer line than this is passed over: the searcher holds a line in memory.
const SEARCH_MEMORY: usize = 64 * 1024 * 1024;

#[derive(Debug)]
struct Grep(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Grep(builtin(
        "grep",
        "grep",
        Execution::Parallel,
        "Search the contents of files for a regular expression (Rust syntax) or a literal text. Gives file, line number and line, sorted by path. \
         Honours ignore files such as .gitignore, includes hidden files, skips binary ones. At most 100 matches (or `limit`) and 50KB; \
         lines are cut at 500 characters.",
        json!({
            "type": "object",
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "description": "What to search for"},
                "path": {"type": "string", "description": "The file or folder to search (default: your home)"},
                "glob": {"type": "string", "description": "Only files that match this glob, such as `*.ts` or `src/**`"},
                "ignoreCase": {"type": "boolean", "description": "Let capitals and small letters be the same (default: false)"},
                "literal": {"type": "boolean", "description": "Take the pattern as plain text (default: false)"},
                "context": {"type": "number", "description": "Lines to show before and after each match (default: 0)"},
                "limit": {"type": "number", "description": "The most matches (default: 100)"}
            }
        }),
        "Search file contents",
        &["Use grep and find to search, not bash"],
    )))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    context: Option<f64>,
    #[serde(default)]
    limit: Option<f64>,
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = typed(arguments)?;
            let root = path::resolve(arguments.path.as_deref().unwrap_or("."), context);
            blocking(&context.cancel, move |abort| grep(&root, &arguments, abort)).await
        })
    }
}

fn grep(root: &Path, arguments: &Arguments, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let metadata = std::fs::metadata(root).map_err(|_| ToolFailure::text(format!("Path not found: {}", root.display())))?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(arguments.ignore_case)
        .fixed_strings(arguments.literal)
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .build(&arguments.pattern)
        .map_err(|error| ToolFailure::text(error.to_string()))?;
    let globs = match arguments.glob.as_deref().filter(|glob| !glob.is_empty()) {
        Some(glob) => Some(overrides(root, glob)?),
        None => None,
    };
    let context = report::count(arguments.context.unwrap_or(0.0), 0).min(MAX_CONTEXT);
    let limit = report::count(arguments.limit.unwrap_or(DEFAULT_LIMIT), 1);
    // A file that was named is searched whatever is in it.
    let binary = if metadata.is_dir() { BinaryDetection::quit(0) } else { BinaryDetection::none() };
    let searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(SEARCH_MEMORY))
        .binary_detection(binary)
        .build();
    let mut search = Search { matcher, searcher, abort, context: context as u64, limit, matches: 0, text: String::new(), lines_cut: false };
    walk(root, Rules::Grep, globs, abort, |entry| {
        // Links are not followed, but the one that was named is.
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file()) || (entry.depth() == 0 && metadata.is_file());
        if is_file {
            search.file(entry.path(), &relative(entry.path(), root))?;
        }
        Ok(if search.is_full() { Next::Stop } else { Next::Go })
    })?;
    Ok(search.into_output())
}

fn overrides(root: &Path, glob: &str) -> Result<Override, ToolFailure> {
    let folder = if root.is_dir() { root.to_owned() } else { root.parent().map(PathBuf::from).unwrap_or_default() };
    let mut builder = OverrideBuilder::new(folder);
    builder.add(glob).and_then(|builder| builder.build()).map_err(|error| ToolFailure::text(format!("Invalid glob pattern: {error}")))
}

/// One search over many files.
struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    abort: &'a Abort,
    context: u64,
    limit: usize,
    matches: usize,
    text: String,
    lines_cut: bool,
}

impl Search<'_> {
    fn is_full(&self) -> bool {
        self.matches >= self.limit || self.text.len() > report::RAW_LIMIT
    }

    fn file(&mut self, path: &Path, name: &str) -> Result<(), ToolFailure> {
        // What vanished or may not be read is no reason to show nothing of the rest.
        let Ok(file) = File::open(path) else { return Ok(()) };
        let room = self.limit.saturating_sub(self.matches);
        let mut hits = Hits { room, context: self.context, matches: Vec::new(), lines: BTreeMap::new(), bytes: 0, lines_cut: false };
        let source = Abortable { file, abort: self.abort };
        // Lines that are too long, and read errors: what was found before counts.
        let _partial = self.searcher.search_reader(&self.matcher, source, &mut hits);
        self.abort.check()?;
        self.matches += hits.matches.len();
        self.lines_cut |= hits.lines_cut;
        hits.write(name, &mut self.text);
        Ok(())
    }

    fn into_output(self) -> ToolOutput {
        if self.matches == 0 {
            return ToolOutput::text("No matches found");
        }
        let shown = truncate_head(&self.text, BYTES_ONLY);
        let (mut text, mut notices, mut details) = (shown.content.into_owned(), Vec::new(), Map::new());
        if self.matches >= self.limit {
            let limit = self.limit;
            notices.push(format!("{limit} matches limit reached. Use limit={} for more, or refine pattern", limit.saturating_mul(2)));
            details.insert("matchLimitReached".to_owned(), json!(limit));
        }
        if shown.truncation.truncated() {
            notices.push(BYTE_LIMIT_REACHED.to_owned());
            details.insert("truncation".to_owned(), report::truncation(&shown.truncation));
        }
        if self.lines_cut {
            notices.push(format!("Some lines truncated to {LINE_LIMIT} chars. Use read tool to see full lines"));
            details.insert("linesTruncated".to_owned(), json!(true));
        }
        report::add_notices(&mut text, &notices);
        ToolOutput::text(text).with_details((!details.is_empty()).then(|| details.into()))
    }
}

/// What was found in one file.
struct Hits {
    room: usize,
    context: u64,
    matches: Vec<u64>,
    /// Lines by number, cut.
    lines: BTreeMap<u64, String>,
    bytes: usize,
    lines_cut: bool,
}

impl Hits {
    /// Keeps a line; says whether to go on.
    fn keep(&mut self, number: u64, bytes: &[u8], is_match: bool) -> bool {
        let is_over = self.matches.len() >= self.room;
        if is_over && self.matches.last().is_some_and(|last| number > last.saturating_add(self.context)) {
            return false;
        }
        let line = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes)).replace('\r', "");
        let start = utf16_prefix(&line, LINE_LIMIT);
        let line = if start.len() < line.len() {
            self.lines_cut = true;
            format!("{start}... [truncated]")
        } else {
            line
        };
        self.bytes += line.len();
        self.lines.insert(number, line);
        if is_match && !is_over {
            self.matches.push(number);
        }
        self.bytes <= report::RAW_LIMIT && (self.context > 0 || self.matches.len() < self.room)
    }

    /// Adds the lines of each match with what is around it; what is around two matches comes twice.
    fn write(&self, name: &str, text: &mut String) {
        for &hit in &self.matches {
            for (number, line) in self.lines.range(hit.saturating_sub(self.context)..=hit.saturating_add(self.context)) {
                if !text.is_empty() {
                    text.push('\n');
                }
                let mark = if *number == hit { ":" } else { "-" };
                text.extend([name, mark, &number.to_string(), mark, " ", line.as_str()]);
            }
            if text.len() > report::RAW_LIMIT {
                return;
            }
        }
    }
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.keep(found.line_number().unwrap_or_default(), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.keep(found.line_number().unwrap_or_default(), found.bytes(), false))
    }
}

/// A file that ends with an error once the call is aborted.
struct Abortable<'a> {
    file: File,
    abort: &'a Abort,
}

impl Read for Abortable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abort.is_aborted() {
            return Err(io::Error::other("aborted"));
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests;
