//! Values that fit a schema of the written reference, and ways to spoil them.

use serde_json::{Map, Value, json};

use crate::support::Dice;

/// Deepest value that fits; below it only what must be there.
const DEPTH: u32 = 6;

/// Texts that are no trouble for those who write them down and read them back.
const TEXTS: &[&str] = &[
    "",
    "a",
    "hello world",
    "medium",
    "off",
    "echo",
    "demo",
    "delta",
    "é",
    "日本語",
    "🦀",
    "a\nb\r\n",
    "\t",
    "\u{0}",
    "\u{feff}x",
    "\u{2028}",
    "\\",
    "\"",
    "</script>",
    "../../etc/passwd",
    "%2e%2e",
    "null",
    "0",
    "-1",
    "18446744073709551616",
    "npm:x",
    "{}",
    "/skill:none",
    "/nothing",
    "!",
    "data: x\n\n",
    "🏳️‍🌈",
    "e\u{301}",
];

const NUMBERS: &[&str] =
    &["0", "1", "-1", "7", "1.5", "1e3", "1e308", "-0.0", "4294967296", "9007199254740993", "18446744073709551615", "18446744073709551616"];

/// The document, to make values from.
#[derive(Debug)]
pub(super) struct Shapes {
    document: Value,
}

impl Shapes {
    pub(super) fn new(document: Value) -> Self {
        Self { document }
    }

    /// Method and path of every operation, with what it says.
    pub(super) fn operations(&self) -> Vec<(String, String, &Value)> {
        let paths = self.document["paths"].as_object().unwrap();
        let of_path = |(path, methods): (&String, &'_ Value)| {
            let methods: Vec<String> = methods.as_object().unwrap().keys().cloned().collect();
            methods.into_iter().map(|method| (method, path.clone())).collect::<Vec<_>>()
        };
        let all: Vec<(String, String)> = paths.iter().flat_map(of_path).collect();
        all.into_iter().map(|(method, path)| (method.to_uppercase(), path.clone(), &paths[&path][&method])).collect()
    }

    /// What a reference leads to, or the schema itself.
    pub(super) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        schema["$ref"].as_str().map_or(schema, |place| self.document.pointer(place.trim_start_matches('#')).unwrap())
    }

    /// A value that fits.
    pub(super) fn fitting(&self, schema: &Value, dice: &mut Dice) -> Value {
        self.at(schema, dice, 0)
    }

    fn at(&self, schema: &Value, dice: &mut Dice, depth: u32) -> Value {
        let schema = self.resolve(schema);
        for choice in ["oneOf", "anyOf"] {
            if let Some(variants) = schema[choice].as_array() {
                return self.at(pick(dice, variants), dice, depth);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                whole.extend(self.at(part, dice, depth).as_object().cloned().unwrap_or_default());
            }
            return whole.into();
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(words) = schema["enum"].as_array() {
            return pick(dice, words).clone();
        }
        match schema["type"].as_str() {
            Some("string") => text(dice),
            Some("integer") => json!(dice.range(0, 1000)),
            Some("number") => number(dice),
            Some("boolean") => json!(dice.one_in(2)),
            Some("null") => Value::Null,
            Some("array") => {
                let count = if depth > DEPTH { 0 } else { dice.range(0, 4) };
                (0..count).map(|_| self.at(&schema["items"], dice, depth + 1)).collect()
            }
            Some("object") => self.object(schema, dice, depth),
            _ => anything(dice, depth),
        }
    }

    fn object(&self, schema: &Value, dice: &mut Dice, depth: u32) -> Value {
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || (depth < DEPTH && dice.one_in(2)) {
                object.insert(name.clone(), self.at(property, dice, depth + 1));
            }
        }
        if schema["additionalProperties"] == true && depth < DEPTH {
            for _ in 0..dice.range(0, 3) {
                object.insert(pick(dice, TEXTS).to_string(), anything(dice, depth + 1));
            }
        }
        object.into()
    }
}

fn pick<'a, T>(dice: &mut Dice, items: &'a [T]) -> &'a T {
    &items[usize::try_from(dice.range(0, items.len() as u64)).unwrap()]
}

/// One of the texts, or several of them.
pub(super) fn text(dice: &mut Dice) -> Value {
    (0..dice.range(1, 4)).map(|_| *pick(dice, TEXTS)).collect::<String>().into()
}

fn number(dice: &mut Dice) -> Value {
    let text: &str = NUMBERS[usize::try_from(dice.range(0, NUMBERS.len() as u64)).unwrap()];
    serde_json::from_str(text).unwrap()
}

/// JSON of any kind.
fn anything(dice: &mut Dice, depth: u32) -> Value {
    match dice.range(0, if depth > DEPTH { 4 } else { 7 }) {
        0 => Value::Null,
        1 => json!(dice.one_in(2)),
        2 => number(dice),
        3 | 4 => text(dice),
        5 => (0..dice.range(0, 4)).map(|_| anything(dice, depth + 1)).collect(),
        _ => Value::Object((0..dice.range(0, 4)).map(|_| (pick(dice, TEXTS).to_string(), anything(dice, depth + 1))).collect()),
    }
}

/// Changes one place of a value: another kind, too much of it, or nothing at all.
pub(super) fn spoil(value: &mut Value, dice: &mut Dice) {
    let inside = match value {
        Value::Object(members) if !members.is_empty() && !dice.one_in(3) => {
            let names: Vec<String> = members.keys().cloned().collect();
            let name = pick(dice, &names);
            if dice.one_in(4) {
                let moved = members.shift_remove(name);
                if dice.one_in(2) {
                    members.insert(name.to_uppercase(), moved.unwrap_or_default());
                }
                return;
            }
            members.get_mut(name)
        }
        Value::Array(items) if !items.is_empty() && !dice.one_in(3) => {
            let at = usize::try_from(dice.range(0, items.len() as u64)).unwrap();
            items.get_mut(at)
        }
        _ => None,
    };
    match inside {
        Some(inside) => spoil(inside, dice),
        None => *value = if dice.one_in(8) { large(dice) } else { anything(dice, 0) },
    }
}

/// Long, wide or deep.
fn large(dice: &mut Dice) -> Value {
    match dice.range(0, 3) {
        0 => "x🦀".repeat(usize::try_from(dice.range(1, 60_000)).unwrap()).into(),
        1 => (0..dice.range(1, 20_000)).map(|number| json!(number)).collect(),
        _ => (0..dice.range(1, 120)).fold(json!([]), |inner, _| if dice.one_in(2) { json!([inner]) } else { json!({"a": inner}) }),
    }
}

/// The bytes of a body that is JSON in most cases.
pub(super) fn body(value: &Value, dice: &mut Dice) -> Vec<u8> {
    let mut text = value.to_string().into_bytes();
    let at = usize::try_from(dice.range(0, text.len() as u64 + 1)).unwrap();
    match dice.range(0, 16) {
        0 => text.truncate(at),
        1 => text.splice(at..at, *b"\xff").for_each(drop),
        2 => text.splice(0..0, *b"\xef\xbb\xbf").for_each(drop),
        3 => text = String::from_utf8_lossy(&text).replace('🦀', "\\ud83e").into_bytes(),
        4 if text.starts_with(b"{\"") => text.splice(1..1, *b"\"type\":\"get_state\",\"id\":1,").for_each(drop),
        5 if text.ends_with(b"}") && text.len() > 2 => text.splice(text.len() - 1.., *b",\"type\":\"no_such_command\"}").for_each(drop),
        6 => text = [&b"[".repeat(at * 100)[..], &text].concat(),
        7 => text.extend_from_slice(b" {}"),
        8 => text = text.iter().flat_map(|byte| if *byte == b',' { b" ,\r\n".to_vec() } else { vec![*byte] }).collect(),
        _ => {}
    }
    text
}
