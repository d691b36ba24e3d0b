//! The curated files `SOUL.md`, `MEMORY.md` and `USER.md`, as a session sees them.

use std::path::Path;

use wolli_protocol::text::{utf16_len, utf16_prefix};

/// Characters (UTF-16 code units) that each file may have in the prompt.
pub const MEMORY_BUDGET: usize = 8000;

/// Stands at the end of a file that was cut.
const CUT_MARKER: &str = "\n\n[... truncated: over budget ...]";

/// The three files at one moment; a missing or unreadable one reads as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFiles {
    pub soul: String,
    pub memory: String,
    pub user: String,
}

impl MemoryFiles {
    /// Reads them from the agent's home. Blocking.
    #[must_use]
    pub fn read(home: &Path) -> Self {
        let file = |name: &str| within_budget(&read_lossy(&home.join(name)));
        Self { soul: file("SOUL.md"), memory: file("MEMORY.md"), user: file("USER.md") }
    }
}

pub(super) fn read_lossy(path: &Path) -> String {
    let content = wolli_home::reading::read(path).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&content).into_owned()
}

fn within_budget(text: &str) -> String {
    if utf16_len(text) <= MEMORY_BUDGET {
        return text.to_owned();
    }
    format!("{}{CUT_MARKER}", utf16_prefix(text, MEMORY_BUDGET - CUT_MARKER.len()))
}

#[cfg(test)]
mod tests {
    use super::{CUT_MARKER, MEMORY_BUDGET, MemoryFiles, within_budget};
    use wolli_protocol::text::utf16_len;

    #[test]
    fn what_is_no_file_reads_as_empty() {
        let home = tempfile::tempdir().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(home.path().join("SOUL.md")).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", home.path().join("USER.md")).unwrap();
        std::fs::write(home.path().join("MEMORY.md"), "kept").unwrap();
        let memory = MemoryFiles { memory: "kept".into(), ..MemoryFiles::default() };
        assert_eq!(MemoryFiles::read(home.path()), memory);
    }

    #[test]
    fn a_file_over_budget_is_cut_to_exactly_the_budget() {
        assert_eq!(within_budget("short"), "short");
        let cut = within_budget(&"x".repeat(MEMORY_BUDGET + 1));
        assert_eq!(utf16_len(&cut), MEMORY_BUDGET);
        assert!(cut.ends_with(CUT_MARKER));
        assert!(utf16_len(&within_budget(&"😀".repeat(MEMORY_BUDGET))) <= MEMORY_BUDGET);
    }
}
