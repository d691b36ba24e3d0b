//! The registry: all models of this moment, and what a request to one of them needs.
//!
//! It does not change once loaded; after a login, a logout or an edited file the owner loads another. Only credentials
//! are asked anew each time, so that a key that is stored now counts for the next request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use wolli_protocol::model::Model;
use wolli_protocol::resource::{AuthSelectorProvider, ResourceDiagnostic};

use super::assemble::{ProviderSettings, assemble};
use super::attribution;
use super::catalogue::{Catalogue, Listed, Pricing, ProviderRow, supported_apis};
use super::demo::{DEMO_MODEL, DEMO_PROVIDER, demo_model};
use super::jsonc::ConfigText;
use super::reference;
use super::scope::{self, Scope};
use crate::auth::RequestAuth;
use crate::credentials::{AuthError, AuthStatus, Clock, Credential, CredentialSource, Credentials, KeyPlaces, Tier, is_sendable};
use crate::indirection::Resolver;

/// Everything a registry is made of; files are handed in as texts.
pub struct RegistryInputs {
    /// A catalogue that stands in for the shipped one.
    pub catalogue_override: Option<ConfigText>,
    pub models_json: Option<ConfigText>,
    /// Keeps results of commands over reloads; knows the environment.
    pub resolver: Arc<Resolver>,
    pub credentials: Arc<dyn CredentialSource>,
    /// Keys given to this process alone, by provider.
    pub runtime_keys: BTreeMap<String, SecretString>,
    pub clock: Clock,
    /// Models that the program answers for itself; listed first, and usable without credentials.
    pub provided: Vec<Model>,
    /// `models.demo`: whether the demonstration model is listed and may stand in for a missing one.
    pub demo: bool,
}

impl fmt::Debug for RegistryInputs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RegistryInputs")
            .field("catalogue_override", &self.catalogue_override)
            .field("models_json", &self.models_json)
            .field("runtime_keys", &self.runtime_keys.keys())
            .field("demo", &self.demo)
            .finish_non_exhaustive()
    }
}

/// Why a model cannot be chosen. The texts reach people and are fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The reference as it was given: `provider/id`, or a bare id.
    #[error("Model not found: {reference}")]
    NotFound { reference: String },
    #[error("No configured credentials for {provider}/{id}.")]
    NoCredentials { provider: String, id: String },
    #[error("login expired for \"{provider}\". Run /login to authenticate.")]
    LoginExpired { provider: String },
    #[error("Model {provider}/{id} speaks {api}, which this version does not support.")]
    UnsupportedApi { provider: String, id: String, api: String },
}

/// All models, and how requests to them are authenticated.
#[derive(Debug)]
pub struct Registry {
    providers: Vec<ProviderRow>,
    models: Vec<Listed>,
    provided: Vec<Model>,
    demo_model: Model,
    pub(super) demo: bool,
    settings: BTreeMap<String, ProviderSettings>,
    credentials: Credentials,
    resolver: Arc<Resolver>,
    telemetry: bool,
    diagnostics: Vec<ResourceDiagnostic>,
}

impl Registry {
    /// Lays the inputs over each other. Never fails: what cannot be used is left out and stands in [`Self::diagnostics`].
    #[must_use]
    pub fn load(inputs: RegistryInputs) -> Self {
        let (catalogue, mut diagnostics) = Catalogue::load(inputs.catalogue_override.as_ref());
        let mut assembled = assemble(&catalogue, inputs.models_json.as_ref());
        diagnostics.append(&mut assembled.problems);
        Self {
            providers: catalogue.providers,
            models: assembled.models,
            provided: inputs.provided,
            demo_model: demo_model(),
            demo: inputs.demo,
            settings: assembled.settings,
            credentials: Credentials::new(inputs.runtime_keys, inputs.credentials, inputs.resolver.clone(), inputs.clock),
            telemetry: attribution::telemetry(inputs.resolver.environment()),
            resolver: inputs.resolver,
            diagnostics,
        }
    }

    /// What was wrong with the files.
    #[must_use]
    pub fn diagnostics(&self) -> &[ResourceDiagnostic] {
        &self.diagnostics
    }

    /// All models, usable or not; the demonstration last.
    #[must_use]
    pub fn models(&self) -> Vec<&Model> {
        let demo = self.demo.then_some(&self.demo_model);
        let listed = self.models.iter().map(|listed| &listed.model).filter(|model| !self.is_provided(&model.provider, &model.id));
        self.provided.iter().chain(listed).chain(demo).collect()
    }

    /// The models that can be used now: their wire kind is supported and a key is configured. Asks no network.
    #[must_use]
    pub fn available(&self) -> Vec<&Model> {
        let mut usable = BTreeMap::new();
        let mut has = |provider: &str| match usable.get(provider) {
            Some(known) => *known,
            None => {
                let answer = self.has_credentials(provider);
                usable.insert(provider.to_owned(), answer);
                answer
            }
        };
        let mut can_be_used =
            |model: &Model| self.is_provided(&model.provider, &model.id) || (supported_apis(&model.api) && has(&model.provider));
        self.models().into_iter().filter(|model| can_be_used(model)).collect()
    }

    /// The model of exactly this provider and id. The demonstration model is found whether or not it is listed.
    #[must_use]
    pub fn find(&self, provider: &str, id: &str) -> Option<&Model> {
        if provider == DEMO_PROVIDER && id == DEMO_MODEL {
            return Some(&self.demo_model);
        }
        let listed = self.models.iter().map(|listed| &listed.model);
        self.provided.iter().chain(listed).find(|model| model.provider == provider && model.id == id)
    }

    /// True if the program answers for this model itself.
    fn is_provided(&self, provider: &str, id: &str) -> bool {
        self.provided.iter().any(|model| model.provider == provider && model.id == id)
    }

    /// The model, if it can be chosen by name.
    ///
    /// # Errors
    /// If there is no such model, or requests to it could not go out.
    pub fn select(&self, provider: &str, id: &str) -> Result<&Model, SelectError> {
        let names = || (provider.to_owned(), id.to_owned());
        let Some(model) = self.find(provider, id) else {
            return Err(SelectError::NotFound { reference: format!("{provider}/{id}") });
        };
        if self.is_provided(provider, id) {
            return Ok(model);
        }
        if !supported_apis(&model.api) {
            let (provider, id) = names();
            return Err(SelectError::UnsupportedApi { provider, id, api: model.api.clone() });
        }
        match self.auth_status(provider) {
            _ if provider == DEMO_PROVIDER => Ok(model),
            AuthStatus::Stored { expired: true, .. } => Err(SelectError::LoginExpired { provider: provider.to_owned() }),
            status if status.is_usable() => Ok(model),
            _ => {
                let (provider, id) = names();
                Err(SelectError::NoCredentials { provider, id })
            }
        }
    }

    /// The one available model that a reference names exactly (`/model <term>`).
    #[must_use]
    pub fn match_exact(&self, reference: &str) -> Option<&Model> {
        reference::exact(reference, &self.available())
    }

    /// The models that a list of patterns stands for, among the available ones.
    #[must_use]
    pub fn scope(&self, patterns: &[impl AsRef<str>]) -> Scope<'_> {
        scope::scope(patterns, &self.available())
    }

    /// Providers in the order in which a default is looked for, with their default models.
    pub(super) fn provider_defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.providers.iter().map(|row| (row.id.as_str(), row.default_model.as_str()))
    }

    /// Whether a model's prices can be believed; those of models that are not listed cannot.
    #[must_use]
    pub fn pricing(&self, provider: &str, id: &str) -> Pricing {
        if provider == DEMO_PROVIDER || self.is_provided(provider, id) {
            return Pricing::Known;
        }
        let listed = self.models.iter().find(|listed| listed.model.provider == provider && listed.model.id == id);
        listed.map_or(Pricing::Unknown, |listed| listed.pricing)
    }

    /// The name to show for a provider: the person's own, else the built-in one, else its id.
    #[must_use]
    pub fn display_name<'a>(&'a self, provider: &'a str) -> &'a str {
        let own = self.settings.get(provider).and_then(|settings| settings.name.as_deref());
        let builtin = || self.row(provider).and_then(|row| row.name.as_deref());
        own.or_else(builtin).unwrap_or(provider)
    }

    /// Providers for which a key can be stored: built-in ones with a name, and the person's own; by name.
    #[must_use]
    pub fn key_login_providers(&self) -> Vec<AuthSelectorProvider> {
        let builtin = self.providers.iter().filter(|row| row.name.is_some()).map(|row| row.id.as_str());
        let own = self.settings.keys().map(String::as_str).filter(|id| self.row(id).is_none());
        let mut all: Vec<_> = builtin.chain(own).map(|id| self.entry(id, "api_key")).collect();
        all.sort_by_cached_key(order);
        all
    }

    /// Providers with a stored credential in either tier; by name.
    #[must_use]
    pub fn logout_providers(&self) -> Vec<AuthSelectorProvider> {
        let mut all = Vec::new();
        for tier in Tier::IN_ORDER {
            let stored = self.credentials.stored(tier);
            for provider in stored.providers() {
                let kind = match stored.get(provider) {
                    Some(Credential::OAuth { .. }) => "oauth",
                    Some(Credential::ApiKey(_)) | None => "api_key",
                };
                let entry = self.entry(provider, kind);
                if !all.contains(&entry) {
                    all.push(entry);
                }
            }
        }
        all.sort_by_cached_key(order);
        all
    }

    /// Values that must not appear in a tool's output, a session file or a log: every key that is known without running a
    /// command, and headers whose name says that they carry one. Empty values and repeats are left out.
    #[must_use]
    pub fn known_secrets(&self) -> Vec<SecretString> {
        let mut secrets = self.credentials.known_secrets();
        let environment = self.resolver.environment();
        let variables = self.providers.iter().flat_map(|row| &row.env);
        secrets.extend(variables.filter_map(|name| environment.get(name)).map(SecretString::from));
        for settings in self.settings.values() {
            secrets.extend(settings.api_key.iter().filter_map(|template| self.resolver.known(template)));
            let headers = settings.headers.iter().chain(settings.model_headers.values().flatten());
            let secret = headers.filter(|(name, _)| is_secret_header(name));
            secrets.extend(secret.filter_map(|(_, template)| self.resolver.known(template)));
        }
        secrets.sort_by(|left, right| left.expose_secret().cmp(right.expose_secret()));
        secrets.dedup_by(|left, right| left.expose_secret() == right.expose_secret());
        secrets.retain(|secret| !secret.expose_secret().is_empty());
        secrets
    }

    fn entry(&self, provider: &str, kind: &str) -> AuthSelectorProvider {
        AuthSelectorProvider { id: provider.to_owned(), name: self.display_name(provider).to_owned(), auth_type: kind.to_owned() }
    }

    fn row(&self, provider: &str) -> Option<&ProviderRow> {
        self.providers.iter().find(|row| row.id == provider)
    }

    fn places(&self, provider: &str) -> KeyPlaces<'_> {
        KeyPlaces {
            variables: self.row(provider).map(|row| row.env.as_slice()).unwrap_or_default(),
            models_json: self.settings.get(provider).and_then(|settings| settings.api_key.as_ref()),
        }
    }

    /// Where the key of a provider comes from.
    #[must_use]
    pub fn auth_status(&self, provider: &str) -> AuthStatus {
        self.credentials.status(provider, self.places(provider))
    }

    /// True if requests to the provider have a chance. The demonstration needs no key.
    #[must_use]
    pub fn has_credentials(&self, provider: &str) -> bool {
        provider == DEMO_PROVIDER || self.auth_status(provider).is_usable()
    }

    /// The key and headers of one request. `session` is the id of the session that asks, for providers that route by it.
    ///
    /// Later headers win: attribution, the model's own, the provider's and then the model's of `models.json`, the key.
    ///
    /// # Errors
    /// If there is no key, or a key or header cannot be looked up or sent.
    ///
    /// Cancel-safe: nothing is changed by a lookup.
    pub async fn resolve_auth(&self, model: &Model, session: Option<&str>) -> Result<RequestAuth, AuthError> {
        let provider = model.provider.as_str();
        let mut auth = RequestAuth::default();
        if provider == DEMO_PROVIDER || self.is_provided(provider, &model.id) {
            return Ok(auth);
        }
        let settings = self.settings.get(provider);
        let bearer = settings.is_some_and(|settings| settings.auth_header);
        let Some(key) = self.credentials.key(provider, self.places(provider)).await? else {
            let provider = provider.to_owned();
            return Err(if bearer { AuthError::NoKeyForHeader { provider } } else { AuthError::NoKey { provider } });
        };
        for (name, value) in attribution::headers(model, self.telemetry, session) {
            auth.set_header(name, value.into());
        }
        for (name, value) in model.headers.iter().flatten() {
            auth.set_header(name, value.as_str().into());
        }
        if let Some(settings) = settings {
            let place = |name: &str| format!("provider \"{provider}\" header \"{name}\"");
            for (name, template) in &settings.headers {
                auth.set_header(name, self.resolver.resolve(template, || place(name)).await?);
            }
            let place = |name: &str| format!("model \"{provider}/{}\" header \"{name}\"", model.id);
            for (name, template) in settings.model_headers.get(&model.id).into_iter().flatten() {
                auth.set_header(name, self.resolver.resolve(template, || place(name)).await?);
            }
        }
        if bearer {
            auth.set_header("Authorization", format!("Bearer {}", key.expose_secret()).into());
        }
        if let Some((name, _)) = auth.headers.iter().find(|(_, value)| !is_sendable(value.expose_secret())) {
            return Err(AuthError::Unsendable { what: format!("provider \"{provider}\" header \"{name}\"") });
        }
        auth.key = Some(key);
        Ok(auth)
    }

    /// The model with the placeholders of its base URL filled in from the environment; call it for each request.
    ///
    /// Only the two Cloudflare providers have placeholders; URLs of all others are taken as they stand.
    ///
    /// # Errors
    /// If a variable that the URL names is not set.
    pub fn at_endpoint(&self, model: &Model) -> Result<Model, AuthError> {
        let mut placed = model.clone();
        if !model.provider.starts_with("cloudflare-") {
            return Ok(placed);
        }
        let mut url = String::new();
        let mut rest = model.base_url.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((variable, tail)) = after.split_once('}') else { break };
            let missing = || AuthError::MissingVariable { variable: variable.to_owned(), provider: model.provider.clone() };
            url.push_str(before);
            url.push_str(self.resolver.environment().get(variable).ok_or_else(missing)?);
            rest = tail;
        }
        url.push_str(rest);
        placed.base_url = url;
        Ok(placed)
    }
}

/// By name, as a person looks for one: capitals do not count.
fn order(entry: &AuthSelectorProvider) -> (String, String, String) {
    (entry.name.to_lowercase(), entry.id.clone(), entry.auth_type.clone())
}

/// True if a header of this name usually carries a credential.
fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}
