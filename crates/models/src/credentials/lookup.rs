//! Finding the key of a provider: which source decides, and what it says.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use secrecy::{ExposeSecret, SecretString};

use super::error::AuthError;
use super::stored::{Credential, CredentialMap, CredentialSource, Tier};
use crate::indirection::{Resolver, Template};

/// Milliseconds since 1970; a plain function, so that tests choose the time.
pub type Clock = fn() -> i64;

/// The clock of the machine.
#[must_use]
pub fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Where else than in the stores a provider's key may stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyPlaces<'a> {
    /// Environment variables; the first that is set counts.
    pub variables: &'a [String],
    /// `apiKey` of `models.json`.
    pub models_json: Option<&'a Template>,
}

/// Which source decides about a provider's key, for selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthStatus {
    Runtime,
    Stored {
        tier: Tier,
        expired: bool,
    },
    /// The name of the variable.
    Environment(String),
    ModelsJsonKey,
    ModelsJsonCommand,
    NotConfigured,
}

impl AuthStatus {
    /// The word that clients know.
    #[must_use]
    pub const fn source(&self) -> Option<&'static str> {
        match self {
            Self::Runtime => Some("runtime"),
            Self::Stored { .. } => Some("stored"),
            Self::Environment(_) => Some("environment"),
            Self::ModelsJsonKey => Some("models_json_key"),
            Self::ModelsJsonCommand => Some("models_json_command"),
            Self::NotConfigured => None,
        }
    }

    /// What to show beside the word.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Runtime => Some("--api-key"),
            Self::Environment(name) => Some(name),
            Self::Stored { .. } | Self::ModelsJsonKey | Self::ModelsJsonCommand | Self::NotConfigured => None,
        }
    }

    /// True if a request has a chance: something is configured and is not known to be over.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        !matches!(self, Self::NotConfigured | Self::Stored { expired: true, .. })
    }
}

/// The source that decides, with what it says.
enum Located<'a> {
    Runtime(&'a SecretString),
    Stored(Tier, Credential),
    Environment(&'a str, &'a str),
    ModelsJson(&'a Template),
}

/// All places where keys are, in their order.
#[derive(Clone)]
pub struct Credentials {
    runtime_keys: BTreeMap<String, SecretString>,
    source: Arc<dyn CredentialSource>,
    resolver: Arc<Resolver>,
    clock: Clock,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overridden: Vec<_> = self.runtime_keys.keys().collect();
        formatter.debug_struct("Credentials").field("runtime_keys", &overridden).finish_non_exhaustive()
    }
}

impl Credentials {
    #[must_use]
    pub fn new(
        runtime_keys: BTreeMap<String, SecretString>,
        source: Arc<dyn CredentialSource>,
        resolver: Arc<Resolver>,
        clock: Clock,
    ) -> Self {
        Self { runtime_keys, source, resolver, clock }
    }

    /// The stored credentials of a tier, as they are now.
    #[must_use]
    pub fn stored(&self, tier: Tier) -> Arc<CredentialMap> {
        self.source.tier(tier)
    }

    /// Which source decides. Never waits, never runs a command.
    #[must_use]
    pub fn status(&self, provider: &str, places: KeyPlaces<'_>) -> AuthStatus {
        match self.locate(provider, places) {
            None => AuthStatus::NotConfigured,
            Some(Located::Runtime(_)) => AuthStatus::Runtime,
            Some(Located::Stored(tier, Credential::ApiKey(_))) => AuthStatus::Stored { tier, expired: false },
            Some(Located::Stored(tier, Credential::OAuth { expires, .. })) => AuthStatus::Stored { tier, expired: self.is_over(expires) },
            Some(Located::Environment(name, _)) => AuthStatus::Environment(name.to_owned()),
            Some(Located::ModelsJson(Template::Command(_))) => AuthStatus::ModelsJsonCommand,
            Some(Located::ModelsJson(template)) if template.is_configured(self.resolver.environment()) => AuthStatus::ModelsJsonKey,
            Some(Located::ModelsJson(_)) => AuthStatus::NotConfigured,
        }
    }

    /// The key of a provider; `None` if no source has one.
    ///
    /// # Errors
    /// If the source that decides cannot be used.
    ///
    /// Cancel-safe: nothing is changed by a lookup.
    pub async fn key(&self, provider: &str, places: KeyPlaces<'_>) -> Result<Option<SecretString>, AuthError> {
        let what = || format!("API key for provider \"{provider}\"");
        let key = match self.locate(provider, places) {
            None => return Ok(None),
            Some(Located::Runtime(key)) => key.clone(),
            Some(Located::Stored(_, Credential::ApiKey(template))) => self.resolver.resolve(&template, what).await?,
            Some(Located::Stored(_, Credential::OAuth { expires, .. })) if self.is_over(expires) => {
                return Err(AuthError::LoginExpired { provider: provider.to_owned() });
            }
            Some(Located::Stored(_, Credential::OAuth { access, .. })) => access,
            Some(Located::Environment(_, value)) => value.into(),
            Some(Located::ModelsJson(template)) => self.resolver.resolve(template, what).await?,
        };
        if !is_sendable(key.expose_secret()) {
            return Err(AuthError::Unsendable { what: what() });
        }
        Ok(Some(key).filter(|key| !key.expose_secret().is_empty()))
    }

    /// All keys that are known without running a command: given to the process, and stored in either tier.
    #[must_use]
    pub fn known_secrets(&self) -> Vec<SecretString> {
        let mut secrets: Vec<_> = self.runtime_keys.values().cloned().collect();
        for tier in Tier::IN_ORDER {
            let stored = self.source.tier(tier);
            for credential in stored.providers().filter_map(|provider| stored.get(provider)) {
                match credential {
                    Credential::ApiKey(template) => secrets.extend(self.resolver.known(template)),
                    Credential::OAuth { access, .. } => secrets.push(access.clone()),
                }
            }
        }
        secrets
    }

    fn locate<'a>(&'a self, provider: &str, places: KeyPlaces<'a>) -> Option<Located<'a>> {
        if let Some(key) = self.runtime_keys.get(provider) {
            return Some(Located::Runtime(key));
        }
        for tier in Tier::IN_ORDER {
            if let Some(credential) = self.source.tier(tier).get(provider) {
                return Some(Located::Stored(tier, credential.clone()));
            }
        }
        let environment = self.resolver.environment();
        let set = places.variables.iter().find_map(|name| environment.get(name).map(|value| Located::Environment(name, value)));
        set.or_else(|| places.models_json.map(Located::ModelsJson))
    }

    fn is_over(&self, expires: i64) -> bool {
        (self.clock)() >= expires
    }
}

/// True if a header can carry the text: no control characters but the tab.
pub(crate) fn is_sendable(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
}
