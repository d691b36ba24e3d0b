//! The shape of `models.json`, checked by hand so that each violation names its place and quotes no value.

use serde_json::Value;
use wolli_protocol::message::JsonObject;
use wolli_protocol::model::ThinkingLevel;
use wolli_protocol::number::Number;

use super::{Headers, LevelMap, ModelEntry, OverrideEntry, PartialCost, ProviderEntry};
use crate::indirection::Template;

const PROVIDER_KEYS: &[&str] = &["name", "baseUrl", "apiKey", "api", "headers", "compat", "authHeader", "models", "modelOverrides"];
const MODEL_KEYS: &[&str] =
    &["id", "name", "api", "baseUrl", "reasoning", "thinkingLevelMap", "input", "cost", "contextWindow", "maxTokens", "headers", "compat"];
const OVERRIDE_KEYS: &[&str] =
    &["name", "reasoning", "thinkingLevelMap", "input", "cost", "contextWindow", "maxTokens", "headers", "compat"];
const COST_KEYS: [&str; 4] = ["input", "output", "cacheRead", "cacheWrite"];

/// Collects what is wrong in one provider's entry.
#[derive(Debug, Default)]
pub(super) struct Check {
    /// `<path>: <message>`; any of them makes the entry unusable.
    pub(super) violations: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// A name as a step of a path.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl Check {
    fn fail(&mut self, path: &str, message: &str) {
        self.violations.push(format!("{path}: {message}"));
    }

    pub(super) fn provider(&mut self, value: &Value, path: &str) -> Option<ProviderEntry> {
        let object = self.object(value, path)?;
        self.unknown(object, PROVIDER_KEYS, path);
        let mut entry = ProviderEntry {
            name: self.text(object, "name", path),
            base_url: self.text(object, "baseUrl", path),
            api_key: self.text(object, "apiKey", path).map(|key| Template::parse(&key)),
            api: self.text(object, "api", path),
            headers: self.headers(object, path),
            compat: self.compat(object, path),
            auth_header: self.flag(object, "authHeader", path).unwrap_or(false),
            models: Vec::new(),
            overrides: Vec::new(),
        };
        match object.get("models") {
            None => {}
            Some(Value::Array(models)) => {
                entry.models =
                    models.iter().enumerate().filter_map(|(index, model)| self.model(model, &format!("{path}/models/{index}"))).collect();
            }
            Some(_) => self.fail(&format!("{path}/models"), "must be array"),
        }
        match object.get("modelOverrides") {
            None => {}
            Some(Value::Object(overrides)) => {
                for (id, changes) in overrides {
                    let place = format!("{path}/modelOverrides/{}", escape(id));
                    entry.overrides.extend(self.changes(changes, &place).map(|changes| (id.clone(), changes)));
                }
            }
            Some(_) => self.fail(&format!("{path}/modelOverrides"), "must be object"),
        }
        Some(entry)
    }

    fn model(&mut self, value: &Value, path: &str) -> Option<ModelEntry> {
        let object = self.object(value, path)?;
        self.unknown(object, MODEL_KEYS, path);
        if !object.contains_key("id") {
            self.fail(path, "must have required property 'id'");
        }
        Some(ModelEntry {
            id: self.text(object, "id", path).unwrap_or_default(),
            name: self.text(object, "name", path),
            api: self.text(object, "api", path),
            base_url: self.text(object, "baseUrl", path),
            reasoning: self.flag(object, "reasoning", path).unwrap_or(false),
            levels: self.levels(object, path),
            input: self.input(object, path),
            cost: self.cost(object, path, true),
            context_window: self.number(object, "contextWindow", path),
            max_tokens: self.number(object, "maxTokens", path),
            headers: self.headers(object, path),
            compat: self.compat(object, path),
        })
    }

    fn changes(&mut self, value: &Value, path: &str) -> Option<OverrideEntry> {
        let object = self.object(value, path)?;
        self.unknown(object, OVERRIDE_KEYS, path);
        Some(OverrideEntry {
            name: self.text(object, "name", path),
            reasoning: self.flag(object, "reasoning", path),
            levels: self.levels(object, path),
            input: self.input(object, path),
            cost: self.cost(object, path, false),
            context_window: self.number(object, "contextWindow", path),
            max_tokens: self.number(object, "maxTokens", path),
            headers: self.headers(object, path),
            compat: self.compat(object, path),
        })
    }

    fn object<'a>(&mut self, value: &'a Value, path: &str) -> Option<&'a JsonObject> {
        if !value.is_object() {
            self.fail(path, "must be object");
        }
        value.as_object()
    }

    fn text(&mut self, object: &JsonObject, key: &str, path: &str) -> Option<String> {
        match object.get(key)? {
            Value::String(text) if !text.is_empty() => return Some(text.clone()),
            Value::String(_) => self.fail(&format!("{path}/{key}"), "must not have fewer than 1 characters"),
            _ => self.fail(&format!("{path}/{key}"), "must be string"),
        }
        None
    }

    fn flag(&mut self, object: &JsonObject, key: &str, path: &str) -> Option<bool> {
        let value = object.get(key)?;
        if !value.is_boolean() {
            self.fail(&format!("{path}/{key}"), "must be boolean");
        }
        value.as_bool()
    }

    fn number(&mut self, object: &JsonObject, key: &str, path: &str) -> Option<f64> {
        let number = object.get(key)?.as_f64().filter(|number| number.is_finite());
        if number.is_none() {
            self.fail(&format!("{path}/{key}"), "must be number");
        }
        number
    }

    fn compat(&mut self, object: &JsonObject, path: &str) -> Option<JsonObject> {
        self.object(object.get("compat")?, &format!("{path}/compat")).cloned()
    }

    fn headers(&mut self, object: &JsonObject, path: &str) -> Headers {
        let path = format!("{path}/headers");
        let Some(headers) = object.get("headers").and_then(|value| self.object(value, &path)) else { return Headers::new() };
        let mut read = Headers::new();
        for (name, value) in headers {
            let place = format!("{path}/{}", escape(name));
            match value.as_str() {
                None => self.fail(&place, "must be string"),
                Some(_) if !is_header_name(name) => self.fail(&place, "must be the name of a header"),
                Some(value) => read.push((name.clone(), Template::parse(value))),
            }
        }
        read
    }

    fn levels(&mut self, object: &JsonObject, path: &str) -> Option<LevelMap> {
        let path = format!("{path}/thinkingLevelMap");
        let words = self.object(object.get("thinkingLevelMap")?, &path)?;
        self.unknown(words, &ThinkingLevel::ALL.map(ThinkingLevel::as_str), &path);
        let mut map = LevelMap::new();
        for (key, word) in words {
            let Some(level) = ThinkingLevel::parse(key) else { continue };
            match word {
                Value::Null => drop(map.insert(level, None)),
                Value::String(word) => drop(map.insert(level, Some(word.clone()))),
                _ => self.fail(&format!("{path}/{key}"), "must be string or null"),
            }
        }
        Some(map)
    }

    fn input(&mut self, object: &JsonObject, path: &str) -> Option<Vec<String>> {
        let path = format!("{path}/input");
        let Value::Array(kinds) = object.get("input")? else {
            self.fail(&path, "must be array");
            return None;
        };
        let mut read: Vec<String> = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            match kind.as_str() {
                Some(kind @ ("text" | "image")) => read.push(kind.to_owned()),
                _ => self.fail(&format!("{path}/{index}"), "must be equal to one of the allowed values: \"text\", \"image\""),
            }
        }
        Some(read)
    }

    fn cost(&mut self, object: &JsonObject, path: &str, whole: bool) -> Option<PartialCost> {
        let path = format!("{path}/cost");
        let prices = self.object(object.get("cost")?, &path)?;
        self.unknown(prices, &COST_KEYS, &path);
        let [input, output, cache_read, cache_write] = COST_KEYS.map(|key| {
            if whole && !prices.contains_key(key) {
                self.fail(&path, &format!("must have required property '{key}'"));
            }
            self.number(prices, key, &path).map(Number)
        });
        Some(PartialCost { input, output, cache_read, cache_write })
    }

    /// A key that means nothing is most likely a slip.
    fn unknown(&mut self, object: &JsonObject, known: &[&str], path: &str) {
        let unknown = object.keys().filter(|key| !known.contains(&key.as_str()));
        self.warnings.extend(unknown.map(|key| format!("models.json: unknown key {path}/{} is ignored", escape(key))));
    }
}

/// True for a token of HTTP, which the name of a header must be.
fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
