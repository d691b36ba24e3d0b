//! Arguments of a prompt template: how the text behind its name is split, and how they are put into its body.
//!
//! Invariant: one pass from left to right; what an argument brings in is never expanded again. The result is bounded.

/// Bytes of an expanded prompt. A small template can name all arguments a thousand times.
pub(super) const EXPANDED_MAX_BYTES: usize = 8 << 20;

/// The prompt would become too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Splits at white space. Single and double quotes group and vanish; there are no escapes; a quote that is not closed runs to the
/// end; an argument without a character is none.
pub(super) fn split_arguments(text: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut quote = None;
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => current.push(letter),
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None if letter.is_whitespace() => {
                if !current.is_empty() {
                    arguments.push(std::mem::take(&mut current));
                }
            }
            None => current.push(letter),
        }
    }
    if !current.is_empty() {
        arguments.push(current);
    }
    arguments
}

/// Replaces the placeholders of `body`: `$1`, `$@`, `$ARGUMENTS`, `${@:N}`, `${@:N:L}`, `${N:-default}`. Every other `$` stays.
///
/// # Errors
/// The result would be larger than [`EXPANDED_MAX_BYTES`].
pub(super) fn expand(body: &str, arguments: &[String]) -> Result<String, TooLarge> {
    let mut expanded = String::with_capacity(body.len());
    let mut rest = body;
    // Behind the last brace none is closed, and nobody has to look for it again and again.
    let last_brace = body.rfind('}').unwrap_or(0);
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        push(&mut expanded, before)?;
        let closes = body.len() - behind.len() < last_brace;
        match read(behind, closes) {
            Some((placeholder, length)) => {
                placeholder.push_to(&mut expanded, arguments)?;
                rest = &behind[length..];
            }
            None => {
                push(&mut expanded, "$")?;
                rest = &behind[1..];
            }
        }
    }
    push(&mut expanded, rest)?;
    Ok(expanded)
}

fn push(expanded: &mut String, text: &str) -> Result<(), TooLarge> {
    if expanded.len() + text.len() > EXPANDED_MAX_BYTES {
        return Err(TooLarge);
    }
    expanded.push_str(text);
    Ok(())
}

#[derive(Debug)]
enum Placeholder<'a> {
    /// Counts from 1; 0 names nothing.
    One { number: usize, default: &'a str },
    /// From the `first`, which counts from 0.
    Slice { first: usize, length: usize },
}

impl Placeholder<'_> {
    fn push_to(&self, expanded: &mut String, arguments: &[String]) -> Result<(), TooLarge> {
        match *self {
            Self::One { number, default } => {
                let argument = number.checked_sub(1).and_then(|index| arguments.get(index)).map_or("", String::as_str);
                push(expanded, if argument.is_empty() { default } else { argument })
            }
            Self::Slice { first, length } => {
                for (place, argument) in arguments.iter().skip(first).take(length).enumerate() {
                    if place > 0 {
                        push(expanded, " ")?;
                    }
                    push(expanded, argument)?;
                }
                Ok(())
            }
        }
    }
}

/// The placeholder that `text` begins with, and how many bytes it takes. `closes` says whether any brace is closed in it.
fn read(text: &str, closes: bool) -> Option<(Placeholder<'_>, usize)> {
    let all = Placeholder::Slice { first: 0, length: usize::MAX };
    for name in ["$@", "$ARGUMENTS"] {
        if text.starts_with(name) {
            return Some((all, name.len()));
        }
    }
    let behind = text.strip_prefix('$')?;
    if let Some((number, rest)) = number(behind) {
        return Some((Placeholder::One { number, default: "" }, text.len() - rest.len()));
    }
    let inside = behind.strip_prefix('{').filter(|_| closes)?;
    if let Some(slice) = inside.strip_prefix("@:") {
        let (first, rest) = number(slice)?;
        let (length, rest) = match rest.strip_prefix(':') {
            Some(rest) => number(rest)?,
            None => (usize::MAX, rest),
        };
        let rest = rest.strip_prefix('}')?;
        return Some((Placeholder::Slice { first: first.saturating_sub(1), length }, text.len() - rest.len()));
    }
    let (number, rest) = number(inside)?;
    let (default, rest) = rest.strip_prefix(":-")?.split_once('}')?;
    Some((Placeholder::One { number, default }, text.len() - rest.len()))
}

/// The digits that `text` begins with. A number beyond the range is one that no argument has.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(usize::MAX), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_group_and_vanish() {
        for (text, expected) in [
            ("", &[][..]),
            ("  \t\n ", &[]),
            ("a b  c\td\ne", &["a", "b", "c", "d", "e"]),
            (r#"one "two three" 'four five'"#, &["one", "two three", "four five"]),
            (r#"a"b c"d'e f'"#, &["ab cde f"]),
            (r#""it's" '"x"'"#, &["it's", "\"x\""]),
            (r#""" '' a"#, &["a"]),
            (r#"a "open to the end"#, &["a", "open to the end"]),
            // There are no escapes: the quote opens, and runs to the end.
            (r#"back\" slash\ es"#, &["back\\ slash\\ es"]),
            ("ä\u{a0}ö", &["ä", "ö"]),
        ] {
            assert_eq!(split_arguments(text), expected, "{text:?}");
        }
    }

    #[test]
    fn placeholders_of_the_documentation() {
        let arguments: Vec<String> = ["one", "two words", "", "$@ $1", "$&"].map(str::to_owned).into();
        let all = "one two words  $@ $1 $&";
        for (body, expected) in [
            ("plain", "plain".to_owned()),
            ("$1|$2|$3|$9|$0", "one|two words|||".into()),
            ("$10", String::new()),
            ("$@", all.into()),
            ("<$ARGUMENTS>", format!("<{all}>")),
            ("$ARGUMENTSX $ARGUMENT", format!("{all}X $ARGUMENT")),
            ("${@:2:1}", "two words".into()),
            ("${@:0:1} ${@:1:1}", "one one".into()),
            ("${@:4}", "$@ $1 $&".into()),
            ("${@:9}|${@:1:0}", "|".into()),
            ("${1:-x} ${3:-empty} ${9:-none} ${9:-}", "one empty none ".into()),
            // A default ends at the first closing brace and is not expanded.
            ("${9:-a $1 {b}} ${9:-open", "a $1 {b} ${9:-open".into()),
            ("$ $$ $x ${x} ${1} ${@} ${@:} ${@:x} ${1:=y} $", "$ $$ $x ${x} ${1} ${@} ${@:} ${@:x} ${1:=y} $".into()),
            ("$$1", "$one".into()),
            ("${@:18446744073709551616} $99999999999999999999999", " ".into()),
            ("ä$1ö", "äoneö".into()),
        ] {
            assert_eq!(expand(body, &arguments).unwrap(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_prompt_that_explodes_is_refused() {
        let arguments = vec!["x".repeat(1 << 20)];
        assert!(expand("$1 $1 $1 $1", &arguments).is_ok());
        assert_eq!(expand(&"$@".repeat(100_000), &arguments), Err(TooLarge));
        let kilobyte = format!("${{9:-{}}}", "y".repeat(1024));
        assert_eq!(expand(&kilobyte.repeat(EXPANDED_MAX_BYTES / 1024), &[]).map(|text| text.len()), Ok(EXPANDED_MAX_BYTES));
        let open = "${9:-".repeat(200_000);
        assert_eq!(expand(&open, &[]).unwrap(), open);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_template_expands_once(body in "[$@{}:\\-0-9a-cARGUMENTS ]{0,40}", arguments in proptest::collection::vec("[$@{}:0-9a-c]{0,6}", 0..4)) {
            let expanded = expand(&body, &arguments).unwrap();
            // What is brought in does not change what the template's own placeholders mean.
            let marked: Vec<String> = arguments.iter().map(|argument| argument.chars().map(|_| '\u{1}').collect()).collect();
            let shape = expand(&body, &marked).unwrap();
            prop_assert_eq!(expanded.chars().count(), shape.chars().count());
            if !body.contains('$') {
                prop_assert_eq!(expanded, body);
            }
        }

        #[test]
        fn plain_words_come_back_as_they_are(words in proptest::collection::vec("[a-z$@{}]{1,6}", 0..6)) {
            prop_assert_eq!(split_arguments(&words.join(" ")), words.clone());
            let quoted: Vec<String> = words.iter().map(|word| format!("\"{word} {word}\"")).collect();
            let expected: Vec<String> = words.iter().map(|word| format!("{word} {word}")).collect();
            prop_assert_eq!(split_arguments(&quoted.join("\t")), expected);
        }
    }
}
