//! `edit`: exact replacements in a text file, several disjoint ones per call.
//!
//! [`text`] maps what is searched to the bytes of the file, [`matching`] finds and applies, [`diff`] shows. Invariant: bytes outside
//! of the replaced places stay as they are, whatever they are.

mod diff;
mod matching;
mod text;

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wolli_protocol::message::JsonObject;

use self::matching::Replacement;
use super::blocking::{Abort, blocking};
use super::context::{ToolContext, ToolOutput};
use super::failure::{ToolFailure, error_code};
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};
use super::{atomic, locks, path};

/// A bigger file is not edited as text: several copies of it are in memory at once.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
struct Edit(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Edit(builtin(
        "edit",
        "edit",
        Execution::Parallel,
        "Change parts of a text file. Each edit replaces `oldText`, which must occur exactly once in the file as it is now, by `newText`. \
         Several places go into one call as several edits; they must not overlap, and each is searched in the original text, not in the result of the others.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "edits"],
            "properties": {
                "path": {"type": "string", "description": "The file, relative to your home or absolute"},
                "edits": {
                    "type": "array",
                    "description": "The replacements, in any order",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["oldText", "newText"],
                        "properties": {
                            "oldText": {"type": "string", "description": "The text to replace, exactly as it is in the file and unique there"},
                            "newText": {"type": "string", "description": "What stands there afterwards"}
                        }
                    }
                }
            }
        }),
        "Replace exact, unique pieces of a file's text",
        &[
            "Use edit for changes: oldText must match exactly and be unique in the file",
            "Put several changes of one file into one edit call; keep oldText as short as is unique, and do not pad it with unchanged lines",
        ],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    edits: Vec<Replacement>,
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// Models send the list as a string, or the two texts beside it.
    fn fix_up(&self, arguments: &mut JsonObject) {
        if let Some(Value::String(text)) = arguments.get("edits")
            && let Ok(list @ Value::Array(_)) = serde_json::from_str(text)
        {
            arguments.insert("edits".to_owned(), list);
        }
        let both = (arguments.get("oldText").and_then(Value::as_str), arguments.get("newText").and_then(Value::as_str));
        let (Some(old), Some(new)) = both else { return };
        let item = json!({"oldText": old, "newText": new});
        match arguments.get_mut("edits") {
            Some(Value::Array(edits)) => edits.push(item),
            None => {
                arguments.insert("edits".to_owned(), json!([item]));
            }
            Some(_) => return,
        }
        arguments.shift_remove("oldText");
        arguments.shift_remove("newText");
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = typed(arguments)?;
            if arguments.edits.is_empty() {
                return Err(ToolFailure::text("Edit tool input is invalid. edits must contain at least one replacement."));
            }
            let file = path::resolve(&arguments.path, context);
            let real = {
                let file = file.clone();
                blocking(&context.cancel, move |_| Ok(path::real(&file))).await?
            };
            let lock = locks::lock(&real, &context.cancel).await?;
            let control = context.control.clone();
            blocking(&context.cancel, move |abort| {
                let _held = lock;
                control.refuse(&file)?;
                apply(&file, &arguments, abort)
            })
            .await
        })
    }
}

fn apply(file: &Path, arguments: &Arguments, abort: &Abort) -> Result<ToolOutput, ToolFailure> {
    let name = arguments.path.as_str();
    let original =
        load(file).map_err(|error| ToolFailure::text(format!("Could not edit file: {name}. Error code: {}.", error_code(&error))))?;
    abort.check()?;
    let edited = matching::apply(&original, &arguments.edits, name).map_err(ToolFailure::Text)?;
    abort.check()?;
    let details = diff::details(&text::read(&original).text, &text::read(&edited).text, name);
    atomic::replace(file, &edited, None, abort)?;
    let text = format!("Successfully replaced {} block(s) in {name}.", arguments.edits.len());
    Ok(ToolOutput::text(text).with_details(Some(details)))
}

/// Reads a file that may be written as well.
fn load(file: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    OpenOptions::new().read(true).write(true).open(file)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
