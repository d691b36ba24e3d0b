//! The fold of a tool's output while it runs: what a reader shows of it.
//!
//! Only the end is kept: at most [`MAX_BYTES`] bytes, from a character boundary on, and at most [`MAX_LINES`] lines.
//! Invariant: folding onto the text of a fold gives what folding everything gives, `tail(tail(x) + y) == tail(x + y)`.
//! That lets a snapshot carry the text, and a reader that came late end with the same bytes as one that was there.
//! Not here: where output comes from, whole results, anything but text.

use crate::text::byte_suffix;

/// Bytes kept: what a model is shown of a command's output, too.
pub const MAX_BYTES: usize = 50 * 1024;

/// Lines kept. A line break at the very end closes the last line and begins none.
pub const MAX_LINES: usize = 2_000;

/// Bytes that may lie before the tail until they are moved out, so that a byte is moved once and not per update.
const SLACK: usize = MAX_BYTES;

/// The end of a text that grows.
#[derive(Clone, Debug, Default)]
pub struct OutputTail {
    /// Ends with the tail; what lies before it is dead.
    buffer: String,
}

impl OutputTail {
    /// The tail of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: String::new() }
    }

    /// The tail of `text`, for example of a snapshot's partial result.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut tail = Self::new();
        tail.push(text, 0);
        tail
    }

    /// Takes in one update: `skipped` bytes were left out before `appended`. If there are any, what was collected is
    /// dropped, since it does not touch what follows.
    pub fn push(&mut self, appended: &str, skipped: u64) {
        if skipped > 0 {
            self.buffer.clear();
        }
        if appended.len() >= MAX_BYTES {
            self.buffer.clear();
            self.buffer.push_str(byte_suffix(appended, MAX_BYTES));
            return;
        }
        self.buffer.push_str(appended);
        if self.buffer.len() > MAX_BYTES + SLACK {
            let dead = self.buffer.len() - byte_suffix(&self.buffer, MAX_BYTES).len();
            self.buffer.drain(..dead);
        }
    }

    /// What is left of the output. Costs one look at the kept bytes.
    #[must_use]
    pub fn text(&self) -> &str {
        let tail = byte_suffix(&self.buffer, MAX_BYTES);
        // The break that closes the last line is no border between two lines.
        let body = tail.strip_suffix('\n').unwrap_or(tail);
        match body.rmatch_indices('\n').nth(MAX_LINES - 1) {
            Some((border, _)) => &tail[border + 1..],
            None => tail,
        }
    }

    /// No output is kept.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// Two folds are equal when they show the same.
impl PartialEq for OutputTail {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for OutputTail {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{MAX_BYTES, MAX_LINES, OutputTail};

    fn tail(text: &str) -> String {
        OutputTail::from_text(text).text().to_owned()
    }

    /// The definition, without any thought for cost.
    fn slow_tail(text: &str) -> String {
        let mut start = text.len().saturating_sub(MAX_BYTES);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        let lines: Vec<_> = text[start..].split_inclusive('\n').collect();
        lines[lines.len().saturating_sub(MAX_LINES)..].concat()
    }

    #[test]
    fn short_output_is_kept_as_it_is() {
        for text in ["", "\n", "\n\n", "a", "a\n", "a\nb", "é\r\n"] {
            assert_eq!(tail(text), text);
        }
        assert!(OutputTail::new().is_empty());
    }

    #[test]
    fn the_last_lines_are_kept_and_the_closing_break_begins_none() {
        let lines: String = (1..=MAX_LINES).map(|number| format!("{number}\n")).collect();
        assert_eq!(tail(&lines), lines);
        let open = format!("{lines}more");
        assert_eq!(tail(&open), open.split_once('\n').unwrap().1);
        assert!(tail(&open).starts_with("2\n"));
        let empty_lines = "\n".repeat(MAX_LINES + 5);
        assert_eq!(tail(&empty_lines), "\n".repeat(MAX_LINES));
    }

    #[test]
    fn the_last_bytes_are_kept_from_a_character_on() {
        let text = format!("é{}", "x".repeat(MAX_BYTES - 1));
        assert_eq!(tail(&text), "x".repeat(MAX_BYTES - 1));
        assert_eq!(tail(&"y".repeat(MAX_BYTES + 1)).len(), MAX_BYTES);
    }

    #[test]
    fn what_was_collected_goes_when_bytes_were_skipped() {
        let mut fold = OutputTail::from_text("old");
        fold.push("new", 7);
        assert_eq!(fold.text(), "new");
        fold.push("er", 0);
        assert_eq!(fold.text(), "newer");
    }

    #[test]
    fn the_kept_bytes_stay_bounded() {
        let mut fold = OutputTail::new();
        for _ in 0..4_000 {
            fold.push(&"z".repeat(1_000), 0);
            assert!(fold.buffer.len() <= 2 * MAX_BYTES);
        }
        assert_eq!(fold.text().len(), MAX_BYTES);
    }

    /// Pieces around the sizes where something happens, with characters of all lengths.
    fn piece() -> impl Strategy<Value = String> {
        let unit = prop_oneof![Just("\n"), Just("ab"), Just("é\n"), Just("€"), Just("😀x\n"), Just("a long line of text\n")];
        (unit, prop_oneof![0_usize..20, 1_500_usize..2_600, 9_000_usize..30_000]).prop_map(|(unit, count)| unit.repeat(count))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn folding_onto_a_fold_is_folding_everything(pieces in prop::collection::vec(piece(), 0..6), cut in 0_usize..6) {
            let whole = pieces.concat();
            prop_assert_eq!(tail(&whole), slow_tail(&whole));
            let mut there = OutputTail::new();
            let mut late = OutputTail::new();
            for (index, piece) in pieces.iter().enumerate() {
                if index == cut {
                    late = OutputTail::from_text(there.text());
                }
                there.push(piece, 0);
                if index >= cut {
                    late.push(piece, 0);
                }
            }
            prop_assert_eq!(there.text(), &slow_tail(&whole));
            if cut < pieces.len() {
                prop_assert_eq!(there, late);
            }
        }
    }
}
