//! What is wrong in a configuration file, and where.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1; `None` if the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
    /// Nothing of the file counts.
    pub whole_file: bool,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path.display(), self.message),
            None => write!(f, "{}: {}", self.path.display(), self.message),
        }
    }
}

/// The configuration has faults; every one is listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad configuration: {}", list(.0))]
pub struct ConfigError(pub Vec<Diagnostic>);

fn list(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("; ")
}
