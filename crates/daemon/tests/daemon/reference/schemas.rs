//! The schemas of the document, ready to check values.

use std::collections::{BTreeMap, BTreeSet};

use boon::{Compiler, Draft, SchemaIndex};
use serde_json::{Map, Value};

const URL: &str = "http://reference.invalid/openapi.json";

/// Every named schema, compiled. Compiling checks them against the rules of JSON Schema itself.
pub(super) struct Schemas {
    compiled: boon::Schemas,
    by_name: BTreeMap<String, SchemaIndex>,
}

impl Schemas {
    /// The schemas as they stand: fields that they do not name are allowed, as clients must allow them.
    pub(super) fn lenient(document: &Value) -> Self {
        Self::compile(document.clone())
    }

    /// The same, but what a schema does not name is wrong: nothing is sent that is not written down.
    pub(super) fn strict(document: &Value) -> Self {
        let mut document = document.clone();
        let schemas = document["components"]["schemas"].as_object_mut().unwrap();
        // A part of another schema does not know the other parts; the whole is strict.
        let named = |list: &Value| -> Vec<String> {
            let references = list.as_array().into_iter().flatten().filter_map(|part| part["$ref"].as_str());
            references.map(|reference| reference.rsplit('/').next().unwrap().to_owned()).collect()
        };
        let mut parts: BTreeSet<String> = schemas.values().flat_map(|schema| named(&schema["allOf"])).collect();
        let variants: Vec<String> = parts.iter().flat_map(|part| named(&schemas[part]["oneOf"])).collect();
        parts.extend(variants);
        for (name, schema) in schemas.iter_mut().filter(|(name, _)| !parts.contains(*name)) {
            let schema = schema.as_object_mut().unwrap();
            if schema.contains_key("properties") || schema.contains_key("allOf") {
                assert!(!schema.contains_key("additionalProperties"), "{name}");
                schema.insert("unevaluatedProperties".into(), false.into());
            }
        }
        Self::compile(document)
    }

    fn compile(document: Value) -> Self {
        let names: Vec<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        let mut compiler = Compiler::new();
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource(URL, document).unwrap();
        let mut compiled = boon::Schemas::new();
        let mut by_name = BTreeMap::new();
        for name in names {
            let place = format!("{URL}#/components/schemas/{name}");
            let index = compiler.compile(&place, &mut compiled).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            by_name.insert(name, index);
        }
        Self { compiled, by_name }
    }

    /// Why a value is none of that name.
    pub(super) fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        let index = *self.by_name.get(name).unwrap_or_else(|| panic!("no schema is called {name}"));
        self.compiled.validate(value, index).map_err(|error| format!("not a {name}: {error}\n{value}"))
    }

    #[track_caller]
    pub(super) fn must_be(&self, name: &str, value: &Value) {
        if let Err(wrong) = self.check(name, value) {
            panic!("{wrong}");
        }
    }
}

/// Every object in `value` without one of its fields: each as a whole value, with the path of the field.
pub(super) fn without_one_field(value: &Value) -> Vec<(String, Value)> {
    let mut places = Vec::new();
    fields(value, String::new(), &mut places);
    places
        .into_iter()
        .map(|(object, field)| {
            let mut changed = value.clone();
            changed.pointer_mut(&object).and_then(Value::as_object_mut).map(|object: &mut Map<_, _>| object.shift_remove(&field));
            (format!("{object}/{field}"), changed)
        })
        .collect()
}

fn fields(value: &Value, path: String, places: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                places.push((path.clone(), name.clone()));
                fields(member, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                fields(item, format!("{path}/{index}"), places);
            }
        }
        _ => {}
    }
}
