//! The order in which people expect names: like `localeCompare` of lower-cased names, near enough and without tables of all the world's languages.
//!
//! Punctuation, then digits, then letters; accents decide only between names that are otherwise equal.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Common punctuation in its usual order.
const PUNCTUATION: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Sort by this, then by the name itself.
pub(super) fn key(name: &str) -> (Vec<(u8, u32)>, String) {
    let lower = name.to_lowercase();
    let weights = lower.nfd().filter(|&character| !is_combining_mark(character)).map(weight).collect();
    (weights, lower)
}

fn weight(character: char) -> (u8, u32) {
    let code = u32::from(character);
    if let Some(place) = PUNCTUATION.chars().position(|mark| mark == character) {
        return (0, u32::try_from(place).unwrap_or_default());
    }
    match character {
        _ if character.is_numeric() => (2, code),
        _ if character.is_alphabetic() => (3, code),
        _ => (1, code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let expected = ["_a", "-a", ".a", "1", "10", "2", "a", "A b", "a.txt", "ab", "É", "éa", "f", "Z", "ß", "日本"];
        let mut names = expected;
        names.reverse();
        names.sort_by_cached_key(|name| (key(name), (*name).to_owned()));
        assert_eq!(names, expected);
    }
}
