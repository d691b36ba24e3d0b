//! One line of the log, in either of its forms, and which lines are wanted. Pure.

use serde_json::{Value, json};
use wolli_protocol::time::millis_from_iso;

const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

/// A line, taken apart as far as it has the form of one.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) whole: &'a str,
    time: Option<String>,
    level: Option<String>,
    /// What follows time and level.
    text: String,
    /// The object that the line is, where the daemon logs JSON.
    object: Option<Value>,
}

impl<'a> Line<'a> {
    pub(super) fn read(whole: &'a str) -> Self {
        if whole.starts_with('{')
            && let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(whole)
        {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let message = object["fields"]["message"].as_str().unwrap_or_default();
            let told = match object["target"].as_str() {
                Some(target) => format!("{target}: {message}"),
                None => message.to_owned(),
            };
            return Self { whole, time: text(&object["timestamp"]), level: text(&object["level"]), text: told, object: Some(object) };
        }
        let (time, rest) = match whole.split_once(' ') {
            Some((time, rest)) if millis_from_iso(time).is_some() => (Some(time.to_owned()), rest.trim_start()),
            _ => (None, whole),
        };
        let (level, text) = match rest.split_once(' ') {
            Some((level, text)) if time.is_some() && LEVELS.contains(&level) => (Some(level.to_owned()), text),
            _ => (None, rest),
        };
        Self { whole, time, level, text: text.to_owned(), object: None }
    }

    /// `timestamp`, `level`, `text`, and `entry` if the daemon logged an object; what is not there is left out.
    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({});
        let parts = [("timestamp", &self.time), ("level", &self.level), ("text", &Some(self.text.clone()))];
        for (key, part) in parts {
            if let Some(part) = part {
                value[key] = part.as_str().into();
            }
        }
        if let Some(object) = &self.object {
            value["entry"] = object.clone();
        }
        value
    }
}

/// Which lines are wanted.
#[derive(Debug)]
pub(super) struct Filter {
    /// Milliseconds since 1970.
    since: Option<i64>,
    session: Option<String>,
    /// The newest line with a time was late enough; those without one belong to it.
    late: bool,
}

impl Filter {
    pub(super) fn new(since: Option<i64>, session: Option<String>) -> Self {
        Self { late: since.is_none(), since, session }
    }

    /// Whether the next line is wanted.
    pub(super) fn admits(&mut self, line: &Line<'_>) -> bool {
        if let (Some(since), Some(time)) = (self.since, line.time.as_deref().and_then(millis_from_iso)) {
            self.late = time >= since;
        }
        self.late && self.session.as_deref().is_none_or(|id| names(line.whole, id))
    }
}

/// Whether an id that begins like that stands in the text; the middle of another one is none.
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(place, _)| {
        let before = text[..place].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || before == '-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_forms() {
        for (line, expected) in [
            (
                "2026-03-01T09:00:00.123Z  WARN session{id=01a2-7}: wolli_runtime: append failed error=disk full",
                json!({"timestamp": "2026-03-01T09:00:00.123Z", "level": "WARN",
                    "text": "session{id=01a2-7}: wolli_runtime: append failed error=disk full"}),
            ),
            ("2026-03-01T09:00:00.123Z nothing else", json!({"timestamp": "2026-03-01T09:00:00.123Z", "text": "nothing else"})),
            ("torn off", json!({"text": "torn off"})),
            ("", json!({"text": ""})),
            ("{torn", json!({"text": "{torn"})),
        ] {
            assert_eq!(Line::read(line).to_json(), expected, "{line}");
        }
        let entry = json!({"timestamp": "2026-03-01T09:00:00.123Z", "level": "INFO", "fields": {"message": "m", "x": 1}, "target": "t"});
        let expected = json!({"timestamp": "2026-03-01T09:00:00.123Z", "level": "INFO", "text": "t: m", "entry": entry});
        assert_eq!(Line::read(&entry.to_string()).to_json(), expected);
    }

    #[test]
    fn lines_that_are_wanted() {
        let lines = [
            "2026-03-01T09:00:00.000Z  INFO a: session=01a2-7 one",
            "goes on 01a2-7",
            "2026-03-01T09:00:01.000Z  INFO session{id=01a2-7}: two",
            r#"{"timestamp":"2026-03-01T09:00:02.000Z","level":"INFO","span":{"id":"01a2-7"}}"#,
            "goes on: x01a2-7 0-01a2-7",
        ];
        let wanted = |since: Option<&str>, session: Option<&str>| {
            let mut filter = Filter::new(since.and_then(millis_from_iso), session.map(str::to_owned));
            lines.iter().enumerate().filter(|(_, line)| filter.admits(&Line::read(line))).map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(wanted(None, None), [0, 1, 2, 3, 4]);
        assert_eq!(wanted(None, Some("01a2")), [0, 1, 2, 3]);
        assert_eq!(wanted(None, Some("a2-7")), [0; 0]);
        assert_eq!(wanted(Some("2026-03-01T09:00:00.500Z"), None), [2, 3, 4]);
        assert_eq!(wanted(Some("2026-03-01T09:00:01Z"), Some("01a2-7")), [2, 3]);
        assert_eq!(wanted(Some("2026-03-02T00:00:00Z"), None), [0; 0]);
    }
}
