//! What `auth.json` says about a provider, and the port through which it comes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::Value;
use wolli_protocol::message::JsonObject;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use crate::indirection::Template;

/// The two files of credentials, in the order in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// `auth.json` of one agent.
    Agent,
    /// `auth.json` of all agents.
    Shared,
}

impl Tier {
    pub const IN_ORDER: [Self; 2] = [Self::Agent, Self::Shared];
}

/// One stored credential. `Debug` shows its kind alone.
#[derive(Clone)]
pub enum Credential {
    /// A key as it was typed; it may name a variable or a command.
    ApiKey(Template),
    /// A token that is good until `expires`, in milliseconds since 1970.
    OAuth { access: SecretString, expires: i64 },
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey(_) => formatter.write_str("ApiKey([redacted])"),
            Self::OAuth { expires, .. } => write!(formatter, "OAuth([redacted], expires {expires})"),
        }
    }
}

/// The credentials of one file, by provider.
#[derive(Clone, Debug, Default)]
pub struct CredentialMap(BTreeMap<String, Credential>);

impl CredentialMap {
    /// Reads a parsed `auth.json`. An entry that cannot be understood counts as absent and is reported, without its value.
    #[must_use]
    pub fn from_json(object: &JsonObject, path: &str) -> (Self, Vec<ResourceDiagnostic>) {
        let mut map = BTreeMap::new();
        let mut diagnostics = Vec::new();
        for (provider, entry) in object {
            match read(entry) {
                Ok(credential) => {
                    map.insert(provider.clone(), credential);
                }
                Err(problem) => {
                    let message = format!("credential of \"{provider}\" is ignored: {problem}");
                    diagnostics.push(ResourceDiagnostic::new(DiagnosticKind::Warning, message, Some(Path::new(path))));
                }
            }
        }
        (Self(map), diagnostics)
    }

    #[must_use]
    pub fn get(&self, provider: &str) -> Option<&Credential> {
        self.0.get(provider)
    }

    /// Providers in alphabetical order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn read(entry: &Value) -> Result<Credential, &'static str> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match text("type") {
        Some("api_key") => Ok(Credential::ApiKey(Template::parse(text("key").ok_or("\"key\" must be a string of at least 1 character")?))),
        Some("oauth") => {
            let access = text("access").ok_or("\"access\" must be a string of at least 1 character")?;
            let expires = entry.get("expires").and_then(Value::as_f64).ok_or("\"expires\" must be milliseconds since 1970")?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a float beyond the range becomes the nearest bound, which is what is meant"
            )]
            Ok(Credential::OAuth { access: access.into(), expires: expires as i64 })
        }
        _ => Err("\"type\" must be \"api_key\" or \"oauth\""),
    }
}

/// Hands out the stored credentials as they are now; the owner of the files re-reads them when they change.
pub trait CredentialSource: Send + Sync {
    /// The credentials of one tier. Called for each request, so it must not wait for a disk.
    fn tier(&self, tier: Tier) -> Arc<CredentialMap>;
}

/// Nothing is stored.
#[derive(Clone, Copy, Debug)]
pub struct NoCredentials;

impl CredentialSource for NoCredentials {
    fn tier(&self, _: Tier) -> Arc<CredentialMap> {
        Arc::default()
    }
}
