//! Half characters in JSON escapes: JavaScript writes `"\ud83d"` for a text that was cut inside of a character, and no Rust string can
//! hold it. Such a half becomes U+FFFD, as it would on its way through UTF-8; the rest of the text is untouched. Pure.

use serde::de::DeserializeOwned;

/// What JSON text says, half characters replaced. Text without any costs nothing more than reading it.
///
/// # Errors
/// As for [`serde_json::from_slice`].
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| replace_lone(json).map_or(Err(error), |replaced| serde_json::from_slice(&replaced)))
}

/// The same JSON with every half character replaced; `None` if there is none.
#[must_use]
pub fn replace_lone(json: &[u8]) -> Option<Vec<u8>> {
    let mut changed: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        // Whatever is escaped is no backslash that escapes something itself.
        let taken = match byte {
            b'\\' => match escape(json, at) {
                Some(0xd800..=0xdbff) if matches!(escape(json, at + 6), Some(0xdc00..=0xdfff)) => 12,
                Some(0xd800..=0xdfff) => {
                    changed.get_or_insert_with(|| json.to_vec()).get_mut(at + 2..at + 6)?.copy_from_slice(b"fffd");
                    6
                }
                _ => 2,
            },
            _ => 1,
        };
        at += taken;
    }
    changed
}

/// The number of `\uXXXX` at `at`.
fn escape(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_are_replaced_and_wholes_are_not() {
        for (text, expected) in [
            (r#""\ud83d""#, Some(r#""\ufffd""#)),
            (r#""\uDE00x""#, Some(r#""\ufffdx""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\n""#, Some(r#""\ufffd\n""#)),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\\\ud83d""#, Some(r#""\\\ufffd""#)),
            (r#""\u00e9""#, None),
            (r#""\ud83"#, None),
            (r"\", None),
            ("", None),
        ] {
            assert_eq!(replace_lone(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_escapes_become_readable(units in prop::collection::vec(prop_oneof![any::<u16>(), 0xd800..=0xdfff_u16], 0..20)) {
            let json: String = std::iter::once("\"".to_owned()).chain(units.iter().map(|unit| format!("\\u{unit:04x}"))).chain(["\"".to_owned()]).collect();
            let replaced = replace_lone(json.as_bytes());
            let text: String = serde_json::from_slice(replaced.as_deref().unwrap_or(json.as_bytes())).unwrap();
            prop_assert_eq!(text, String::from_utf16_lossy(&units));
        }
    }
}
