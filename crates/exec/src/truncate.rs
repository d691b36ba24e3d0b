//! Cutting a text to a number of lines and bytes, from either end, and saying exactly what was cut. Pure.
//!
//! A final newline ends the last line and does not begin another one. A text within the limits comes back unchanged; a cut one
//! consists of whole lines joined by newlines, without a final newline.

use std::borrow::Cow;

/// How much text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub max_lines: usize,
    /// In bytes of UTF-8.
    pub max_bytes: usize,
}

impl Default for Limits {
    /// What a model can read of one tool result: 2000 lines, 50 KiB.
    fn default() -> Self {
        Self { max_lines: 2000, max_bytes: 50 * 1024 }
    }
}

/// Which limit was hit first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TruncatedBy {
    Lines,
    Bytes,
}

/// What was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// `None`: nothing was cut.
    pub truncated_by: Option<TruncatedBy>,
    pub total_lines: u64,
    pub total_bytes: u64,
    pub output_lines: u64,
    pub output_bytes: u64,
    /// The one line shown is the end of a line that is too long (tail only).
    pub last_line_partial: bool,
    /// Nothing is shown, because the first line is too long (head only).
    pub first_line_exceeds_limit: bool,
    pub limits: Limits,
}

impl Truncation {
    /// Whether anything was cut.
    pub fn truncated(&self) -> bool {
        self.truncated_by.is_some()
    }
}

/// The text that is left and the record about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncated<'a> {
    pub content: Cow<'a, str>,
    pub truncation: Truncation,
}

/// How many lines a text has.
pub fn count_lines(text: &str) -> u64 {
    let newlines = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    newlines + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// The lines of a text; of an empty one, none.
fn lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let body = text.strip_suffix('\n').unwrap_or(text);
    (!text.is_empty()).then(|| body.split('\n')).into_iter().flatten()
}

/// Keeps whole leading lines.
pub fn truncate_head(text: &str, limits: Limits) -> Truncated<'_> {
    if let Some(whole) = whole(text, limits) {
        return whole;
    }
    let (mut kept_lines, mut kept_bytes, mut by) = (0, 0, None);
    for line in lines(text) {
        if kept_lines == limits.max_lines {
            by = Some(TruncatedBy::Lines);
            break;
        }
        let needed = line.len() + usize::from(kept_lines > 0);
        if kept_bytes + needed > limits.max_bytes {
            by = Some(TruncatedBy::Bytes);
            break;
        }
        kept_bytes += needed;
        kept_lines += 1;
    }
    cut(text, text.get(..kept_bytes).unwrap_or_default(), kept_lines, by, limits).with(|truncation| {
        truncation.first_line_exceeds_limit = kept_lines == 0 && limits.max_lines > 0;
    })
}

/// Keeps whole trailing lines, or the end of the last one if that alone is too long.
pub fn truncate_tail(text: &str, limits: Limits) -> Truncated<'_> {
    if let Some(whole) = whole(text, limits) {
        return whole;
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    let (mut kept_lines, mut kept_bytes, mut by) = (0, 0, None);
    for line in lines(text).rev() {
        if kept_lines == limits.max_lines {
            by = Some(TruncatedBy::Lines);
            break;
        }
        let needed = line.len() + usize::from(kept_lines > 0);
        if kept_bytes + needed > limits.max_bytes {
            by = Some(TruncatedBy::Bytes);
            break;
        }
        kept_bytes += needed;
        kept_lines += 1;
    }
    if kept_lines == 0 && by == Some(TruncatedBy::Bytes) {
        let partial = end_of(body, limits.max_bytes);
        return cut(text, partial, 1, by, limits).with(|truncation| truncation.last_line_partial = true);
    }
    let start = body.len().saturating_sub(kept_bytes);
    cut(text, body.get(start..).unwrap_or_default(), kept_lines, by, limits)
}

/// The longest end of `text` of at most `max_bytes` that starts at a character.
pub fn end_of(text: &str, max_bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(max_bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default()
}

/// The longest beginning of `text` of at most `max_bytes` that ends at a character.
pub fn beginning_of(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn whole(text: &str, limits: Limits) -> Option<Truncated<'_>> {
    let (total_lines, total_bytes) = (count_lines(text), text.len() as u64);
    let fits = total_lines <= limits.max_lines as u64 && text.len() <= limits.max_bytes;
    fits.then_some(Truncated {
        content: Cow::Borrowed(text),
        truncation: Truncation {
            truncated_by: None,
            total_lines,
            total_bytes,
            output_lines: total_lines,
            output_bytes: total_bytes,
            last_line_partial: false,
            first_line_exceeds_limit: false,
            limits,
        },
    })
}

fn cut<'a>(text: &str, kept: &'a str, kept_lines: usize, by: Option<TruncatedBy>, limits: Limits) -> Truncated<'a> {
    Truncated {
        content: Cow::Borrowed(kept),
        truncation: Truncation {
            // All lines fit and only the final newline was too much.
            truncated_by: Some(by.unwrap_or(TruncatedBy::Bytes)),
            total_lines: count_lines(text),
            total_bytes: text.len() as u64,
            output_lines: kept_lines as u64,
            output_bytes: kept.len() as u64,
            last_line_partial: false,
            first_line_exceeds_limit: false,
            limits,
        },
    }
}

impl Truncated<'_> {
    fn with(mut self, change: impl FnOnce(&mut Truncation)) -> Self {
        change(&mut self.truncation);
        self
    }

    /// The same with a text of its own.
    pub fn into_owned(self) -> Truncated<'static> {
        Truncated { content: Cow::Owned(self.content.into_owned()), truncation: self.truncation }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(max_lines: usize, max_bytes: usize) -> Limits {
        Limits { max_lines, max_bytes }
    }

    /// Content, by, output lines, last partial, first exceeds.
    fn short<'a>(result: &'a Truncated<'_>) -> (&'a str, Option<TruncatedBy>, u64, bool, bool) {
        let record = &result.truncation;
        (&result.content, record.truncated_by, record.output_lines, record.last_line_partial, record.first_line_exceeds_limit)
    }

    #[test]
    fn head_table() {
        use TruncatedBy::{Bytes, Lines};
        for (text, lines, bytes, expected) in [
            ("", 2, 5, ("", None, 0, false, false)),
            ("a\nb\n", 2, 5, ("a\nb\n", None, 2, false, false)),
            ("a\nb\nc", 2, 50, ("a\nb", Some(Lines), 2, false, false)),
            ("a\nb\nc\n", 3, 3, ("a\nb", Some(Bytes), 2, false, false)),
            ("aaaaaa\nb", 3, 5, ("", Some(Bytes), 0, false, true)),
            ("aaaaa\n", 3, 5, ("aaaaa", Some(Bytes), 1, false, false)),
            ("\n\n\n", 2, 50, ("\n", Some(Lines), 2, false, false)),
        ] {
            assert_eq!(short(&truncate_head(text, limits(lines, bytes))), expected, "{text:?}");
        }
    }

    #[test]
    fn tail_table() {
        use TruncatedBy::{Bytes, Lines};
        for (text, lines, bytes, expected) in [
            ("", 2, 5, ("", None, 0, false, false)),
            ("a\nb\n", 2, 5, ("a\nb\n", None, 2, false, false)),
            ("a\nb\nc\n", 2, 50, ("b\nc", Some(Lines), 2, false, false)),
            ("a\nb\nc", 3, 3, ("b\nc", Some(Bytes), 2, false, false)),
            ("a\nbbbbéé", 3, 5, ("béé", Some(Bytes), 1, true, false)),
            ("a\nbbbbéé", 3, 3, ("é", Some(Bytes), 1, true, false)),
            ("a\nbbbbéé\n", 3, 5, ("béé", Some(Bytes), 1, true, false)),
            ("aaaaa\n", 3, 5, ("aaaaa", Some(Bytes), 1, false, false)),
        ] {
            assert_eq!(short(&truncate_tail(text, limits(lines, bytes))), expected, "{text:?}");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let exact = "x\n".repeat(2000);
        assert!(!truncate_tail(&exact, Limits::default()).truncation.truncated());
        assert!(truncate_tail(&"x\n".repeat(2001), Limits::default()).truncation.truncated());
        assert!(!truncate_head(&"x".repeat(51_200), Limits::default()).truncation.truncated());
        assert!(truncate_head(&"x".repeat(51_201), Limits::default()).truncation.truncated());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn never_over_the_limits_and_counts_are_right(text in "[aé€😀\n]{0,60}", max_lines in 1_usize..8, max_bytes in 1_usize..40) {
            let limits = limits(max_lines, max_bytes);
            for (result, is_head) in [(truncate_head(&text, limits), true), (truncate_tail(&text, limits), false)] {
                let record = result.truncation;
                prop_assert_eq!(record.total_lines, count_lines(&text));
                prop_assert_eq!(record.total_bytes, text.len() as u64);
                prop_assert_eq!(record.output_bytes, result.content.len() as u64);
                prop_assert!(result.content.len() <= max_bytes);
                prop_assert!(record.output_lines <= max_lines as u64);
                if record.truncated() {
                    // Whole lines: a cut text that ends in a newline ends in an empty line.
                    let shown = if record.output_lines == 0 { 0 } else { result.content.split('\n').count() as u64 };
                    prop_assert_eq!(record.output_lines, shown);
                    let body = text.strip_suffix('\n').unwrap_or(&text);
                    if is_head {
                        prop_assert!(body.starts_with(&*result.content));
                    } else {
                        prop_assert!(body.ends_with(&*result.content));
                    }
                } else {
                    prop_assert_eq!(&*result.content, text.as_str());
                }
            }
        }
    }
}
