//! `models.json`: a person's own providers, and changes to built-in ones.
//!
//! One faulty provider costs that provider alone; everything that was wrong becomes a diagnostic that names the place and
//! quotes no value, for values may be keys. What the entries do to the list of models is the matter of `assemble`.

mod check;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use wolli_protocol::message::JsonObject;
use wolli_protocol::model::ThinkingLevel;
use wolli_protocol::number::{MAX_SAFE_INTEGER, Number};
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use self::check::Check;
use super::catalogue::Catalogue;
use super::demo::DEMO_PROVIDER;
use super::jsonc::{self, ConfigText};
use crate::indirection::Template;

/// Headers with values that are looked up for each request.
pub(crate) type Headers = Vec<(String, Template)>;

pub(crate) type LevelMap = BTreeMap<ThinkingLevel, Option<String>>;

/// What is said about one provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderEntry {
    pub(crate) name: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key: Option<Template>,
    pub(crate) api: Option<String>,
    pub(crate) headers: Headers,
    pub(crate) compat: Option<JsonObject>,
    pub(crate) auth_header: bool,
    pub(crate) models: Vec<ModelEntry>,
    pub(crate) overrides: Vec<(String, OverrideEntry)>,
}

/// A custom model. Numbers are as they were written; [`tokens`] judges them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelEntry {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) api: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) reasoning: bool,
    pub(crate) levels: Option<LevelMap>,
    pub(crate) input: Option<Vec<String>>,
    pub(crate) cost: Option<PartialCost>,
    pub(crate) context_window: Option<f64>,
    pub(crate) max_tokens: Option<f64>,
    pub(crate) headers: Headers,
    pub(crate) compat: Option<JsonObject>,
}

/// Changes to a built-in model.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverrideEntry {
    pub(crate) name: Option<String>,
    pub(crate) reasoning: Option<bool>,
    pub(crate) levels: Option<LevelMap>,
    pub(crate) input: Option<Vec<String>>,
    pub(crate) cost: Option<PartialCost>,
    pub(crate) context_window: Option<f64>,
    pub(crate) max_tokens: Option<f64>,
    pub(crate) headers: Headers,
    pub(crate) compat: Option<JsonObject>,
}

/// Prices, each of which may be left out in a change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartialCost {
    pub(crate) input: Option<Number>,
    pub(crate) output: Option<Number>,
    pub(crate) cache_read: Option<Number>,
    pub(crate) cache_write: Option<Number>,
}

/// The entries that can be used, in the order of the file, and what was wrong with the others.
#[derive(Debug, Default)]
pub(crate) struct ModelsJson {
    pub(crate) providers: Vec<(String, ProviderEntry)>,
    pub(crate) problems: Vec<ResourceDiagnostic>,
}

/// A whole number of tokens above 0, or `None`. Fractions are cut off, what JavaScript cannot count is capped.
pub(crate) fn tokens(value: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is cut before")]
    let count = value.clamp(0.0, MAX_SAFE_INTEGER) as u64;
    (count > 0).then_some(count)
}

/// Reads the file. A text that is not JSON gives one diagnostic and no entries.
pub(crate) fn read(file: &ConfigText, catalogue: &Catalogue) -> ModelsJson {
    let mut result = ModelsJson::default();
    let document = match jsonc::parse(&file.text) {
        Ok(document) => document,
        Err(detail) => {
            result.problems.push(error(file, &format!("Failed to parse models.json: {detail}")));
            return result;
        }
    };
    let mut violations = Vec::new();
    let mut details = Vec::new();
    let mut warnings = Vec::new();
    match document.get("providers") {
        Some(Value::Object(providers)) => {
            for (id, value) in providers {
                let mut check = Check::default();
                let entry = check.provider(value, &format!("/providers/{}", check::escape(id)));
                warnings.append(&mut check.warnings);
                if !check.violations.is_empty() {
                    violations.append(&mut check.violations);
                } else if let Some(entry) = entry {
                    match judge(id, &entry, catalogue) {
                        Some(detail) => details.push(detail),
                        None => result.providers.push((id.clone(), entry)),
                    }
                }
            }
        }
        Some(_) => violations.push("/providers: must be object".to_owned()),
        None if document.is_object() => violations.push("root: must have required property 'providers'".to_owned()),
        None => violations.push("root: must be object".to_owned()),
    }
    if !violations.is_empty() {
        let lines: Vec<_> = violations.iter().map(|violation| format!("  - {violation}")).collect();
        result.problems.push(error(file, &format!("Invalid models.json schema:\n{}", lines.join("\n"))));
    }
    result.problems.extend(details.iter().map(|detail| error(file, &format!("Failed to load models.json: {detail}"))));
    result.problems.extend(warnings.into_iter().map(|warning| self::warning(file, warning)));
    result
}

/// What makes a well-formed entry useless, if anything does.
fn judge(id: &str, entry: &ProviderEntry, catalogue: &Catalogue) -> Option<String> {
    if id == DEMO_PROVIDER {
        return Some(format!("Provider {id}: is built in and cannot be configured."));
    }
    let says_something = entry.base_url.is_some()
        || entry.api_key.is_some()
        || !entry.headers.is_empty()
        || entry.compat.is_some()
        || !entry.overrides.is_empty()
        || !entry.models.is_empty();
    if !says_something {
        return Some(format!("Provider {id}: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\"."));
    }
    let builtin = catalogue.provider(id);
    if builtin.is_none() && !entry.models.is_empty() {
        if entry.base_url.is_none() {
            return Some(format!("Provider {id}: \"baseUrl\" is required when defining custom models."));
        }
        if entry.api_key.is_none() {
            return Some(format!("Provider {id}: \"apiKey\" is required when defining custom models."));
        }
    }
    let bad = |value: Option<f64>| value.is_some_and(|value| tokens(value).is_none());
    for model in &entry.models {
        let name = &model.id;
        if model.api.is_none() && entry.api.is_none() && builtin.is_none() {
            return Some(format!("Provider {id}, model {name}: no \"api\" specified. Set at provider or model level."));
        }
        if name.trim().is_empty() {
            return Some(format!("Provider {id}: model missing \"id\""));
        }
        if bad(model.context_window) {
            return Some(format!("Provider {id}, model {name}: invalid contextWindow"));
        }
        if bad(model.max_tokens) {
            return Some(format!("Provider {id}, model {name}: invalid maxTokens"));
        }
    }
    for (name, changes) in &entry.overrides {
        if bad(changes.context_window) {
            return Some(format!("Provider {id}, model {name}: invalid contextWindow"));
        }
        if bad(changes.max_tokens) {
            return Some(format!("Provider {id}, model {name}: invalid maxTokens"));
        }
    }
    None
}

fn error(file: &ConfigText, message: &str) -> ResourceDiagnostic {
    let message = format!("{message}\n\nFile: {}", file.path);
    ResourceDiagnostic::new(DiagnosticKind::Error, message, Some(Path::new(&file.path)))
}

/// A warning about the file.
pub(crate) fn warning(file: &ConfigText, message: String) -> ResourceDiagnostic {
    ResourceDiagnostic::new(DiagnosticKind::Warning, message, Some(Path::new(&file.path)))
}

#[cfg(test)]
mod tests;
