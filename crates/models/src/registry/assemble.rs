//! The list of models: catalogue rows, changed and extended by `models.json`.
//!
//! Order: rows; then a provider's `baseUrl` and `compat`; then `modelOverrides`; then custom models, which replace a row of
//! the same provider and id in its place and take nothing over from it. What must not be on the wire (keys, headers with
//! looked-up values) goes into [`ProviderSettings`] instead of the record.

use std::collections::BTreeMap;

use wolli_protocol::message::JsonObject;
use wolli_protocol::model::{Model, ModelCost};
use wolli_protocol::resource::ResourceDiagnostic;

use super::catalogue::{Catalogue, Listed, Pricing};
use super::compat;
use super::jsonc::ConfigText;
use super::models_json::{self, Headers, ModelEntry, OverrideEntry, PartialCost, ProviderEntry, tokens};
use crate::indirection::Template;

/// Tokens of a custom model that does not say.
const DEFAULT_CONTEXT_WINDOW: u64 = 128_000;

/// Output cap of a custom model that does not say.
const DEFAULT_MAX_TOKENS: u64 = 16_384;

/// How requests to a provider are made; never sent to clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderSettings {
    pub(crate) name: Option<String>,
    pub(crate) api_key: Option<Template>,
    pub(crate) auth_header: bool,
    pub(crate) headers: Headers,
    /// By model id.
    pub(crate) model_headers: BTreeMap<String, Headers>,
}

#[derive(Debug, Default)]
pub(crate) struct Assembled {
    pub(crate) models: Vec<Listed>,
    pub(crate) settings: BTreeMap<String, ProviderSettings>,
    pub(crate) problems: Vec<ResourceDiagnostic>,
}

/// Lays `models.json` on the catalogue.
pub(crate) fn assemble(catalogue: &Catalogue, file: Option<&ConfigText>) -> Assembled {
    let mut assembled = Assembled { models: catalogue.models.clone(), ..Assembled::default() };
    let Some(file) = file else { return assembled };
    let mut read = models_json::read(file, catalogue);
    assembled.problems.append(&mut read.problems);
    for (provider, entry) in read.providers {
        let mut slips = Vec::new();
        lay(&mut assembled, catalogue, &provider, entry, &mut slips);
        assembled.problems.extend(slips.into_iter().map(|slip| models_json::warning(file, slip)));
    }
    assembled
}

fn lay(assembled: &mut Assembled, catalogue: &Catalogue, provider: &str, entry: ProviderEntry, slips: &mut Vec<String>) {
    let defaults = Defaults::of(catalogue, provider, &entry);
    let common = check_provider_compat(assembled, provider, &entry, &defaults, slips);
    let mut settings = ProviderSettings {
        name: entry.name,
        api_key: entry.api_key,
        auth_header: entry.auth_header,
        headers: entry.headers,
        model_headers: BTreeMap::new(),
    };
    for Listed { model, .. } in assembled.models.iter_mut().filter(|listed| listed.model.provider == provider) {
        if let Some(url) = &entry.base_url {
            model.base_url.clone_from(url);
        }
        model.compat = compat::merge(model.compat.as_ref(), common.as_ref());
    }
    for (id, changes) in entry.overrides {
        let Some(listed) = assembled.models.iter_mut().find(|listed| is(&listed.model, provider, &id)) else { continue };
        if !changes.headers.is_empty() {
            settings.model_headers.insert(id, changes.headers.clone());
        }
        change(listed, changes, slips);
    }
    for model in entry.models {
        settings.model_headers.remove(&model.id);
        if !model.headers.is_empty() {
            settings.model_headers.insert(model.id.clone(), model.headers.clone());
        }
        let listed = custom(provider, model, &defaults, common.as_ref(), slips);
        match assembled.models.iter_mut().find(|known| is(&known.model, provider, &listed.model.id)) {
            Some(slot) => *slot = listed,
            None => assembled.models.push(listed),
        }
    }
    assembled.settings.insert(provider.to_owned(), settings);
}

fn is(model: &Model, provider: &str, id: &str) -> bool {
    model.provider == provider && model.id == id
}

/// Where custom models of a provider go unless they say otherwise.
struct Defaults {
    api: String,
    base_url: String,
}

impl Defaults {
    fn of(catalogue: &Catalogue, provider: &str, entry: &ProviderEntry) -> Self {
        let row = catalogue.models.iter().map(|listed| &listed.model).find(|model| model.provider == provider);
        let builtin = catalogue.provider(provider);
        let api = row.map(|row| &row.api).or(builtin.map(|builtin| &builtin.api));
        let base_url = row.map(|row| &row.base_url).or(builtin.map(|builtin| &builtin.base_url));
        Self {
            api: entry.api.as_ref().or(api).cloned().unwrap_or_default(),
            base_url: entry.base_url.as_ref().or(base_url).cloned().unwrap_or_default(),
        }
    }
}

/// The provider's own switches, checked against all kinds that its models speak.
fn check_provider_compat(
    assembled: &Assembled,
    provider: &str,
    entry: &ProviderEntry,
    defaults: &Defaults,
    slips: &mut Vec<String>,
) -> Option<JsonObject> {
    let switches = entry.compat.as_ref()?;
    let rows = assembled.models.iter().map(|listed| &listed.model).filter(|model| model.provider == provider);
    let customs = entry.models.iter().map(|model| model.api.as_ref().unwrap_or(&defaults.api));
    let mut apis: Vec<&str> = rows.map(|model| &model.api).chain(customs).map(String::as_str).collect();
    apis.sort_unstable();
    apis.dedup();
    let (usable, problems) = compat::check(&apis, switches);
    slips.extend(problems.into_iter().map(|problem| format!("Provider {provider}: {problem}")));
    Some(usable)
}

fn check_model_compat(model: &Model, switches: Option<&JsonObject>, slips: &mut Vec<String>) -> Option<JsonObject> {
    let (usable, problems) = compat::check(&[&model.api], switches?);
    slips.extend(problems.into_iter().map(|problem| format!("Provider {}, model {}: {problem}", model.provider, model.id)));
    Some(usable)
}

fn change(listed: &mut Listed, changes: OverrideEntry, slips: &mut Vec<String>) {
    let model = &mut listed.model;
    let switches = check_model_compat(model, changes.compat.as_ref(), slips);
    model.compat = compat::merge(model.compat.as_ref(), switches.as_ref());
    if let Some(name) = changes.name {
        model.name = name;
    }
    if let Some(reasoning) = changes.reasoning {
        model.reasoning = reasoning;
    }
    if let Some(levels) = changes.levels {
        model.thinking_level_map.get_or_insert_default().extend(levels);
    }
    if let Some(input) = changes.input {
        model.input = input;
    }
    if let Some(prices) = changes.cost {
        model.cost = laid(model.cost, prices);
        // The placeholders of a row without prices stay placeholders until both prices that always count are given.
        if prices.input.is_some() && prices.output.is_some() {
            listed.pricing = Pricing::Known;
        }
    }
    if let Some(count) = changes.context_window.and_then(tokens) {
        model.context_window = count;
    }
    if let Some(count) = changes.max_tokens.and_then(tokens) {
        model.max_tokens = count;
    }
}

fn custom(provider: &str, entry: ModelEntry, defaults: &Defaults, common: Option<&JsonObject>, slips: &mut Vec<String>) -> Listed {
    let mut model = Model {
        name: entry.name.unwrap_or_else(|| entry.id.clone()),
        id: entry.id,
        api: entry.api.unwrap_or_else(|| defaults.api.clone()),
        provider: provider.to_owned(),
        base_url: entry.base_url.unwrap_or_else(|| defaults.base_url.clone()),
        reasoning: entry.reasoning,
        thinking_level_map: entry.levels,
        input: entry.input.unwrap_or_else(|| vec!["text".to_owned()]),
        cost: entry.cost.map(|prices| laid(ModelCost::default(), prices)).unwrap_or_default(),
        context_window: entry.context_window.and_then(tokens).unwrap_or(DEFAULT_CONTEXT_WINDOW),
        max_tokens: entry.max_tokens.and_then(tokens).unwrap_or(DEFAULT_MAX_TOKENS),
        headers: None,
        compat: None,
    };
    let own = check_model_compat(&model, entry.compat.as_ref(), slips);
    model.compat = compat::merge(common, own.as_ref());
    // Nobody said what it costs; 0 may be true, but it may not.
    let pricing = if entry.cost.is_some() { Pricing::Known } else { Pricing::Unknown };
    Listed { model, pricing }
}

fn laid(base: ModelCost, over: PartialCost) -> ModelCost {
    ModelCost {
        input: over.input.unwrap_or(base.input),
        output: over.output.unwrap_or(base.output),
        cache_read: over.cache_read.unwrap_or(base.cache_read),
        cache_write: over.cache_write.unwrap_or(base.cache_write),
    }
}
