//! JSON with comments and trailing commas, the dialect of `models.json`.
//!
//! Only read, never written: comments would be lost. An absent file is no error. Input of any depth is refused before it can
//! exhaust the stack.

use std::io;
use std::path::{Path, PathBuf};

use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast, parse_to_serde_value};
use serde_json::Value;

/// Why a commented JSON file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CommentedJsonError {
    /// The file exists but cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not JSON with comments.
    #[error("{path} is not valid JSON: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        message: String,
    },
}

/// Reads a file of JSON with comments; `None` if it is absent, `null` if it is blank.
pub fn read(path: &Path) -> Result<Option<Value>, CommentedJsonError> {
    let text = match crate::reading::read(path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(source) => {
            return Err(CommentedJsonError::Read { path: path.to_owned(), source });
        }
    };
    let syntax = |message: String| CommentedJsonError::Syntax { path: path.to_owned(), message };
    let text = String::from_utf8(text).map_err(|e| syntax(e.to_string()))?;
    parse(&text).map(Some).map_err(syntax)
}

/// Parses JSON with `//` and `/* */` comments and trailing commas, and nothing looser.
pub fn parse(text: &str) -> Result<Value, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // This pass is the one that bounds the depth; the other one recurses without a limit.
    parse_to_ast(text, &CollectOptions::default(), &options).map_err(|e| e.to_string())?;
    parse_to_serde_value(text, &options).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_allowed() {
        let text = "// top\n{ \"b\": [1, 2.5,], /* in */ \"a\": \"// no comment\", }\n// end";
        let value = parse(text).unwrap();
        assert_eq!(value, json!({"b": [1, 2.5], "a": "// no comment"}));
        assert_eq!(serde_json::to_string(&value).unwrap(), r#"{"b":[1,2.5],"a":"// no comment"}"#);
    }

    #[test]
    fn nothing_looser_is_allowed() {
        for bad in ["{a: 1}", "{'a': 1}", "{\"a\": 1 \"b\": 2}", "{\"a\": 0x10}", "{\"a\": +1}", "{\"a\": NaN}", "{} {}", "{\"a\""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
            assert!(parse(&deep).is_err());
        }
        assert!(parse(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
    }

    #[test]
    fn files_are_named_in_errors_and_may_be_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.json");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, "{\n  \"providers\": nope\n}").unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("models.json is not valid JSON") && message.contains("line 2"), "{message}");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(read(&path).unwrap_err().to_string().starts_with("cannot read "));
    }
}
