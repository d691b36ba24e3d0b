//! The schemas of the document: those of the protocol's types, brought into the form that generators of clients read best.
//!
//! Invariant: the same types give the same text. What a field means comes from the comments in the protocol.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use wolli_protocol::answer::Data;
use wolli_protocol::command::Command;

/// Where schemas stand in the document.
const PLACE: &str = "#/components/schemas/";

/// Keys of the fields that tell the variants of our enums apart.
const TAGS: [&str; 3] = ["type", "role", "method"];

pub(super) struct Components {
    generator: SchemaGenerator,
    /// Schemas that no single type has.
    added: Map<String, Value>,
}

impl Components {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self { generator: settings.for_serialize().into_generator(), added: Map::new() }
    }

    /// A reference to the schema of a type.
    pub(super) fn of<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    /// Adds a schema and gives a reference to it.
    pub(super) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.added.insert(name.to_owned(), schema);
        reference(name)
    }

    /// The answers of all commands, as one schema.
    pub(super) fn command_answer(&mut self) -> Value {
        let mut mapping = Map::new();
        for (command, data) in Command::answers() {
            let name = format!("Answer{}", pascal(command));
            let mut schema = json!({
                "description": format!("Success of `{command}`."),
                "type": "object",
                "properties": {
                    "id": {"description": "Echo of the request's `id`, whatever JSON it is."},
                    "type": {"const": "response", "type": "string"},
                    "command": {"const": command, "type": "string"},
                    "success": {"const": true, "type": "boolean"},
                },
                "required": ["type", "command", "success"],
            });
            if let Data::Of(data) = data {
                schema["properties"]["data"] = data(&mut self.generator).to_value();
                schema["required"] = json!(["type", "command", "success", "data"]);
            }
            let reference = self.add(&name, schema);
            mapping.insert(command.to_owned(), reference["$ref"].clone());
        }
        let variants: Vec<_> = mapping.values().map(|reference| json!({"$ref": reference})).collect();
        let success = json!({
            "description": "The success of a command; `command` says of which.",
            "oneOf": variants,
            "discriminator": {"propertyName": "command", "mapping": mapping},
        });
        let failure = json!({
            "description": "The failure of a command: nothing was changed, or what was begun has failed. The text is for people.",
            "type": "object",
            "properties": {
                "id": {"description": "Echo of the request's `id`, whatever JSON it is."},
                "type": {"const": "response", "type": "string"},
                "command": {"description": "Echo of the request's `type`, if it had one; `unknown` if the body was no JSON."},
                "success": {"const": false, "type": "boolean"},
                "error": {"type": "string"},
            },
            "required": ["type", "success", "error"],
        });
        let variants = [self.add("CommandSuccess", success), self.add("CommandFailure", failure)];
        let answer = json!({"description": "The answer to a command. The status is 200 in both cases.", "oneOf": variants});
        self.add("CommandAnswer", answer)
    }

    /// All schemas by name, in the order of their names.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut schemas: Map<String, Value> = self.generator.take_definitions(true);
        schemas.extend(self.added);
        for schema in schemas.values_mut() {
            walk(schema, &mut drop_null_of_optional);
            walk(schema, &mut tidy_words);
            walk(schema, &mut references_stand_alone);
        }
        let names: Vec<String> = schemas.keys().cloned().collect();
        for name in names {
            name_variants(&name, &mut schemas);
        }
        let commands = schemas["Command"]["discriminator"]["mapping"].as_object().cloned().unwrap_or_default();
        for reference in commands.values().filter_map(Value::as_str) {
            let name = reference.trim_start_matches(PLACE);
            schemas[name]["properties"]["id"] = json!({"description": "Any JSON; it is given back in the answer."});
        }
        schemas.sort_keys();
        schemas
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{PLACE}{name}")})
}

/// `get_state` as `GetState`, `toolCall` as `ToolCall`.
fn pascal(word: &str) -> String {
    let mut upper = true;
    let mut name = String::new();
    for letter in word.chars() {
        match letter {
            '_' | '-' => upper = true,
            letter if upper => {
                name.extend(letter.to_uppercase());
                upper = false;
            }
            letter => name.push(letter),
        }
    }
    name
}

/// Calls `change` with every schema in `schema`, outermost last. Values of `const` and `enum` are no schemas.
fn walk(schema: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                if !matches!(key.as_str(), "const" | "enum" | "required" | "mapping") {
                    walk(value, change);
                }
            }
            change(object);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        _ => {}
    }
}

/// What is absent is left out, never `null`: a field that need not be there has no `null` among its values.
fn drop_null_of_optional(schema: &mut Map<String, Value>) {
    let required: Vec<String> = schema.get("required").and_then(|names| serde_json::from_value(names.clone()).ok()).unwrap_or_default();
    // A map whose keys are known: there `null` is a value.
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        return;
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !required.contains(name)) {
        let Some(property) = property.as_object_mut() else { continue };
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|name| name != "null");
            if let [single] = &types[..] {
                let single = single.clone();
                property.insert("type".into(), single);
            }
        }
        if let Some(Value::Array(variants)) = property.get("anyOf") {
            let rest: Vec<Value> = variants.iter().filter(|variant| variant["type"] != "null").cloned().collect();
            if let [Value::Object(single)] = &rest[..] {
                property.remove("anyOf");
                property.extend(single.clone());
            }
        }
        property.remove("default");
    }
}

/// Line breaks of comments are ours, and so is a number whose width is that of our machine.
fn tidy_words(schema: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    // Generators do not know that `true` is a schema.
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for any in members.into_iter().flat_map(Map::values_mut).filter(|member| **member == true) {
        *any = json!({});
    }
    if let Some(any) = schema.get_mut("items").filter(|items| **items == true) {
        *any = json!({});
    }
    if schema.get("format").is_some_and(|format| format == "uint") {
        schema.shift_remove("format");
    }
}

/// A reference with fields beside it becomes a list of two: generators overlook the one or the other.
fn references_stand_alone(schema: &mut Map<String, Value>) {
    if !schema.contains_key("$ref") || !schema.contains_key("properties") {
        return;
    }
    let Some(reference) = schema.shift_remove("$ref") else { return };
    let description = schema.shift_remove("description");
    let own = Value::Object(std::mem::take(schema));
    schema.extend(description.map(|text| ("description".to_owned(), text)));
    schema.insert("allOf".into(), json!([{"$ref": reference}, own]));
}

/// Gives each variant of an enum with a tag a name of its own, and says which tag means which. Fields that stand beside the variants,
/// as those of a flattened enum do, go into each of them.
fn name_variants(name: &str, schemas: &mut Map<String, Value>) {
    let Some(variants) = schemas[name]["oneOf"].as_array().cloned() else { return };
    let Some(tag) = TAGS.into_iter().find(|tag| variants.iter().all(|variant| tag_of(variant, tag).is_some())) else { return };
    let shared = ["type", "properties", "required"].map(|key| schemas[name].as_object_mut().and_then(|schema| schema.shift_remove(key)));
    let mut mapping = Map::new();
    for mut variant in variants {
        let Some(word) = tag_of(&variant, tag) else { continue };
        if let [_, Some(Value::Object(properties)), required] = &shared {
            let own = variant["properties"].as_object_mut().unwrap_or_else(|| panic!("{name} has a variant {word} that is no object"));
            own.extend(properties.clone());
            let more = required.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
            variant["required"].as_array_mut().into_iter().for_each(|required| required.extend(more.clone()));
        }
        let variant_name = format!("{name}{}", pascal(&word));
        assert!(!schemas.contains_key(&variant_name), "two schemas are called {variant_name}");
        schemas.insert(variant_name.clone(), variant);
        mapping.insert(word, reference(&variant_name)["$ref"].clone());
    }
    let references: Vec<_> = mapping.values().map(|reference| json!({"$ref": reference})).collect();
    schemas[name]["oneOf"] = references.into();
    schemas[name]["discriminator"] = json!({"propertyName": tag, "mapping": mapping});
}

/// The fixed value of a variant's tag.
fn tag_of(variant: &Value, tag: &str) -> Option<String> {
    let own = |schema: &Value| schema["properties"][tag]["const"].as_str().map(str::to_owned);
    own(variant).or_else(|| variant["allOf"].as_array()?.iter().find_map(own))
}
