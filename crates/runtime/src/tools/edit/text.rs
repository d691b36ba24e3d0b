//! Texts that remember which bytes they come from.
//!
//! A file is searched as LF text without byte order mark, and, if that fails, in a fuzzy form (one kind of quotes, dashes and spaces, no blanks at
//! line ends). A [`Text`] is such a form together with the way back: a range of it is a range of the source, or nothing if it cuts through something
//! that has no parts in the source (half of a ligature, say).

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A form of a source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) text: String,
    /// In order, without gaps, in the text as well as in the source.
    pieces: Vec<Piece>,
}

/// A part of the text and the part of the source that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    start: usize,
    length: usize,
    source_start: usize,
    source_length: usize,
    /// The text is the source, byte for byte, so that it can be cut anywhere.
    is_verbatim: bool,
}

impl Text {
    /// The next `part` of the source, unchanged.
    fn keep(&mut self, part: &str) {
        match self.pieces.last_mut() {
            Some(last) if last.is_verbatim => {
                last.length += part.len();
                last.source_length += part.len();
            }
            _ if part.is_empty() => return,
            _ => self.add(part.len(), part.len(), true),
        }
        self.text.push_str(part);
    }

    /// `form` stands for the next `source_length` bytes of the source.
    fn change(&mut self, form: &str, source_length: usize) {
        self.add(form.len(), source_length, false);
        self.text.push_str(form);
    }

    fn add(&mut self, length: usize, source_length: usize, is_verbatim: bool) {
        let source_start = self.pieces.last().map_or(0, |last| last.source_start + last.source_length);
        self.pieces.push(Piece { start: self.text.len(), length, source_start, source_length, is_verbatim });
    }

    /// The bytes of the source that a (not empty) range of the text stands for. What has no text is at no end of it.
    pub(super) fn to_source(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let first = self.piece_at(range.start)?;
        let last = self.piece_at(range.end.checked_sub(1)?)?;
        let start = match first {
            piece if piece.is_verbatim => piece.source_start + (range.start - piece.start),
            piece if piece.start == range.start => piece.source_start,
            _ => return None,
        };
        let end = match last {
            piece if piece.is_verbatim => piece.source_start + (range.end - piece.start),
            piece if piece.start + piece.length == range.end => piece.source_start + piece.source_length,
            _ => return None,
        };
        Some(start..end)
    }

    /// The piece whose text holds this byte.
    fn piece_at(&self, position: usize) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.start + piece.length <= position);
        self.pieces.get(after).filter(|piece| piece.start <= position)
    }
}

/// A file as LF text: without byte order mark, every line end a newline, invalid bytes U+FFFD.
pub(super) fn read(bytes: &[u8]) -> Text {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let mut text = Text::default();
    let mut rest = bytes;
    if let Some(after) = bytes.strip_prefix(MARK) {
        text.change("", MARK.len());
        rest = after;
    }
    for chunk in rest.utf8_chunks() {
        add_lines(&mut text, chunk.valid());
        if !chunk.invalid().is_empty() {
            text.change("\u{fffd}", chunk.invalid().len());
        }
    }
    text
}

fn add_lines(text: &mut Text, mut rest: &str) {
    while let Some(position) = rest.find('\r') {
        let (line, end) = rest.split_at(position);
        text.keep(line);
        let length = if end.starts_with("\r\n") { 2 } else { 1 };
        text.change("\n", length);
        rest = end.get(length..).unwrap_or_default();
    }
    text.keep(rest);
}

/// Line ends of a text that did not come from a file.
pub(super) fn to_lf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The fuzzy form of an LF text.
pub(super) fn fuzzy(source: &str) -> Text {
    let mut text = Text::default();
    for line in source.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let content = line.trim_end_matches(is_blank);
        add_fuzzy(&mut text, content);
        if content.len() < line.len() {
            text.change("", line.len() - content.len());
        }
        text.keep(end);
    }
    text
}

/// As JavaScript's `trimEnd` sees it.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || character == '\u{feff}'
}

fn add_fuzzy(text: &mut Text, mut rest: &str) {
    while !rest.is_empty() {
        // Most of a text is plain; its last character may still be composed with what follows.
        let plain = rest.find(|character: char| !character.is_ascii()).unwrap_or(rest.len());
        let plain = if plain < rest.len() { plain.saturating_sub(1) } else { plain };
        let (before, after) = rest.split_at(plain);
        text.keep(before);
        let (cluster, after) = after.split_at(cluster_length(after));
        let form: String = cluster.nfkc().map(plain_character).collect();
        if form == cluster {
            text.keep(cluster);
        } else {
            text.change(&form, cluster.len());
        }
        rest = after;
    }
}

/// A character and what may be composed with it.
fn cluster_length(text: &str) -> usize {
    let mut characters = text.char_indices();
    characters.next();
    characters.find(|(_, character)| !joins_before(*character)).map_or(text.len(), |(position, _)| position)
}

/// Whether normalisation may melt the character into the one before it.
fn joins_before(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    let first = std::iter::once(character).nfkd().next().unwrap_or(character);
    // Marks, and the second and third parts of Korean syllables.
    is_combining_mark(first) || matches!(first, '\u{1160}'..='\u{11ff}')
}

/// One kind of quotes, dashes and spaces.
fn plain_character(character: char) -> char {
    match character {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_ends_marks_and_bad_bytes_map_back() {
        let bytes = b"\xef\xbb\xbfa\r\nb\rc\xff\xe2\x82d\n";
        let text = read(bytes);
        assert_eq!(text.text, "a\nb\nc\u{fffd}\u{fffd}d\n");
        let back = |part: &str| {
            let start = text.text.find(part).unwrap();
            text.to_source(&(start..start + part.len())).map(|range| &bytes[range])
        };
        assert_eq!(back("a\nb"), Some(&b"a\r\nb"[..]));
        assert_eq!(back("a"), Some(&b"a"[..]));
        assert_eq!(back("b\nc"), Some(&b"b\rc"[..]));
        assert_eq!(back("c\u{fffd}\u{fffd}d"), Some(&b"c\xff\xe2\x82d"[..]));
        assert_eq!(back("\n"), Some(&b"\r\n"[..]));
    }

    #[test]
    fn fuzzy_forms() {
        for (source, form) in [
            ("plain\n", "plain\n"),
            ("a  \t\nb\u{a0}\nc", "a\nb\nc"),
            ("\u{201c}x\u{201d} \u{2018}y\u{2019}", "\"x\" 'y'"),
            ("a\u{2013}b\u{2212}c\u{2011}d", "a-b-c-d"),
            ("a\u{a0}b\u{3000}c", "a b c"),
            ("\u{fb01}n \u{2460} \u{ff21}", "fin 1 A"),
            ("e\u{301}x", "\u{e9}x"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("\u{ff76}\u{ff9e}", "\u{30ac}"),
            ("\u{2026}", "..."),
            ("  \n \n", "\n\n"),
        ] {
            assert_eq!(fuzzy(source).text, form, "{source:?}");
        }
    }

    #[test]
    fn half_of_a_ligature_is_nowhere() {
        let text = fuzzy("a\u{fb01}b");
        assert_eq!(text.text, "afib");
        assert_eq!(text.to_source(&(1..3)), Some(1..4));
        assert_eq!((text.to_source(&(1..2)), text.to_source(&(2..3)), text.to_source(&(2..4))), (None, None, None));
        assert_eq!(text.to_source(&(0..4)), Some(0..5));
        assert_eq!(text.to_source(&(4..5)), None);
    }

    #[test]
    fn dropped_blanks_are_at_no_end() {
        let text = fuzzy("a  \nb  \n");
        assert_eq!(text.text, "a\nb\n");
        assert_eq!(text.to_source(&(0..1)), Some(0..1));
        assert_eq!(text.to_source(&(0..3)), Some(0..5));
        assert_eq!(text.to_source(&(1..2)), Some(3..4));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn the_form_is_that_of_the_whole(source in "[ab \u{a0}\n\u{301}\u{327}é\u{fb01}\u{201c}\u{2013}\u{1100}\u{1161}\u{11a8}\u{ff76}\u{ff9e}\u{212b}\\PC]{0,24}") {
            let lines: Vec<String> = source.split('\n').map(|line| line.trim_end_matches(is_blank).nfkc().map(plain_character).collect()).collect();
            prop_assert_eq!(fuzzy(&source).text, lines.join("\n"));
        }

        #[test]
        fn pieces_cover_everything(source in prop::collection::vec(any::<u8>(), 0..40)) {
            let text = read(&source);
            for form in [&text, &fuzzy(&text.text)] {
                let covered: usize = form.pieces.iter().map(|piece| piece.length).sum();
                prop_assert_eq!(covered, form.text.len());
                for pair in form.pieces.windows(2) {
                    prop_assert_eq!(pair[0].start + pair[0].length, pair[1].start);
                    prop_assert_eq!(pair[0].source_start + pair[0].source_length, pair[1].source_start);
                }
            }
            let covered: usize = text.pieces.iter().map(|piece| piece.source_length).sum();
            prop_assert_eq!(covered, source.len());
        }
    }
}
