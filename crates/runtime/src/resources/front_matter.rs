//! The YAML between two `---` lines at the start of a Markdown file, and the text behind it.
//!
//! Invariant: any text is split; bad YAML is a message, never a panic, and costs no more than its bounded size allows.
//! Not here: which keys must be there.

use serde::Deserialize;
use serde_json::Value;

/// Bytes of YAML that are read. A header is a few lines; more is a mistake or meant badly.
pub(super) const HEADER_MAX_BYTES: usize = 16 * 1024;

/// Keys, values and brackets, also those that aliases repeat: aliases of aliases would grow without end.
const EVENTS_MAX: usize = 10_000;
const ALIASES_MAX: usize = 100;

/// A file in its two parts. Line ends are `\n`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Absent if the text does not begin with front matter that also ends.
    pub(super) yaml: Option<String>,
    /// Trimmed.
    pub(super) body: String,
}

/// The keys that skills and templates have. All others are ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) disable_model_invocation: bool,
}

/// As YAML has them: a number is a name, too.
#[derive(Deserialize)]
struct Keys {
    #[serde(default)]
    name: Option<Value>,
    #[serde(default)]
    description: Option<Value>,
    #[serde(default, rename = "disable-model-invocation")]
    disable_model_invocation: Option<Value>,
}

/// Splits a text. The YAML ends before the next line that starts with `---`; without such a line everything is body.
pub(super) fn split(text: &str) -> Parts {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let found = text.strip_prefix("---").and_then(|rest| Some((rest, rest.find("\n---")?)));
    match found {
        Some((rest, end)) => {
            let (yaml, behind) = rest.split_at(end);
            let body = behind.get("\n---".len()..).unwrap_or_default();
            Parts { yaml: Some(yaml.to_owned()), body: body.trim().to_owned() }
        }
        None => Parts { yaml: None, body: text.trim().to_owned() },
    }
}

/// Reads the keys.
///
/// # Errors
/// What is wrong with the YAML, in one line.
pub(super) fn parse(yaml: &str) -> Result<Header, String> {
    if yaml.len() > HEADER_MAX_BYTES {
        return Err(format!("the front matter is larger than {} KiB", HEADER_MAX_BYTES / 1024));
    }
    if yaml.trim().is_empty() {
        return Ok(Header::default());
    }
    // Depth is bounded by default. A message of one line has no excerpt of the file in it. `no` is a word.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: EVENTS_MAX, max_recorded_anchor_events: EVENTS_MAX, max_aliases: ALIASES_MAX },
        with_snippet: false,
        strict_booleans: true,
    };
    let keys: Option<Keys> = serde_saphyr::from_str_with_options(yaml, options).map_err(|error| one_line(&error.to_string()))?;
    let Some(keys) = keys else { return Ok(Header::default()) };
    Ok(Header {
        name: text("name", keys.name)?,
        description: text("description", keys.description)?,
        disable_model_invocation: keys.disable_model_invocation == Some(Value::Bool(true)),
    })
}

/// A scalar as text, trimmed; an empty one counts as absent.
fn text(key: &str, value: Option<Value>) -> Result<Option<String>, String> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text,
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => scalar.to_string(),
        Some(Value::Array(_) | Value::Object(_)) => return Err(format!("{key} must be a text")),
    };
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_split_at_the_second_line_of_dashes() {
        for (text, yaml, body) in [
            ("", None, ""),
            ("just text\n", None, "just text"),
            ("---\nname: a\n---\n\nBody\n", Some("\nname: a"), "Body"),
            ("\u{feff}---\r\nname: a\r\n---\r\nBody\r\nmore", Some("\nname: a"), "Body\nmore"),
            ("---\rname: a\r---\rBody", Some("\nname: a"), "Body"),
            ("---\n---\nBody", Some(""), "Body"),
            ("---\nname: a\n---", Some("\nname: a"), ""),
            ("---\nname: a\nno end", None, "---\nname: a\nno end"),
            ("text\n---\nname: a\n---\n", None, "text\n---\nname: a\n---"),
            ("---\na: b\n---\none\n---\ntwo", Some("\na: b"), "one\n---\ntwo"),
            (" ---\na: b\n---\nx", None, "---\na: b\n---\nx"),
        ] {
            let expected = Parts { yaml: yaml.map(str::to_owned), body: body.into() };
            assert_eq!(split(text), expected, "{text:?}");
        }
    }

    #[test]
    fn keys_are_read_by_the_rules_of_yaml() {
        let header = |name: Option<&str>, description: Option<&str>, disabled| Header {
            name: name.map(str::to_owned),
            description: description.map(str::to_owned),
            disable_model_invocation: disabled,
        };
        for (yaml, expected) in [
            ("", header(None, None, false)),
            ("\n# only a comment\n", header(None, None, false)),
            ("name: greet\ndescription: \"says: hello\"", header(Some("greet"), Some("says: hello"), false)),
            ("description: >\n  folded\n  text\n", header(None, Some("folded text"), false)),
            ("description: |\n  two\n  lines\n", header(None, Some("two\nlines"), false)),
            ("name: 7\ndescription: true", header(Some("7"), Some("true"), false)),
            ("name:\ndescription: '  '", header(None, None, false)),
            ("disable-model-invocation: true", header(None, None, true)),
            ("disable-model-invocation: \"true\"", header(None, None, false)),
            ("disable-model-invocation: 1", header(None, None, false)),
            ("triggers:\n  - a\n  - b\nnested: {x: [1, {y: 2}]}\n3: three\nname: n", header(Some("n"), None, false)),
            ("base: &b text\ndescription: *b", header(None, Some("text"), false)),
        ] {
            assert_eq!(parse(yaml), Ok(expected), "{yaml:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_told_in_one_line() {
        for yaml in
            ["name: [a", "- a\n- b", "just a text", "name: [a, b]", "description: {a: b}", "a: b: c", "name: a\nname: b", "\t- x: y\n\t\tz"]
        {
            let message = parse(yaml).unwrap_err();
            assert!(!message.is_empty() && !message.contains('\n'), "{yaml:?}: {message:?}");
        }
        let bomb = format!("a0: &a0 [x]\n{}", (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect::<String>());
        for hostile in [bomb, "[".repeat(HEADER_MAX_BYTES), "{a: ".repeat(4_000), "- ".repeat(8_000)] {
            let started = std::time::Instant::now();
            assert!(parse(&hostile).is_err());
            assert!(started.elapsed() < std::time::Duration::from_secs(5));
        }
        assert_eq!(parse(&format!("name: {}", "x".repeat(10 << 20))), Err("the front matter is larger than 16 KiB".into()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_is_split_and_read_without_a_panic(text in "(---\n)?[a-c:\\-\\[\\]{}&*!|>'\"#%@,? \t\r\n]{0,60}(\n---\n)?.{0,20}") {
            let parts = split(&text);
            prop_assert!(!parts.body.contains('\r'));
            prop_assert_eq!(parts.body.trim(), parts.body.as_str());
            if let Some(Err(message)) = parts.yaml.map(|yaml| parse(&yaml)) {
                prop_assert!(!message.contains('\n'));
            }
        }

        #[test]
        fn what_was_written_is_read(name in "[a-z][a-z0-9]{0,8}x", description in "[a-zA-Z][a-zA-Z ]{0,30}z", body in "[a-z ]{0,20}") {
            let parts = split(&format!("---\nname: '{name}'\ndescription: \"{description}\"\n---\n{body}"));
            prop_assert_eq!(parts.body.as_str(), body.trim());
            let header = parse(&parts.yaml.unwrap()).unwrap();
            prop_assert_eq!((header.name, header.description), (Some(name), Some(description)));
        }
    }
}
