//! What grep and find have in common: the walk over files, in the order of their paths, with ignore files.

use std::path::Path;

use ignore::overrides::Override;
use ignore::{DirEntry, WalkBuilder};

use super::blocking::Abort;
use super::failure::ToolFailure;

/// Whose rules a walk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// As ripgrep: `.gitignore` counts inside of git work trees.
    Grep,
    /// As fd: it counts everywhere.
    Find,
}

/// Visits everything below `root` (and `root` itself), sorted, until `visit` says stop. Hidden files are visited, what cannot be read is passed over.
///
/// The inside of `.git` is not visited, unless the walk starts there: sorted by path it would be the first of every result.
pub(super) fn walk(
    root: &Path,
    rules: Rules,
    globs: Option<Override>,
    abort: &Abort,
    mut visit: impl FnMut(&DirEntry) -> Result<Next, ToolFailure>,
) -> Result<(), ToolFailure> {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).sort_by_file_path(Path::cmp);
    match rules {
        Rules::Grep => builder.add_custom_ignore_filename(".rgignore"),
        Rules::Find => builder.require_git(false).add_custom_ignore_filename(".fdignore"),
    };
    if let Some(globs) = globs {
        builder.overrides(globs);
    }
    builder.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    for entry in builder.build() {
        abort.check()?;
        // A folder that may not be read, or an ignore file with a mistake: the rest is still worth finding.
        let Ok(entry) = entry else { continue };
        if visit(&entry)? == Next::Stop {
            break;
        }
    }
    Ok(())
}

/// What a visitor wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Stop,
}

/// The path below `root`, with forward slashes; the name for `root` itself.
pub(super) fn relative(path: &Path, root: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let shown = if below.as_os_str().is_empty() { path.file_name().map_or(path, Path::new) } else { below };
    shown.to_string_lossy().into_owned()
}
