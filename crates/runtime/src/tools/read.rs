//! `read`: a window of a text file, or an image.
//!
//! A file is read as a stream: memory is bounded by what is shown, whatever its size or the length of its lines.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use wolli_exec::utf8::Utf8Decoder;
use wolli_exec::{Limits, Truncation, truncate_head};
use wolli_protocol::message::JsonObject;

use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};
use super::{image, path, report};

/// One read.
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Read(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Read(builtin(
        "read",
        "read",
        Execution::Parallel,
        "Read a text file or look at an image (JPEG, PNG, GIF, WebP). Of a text, at most 2000 lines or 50KB come back, whichever is less; \
         use `offset` and `limit` for the rest of a long file, and go on until you have what you need.",
        json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your home or absolute"},
                "offset": {"type": "number", "description": "The first line to read, counted from 1"},
                "limit": {"type": "number", "description": "The most lines to read"}
            }
        }),
        "Read a text file or an image",
        &["Use read to look at files, not cat or sed"],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    #[serde(default)]
    offset: Option<f64>,
    #[serde(default)]
    limit: Option<f64>,
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = typed(arguments)?;
            let resolving = context.clone();
            let argument = arguments.path.clone();
            let (file, mime) = blocking(&context.cancel, move |_| {
                let file = path::resolve_existing(&argument, &resolving);
                let mime = image::sniff(&open(&file)?).map_err(|error| ToolFailure::file(&error, "read", &file))?;
                Ok((file, mime))
            })
            .await?;
            match mime {
                Some(format) => image::read(file, format, &context.cancel).await,
                None => blocking(&context.cancel, move |abort| text(&file, &arguments, abort)).await,
            }
        })
    }
}

/// Opens a regular file; everything else would never end or block.
fn open(path: &Path) -> Result<File, ToolFailure> {
    let metadata = std::fs::metadata(path).map_err(|error| ToolFailure::file(&error, "access", path))?;
    if metadata.is_dir() {
        return Err(ToolFailure::file(&io::ErrorKind::IsADirectory.into(), "read", path));
    }
    if !metadata.is_file() {
        return Err(ToolFailure::text(format!("EINVAL: not a regular file, read '{}'", path.display())));
    }
    File::open(path).map_err(|error| ToolFailure::file(&error, "access", path))
}

/// The lines `first..end` (counted from 0) of a text that comes in chunks.
struct Window {
    first: u64,
    end: u64,
    limits: Limits,
    /// Newlines seen.
    line: u64,
    decoder: Utf8Decoder,
    /// The selected text, as far as it can be shown.
    text: String,
    /// The whole of the selected text.
    bytes: u64,
    newlines: u64,
    first_line_bytes: u64,
    /// Whether the last line of the selection has text and no newline.
    is_line_open: bool,
}

impl Window {
    fn new(first: u64, end: u64, limits: Limits) -> Self {
        Self {
            first,
            end,
            limits,
            line: 0,
            decoder: Utf8Decoder::default(),
            text: String::new(),
            bytes: 0,
            newlines: 0,
            first_line_bytes: 0,
            is_line_open: false,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let ends_line = piece.ends_with(b"\n");
            if self.line >= self.first && self.line < self.end {
                // The newline in front of the window's end is no part of it.
                let is_last = self.line + 1 == self.end && ends_line;
                self.select(if is_last { piece.strip_suffix(b"\n").unwrap_or(piece) } else { piece });
            }
            self.line += u64::from(ends_line);
        }
    }

    fn select(&mut self, bytes: &[u8]) {
        let mut new = String::new();
        self.decoder.push(bytes, &mut new);
        self.add(&new);
    }

    fn add(&mut self, new: &str) {
        if new.is_empty() {
            return;
        }
        self.is_line_open = !new.ends_with('\n');
        if self.newlines == 0 {
            self.first_line_bytes += new.find('\n').unwrap_or(new.len()) as u64;
        }
        self.bytes += new.len() as u64;
        self.newlines += new.bytes().filter(|byte| *byte == b'\n').count() as u64;
        // A newline and one byte too many say what is cut by which limit; the exact counts are put in afterwards.
        if self.text.len() <= self.limits.max_bytes + 1 {
            self.text.push_str(new);
        }
    }

    fn finish(&mut self) {
        let mut rest = String::new();
        self.decoder.finish(&mut rest);
        self.add(&rest);
    }

    /// What is shown, with counts of the whole selection.
    fn truncated(&self) -> (String, Truncation) {
        let shown = truncate_head(&self.text, self.limits);
        let mut truncation = shown.truncation;
        truncation.total_bytes = self.bytes;
        truncation.total_lines = self.newlines + u64::from(self.is_line_open);
        (shown.content.into_owned(), truncation)
    }
}

fn text(path: &Path, arguments: &Arguments, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let mut file = open(path)?;
    let offset = report::count(arguments.offset.unwrap_or(1.0), 1) as u64;
    let first = offset - 1;
    let end = arguments.limit.map_or(u64::MAX, |limit| first.saturating_add(report::count(limit, 0) as u64));
    let mut window = Window::new(first, end, Limits::default());
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        abort.check()?;
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => window.push(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ToolFailure::file(&error, "read", path)),
        }
    }
    window.finish();

    let total = window.line + 1;
    if first >= total {
        return Err(ToolFailure::text(format!("Offset {offset} is beyond end of file ({total} lines total)")));
    }
    let (mut text, truncation) = window.truncated();
    if truncation.first_line_exceeds_limit {
        let size = report::size(window.first_line_bytes);
        let limit = truncation.limits.max_bytes;
        text =
            format!("[Line {offset} is {size}, exceeds 50.0KB limit. Use bash: sed -n '{offset}p' {} | head -c {limit}]", arguments.path);
    } else if truncation.truncated() {
        let last = first + truncation.output_lines;
        let by_bytes = if truncation.truncated_by == Some(wolli_exec::TruncatedBy::Bytes) { " (50.0KB limit)" } else { "" };
        let notice = format!("Showing lines {offset}-{last} of {total}{by_bytes}. Use offset={} to continue.", last + 1);
        report::add_notices(&mut text, &[notice]);
    } else if end < total {
        report::add_notices(&mut text, &[format!("{} more lines in file. Use offset={} to continue.", total - end, end + 1)]);
    }
    let details = truncation.truncated().then(|| json!({"truncation": report::truncation(&truncation)}));
    Ok(ToolOutput::text(text).with_details(details))
}

#[cfg(test)]
mod tests;
