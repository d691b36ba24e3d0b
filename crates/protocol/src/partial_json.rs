//! Reads the JSON text of tool arguments, finished or not, as the best object that it can mean.
//!
//! Models cut their arguments short, put raw line breaks into strings and invent escapes. This parser keeps
//! everything up to the first thing that it cannot read, and never fails: hopeless text is the empty object.
//! It runs in linear time and does not recurse; containers nested deeper than [`MAX_DEPTH`] end the reading.
//!
//! Not here: checking the arguments against the schema of a tool.

use std::iter::Peekable;
use std::str::CharIndices;

use serde_json::{Map, Number, Value};

use crate::message::JsonObject;

/// Deepest nesting that is kept. It equals the limit of `serde_json`, so that what we keep can be read back.
pub const MAX_DEPTH: usize = 127;

/// The object that `text` holds, or the best part of it.
///
/// - Valid JSON gives exactly its object; text that is not an object gives `{}`.
/// - Open strings, arrays and objects are closed; a key without a value is left out; `tru` is `true`, `12.` is `12`.
/// - Raw control characters in strings are kept, an unknown escape keeps its backslash, a lone surrogate becomes U+FFFD.
/// - What follows the object, or the first character that makes no sense, ends the reading.
#[must_use]
pub fn parse(text: &str) -> JsonObject {
    match serde_json::from_str::<JsonObject>(text) {
        Ok(object) => object,
        Err(_) => Reader::new(text).read(),
    }
}

/// True if `text` ends within a string: what [`parse`] makes of it may mean something else than what was to be said, as the first half of
/// a command or of a path does.
#[must_use]
pub fn ends_within_string(text: &str) -> bool {
    let mut within = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => within = !within,
            '\\' if within => drop(characters.next()),
            _ => {}
        }
    }
    within
}

/// A container that is still open.
enum Open {
    Object { entries: JsonObject, key: Option<String> },
    Array(Vec<Value>),
}

/// What one token was.
enum Token {
    Value(Value),
    Opened(Open),
    /// The text ends or makes no sense here.
    Nothing,
}

struct Reader<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
    open: Vec<Open>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, characters: text.char_indices().peekable(), open: Vec::new() }
    }

    fn read(mut self) -> JsonObject {
        if self.next_visible() != Some('{') {
            return Map::new();
        }
        self.open.push(Open::Object { entries: Map::new(), key: None });
        while self.step() {}
        // Close what is open, inside out; the outermost is the object.
        loop {
            match self.open.pop() {
                None => return Map::new(),
                Some(Open::Object { entries, .. }) if self.open.is_empty() => return entries,
                Some(container) => self.put(close(container)),
            }
        }
    }

    /// Reads one member or one end of a container; false when reading is over.
    fn step(&mut self) -> bool {
        let (end, in_object) = match self.open.last() {
            None => return false,
            Some(Open::Object { .. }) => ('}', true),
            Some(Open::Array(_)) => (']', false),
        };
        let Some(first) = self.peek_visible() else { return false };
        if first == ',' {
            // Also a comma too many: `[1,,2]` means the two numbers.
            self.characters.next();
            return true;
        }
        if first == end {
            self.characters.next();
            if self.open.len() == 1 {
                return false;
            }
            if let Some(container) = self.open.pop() {
                self.put(close(container));
            }
            return true;
        }
        if in_object && !self.read_key(first) {
            return false;
        }
        match self.token() {
            Token::Value(value) => self.put(value),
            Token::Opened(_) if self.open.len() >= MAX_DEPTH => return false,
            Token::Opened(container) => self.open.push(container),
            Token::Nothing => return false,
        }
        true
    }

    /// Reads `"key":` and keeps the key; false if that is not what stands here in full.
    fn read_key(&mut self, first: char) -> bool {
        if first != '"' {
            return false;
        }
        self.characters.next();
        let (name, finished) = self.string();
        if !finished || self.next_visible() != Some(':') {
            return false;
        }
        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
            *key = Some(name);
        }
        true
    }

    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::Object { entries, key }) => {
                if let Some(key) = key.take() {
                    entries.insert(key, value);
                }
            }
            Some(Open::Array(items)) => items.push(value),
            None => {}
        }
    }

    fn token(&mut self) -> Token {
        match self.peek_visible() {
            Some('"') => {
                self.characters.next();
                Token::Value(Value::String(self.string().0))
            }
            Some('{') => {
                self.characters.next();
                Token::Opened(Open::Object { entries: Map::new(), key: None })
            }
            Some('[') => {
                self.characters.next();
                Token::Opened(Open::Array(Vec::new()))
            }
            Some(_) => self.word(),
            None => Token::Nothing,
        }
    }

    /// `true`, `false`, `null` or a number; the last word of an unfinished text may be cut short.
    fn word(&mut self) -> Token {
        let start = self.characters.peek().map_or(self.text.len(), |(offset, _)| *offset);
        let rest = &self.text[start..];
        let length = rest.find([',', ':', ']', '}', '"', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        let (word, unfinished) = (&rest[..length], length == rest.len());
        while self.characters.peek().is_some_and(|(offset, _)| *offset < start + length) {
            self.characters.next();
        }
        for (literal, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if word == literal || (unfinished && !word.is_empty() && literal.starts_with(word)) {
                return Token::Value(value);
            }
        }
        let number = number_prefix(word);
        if number.is_empty() || (number.len() < word.len() && !unfinished) {
            return Token::Nothing;
        }
        // A number that no double can hold is nothing that a tool could use, but it is no reason to stop.
        Token::Value(number.parse::<Number>().map_or(Value::Null, Value::Number))
    }

    /// The rest of a string whose opening quote was read, and whether its closing quote is there.
    fn string(&mut self) -> (String, bool) {
        let mut text = String::new();
        while let Some((_, character)) = self.characters.next() {
            match character {
                '"' => return (text, true),
                '\\' => self.escape(&mut text),
                _ => text.push(character),
            }
        }
        (text, false)
    }

    /// What follows a backslash. An escape that the text cuts short adds nothing.
    fn escape(&mut self, text: &mut String) {
        let Some((_, character)) = self.characters.next() else { return };
        match character {
            '"' | '\\' | '/' => text.push(character),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => self.unicode_escape(text),
            other => text.extend(['\\', other]),
        }
    }

    fn unicode_escape(&mut self, text: &mut String) {
        let mut ahead = self.characters.clone();
        let Some(unit) = four_digits(&mut ahead) else {
            // `\u12` at the end is an escape on its way; elsewhere it is text.
            let cut_short = self.characters.clone().all(|(_, character)| character.is_ascii_hexdigit());
            if cut_short {
                self.characters = ahead;
            } else {
                text.push_str("\\u");
            }
            return;
        };
        self.characters = ahead;
        if (0xD800..0xDC00).contains(&unit) {
            let mut ahead = self.characters.clone();
            let escape = (ahead.next().map(|(_, it)| it), ahead.next().map(|(_, it)| it));
            match (escape, four_digits(&mut ahead)) {
                ((Some('\\'), Some('u')), Some(low)) if (0xDC00..0xE000).contains(&low) => {
                    self.characters = ahead;
                    let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    return;
                }
                // The second half may still be on its way.
                _ if self.characters.peek().is_none() => return,
                _ => {}
            }
        }
        text.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
    }

    fn peek_visible(&mut self) -> Option<char> {
        while self.characters.next_if(|(_, character)| matches!(character, ' ' | '\t' | '\r' | '\n')).is_some() {}
        self.characters.peek().map(|(_, character)| *character)
    }

    fn next_visible(&mut self) -> Option<char> {
        self.peek_visible();
        self.characters.next().map(|(_, character)| character)
    }
}

fn close(container: Open) -> Value {
    match container {
        Open::Object { entries, .. } => Value::Object(entries),
        Open::Array(items) => Value::Array(items),
    }
}

fn four_digits(characters: &mut Peekable<CharIndices<'_>>) -> Option<u32> {
    let mut unit = 0;
    for _ in 0..4 {
        unit = unit * 16 + characters.next_if(|(_, it)| it.is_ascii_hexdigit())?.1.to_digit(16)?;
    }
    Some(unit)
}

/// The longest start of `word` that is a JSON number; empty if there is none.
fn number_prefix(word: &str) -> &str {
    let bytes = word.as_bytes();
    let digits = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let start = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(start);
    if whole == 0 || (whole > 1 && bytes[start] == b'0') {
        return "";
    }
    let mut end = start + whole;
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::{MAX_DEPTH, parse};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn the_best_object_of_each_text() {
        for (text, expected) in [
            ("", json!({})),
            ("null", json!({})),
            ("[1]", json!({})),
            ("nonsense", json!({})),
            ("  {", json!({})),
            (r#"{"a": 1, "b": [true, null]}"#, json!({"a": 1, "b": [true, null]})),
            (r#"{"a"#, json!({})),
            (r#"{"a""#, json!({})),
            (r#"{"a":"#, json!({})),
            (r#"{"a":"x"#, json!({"a": "x"})),
            (r#"{"a":"x\"#, json!({"a": "x"})),
            (r#"{"a":"x\u00"#, json!({"a": "x"})),
            (r#"{"a":"x\u00e9"#, json!({"a": "xé"})),
            (r#"{"a":"\ud83d"#, json!({"a": ""})),
            (r#"{"a":"\ud83d\ude0"#, json!({"a": "\u{fffd}"})),
            (r#"{"a":"\ud83d\ude00"#, json!({"a": "😀"})),
            (r#"{"a":"\ud83d x"}"#, json!({"a": "\u{fffd} x"})),
            (r#"{"a":"\u12zz"}"#, json!({"a": "\\u12zz"})),
            (r#"{"path":"C:\windows\quux"}"#, json!({"path": "C:\\windows\\quux"})),
            ("{\"a\":\"line\nbreak\ttab\"}", json!({"a": "line\nbreak\ttab"})),
            (r#"{"a":tr"#, json!({"a": true})),
            (r#"{"a":fals"#, json!({"a": false})),
            (r#"{"a":n"#, json!({"a": null})),
            (r#"{"a":12."#, json!({"a": 12})),
            (r#"{"a":1.5e+"#, json!({"a": 1.5})),
            (r#"{"a":-"#, json!({})),
            (r#"{"a":-3"#, json!({"a": -3})),
            (r#"{"a":1e999,"b":2}"#, json!({"a": null, "b": 2})),
            (r#"{"a":truth,"b":2}"#, json!({})),
            (r#"{"a":1,b:2}"#, json!({"a": 1})),
            (r#"{"a":[1,{"b":["x","#, json!({"a": [1, {"b": ["x"]}]})),
            (r#"{"a":[1,,2,],}"#, json!({"a": [1, 2]})),
            (r#"{"a":1} and more"#, json!({"a": 1})),
            (r#"{"a":1}{"b":2}"#, json!({"a": 1})),
            (r#"{"a":1,"a":"#, json!({"a": 1})),
            (r#"{"a":[1}"#, json!({"a": [1]})),
        ] {
            assert_eq!(Value::Object(parse(text)), expected, "{text}");
        }
    }

    #[test]
    fn half_a_string_is_told_from_a_whole_one() {
        let whole = r#"{"a \" b": "c \\", "d": ["é", 12]}"#;
        let within = |end: &usize| [2..=8, 12..=16, 20..=21, 26..=28].iter().any(|string| string.contains(end));
        for end in (0..=whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert_eq!(super::ends_within_string(&whole[..end]), within(&end), "{}", &whole[..end]);
        }
    }

    #[test]
    fn keys_keep_their_order() {
        let object = parse(r#"{"z":1,"a":2,"m":{"y":1,"b":"#);
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"z":1,"a":2,"m":{"y":1}}"#);
    }

    #[test]
    fn deep_nesting_ends_without_harm_and_can_be_read_back() {
        for unit in ["[", "{\"a\":", "[[{\"a\":["] {
            let text = format!("{{\"k\":1,\"deep\":{}", unit.repeat(200_000));
            let object = parse(&text);
            assert_eq!(object.get("k"), Some(&json!(1)));
            let written = serde_json::to_string(&object).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), Value::Object(object));
        }
        assert_eq!(MAX_DEPTH, 127);
    }

    #[test]
    fn long_unfinished_texts_take_linear_time() {
        let started = std::time::Instant::now();
        let text = format!(r#"{{"a":"{}"#, "\\u12z \\ud83d \\q".repeat(300_000));
        assert!(parse(&text)["a"].as_str().unwrap().len() > 1_000_000);
        let text = format!(r#"{{"a":{}"#, "1e".repeat(1_000_000));
        assert_eq!(parse(&text)["a"], json!(10.0));
        let text = format!(r#"{{"a":"\u{}"#, "1".repeat(1_000_000));
        assert_eq!(parse(&text)["a"].as_str().unwrap().len(), 999_996 + 'ᄑ'.len_utf8());
        // Quadratic time would be minutes.
        assert!(started.elapsed().as_secs() < 20);
    }

    fn json_values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,6}", inner), 0..6).prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_text_gives_an_object_that_can_be_written(text in "[\\[\\]{}\",:\\\\0-9a-fntuel. \\n😀-]{0,80}") {
            let object = parse(&text);
            prop_assert!(serde_json::to_string(&object).is_ok());
        }

        /// The lenient reader agrees with the strict one on everything that is valid.
        #[test]
        fn valid_objects_are_read_exactly(value in json_values()) {
            let text = json!({"v": value}).to_string();
            prop_assert_eq!(super::Reader::new(&text).read(), serde_json::from_str::<super::JsonObject>(&text).unwrap());
        }

        /// What was complete before a cut is in the result.
        #[test]
        fn a_cut_loses_only_what_was_not_complete(value in json_values(), cut in 0usize..200) {
            let tail = json!({"after": value}).to_string();
            let text = format!(r#"{{"before":[1,"two"],{}"#, &tail[1..]);
            let floor = r#"{"before":[1,"two"]"#.len();
            let end = text.floor_char_boundary((floor + cut).min(text.len()));
            prop_assert_eq!(&parse(&text[..end])["before"], &json!([1, "two"]));
        }
    }
}
