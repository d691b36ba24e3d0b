//! Commands about plugins, in a version that loads none: the list in `agent.json` can be shortened, and everything else says so.

use std::ffi::OsStr;

use wolli_home::agent::Change;
use wolli_protocol::resource::OnboardServiceResult;

use super::open::Runtime;
use super::sessions::SessionError;
use crate::resources::plugins;

/// Why a command about plugins did nothing. Texts go to clients; those of wolli 0.0.2 are kept.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("Path does not exist: {0}")]
    NoPath(String),
    #[error("No matching package found for {asked}{}", .meant.as_ref().map(|meant| format!(". Did you mean {meant}?")).unwrap_or_default())]
    NotListed { asked: String, meant: Option<String> },
    #[error("this version of wolli loads no plugins; skills and prompt templates can be put into {home}/skills and {home}/prompts")]
    Unsupported { home: String },
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Runtime {
    fn no_plugins(&self) -> PluginError {
        PluginError::Unsupported { home: self.sources.places.home.to_string_lossy().into_owned() }
    }

    /// Says why the plugin is not installed.
    ///
    /// # Errors
    /// Always: the path is missing, or plugins are not supported.
    pub async fn install_plugin(&self, source: &str) -> Result<(), PluginError> {
        if plugins::is_local(source) {
            let path = source.strip_prefix("file://").unwrap_or(source);
            let resolved = self.sources.environment.resolve(OsStr::new(path));
            let path = resolved.unwrap_or_else(|| path.into());
            let found = path.clone();
            if !self.blocking(move |_| found.exists()).await? {
                return Err(PluginError::NoPath(path.to_string_lossy().into_owned()));
            }
        }
        Err(self.no_plugins())
    }

    /// Takes a plugin off the list in `agent.json`, then reloads. False if it is not on it.
    ///
    /// # Errors
    /// The disk refused, or the reload failed after the list was changed.
    pub async fn remove_plugin(&self, source: &str) -> Result<bool, SessionError> {
        let source = source.to_owned();
        let removed = self.blocking(move |runtime| {
            let agent = &runtime.services.agent;
            agent.change_by(|document| {
                let list = document.settings().and_then(|settings| settings.get("plugins")).and_then(serde_json::Value::as_array);
                let kept = list.and_then(|list| plugins::without(list, &source, agent.home().path()))?;
                Some(Change::Plugins(kept))
            })
        });
        let removed = removed.await?.map_err(|error| SessionError::Agent(error.to_string()))?;
        if removed {
            self.reload().await?;
        }
        Ok(removed)
    }

    /// Without plugins to update this is a reload.
    ///
    /// # Errors
    /// The plugin is not listed, plugins are listed but cannot be updated, or the reload failed.
    pub async fn update_plugins(&self, source: Option<&str>) -> Result<(), PluginError> {
        let listed = self.plugins();
        if let Some(source) = source {
            let home = &self.sources.places.home;
            let wanted = plugins::identity(source, home);
            if !listed.iter().any(|plugin| plugins::identity(&plugin.source, home) == wanted) {
                let meant = plugins::suggestion(&listed, source, home).map(str::to_owned);
                return Err(PluginError::NotListed { asked: source.to_owned(), meant });
            }
            return Err(self.no_plugins());
        }
        if listed.is_empty() { Ok(self.reload().await?) } else { Err(self.no_plugins()) }
    }

    /// Sets up the integrations of a plugin; there are none.
    #[must_use]
    pub fn onboard_plugin(&self, _source: &str) -> Vec<OnboardServiceResult> {
        Vec::new()
    }
}
