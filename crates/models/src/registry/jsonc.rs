//! JSON that a person writes: `//` and `/* */` comments and trailing commas are allowed, nothing else is.

use jsonc_parser::ParseOptions;
use serde_json::Value;

/// A configuration file as it was read.
#[derive(Clone)]
pub struct ConfigText {
    /// The path, for messages.
    pub path: String,
    pub text: String,
}

impl std::fmt::Debug for ConfigText {
    /// The text may hold keys.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ConfigText({}, {} bytes)", self.path, self.text.len())
    }
}

impl ConfigText {
    /// Whether the text can be read at all; what it says is judged by the registry.
    ///
    /// # Errors
    /// What is wrong and where, without a quotation.
    pub fn check(&self) -> Result<(), String> {
        parse(&self.text).map(|_| ())
    }
}

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text; the error says what is wrong and where, and quotes nothing.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    // Anything deeper than the parser's own limit is refused by it, so this cannot exhaust the stack.
    jsonc_parser::parse_to_serde_value(text, &OPTIONS).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::parse;

    #[test]
    fn comments_and_trailing_commas_are_allowed_and_nothing_else() {
        assert_eq!(parse("\u{feff}// a\n{ \"b\": [1, 2,], /* c */ \"d\": \"//\", }"), Ok(json!({"b": [1, 2], "d": "//"})));
        for bad in ["", " \n", "{", "{'a': 1}", "{a: 1}", "{\"a\" 1}", "{\"a\": 0x1}", "{\"a\": NaN}", "{} {}", "{\"a\": 1 \"b\": 2}"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse("{\n  \"a\": planted\n}").unwrap_err(), "Unexpected word on line 2 column 8");
    }

    #[test]
    fn depth_is_bounded() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        assert!(parse(&"{\"a\":".repeat(100_000)).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(500), "]".repeat(500))).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_is_refused_or_read(text in "[\\[\\]{}\",:/*\\\\a1.e\\-\n ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
