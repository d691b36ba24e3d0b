//! JSON as JavaScript wrote it.
//!
//! wolli 0.0.2 cuts texts at UTF-16 units, and so its files may hold half of a surrogate pair as an escape (`"\ud83d"`). Rust's
//! strings cannot; such a half is read as U+FFFD rather than taken for damage. Pure.

use serde_json::{Map, Value};

/// Parses an object; the error says what is wrong.
pub(crate) fn object(text: &[u8]) -> Result<Map<String, Value>, String> {
    let parsed = serde_json::from_slice(text).or_else(|e| match without_halves(text) {
        Some(whole) => serde_json::from_slice(&whole),
        None => Err(e),
    });
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("must be object".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// The text with each escaped half of a pair replaced; `None` if there is none.
fn without_halves(text: &[u8]) -> Option<Vec<u8>> {
    let mut whole = text.to_vec();
    let mut found = false;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        if *byte != b'\\' {
            at += 1;
            continue;
        }
        match (unit(text, at), unit(text, at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                if let Some(digits) = whole.get_mut(at + 2..at + 6) {
                    digits.copy_from_slice(b"fffd");
                }
                found = true;
                at += 6;
            }
            // Any other escape, an escaped backslash among them.
            _ => at += 2,
        }
    }
    found.then_some(whole)
}

/// The UTF-16 unit that the escape at this place means, if there is a `\u` escape.
fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_are_not() {
        for (text, expected) in [
            (r#"{"a":"x\ud83d"}"#, "x\u{fffd}"),
            (r#"{"a":"\uDE00x"}"#, "\u{fffd}x"),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, "\u{fffd}\u{1f600}"),
            (r#"{"a":"\ud83d\n"}"#, "\u{fffd}\n"),
            (r#"{"a":"\\ud83d \ud83d"}"#, "\\ud83d \u{fffd}"),
            (r#"{"a":"\ud83d\ude00"}"#, "\u{1f600}"),
        ] {
            assert_eq!(object(text.as_bytes()), Ok(json!({ "a": expected }).as_object().unwrap().clone()), "{text}");
        }
    }

    #[test]
    fn damage_stays_damage() {
        for text in [&br#"{"a":"\ud83d"#[..], br#"{"a":"\ud8"}"#, br#"{"a":\ud83d}"#, b"{", b"\\", b"\\u", b"\xff"] {
            assert!(object(text).is_err());
        }
        assert_eq!(object(b"[]").unwrap_err(), "must be object");
    }

    #[test]
    fn depth_is_bounded() {
        assert!(object("{\"a\":".repeat(100_000).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_units_are_read_as_javascript_means_them(units in proptest::collection::vec(any::<u16>(), 0..20)) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let read = object(format!("{{\"a\":\"{escaped}\"}}").as_bytes()).unwrap();
            prop_assert_eq!(read["a"].as_str().unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
