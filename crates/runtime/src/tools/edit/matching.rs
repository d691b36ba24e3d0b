//! Finding the places of an edit and putting the new texts there. Pure.
//!
//! Each old text is searched exactly; only if it is nowhere, in the fuzzy form. All are searched in the original, then applied together.

use std::ops::Range;

use serde::Deserialize;

use super::text::{self, Text};

/// One replacement as the model gives it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replacement {
    pub(super) old_text: String,
    pub(super) new_text: String,
}

/// A replacement with its place in the file.
struct Placed {
    /// Its number in the call.
    index: usize,
    place: Range<usize>,
    new: String,
}

/// The file after the edits, or what to tell the model. `name` is the file as the model calls it.
pub(super) fn apply(original: &[u8], edits: &[Replacement], name: &str) -> Result<Vec<u8>, String> {
    let lines = text::read(original);
    let mut fuzzy = None;
    let has_crlf = uses_crlf(original);
    let mut placed = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let which = Which { index: (edits.len() > 1).then_some(index), name };
        let old = text::to_lf(&edit.old_text);
        if old.is_empty() {
            return Err(which.empty());
        }
        let mut places = places(&lines, &old);
        if places.is_empty() {
            let fuzzy = fuzzy.get_or_insert_with(|| text::fuzzy(&lines.text));
            let old = text::fuzzy(&old).text;
            places = self::places(fuzzy, &old).iter().filter_map(|place| lines.to_source(place)).collect();
        }
        let [place] = &places[..] else {
            return Err(if places.is_empty() { which.not_found() } else { which.not_unique(places.len()) });
        };
        let new = text::to_lf(&edit.new_text);
        let new = if has_crlf { new.replace('\n', "\r\n") } else { new };
        placed.push(Placed { index, place: place.clone(), new });
    }
    placed.sort_by_key(|edit| edit.place.start);
    for (first, second) in placed.iter().zip(placed.iter().skip(1)) {
        if first.place.end > second.place.start {
            let (first, second) = (first.index, second.index);
            return Err(format!(
                "edits[{first}] and edits[{second}] overlap in {name}. Merge them into one edit or target disjoint regions."
            ));
        }
    }
    let edited = splice(original, &placed);
    if edited == original {
        let replacement = if edits.len() > 1 { "replacements" } else { "replacement" };
        let hint = "This might indicate an issue with special characters or the text not existing as expected.";
        let hint = if edits.len() > 1 { String::new() } else { format!(" {hint}") };
        return Err(format!("No changes made to {name}. The {replacement} produced identical content.{hint}"));
    }
    Ok(edited)
}

/// Where `old` is in a text, as ranges of its source; overlapping ones only if there would be one place otherwise, for then it is ambiguous.
fn places(text: &Text, old: &str) -> Vec<Range<usize>> {
    if old.is_empty() {
        return Vec::new();
    }
    let range = |start: usize| start..start + old.len();
    let mut hits: Vec<Range<usize>> = text.text.match_indices(old).map(|(start, _)| range(start)).collect();
    if let [only] = &hits[..] {
        let step = old.chars().next().map_or(1, char::len_utf8);
        let next = only.start + step;
        let overlapping = text.text.get(next..).and_then(|rest| rest.find(old)).map(|offset| range(next + offset));
        hits.extend(overlapping);
    }
    hits.iter().filter_map(|hit| text.to_source(hit)).collect()
}

/// Whether the first line ends in CR LF.
fn uses_crlf(bytes: &[u8]) -> bool {
    let newline = bytes.iter().position(|byte| *byte == b'\n');
    newline.and_then(|position| position.checked_sub(1)).and_then(|before| bytes.get(before)) == Some(&b'\r')
}

fn splice(original: &[u8], placed: &[Placed]) -> Vec<u8> {
    let mut edited = Vec::with_capacity(original.len());
    let mut done = 0;
    for edit in placed {
        edited.extend_from_slice(original.get(done..edit.place.start).unwrap_or_default());
        edited.extend_from_slice(edit.new.as_bytes());
        done = edit.place.end;
    }
    edited.extend_from_slice(original.get(done..).unwrap_or_default());
    edited
}

/// Which edit a complaint is about; `None`: the only one.
struct Which<'a> {
    index: Option<usize>,
    name: &'a str,
}

impl Which<'_> {
    fn empty(&self) -> String {
        match self.index {
            None => format!("oldText must not be empty in {}.", self.name),
            Some(index) => format!("edits[{index}].oldText must not be empty in {}.", self.name),
        }
    }

    fn not_found(&self) -> String {
        let name = self.name;
        match self.index {
            None => {
                format!("Could not find the exact text in {name}. The old text must match exactly including all whitespace and newlines.")
            }
            Some(index) => {
                format!("Could not find edits[{index}] in {name}. The oldText must match exactly including all whitespace and newlines.")
            }
        }
    }

    fn not_unique(&self, count: usize) -> String {
        let name = self.name;
        match self.index {
            None => format!(
                "Found {count} occurrences of the text in {name}. The text must be unique. Please provide more context to make it unique."
            ),
            Some(index) => format!(
                "Found {count} occurrences of edits[{index}] in {name}. Each oldText must be unique. Please provide more context to make it unique."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<Replacement> {
        pairs.iter().map(|(old, new)| Replacement { old_text: (*old).to_owned(), new_text: (*new).to_owned() }).collect()
    }

    fn apply_text(original: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
        apply(original.as_bytes(), &edits(pairs), "f").map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn replacements() {
        for (original, pairs, expected) in [
            ("a b c", &[("b", "B")][..], "a B c"),
            ("a b c", &[("c", "C"), ("a", "A")], "A b C"),
            ("abc", &[("a", "1"), ("b", "2"), ("c", "3")], "123"),
            ("a\nb\n", &[("a\n", "")], "b\n"),
            ("a\r\nb\r\nc\n", &[("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc\n"),
            ("a\nb\r\n", &[("b", "x\ny")], "a\nx\ny\r\n"),
            ("\u{feff}a\r\nb", &[("a\r\nb", "c")], "\u{feff}c"),
            ("a\rb\rc", &[("b", "x")], "a\rx\rc"),
            ("x  y", &[("  ", " ")], "x y"),
            ("a\u{a0}b a b", &[("a b", "c")], "a\u{a0}b c"),
            // Fuzzy: only the place itself changes.
            (
                "\u{201c}a\u{201d}  \nsay \u{201c}b\u{201d} \u{2013} now  \n\u{fb01}x",
                &[("\"b\" - now", "c")],
                "\u{201c}a\u{201d}  \nsay c  \n\u{fb01}x",
            ),
            ("if x:   \n    y\t\nz  \n", &[("if x:\n    y\n", "q\n")], "q\nz  \n"),
            ("a \n", &[("a  ", "b")], "b \n"),
        ] {
            assert_eq!(apply_text(original, pairs).as_deref(), Ok(expected), "{original:?} {pairs:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        let edited = apply(b"\xff\xfea\xc3\r\nb\xe2\x82\n", &edits(&[("b", "c")]), "f").unwrap();
        assert_eq!(edited, b"\xff\xfea\xc3\r\nc\xe2\x82\n");
    }

    #[test]
    fn refusals() {
        for (original, pairs, expected) in [
            ("a", &[("", "x")][..], "oldText must not be empty in f."),
            ("a", &[("a", "x"), ("", "x")], "edits[1].oldText must not be empty in f."),
            (
                "a",
                &[("b", "x")],
                "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.",
            ),
            (
                "a",
                &[("a", "x"), ("b", "x")],
                "Could not find edits[1] in f. The oldText must match exactly including all whitespace and newlines.",
            ),
            (
                "a a a",
                &[("a", "x")],
                "Found 3 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.",
            ),
            (
                "a a b",
                &[("b", "x"), ("a", "x")],
                "Found 2 occurrences of edits[1] in f. Each oldText must be unique. Please provide more context to make it unique.",
            ),
            (
                "aaa",
                &[("aa", "x")],
                "Found 2 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.",
            ),
            (
                "\u{2018}a\u{2019} \u{2018}a\u{2019}",
                &[("'a'", "x")],
                "Found 2 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.",
            ),
            (
                "a\nb",
                &[("   ", "x")],
                "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.",
            ),
            (
                "    a    b",
                &[("    ", "x")],
                "Found 2 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.",
            ),
            (
                "abcd",
                &[("cd", "x"), ("bc", "y")],
                "edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions.",
            ),
            (
                "a",
                &[("a", "a")],
                "No changes made to f. The replacement produced identical content. This might indicate an issue with special characters or the text not existing as expected.",
            ),
            ("ab", &[("a", "a"), ("b", "b")], "No changes made to f. The replacements produced identical content."),
        ] {
            assert_eq!(apply_text(original, pairs), Err(expected.to_owned()), "{original:?} {pairs:?}");
        }
    }

    /// Pieces of text that are fuzzy, cut, invalid and composed.
    fn source() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            &b"a"[..],
            b"b",
            b"c ",
            b" ",
            b"\t",
            b"\n",
            b"\r\n",
            b"\r",
            b"'",
            b"\"",
            b"-",
            b"\xff",
            b"\xe2\x82",
            "\u{2018}".as_bytes(),
            "\u{201d}".as_bytes(),
            "\u{2014}".as_bytes(),
            "\u{a0}".as_bytes(),
            "\u{fb01}".as_bytes(),
            "e\u{301}".as_bytes(),
            "é".as_bytes(),
            "fi".as_bytes(),
        ]);
        prop::collection::vec(piece, 1..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
            #![proptest_config(ProptestConfig::with_cases(256))]
            #[test]
            fn exact_edits_equal_a_simple_model(text in "[abc \n]{1,40}", cuts in prop::collection::btree_set(0_usize..41, 2..8), new in "[xyz\n]{0,3}", crlf in any::<bool>(), mark in any::<bool>()) {
                // Every second stretch between two cuts is replaced, if it is unique.
                let cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).collect();
                let wanted: Vec<Range<usize>> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
                let unique = |range: &Range<usize>| (0..text.len()).filter(|&start| text[start..].starts_with(&text[range.clone()])).count() == 1;
                prop_assume!(!wanted.is_empty() && wanted.iter().all(unique));
                let pairs: Vec<Replacement> = wanted
                    .iter()
                    .rev()
                    .map(|range| Replacement { old_text: text[range.clone()].to_owned(), new_text: new.clone() })
                    .collect();
                let mut model = text.clone();
                for range in wanted.iter().rev() {
                    model.replace_range(range.clone(), &new);
                }
    let file = |content: &str| {
                    // New line ends follow the first one of the file.
                    let content = if crlf && text.contains('\n') { content.replace('\n', "\r\n") } else { content.to_owned() };
                    if mark { format!("\u{feff}{content}") } else { content }
                };
                let result = apply(file(&text).as_bytes(), &pairs, "f");
                if model == text {
                    prop_assert!(result.is_err());
                } else {
                    prop_assert_eq!(result, Ok(file(&model).into_bytes()));
                }
            }

            #[test]
            fn nothing_outside_of_the_place_is_touched(before in source(), middle in source(), after in source()) {
                let original = [before.as_slice(), &middle, &after].concat();
                let old = text::fuzzy(&text::read(&middle).text).text;
                let edit = [Replacement { old_text: old.clone(), new_text: "NEW".to_owned() }];
                if let Ok(edited) = apply(&original, &edit, "f") {
                    // What is around "NEW" is the original around one place, and that place reads like the old text.
                    let position = edited.windows(3).position(|window| window == b"NEW").unwrap();
                    let (head, tail) = (&edited[..position], &edited[position + 3..]);
                    prop_assert!(original.starts_with(head) && original.ends_with(tail));
                    prop_assert!(head.len() + tail.len() < original.len());
                    let place = &original[head.len()..original.len() - tail.len()];
                    let form = text::fuzzy(&text::read(place).text).text;
                    let is_same = form == text::fuzzy(&old).text || text::read(place).text == old;
                    prop_assert!(is_same, "{place:?} for {old:?}");
                }
            }
        }
}
