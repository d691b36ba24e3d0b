//! Which files of a folder are passed over: hidden ones, `node_modules`, and what `.gitignore`, `.ignore` and `.fdignore` say.
//!
//! Rules add up downwards, and the deepest that says anything counts. Invariant: an ignore file is read only as far as its bound.

use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::text::read_at_most;

const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".fdignore"];

/// Of each ignore file, rules beyond these count for nothing: compiling many thousands takes seconds.
const RULES_MAX: usize = 1000;
const IGNORE_FILE_MAX_BYTES: u64 = 64 * 1024;

/// The rules of a folder and of those above it, up to where the scan began.
#[derive(Debug, Default)]
pub(super) struct Ignored(Vec<Gitignore>);

impl Ignored {
    /// Adds the rules of `folder`; true if there are any, and [`Self::leave`] is due. Blocking.
    pub(super) fn enter(&mut self, folder: &Path) -> bool {
        let mut builder = GitignoreBuilder::new(folder);
        let mut any = false;
        for name in IGNORE_FILES {
            let Ok((text, _)) = read_at_most(&folder.join(name), IGNORE_FILE_MAX_BYTES) else { continue };
            for rule in text.lines().take(RULES_MAX) {
                // One rule that makes no sense leaves the others.
                any |= builder.add_line(None, rule).is_ok();
            }
        }
        let rules = builder.build().ok().filter(|rules| any && !rules.is_empty());
        let has_rules = rules.is_some();
        self.0.extend(rules);
        has_rules
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether the rules leave out this file or folder below the folders that were entered.
    pub(super) fn matches(&self, path: &Path, is_folder: bool) -> bool {
        for rules in self.0.iter().rev() {
            match rules.matched(path, is_folder) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

/// Whether nobody looks at an entry of that name.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == "node_modules"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_add_up_and_the_deepest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("in/deep")).unwrap();
        std::fs::write(at(".gitignore"), "# rules\n*.tmp.md\nbuild/\n/only-here.md\n[z-a]\n").unwrap();
        std::fs::write(at(".ignore"), "drafts\n").unwrap();
        std::fs::write(at("in/.fdignore"), "!kept.tmp.md\nlocal.md\n").unwrap();
        let mut ignored = Ignored::default();
        assert!(ignored.enter(folder.path()));
        for (path, is_folder, expected) in [
            ("a.md", false, false),
            ("a.tmp.md", false, true),
            ("build", true, true),
            ("build", false, false),
            ("drafts", true, true),
            ("only-here.md", false, true),
            ("in/only-here.md", false, false),
            ("in/kept.tmp.md", false, true),
            ("in/local.md", false, false),
        ] {
            assert_eq!(ignored.matches(&at(path), is_folder), expected, "{path}");
        }
        assert!(ignored.enter(&at("in")));
        assert!(!ignored.enter(&at("in/deep")));
        for (path, expected) in [("in/kept.tmp.md", false), ("in/other.tmp.md", true), ("in/local.md", true), ("in/deep/local.md", true)] {
            assert_eq!(ignored.matches(&at(path), false), expected, "{path}");
        }
        ignored.leave();
        assert!(!ignored.matches(&at("in/local.md"), false));
    }
}
