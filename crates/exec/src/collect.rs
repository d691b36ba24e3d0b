//! The text a program printed, in bounded memory: the beginning, the end, and counts of everything.
//!
//! Invariant: memory is at most the head plus twice the tail, whatever comes in. Counts are of the whole text.
//! Not here: reading pipes, and the file with all bytes ([`crate::spill`]).

use crate::truncate::{Limits, Truncated, beginning_of, end_of, truncate_tail};
use crate::utf8::Utf8Decoder;

/// How much text stays in memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorSettings {
    /// Kept from the beginning.
    pub head_bytes: usize,
    /// Kept from the end, at least. [`Collected::tail`] is exact for limits below it.
    pub tail_bytes: usize,
}

impl Default for CollectorSettings {
    /// Twice what a model is shown, so that the end of what it is shown is always exact.
    fn default() -> Self {
        Self { head_bytes: 16 * 1024, tail_bytes: 100 * 1024 }
    }
}

/// Text as it comes in.
#[derive(Debug)]
pub struct Collector {
    settings: CollectorSettings,
    decoder: Utf8Decoder,
    /// What the last push decoded; kept to reuse its memory.
    new: String,
    text: Collected,
}

/// What came in, see the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    head: String,
    tail: String,
    total_bytes: u64,
    raw_bytes: u64,
    newlines: u64,
    /// Length of the line that has no newline yet.
    open_line_bytes: u64,
    /// Length of the last line that has one.
    closed_line_bytes: u64,
}

impl Collector {
    pub fn new(settings: CollectorSettings) -> Self {
        Self { settings, decoder: Utf8Decoder::default(), new: String::new(), text: Collected::default() }
    }

    /// Takes bytes; gives the text that became complete with them.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.new.clear();
        self.decoder.push(bytes, &mut self.new);
        self.text.add(&self.new, bytes.len(), self.settings);
        &self.new
    }

    /// The stream ended; gives the last character if it was cut off.
    pub fn finish(&mut self) -> &str {
        self.new.clear();
        self.decoder.finish(&mut self.new);
        self.text.add(&self.new, 0, self.settings);
        &self.new
    }

    /// What is there so far.
    pub fn so_far(&self) -> &Collected {
        &self.text
    }

    /// All of it; call [`Self::finish`] before.
    pub fn into_collected(self) -> Collected {
        self.text
    }
}

impl Collected {
    fn add(&mut self, new: &str, raw: usize, settings: CollectorSettings) {
        self.raw_bytes += raw as u64;
        self.total_bytes += new.len() as u64;
        self.newlines += new.bytes().filter(|byte| *byte == b'\n').count() as u64;
        match new.rfind('\n') {
            None => self.open_line_bytes += new.len() as u64,
            Some(last) => {
                let before = new.get(..last).unwrap_or_default();
                self.closed_line_bytes = match before.rfind('\n') {
                    Some(previous) => (before.len() - previous - 1) as u64,
                    None => self.open_line_bytes + before.len() as u64,
                };
                self.open_line_bytes = (new.len() - last - 1) as u64;
            }
        }
        // A head that stopped in the middle of a character stays as it is.
        if self.head.len() as u64 == self.total_bytes - new.len() as u64 {
            let room = settings.head_bytes.saturating_sub(self.head.len());
            self.head.push_str(beginning_of(new, room));
        }
        let new_tail = end_of(new, settings.tail_bytes.saturating_mul(2));
        if new_tail.len() < new.len() {
            self.tail.clear();
        }
        self.tail.push_str(new_tail);
        if self.tail.len() > settings.tail_bytes.saturating_mul(2) {
            let surplus = self.tail.len() - end_of(&self.tail, settings.tail_bytes).len();
            self.tail.drain(..surplus);
        }
    }

    /// The beginning of the text.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The end of the text; all of it if [`Self::is_whole`].
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// Whether [`Self::tail`] is everything.
    pub fn is_whole(&self) -> bool {
        self.tail.len() as u64 == self.total_bytes
    }

    /// Bytes of the whole text as UTF-8.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Bytes that came in.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Lines of the whole text; a final newline begins no further line.
    pub fn total_lines(&self) -> u64 {
        self.newlines + u64::from(self.open_line_bytes > 0)
    }

    /// Bytes of the last line, which may be longer than what is kept of it.
    pub fn last_line_bytes(&self) -> u64 {
        if self.open_line_bytes > 0 { self.open_line_bytes } else { self.closed_line_bytes }
    }

    /// The last lines within `limits`, with counts of the whole text. `limits.max_bytes` has to be below the kept tail.
    pub fn truncate_tail(&self, limits: Limits) -> Truncated<'_> {
        let mut result = truncate_tail(&self.tail, limits);
        result.truncation.total_lines = self.total_lines();
        result.truncation.total_bytes = self.total_bytes;
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::truncate::count_lines;

    const SMALL: CollectorSettings = CollectorSettings { head_bytes: 10, tail_bytes: 20 };

    fn collect<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, settings: CollectorSettings) -> (Collected, String) {
        let mut collector = Collector::new(settings);
        let mut seen = String::new();
        for chunk in chunks {
            seen.push_str(collector.push(chunk));
        }
        seen.push_str(collector.finish());
        (collector.into_collected(), seen)
    }

    #[test]
    fn memory_is_bounded_and_counts_are_whole() {
        let chunk = "0123456789\n".repeat(1000);
        let (collected, _) = collect(std::iter::repeat_n(chunk.as_bytes(), 500), SMALL);
        assert_eq!((collected.total_lines(), collected.total_bytes()), (500_000, 5_500_000));
        assert!(collected.tail.len() <= 40 && collected.head == "0123456789");
        assert!(collected.tail.capacity() < 4096, "{}", collected.tail.capacity());
        assert_eq!(collected.last_line_bytes(), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn equals_the_whole_text(text in "[aé€\n]{0,80}", size in 1_usize..30, max_lines in 1_usize..6, max_bytes in 1_usize..19) {
            let (collected, seen) = collect(text.as_bytes().chunks(size), SMALL);
            prop_assert_eq!(&seen, &text);
            prop_assert_eq!(collected.total_lines(), count_lines(&text));
            prop_assert_eq!(collected.total_bytes(), text.len() as u64);
            prop_assert!(text.starts_with(collected.head()) && text.ends_with(collected.tail()));
            prop_assert!(collected.head().len() <= 10 && collected.tail().len() <= 40);
            prop_assert!(collected.tail().len() >= text.len().min(20) - usize::from(text.len() > 20) * 3);
            let last = text.strip_suffix('\n').unwrap_or(&text).rsplit('\n').next().unwrap_or_default();
            prop_assert_eq!(collected.last_line_bytes(), last.len() as u64);
            let limits = Limits { max_lines, max_bytes: max_bytes.min(16) };
            prop_assert_eq!(collected.truncate_tail(limits), truncate_tail(&text, limits));
        }
    }
}
