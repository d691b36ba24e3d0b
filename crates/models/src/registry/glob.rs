//! Patterns over names of models: `*`, `?`, `[a-z]`, `[!x]`, `**`.
//!
//! `*`, `?` and classes stay within one part between slashes; `**`, and a `*` at the very end, cross them, so that
//! `openrouter/*` means all of a provider's models. Time is bounded by the product of both lengths whatever the pattern.

/// True if the text is meant as a glob and not as a name.
pub(crate) fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// A glob, ready to be matched. Case does not count.
#[derive(Debug)]
pub(crate) struct Glob(Vec<Piece>);

#[derive(Debug, PartialEq)]
enum Piece {
    Char(char),
    /// `?`
    One,
    /// `*`; `true` if it crosses slashes.
    Many(bool),
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Reads a glob. Every text is one: a bracket that is not closed stands for itself.
    pub(crate) fn new(pattern: &str) -> Self {
        let letters: Vec<char> = pattern.to_lowercase().chars().collect();
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(&letter) = letters.get(at) {
            match letter {
                '*' => {
                    let stars = letters[at..].iter().take_while(|letter| **letter == '*').count();
                    at += stars;
                    pieces.push(Piece::Many(stars > 1 || at == letters.len()));
                    continue;
                }
                '?' => pieces.push(Piece::One),
                '[' => {
                    if let Some((class, length)) = class(&letters[at + 1..]) {
                        pieces.push(class);
                        at += length;
                    } else {
                        pieces.push(Piece::Char('['));
                    }
                }
                letter => pieces.push(Piece::Char(letter)),
            }
            at += 1;
        }
        Self(pieces)
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        // `reached[n]`: the pieces up to `n` match the letters so far.
        let mut reached = vec![false; self.0.len() + 1];
        reached[0] = true;
        self.skip_stars(&mut reached);
        for letter in name.to_lowercase().chars() {
            let mut next = vec![false; reached.len()];
            for (index, piece) in self.0.iter().enumerate() {
                if !reached[index] {
                    continue;
                }
                match piece {
                    Piece::Many(crosses) if *crosses || letter != '/' => next[index] = true,
                    Piece::Many(_) => {}
                    piece => next[index + 1] |= piece.takes(letter),
                }
            }
            self.skip_stars(&mut next);
            reached = next;
        }
        reached.last() == Some(&true)
    }

    /// A star may match nothing.
    fn skip_stars(&self, reached: &mut [bool]) {
        for (index, piece) in self.0.iter().enumerate() {
            if reached[index] && matches!(piece, Piece::Many(_)) {
                reached[index + 1] = true;
            }
        }
    }
}

impl Piece {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Char(own) => *own == letter,
            Self::One => letter != '/',
            Self::Many(_) => false,
            Self::Class { negated, ranges } => {
                letter != '/' && ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
            }
        }
    }
}

/// Reads what follows a `[`: the class, and how many letters it took.
fn class(letters: &[char]) -> Option<(Piece, usize)> {
    let negated = matches!(letters.first(), Some('!' | '^'));
    let mut at = usize::from(negated);
    let start = at;
    let mut ranges = Vec::new();
    loop {
        let first = *letters.get(at)?;
        if first == ']' && at > start {
            return Some((Piece::Class { negated, ranges }, at + 1));
        }
        match (letters.get(at + 1), letters.get(at + 2)) {
            (Some('-'), Some(&last)) if last != ']' => {
                ranges.push((first, last));
                at += 3;
            }
            _ => {
                ranges.push((first, first));
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Glob, is_glob};

    #[test]
    fn stars_stay_between_slashes_but_for_the_last() {
        let cases = [
            ("*", "a/b/c", true),
            ("", "", true),
            ("", "a", false),
            ("anthropic/*", "anthropic/claude-opus-4-8", true),
            ("openrouter/*", "openrouter/moonshotai/kimi-k2.6", true),
            ("*/kimi", "openrouter/kimi", true),
            ("*/kimi", "openrouter/moonshotai/kimi", false),
            ("**/kimi", "openrouter/moonshotai/kimi", true),
            ("**/kimi", "kimi", false),
            ("*opus*", "claude-opus-4-8", true),
            ("*opus*", "x/claude-opus-4-8", false),
            ("**opus*", "x/claude-opus-4-8", true),
            ("claude-*-4-?", "claude-opus-4-8", true),
            ("claude-*-4-?", "claude-opus-4-18", false),
            ("a?b", "a/b", false),
            ("a[!x]b", "a/b", false),
            ("GPT-[4-5]*", "gpt-5.4", true),
            ("gpt-[!4]*", "gpt-4o", false),
            ("gpt-[^4]*", "gpt-5", true),
            ("a[]]b", "a]b", true),
            ("a[b", "a[b", true),
            ("a[b", "ab", false),
            ("[a-]x", "-x", true),
            ("[z-a]", "m", false),
            ("É*", "éa", true),
            ("qwen3:*", "qwen3:14b", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
        }
        assert!(is_glob("a?") && is_glob("[a") && !is_glob("a-b/c:d"));
    }

    #[test]
    fn a_hostile_pattern_costs_no_more_than_the_product() {
        let pattern = "*a".repeat(400) + "b";
        assert!(!Glob::new(&pattern).matches(&"a".repeat(1000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_pattern_panics(pattern in "[a\\[\\]!^*?/\\-é]{0,16}", name in "[a/\\-é]{0,12}") {
            let _ = Glob::new(&pattern).matches(&name);
        }

        #[test]
        fn a_name_matches_itself_and_every_star_of_it(name in "[a-c/.:\\-]{1,12}", cut in 0usize..12) {
            prop_assert!(Glob::new(&name).matches(&name));
            let cut = cut.min(name.len());
            let starred = format!("{}**{}", &name[..cut], &name[cut..]);
            prop_assert!(Glob::new(&starred).matches(&name), "{}", starred);
        }
    }
}
