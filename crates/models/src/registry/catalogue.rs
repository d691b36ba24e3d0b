//! The catalogue: providers in the order in which a default is looked for, and the models that are known without asking.
//!
//! The shipped one is a data file; a person may replace it with a text of the same shape. A row that is wrong is left out
//! and reported. Prices that nobody has checked are marked `"pricing": "unknown"` beside the record, which keeps the
//! record itself in the shape of the wire.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use wolli_protocol::model::Model;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use super::jsonc::{self, ConfigText};

/// The catalogue that this build ships.
pub(crate) const BUILTIN: &str = include_str!("../../../../config/catalogue.json");

/// Wire kinds that this version speaks.
const SUPPORTED: [&str; 3] = ["anthropic-messages", "openai-completions", super::demo::DEMO_API];

/// True if models of this wire kind can be used; rows of other kinds are known but never available.
#[must_use]
pub fn supported_apis(api: &str) -> bool {
    SUPPORTED.contains(&api)
}

/// Whether a model's prices can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pricing {
    Known,
    /// The numbers are placeholders.
    Unknown,
}

/// A provider that is built in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ProviderRow {
    pub(crate) id: String,
    /// Display name; a provider without one offers no login with a key.
    pub(crate) name: Option<String>,
    /// Wire kind of models that do not name one.
    pub(crate) api: String,
    pub(crate) base_url: String,
    /// Environment variables with its key; the first that is set counts.
    pub(crate) env: Vec<String>,
    pub(crate) default_model: String,
}

/// A model and what is known about its prices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) model: Model,
    pub(crate) pricing: Pricing,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) providers: Vec<ProviderRow>,
    pub(crate) models: Vec<Listed>,
}

impl Catalogue {
    /// The person's catalogue if there is one that can be read, else the shipped one; with what was wrong.
    pub(crate) fn load(replacement: Option<&ConfigText>) -> (Self, Vec<ResourceDiagnostic>) {
        let mut problems = Vec::new();
        if let Some(file) = replacement {
            match Self::parse(&file.text) {
                Ok((catalogue, faults)) => {
                    return (catalogue, faults.into_iter().map(|fault| problem(fault, Some(file))).collect());
                }
                Err(detail) => {
                    problems.push(problem(format!("Failed to load the model catalogue: {detail}; the built-in one is used"), Some(file)))
                }
            }
        }
        let (catalogue, faults) = Self::parse(BUILTIN).unwrap_or_else(|detail| (Self::default(), vec![detail]));
        problems.extend(faults.into_iter().map(|fault| problem(fault, None)));
        (catalogue, problems)
    }

    pub(crate) fn provider(&self, id: &str) -> Option<&ProviderRow> {
        self.providers.iter().find(|row| row.id == id)
    }

    /// Reads a catalogue; faulty rows are left out and named.
    fn parse(text: &str) -> Result<(Self, Vec<String>), String> {
        let mut document = jsonc::parse(text)?;
        let mut take = |key: &str| match document.get_mut(key).map(Value::take) {
            Some(Value::Array(rows)) => Ok(rows),
            _ => Err(format!("\"{key}\" must be array")),
        };
        let (providers, models) = (take("providers")?, take("models")?);
        let mut catalogue = Self::default();
        let mut faults = Vec::new();
        for (index, row) in providers.into_iter().enumerate() {
            match serde_json::from_value::<ProviderRow>(row) {
                Ok(row) if row.id == super::demo::DEMO_PROVIDER => faults.push(format!("/providers/{index}: \"{}\" is built in", row.id)),
                Ok(row) if catalogue.provider(&row.id).is_none() => catalogue.providers.push(row),
                Ok(row) => faults.push(format!("/providers/{index}: provider \"{}\" is listed twice", row.id)),
                Err(error) => faults.push(format!("/providers/{index}: {error}")),
            }
        }
        for (index, mut row) in models.into_iter().enumerate() {
            let pricing = match row.as_object_mut().and_then(|row| row.shift_remove("pricing")) {
                None => Pricing::Known,
                Some(_) => Pricing::Unknown,
            };
            match serde_json::from_value::<Model>(row) {
                Ok(model) if catalogue.provider(&model.provider).is_none() => {
                    faults.push(format!("/models/{index}: unknown provider \"{}\"", model.provider));
                }
                Ok(model) if model.context_window == 0 || model.max_tokens == 0 => {
                    faults.push(format!("/models/{index}: contextWindow and maxTokens must be greater than 0"));
                }
                Ok(model) => catalogue.models.push(Listed { model, pricing }),
                Err(error) => faults.push(format!("/models/{index}: {error}")),
            }
        }
        if catalogue.models.is_empty() { Err("no model can be read".to_owned()) } else { Ok((catalogue, faults)) }
    }
}

fn problem(message: String, file: Option<&ConfigText>) -> ResourceDiagnostic {
    ResourceDiagnostic::new(DiagnosticKind::Error, message, file.map(|file| Path::new(&file.path)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn builtin() -> Catalogue {
        let (catalogue, problems) = Catalogue::load(None);
        assert_eq!(problems, []);
        catalogue
    }

    /// Each row has exactly the keys of the record, in its order, with its types: it comes back byte for byte.
    #[test]
    fn every_row_is_a_model_record() {
        let schema = schemars::schema_for!(Model);
        let document: Value = serde_json::from_str(BUILTIN).unwrap();
        let known = schema.get("properties").and_then(Value::as_object).unwrap();
        let required = schema.get("required").and_then(Value::as_array).unwrap();
        for row in document["models"].as_array().unwrap() {
            let mut row = row.as_object().unwrap().clone();
            if let Some(pricing) = row.shift_remove("pricing") {
                assert_eq!(pricing, "unknown");
                assert_eq!(row["cost"], serde_json::json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}));
            }
            for key in row.keys() {
                assert!(known.contains_key(key), "{key} in {row:?}");
            }
            for key in required {
                assert!(row.contains_key(key.as_str().unwrap()), "{key} missing in {row:?}");
            }
            let model: Model = serde_json::from_value(Value::Object(row.clone())).unwrap();
            assert_eq!(serde_json::to_string(&model).unwrap(), serde_json::to_string(&row).unwrap());
        }
    }

    #[test]
    fn rows_are_unique_and_belong_to_a_provider_and_kind() {
        let catalogue = builtin();
        assert_eq!(catalogue.providers.len(), 35);
        let mut seen = BTreeSet::new();
        for Listed { model, .. } in &catalogue.models {
            assert!(seen.insert(model.reference()), "{} twice", model.reference());
            let provider = catalogue.provider(&model.provider).unwrap();
            assert_eq!((&model.api, &model.base_url), (&provider.api, &provider.base_url), "{}", model.reference());
            assert!(model.input[0] == "text" && model.input.len() <= 2);
        }
    }

    #[test]
    fn compat_switches_of_the_rows_are_known() {
        for Listed { model, .. } in builtin().models {
            if let Some(compat) = &model.compat {
                let (_, problems) = super::super::compat::check(&[&model.api], compat);
                assert!(problems.is_empty(), "{}: {problems:?}", model.reference());
            }
        }
    }

    /// Providers that can be used have their default, but the one that asks its callers to name another program.
    #[test]
    fn every_usable_provider_has_its_default_row() {
        let catalogue = builtin();
        let without: Vec<_> = catalogue
            .providers
            .iter()
            .filter(|row| supported_apis(&row.api))
            .filter(|row| !catalogue.models.iter().any(|listed| listed.model.provider == row.id && listed.model.id == row.default_model))
            .map(|row| row.id.as_str())
            .collect();
        assert_eq!(without, ["github-copilot"]);
    }

    #[test]
    fn no_row_names_another_program() {
        for Listed { model, .. } in builtin().models {
            let headers: Vec<_> = model.headers.unwrap_or_default().into_iter().collect();
            let expected: &[(String, String)] = match model.provider.as_str() {
                "nvidia" => &[("NVCF-POLL-SECONDS".into(), "3600".into())],
                _ => &[],
            };
            assert_eq!(headers, expected);
        }
    }

    #[test]
    fn a_replacement_counts_and_a_broken_one_does_not() {
        let file = |text: &str| ConfigText { path: "/r/catalogue.json".into(), text: text.into() };
        let provider = r#"{"id": "p", "api": "openai-completions", "baseUrl": "http://h", "env": [], "defaultModel": "m",}"#;
        let model = r#"{"id": "m", "name": "m", "api": "openai-completions", "provider": "p", "baseUrl": "http://h", "reasoning": false,
            "input": ["text"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 1, "maxTokens": 1}"#;
        let text =
            format!("{{\"providers\": [{provider}, {provider}], \"models\": [{model}, {{}}, {}] }}", model.replace("\"p\"", "\"q\""));
        let (catalogue, problems) = Catalogue::load(Some(&file(&text)));
        assert_eq!((catalogue.providers.len(), catalogue.models.len()), (1, 1));
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            ["/providers/1: provider \"p\" is listed twice", "/models/1: missing field `id`", "/models/2: unknown provider \"q\""]
        );
        assert!(problems.iter().all(|problem| problem.path.as_deref() == Some("/r/catalogue.json")));

        for (broken, detail) in [
            ("", "the file is empty"),
            ("[]", "\"providers\" must be array"),
            ("{\"providers\": [], \"models\": []}", "no model can be read"),
        ] {
            let (catalogue, problems) = Catalogue::load(Some(&file(broken)));
            assert_eq!(catalogue.models, builtin().models);
            assert_eq!(problems[0].message, format!("Failed to load the model catalogue: {detail}; the built-in one is used"));
        }
    }
}
