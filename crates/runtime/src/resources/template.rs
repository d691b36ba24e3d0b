//! One prompt template: a Markdown file whose body becomes a prompt, with arguments in its places.

use std::io;
use std::path::{Path, PathBuf};

use wolli_protocol::resource::SourceInfo;
use wolli_protocol::text::{utf16_len, utf16_prefix};

use super::front_matter;
use super::placeholders::{self, TooLarge};
use super::skill::header;
use super::text::read_whole;

/// Characters of a description that was not written as one.
const FIRST_LINE_MAX: usize = 60;

/// A template that can be called as `/<name>`. Its body is read when it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) path: PathBuf,
    pub(super) source_info: SourceInfo,
}

/// Reads the header of a template. Blocking.
///
/// # Errors
/// Why the file cannot be used.
pub(super) fn load(path: &Path, source_info: SourceInfo) -> Result<Template, String> {
    let (header, body) = header(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let description = header.description.or_else(|| first_line(&body));
    Ok(Template { name, description, path: path.to_owned(), source_info })
}

fn first_line(body: &str) -> Option<String> {
    let line = body.lines().map(str::trim).find(|line| !line.is_empty())?;
    let cut = utf16_len(line) > FIRST_LINE_MAX;
    Some(format!("{}{}", utf16_prefix(line, FIRST_LINE_MAX), if cut { "..." } else { "" }))
}

/// Why a template gives no prompt.
#[derive(Debug)]
pub(super) enum ExpandError {
    Read(io::Error),
    TooLarge,
}

/// The prompt that `/<name> <arguments>` stands for. Blocking.
pub(super) fn invoke(template: &Template, arguments: &str) -> Result<String, ExpandError> {
    let body = front_matter::split(&read_whole(&template.path).map_err(ExpandError::Read)?).body;
    placeholders::expand(&body, &placeholders::split_arguments(arguments)).map_err(|TooLarge| ExpandError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_come_from_the_header_or_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.review.md");
        let source = SourceInfo::builtin("x");
        for (content, description) in [
            ("---\ndescription: Reviews a file\nargument-hint: \"<path>\"\n---\nReview $1.", Some("Reviews a file".to_owned())),
            ("\n\n  Review $1.  \nmore", Some("Review $1.".into())),
            ("", None),
            ("---\ndescription:\n---\nReview", Some("Review".into())),
            (&format!("{}é", "x".repeat(59)), Some(format!("{}é", "x".repeat(59)))),
            (&"x".repeat(61), Some(format!("{}...", "x".repeat(60)))),
        ] {
            std::fs::write(&path, content).unwrap();
            let template = load(&path, source.clone()).unwrap();
            assert_eq!((template.name.as_str(), template.description.as_ref()), ("my.review", description.as_ref()), "{content:?}");
        }
        std::fs::write(&path, "---\ndescription: [\n---\nx").unwrap();
        assert!(load(&path, source.clone()).is_err());
        std::fs::write(&path, "---\nargument-hint: x\n---\n\nReview $1 for ${2:-defects}.\n").unwrap();
        let template = load(&path, source).unwrap();
        assert_eq!(invoke(&template, "'a b.rs'").unwrap(), "Review a b.rs for defects.");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(invoke(&template, ""), Err(ExpandError::Read(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
