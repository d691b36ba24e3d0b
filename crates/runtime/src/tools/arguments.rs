//! Checking arguments against a tool's JSON Schema, after bending what models usually get wrong. Pure.
//!
//! Knows the keywords that tool schemas use: `type`, `properties`, `required`, `additionalProperties: false`, `items`, `anyOf`, `const`,
//! `enum`. Others are let through: who owns the tool checks them. Nothing here recurses deeper than the schema.

use serde_json::{Map, Value, json};
use wolli_protocol::message::JsonObject;
use wolli_protocol::number::Number;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Problem {
    path: String,
    message: String,
}

/// Coerces `arguments` in place and checks them.
///
/// # Errors
/// The text for the model, with the arguments as they were.
pub(super) fn check(tool: &str, schema: &Value, arguments: &mut JsonObject) -> Result<(), String> {
    let given = Value::Object(arguments.clone());
    let mut value = Value::Object(std::mem::take(arguments));
    coerce(schema, &mut value);
    let mut problems = Vec::new();
    validate(schema, &value, "", &mut problems);
    if let Value::Object(coerced) = value {
        *arguments = coerced;
    }
    if problems.is_empty() {
        return Ok(());
    }
    let mut text = format!("Validation failed for tool \"{tool}\":\n");
    for Problem { path, message } in problems {
        let path = if path.is_empty() { "root" } else { &path };
        text.push_str(&["  - ", path, ": ", &message, "\n"].concat());
    }
    text.push_str("\nReceived arguments:\n");
    text.push_str(&serde_json::to_string_pretty(&given).unwrap_or_default());
    Err(text)
}

/// The one type a schema asks for; `None` if it allows several or says nothing.
fn wanted(schema: &Value) -> Option<&str> {
    schema.get("type")?.as_str()
}

fn coerce(schema: &Value, value: &mut Value) {
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return coerce_to_any(branches, value);
    }
    match wanted(schema) {
        Some("object") => {
            if let (Value::Object(object), Some(properties)) = (value, schema.get("properties").and_then(Value::as_object)) {
                coerce_properties(schema, properties, object);
            }
        }
        Some("array") => {
            if !value.is_array() && !value.is_null() {
                *value = Value::Array(vec![value.take()]);
            }
            if let (Value::Array(items), Some(schema)) = (value, schema.get("items")) {
                items.iter_mut().for_each(|item| coerce(schema, item));
            }
        }
        Some(kind) => {
            if let Some(coerced) = coerce_scalar(kind, value) {
                *value = coerced;
            }
        }
        None => {}
    }
}

fn coerce_properties(schema: &Value, properties: &Map<String, Value>, object: &mut Map<String, Value>) {
    for (name, schema_of_property) in properties {
        // Models send null for what they leave out.
        if object.get(name).is_some_and(Value::is_null) && !is_required(schema, name) && !accepts(schema_of_property, &Value::Null) {
            object.shift_remove(name);
        }
        if let Some(value) = object.get_mut(name) {
            coerce(schema_of_property, value);
        }
    }
}

/// Leaves the value alone if it fits a branch; otherwise takes the first branch that it can be bent to.
fn coerce_to_any(branches: &[Value], value: &mut Value) {
    if branches.iter().any(|branch| accepts(branch, value)) {
        return;
    }
    for branch in branches {
        let mut attempt = value.clone();
        coerce(branch, &mut attempt);
        if accepts(branch, &attempt) {
            *value = attempt;
            return;
        }
    }
}

fn coerce_scalar(kind: &str, value: &Value) -> Option<Value> {
    match (kind, value) {
        ("number" | "integer", Value::String(text)) => number(text),
        ("number" | "integer", Value::Bool(flag)) => Some(json!(u8::from(*flag))),
        ("number" | "integer", Value::Null) => Some(json!(0)),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" => Some(json!(true)),
            "false" => Some(json!(false)),
            _ => None,
        },
        ("boolean", Value::Number(number)) => match number.as_f64() {
            Some(0.0) => Some(json!(false)),
            Some(1.0) => Some(json!(true)),
            _ => None,
        },
        ("boolean", Value::Null) => Some(json!(false)),
        ("string", Value::Number(number)) => Some(json!(plain(number))),
        ("string", Value::Bool(flag)) => Some(json!(flag.to_string())),
        ("string", Value::Null) => Some(json!("null")),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    // Rust would also read `inf`, `nan` and `1.`.
    let looks_right = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let number: f64 = text.parse().ok().filter(|number: &f64| looks_right && number.is_finite())?;
    serde_json::to_value(Number(number)).ok()
}

/// A number as JavaScript prints it: without a fraction that is zero.
fn plain(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => serde_json::to_string(&Number(float)).unwrap_or_default(),
        _ => number.to_string(),
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|required| required == name))
}

fn accepts(schema: &Value, value: &Value) -> bool {
    let mut problems = Vec::new();
    validate(schema, value, "", &mut problems);
    problems.is_empty()
}

fn is_of_kind(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn validate(schema: &Value, value: &Value, path: &str, problems: &mut Vec<Problem>) {
    let mut problem = |message: String| problems.push(Problem { path: path.to_owned(), message });
    match schema.get("type") {
        Some(Value::String(kind)) if !is_of_kind(kind, value) => return problem(format!("must be {kind}")),
        Some(Value::Array(kinds)) if !kinds.iter().filter_map(Value::as_str).any(|kind| is_of_kind(kind, value)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            return problem(format!("must be either {}", kinds.join(" or ")));
        }
        _ => {}
    }
    if schema.get("const").is_some_and(|constant| constant != value) {
        problem("must be equal to constant".to_owned());
    }
    if schema.get("enum").and_then(Value::as_array).is_some_and(|allowed| !allowed.contains(value)) {
        problem("must be equal to one of the allowed values".to_owned());
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array)
        && !branches.iter().any(|branch| accepts(branch, value))
    {
        for branch in branches {
            validate(branch, value, path, problems);
        }
        problems.push(Problem { path: path.to_owned(), message: "must match a schema in anyOf".to_owned() });
    }
    match value {
        Value::Object(object) => validate_object(schema, object, path, problems),
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    validate(schema, item, &join(path, &index.to_string()), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn validate_object(schema: &Value, object: &Map<String, Value>, path: &str, problems: &mut Vec<Problem>) {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let missing: Vec<&str> = required.filter(|name| !object.contains_key(*name)).collect();
    if let Some(first) = missing.first() {
        let message = format!("must have required properties {}", missing.join(", "));
        problems.push(Problem { path: join(path, first), message });
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_known = |name: &String| properties.is_some_and(|properties| properties.contains_key(name));
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) && !object.keys().all(is_known) {
        problems.push(Problem { path: path.to_owned(), message: "must not have additional properties".to_owned() });
    }
    for (name, schema) in properties.into_iter().flatten() {
        if let Some(value) = object.get(name) {
            validate(schema, value, &join(path, name), problems);
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["path", "edits"],
            "properties": {
                "path": {"type": "string"},
                "count": {"type": "number"},
                "flag": {"type": "boolean"},
                "mode": {"anyOf": [{"const": "a", "type": "string"}, {"const": "b", "type": "string"}]},
                "edits": {"type": "array", "items": {
                    "type": "object", "required": ["old", "new"], "additionalProperties": false,
                    "properties": {"old": {"type": "string"}, "new": {"type": "string"}}
                }},
            },
        })
    }

    fn checked(arguments: Value) -> Result<Value, String> {
        let Value::Object(mut arguments) = arguments else { panic!("no object") };
        check("t", &schema(), &mut arguments).map(|()| Value::Object(arguments))
    }

    #[test]
    fn what_models_get_wrong_is_bent() {
        let given = json!({"path": 5, "count": " 1.50 ", "flag": "true", "edits": {"old": null, "new": 2.0}, "extra": [1]});
        let bent = json!({"path": "5", "count": 1.5, "flag": true, "edits": [{"old": "null", "new": "2"}], "extra": [1]});
        assert_eq!(checked(given), Ok(bent));
        for (given, bent) in [
            (json!({"count": "12"}), json!({"count": 12})),
            (json!({"count": true}), json!({"count": 1})),
            (json!({"count": null, "flag": null, "mode": null}), json!({})),
            (json!({"flag": 0}), json!({"flag": false})),
            (json!({"flag": 1.0}), json!({"flag": true})),
            (json!({"flag": "false"}), json!({"flag": false})),
            (json!({"mode": "b"}), json!({"mode": "b"})),
        ] {
            let with = |mut value: Value| {
                value["path"] = json!("x");
                value["edits"] = json!([]);
                value
            };
            assert_eq!(checked(with(given)), Ok(with(bent)));
        }
        let null_for_required = checked(json!({"path": null, "edits": []}));
        assert_eq!(null_for_required, Ok(json!({"path": "null", "edits": []})));
    }

    #[test]
    fn each_problem_has_its_place_and_text() {
        let given = json!({"count": "many", "flag": 2, "mode": "c", "edits": [{"old": "a", "new": {}}, {"old": [], "extra": 1}, 5]});
        let text = checked(given.clone()).unwrap_err();
        let expected = "Validation failed for tool \"t\":
  - path: must have required properties path
  - count: must be number
  - flag: must be boolean
  - mode: must be equal to constant
  - mode: must be equal to constant
  - mode: must match a schema in anyOf
  - edits.0.new: must be string
  - edits.1.new: must have required properties new
  - edits.1: must not have additional properties
  - edits.1.old: must be string
  - edits.2: must be object

Received arguments:
";
        assert_eq!(text, format!("{expected}{}", serde_json::to_string_pretty(&given).unwrap()));
    }

    #[test]
    fn the_recorded_text() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}});
        let Value::Object(mut arguments) = json!({"path": {"x": 1}}) else { unreachable!() };
        let text =
            "Validation failed for tool \"read\":\n  - path: must be string\n\nReceived arguments:\n{\n  \"path\": {\n    \"x\": 1\n  }\n}";
        assert_eq!(check("read", &schema, &mut arguments), Err(text.to_owned()));
    }

    #[test]
    fn the_root_is_named() {
        let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let Value::Object(mut arguments) = json!({"x": 1}) else { unreachable!() };
        let text = check("t", &schema, &mut arguments).unwrap_err();
        assert!(text.contains("\n  - root: must not have additional properties\n"), "{text}");
    }

    #[test]
    fn unknown_keywords_and_several_types_are_let_through() {
        let schema = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/x"}, "c": true}});
        for (given, good) in [(json!({"a": null, "b": 1, "c": 2}), true), (json!({"a": "x"}), true), (json!({"a": 5}), false)] {
            let Value::Object(mut arguments) = given.clone() else { unreachable!() };
            assert_eq!(check("t", &schema, &mut arguments).is_ok(), good, "{given}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            "[a-z0-9. -]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(prop_oneof!["path", "count", "flag", "mode", "edits", "old", "new"], inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn what_is_accepted_fits_and_stays(path in any_json(), edits in any_json(), count in any_json(), flag in any_json()) {
            if let Ok(bent) = checked(json!({"path": path, "edits": edits, "count": count, "flag": flag})) {
                prop_assert!(accepts(&schema(), &bent));
                prop_assert_eq!(checked(bent.clone()), Ok(bent));
            }
        }
    }
}
