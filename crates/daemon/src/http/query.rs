//! Percent-coding and query strings, read leniently: what is malformed stands for itself. Pure.

/// Decodes `%XX`, and `+` as a space if `plus` says so. A malformed escape stays as it is; bytes that are not UTF-8 are replaced.
pub(crate) fn percent_decode(text: &str, plus: bool) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| bytes.get(at + 1..at + 3)).flatten().and_then(hex_byte);
        match escaped {
            Some(value) => {
                decoded.push(value);
                at += 2;
            }
            None if plus && *byte == b'+' => decoded.push(b' '),
            None => decoded.push(*byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// The first value of `name`; a name without `=` has the empty value.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    query?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (percent_decode(key, true) == name).then(|| percent_decode(value, true))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decoding() {
        for (text, decoded) in [
            ("", ""),
            ("abc", "abc"),
            ("a%20b", "a b"),
            ("%C3%A9", "é"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%%41", "%A"),
            ("a+b", "a+b"),
            ("%ff", "\u{fffd}"),
            ("%+1", "%+1"),
        ] {
            assert_eq!(percent_decode(text, false), decoded, "{text}");
        }
        assert_eq!(percent_decode("a+b%2B", true), "a b+");
    }

    #[test]
    fn parameters() {
        let of = |query: &str, name: &str| parameter(Some(query), name);
        assert_eq!(of("a=1&b=2&a=3", "a"), Some("1".into()));
        assert_eq!(of("a=1&b", "b"), Some(String::new()));
        assert_eq!(of("%61=x%26y", "a"), Some("x&y".into()));
        assert_eq!(of("", "a"), None);
        assert_eq!(of("aa=1", "a"), None);
        assert_eq!(parameter(None, "a"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_text_survives_coding(text in any::<String>()) {
            let coded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(percent_decode(&coded, true), text);
        }

        #[test]
        fn nothing_panics(text in "[%0-9a-fA-F+&=é]{0,40}") {
            percent_decode(&text, true);
            parameter(Some(&text), "a");
        }
    }
}
