//! The models that a session switches between, and those that sessions start with.

use wolli_home::agent::Change;
use wolli_home::settings::Settings;
use wolli_protocol::ids::SessionId;
use wolli_protocol::state::ScopedModel;

use super::open::Runtime;
use super::sessions::SessionError;
use crate::limits::SCOPE_PATTERNS;

impl Runtime {
    /// Resolves patterns against the models that can be used now, and makes them the session's scope for as long as it is resident;
    /// none clears it. A pattern that means no model is passed over.
    ///
    /// # Errors
    /// There are too many patterns, or the session cannot be had.
    pub async fn set_scoped_models(&self, id: &SessionId, patterns: Vec<String>) -> Result<(), SessionError> {
        check(&patterns)?;
        let models = self.blocking(move |runtime| runtime.scope(&patterns)).await?;
        self.with_session(id, |session| {
            let models = models.clone();
            async move { session.set_scoped_models(models).await }
        })
        .await
    }

    /// Stores the patterns that become the scope of every session that is opened later; absent removes the setting.
    ///
    /// # Errors
    /// There are too many patterns, or the disk refused.
    pub async fn set_enabled_models(&self, patterns: Option<Vec<String>>) -> Result<(), SessionError> {
        check(patterns.as_deref().unwrap_or_default())?;
        self.change_agent(Change::EnabledModels(patterns)).await
    }

    /// The scope of a session that becomes resident now. Blocking.
    pub(super) fn first_scope(&self, settings: &Settings) -> Vec<ScopedModel> {
        let patterns = settings.enabled_models.as_deref().unwrap_or_default();
        self.scope(&patterns[..patterns.len().min(SCOPE_PATTERNS)])
    }

    fn scope(&self, patterns: &[String]) -> Vec<ScopedModel> {
        if patterns.is_empty() {
            return Vec::new();
        }
        let registry = self.services.registry.get();
        let found = wolli_models::registry::scope(patterns, &registry.available());
        for warning in &found.warnings {
            tracing::info!(%warning, "a pattern of a scope");
        }
        found.models.iter().map(|scoped| ScopedModel { model: scoped.model.clone(), thinking_level: scoped.level }).collect()
    }
}

fn check(patterns: &[String]) -> Result<(), SessionError> {
    if patterns.len() > SCOPE_PATTERNS { Err(SessionError::Patterns(SCOPE_PATTERNS)) } else { Ok(()) }
}
