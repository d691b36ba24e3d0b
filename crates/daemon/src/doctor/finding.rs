//! What one thing that is wrong looks like.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works, but not as one expects, or not for long.
    Warning,
    /// Something does not work.
    Error,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// One of [`CHECKS`](super::CHECKS).
    pub check: &'static str,
    /// What it is, for programs.
    pub code: &'static str,
    pub severity: Severity,
    /// What is wrong.
    pub problem: String,
    /// What that means for the agent.
    pub meaning: String,
    /// What to type against it.
    pub fix: String,
    /// [`repair`](super::repair) would do it.
    pub fixable: bool,
    #[serde(skip)]
    pub(super) remedy: Option<Remedy>,
}

/// What cannot lose anything, and so is done for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Takes the rights of others away.
    Restrict(PathBuf),
    /// Removes a socket on which nobody answers.
    RemoveSocket(PathBuf),
    /// Writes the definition of the service anew; the one before is kept beside it.
    RenewService,
    /// Tells the service's manager what is on disk, and what is expected of it.
    SettleService,
}

impl Finding {
    pub(super) fn error(check: &'static str, code: &'static str, problem: impl Into<String>) -> Self {
        Self::new(check, code, Severity::Error, problem.into())
    }

    pub(super) fn warning(check: &'static str, code: &'static str, problem: impl Into<String>) -> Self {
        Self::new(check, code, Severity::Warning, problem.into())
    }

    fn new(check: &'static str, code: &'static str, severity: Severity, problem: String) -> Self {
        Self { check, code, severity, problem, meaning: String::new(), fix: String::new(), fixable: false, remedy: None }
    }

    pub(super) fn means(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: Remedy) -> Self {
        self.fixable = true;
        self.remedy = Some(remedy);
        self
    }
}

/// A path as a word of a shell.
pub(super) fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@:,".contains(character);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_of_a_shell() {
        for (path, shown) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")] {
            assert_eq!(word(Path::new(path)), shown);
        }
    }
}
