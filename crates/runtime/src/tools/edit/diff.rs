//! What an edit changed, for people: a numbered diff for display and a unified patch. Pure.

use std::time::Duration;

use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

/// Unchanged lines around a change.
const CONTEXT: usize = 4;

/// A diff that takes longer is finished roughly: it is only shown.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// What is stored with the result, each for diff and patch. They go into the session file and to every client.
const MAX_BYTES: usize = 100 * 1024;

/// `{diff, patch, firstChangedLine}`; a patch that is too long is left out, since a part of one is none.
pub(super) fn details(old: &str, new: &str, name: &str) -> Value {
    let diff = TextDiff::configure().timeout(TIME_LIMIT).diff_lines(old, new);
    let (mut display, first) = display(&diff, old, new);
    if display.len() > MAX_BYTES {
        let cut = wolli_protocol::text::byte_prefix(&display, MAX_BYTES);
        display = format!("{}\n ...", cut.rsplit_once('\n').map_or(cut, |(lines, _)| lines));
    }
    let mut details = Map::new();
    details.insert("diff".to_owned(), json!(display));
    let patch = diff.unified_diff().context_radius(CONTEXT).header(name, name).to_string();
    if patch.len() <= MAX_BYTES {
        details.insert("patch".to_owned(), json!(patch));
    }
    if let Some(first) = first {
        details.insert("firstChangedLine".to_owned(), json!(first));
    }
    details.into()
}

/// A run of lines of one kind.
struct Run<'a> {
    tag: ChangeTag,
    lines: Vec<&'a str>,
}

fn display(diff: &TextDiff<'_, '_, str>, old: &str, new: &str) -> (String, Option<usize>) {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for change in diff.iter_all_changes() {
        let line = change.value();
        let line = line.strip_suffix('\n').unwrap_or(line);
        match runs.last_mut() {
            Some(run) if run.tag == change.tag() => run.lines.push(line),
            _ => runs.push(Run { tag: change.tag(), lines: vec![line] }),
        }
    }
    let width = old.split('\n').count().max(new.split('\n').count()).to_string().len();
    let mut writer = Writer { width, old: 1, new: 1, first: None, lines: Vec::new() };
    let last = runs.len().saturating_sub(1);
    for (index, run) in runs.iter().enumerate() {
        match run.tag {
            ChangeTag::Equal => writer.context(&run.lines, index > 0, index < last),
            ChangeTag::Delete => writer.removed(&run.lines),
            ChangeTag::Insert => writer.added(&run.lines),
        }
    }
    (writer.lines.join("\n"), writer.first)
}

struct Writer {
    width: usize,
    /// The next line's numbers.
    old: usize,
    new: usize,
    first: Option<usize>,
    lines: Vec<String>,
}

impl Writer {
    fn line(&mut self, sign: char, number: usize, text: &str) {
        let width = self.width;
        self.lines.push(format!("{sign}{number:>width$} {text}"));
    }

    fn added(&mut self, lines: &[&str]) {
        self.first.get_or_insert(self.new);
        for line in lines {
            self.line('+', self.new, line);
            self.new += 1;
        }
    }

    fn removed(&mut self, lines: &[&str]) {
        self.first.get_or_insert(self.new);
        for line in lines {
            self.line('-', self.old, line);
            self.old += 1;
        }
    }

    /// Unchanged lines: those near a change are shown, a gap is one line.
    fn context(&mut self, lines: &[&str], after_change: bool, before_change: bool) {
        let head = if after_change { CONTEXT } else { 0 };
        let tail = if before_change { CONTEXT } else { 0 };
        let (head, gap_end) = if lines.len() <= head + tail { (lines.len(), lines.len()) } else { (head, lines.len() - tail) };
        for (index, line) in lines.iter().enumerate() {
            if index < head || index >= gap_end {
                self.line(' ', self.old, line);
            } else if index == head && (after_change || before_change) {
                let width = self.width;
                self.lines.push(format!(" {:width$} ...", ""));
            }
            self.old += 1;
            self.new += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: usize) -> String {
        (1..=count).map(|line| format!("line {line}\n")).collect()
    }

    #[test]
    fn the_recorded_one() {
        let expected = json!({
            "diff": " 1 héllo\n-2 world\n+2 earth",
            "patch": "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n héllo\n-world\n+earth\n",
            "firstChangedLine": 2
        });
        assert_eq!(details("héllo\nworld\n", "héllo\nearth\n", "a.txt"), expected);
    }

    #[test]
    fn gaps_and_numbers() {
        let old = numbered(30);
        let new = old.replace("line 10\n", "ten\nten and a half\n").replace("line 25\n", "");
        let (diff, first) = display(&TextDiff::from_lines(&old, &new), &old, &new);
        let expected = "    ...
  6 line 6
  7 line 7
  8 line 8
  9 line 9
-10 line 10
+10 ten
+11 ten and a half
 11 line 11
 12 line 12
 13 line 13
 14 line 14
    ...
 21 line 21
 22 line 22
 23 line 23
 24 line 24
-25 line 25
 26 line 26
 27 line 27
 28 line 28
 29 line 29
    ...";
        assert_eq!((diff.as_str(), first), (expected, Some(10)));
    }

    #[test]
    fn short_gaps_are_shown() {
        let old = numbered(12);
        let new = old.replace("line 2\n", "two\n").replace("line 11\n", "eleven\n");
        let (diff, _) = display(&TextDiff::from_lines(&old, &new), &old, &new);
        assert!(!diff.contains("..."), "{diff}");
        assert_eq!(diff.lines().count(), 14);
    }

    #[test]
    fn a_missing_last_newline_is_a_change() {
        let details = details("a\nb", "a\nb\n", "f");
        assert_eq!(details["diff"], " 1 a\n-2 b\n+2 b");
        assert_eq!(details["patch"], "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
    }

    #[test]
    fn details_stay_small() {
        let (old, new) = (numbered(30_000), numbered(30_000).replace("line", "LINE"));
        let details = details(&old, &new, "f");
        let diff = details["diff"].as_str().unwrap();
        assert!(diff.len() <= MAX_BYTES + 5 && diff.ends_with("\n ..."));
        assert!(details.get("patch").is_none());
        assert_eq!(details["firstChangedLine"], 1);
    }
}
