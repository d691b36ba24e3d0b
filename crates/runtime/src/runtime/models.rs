//! Which models the agent can use, and which one a session starts with.

use wolli_home::settings::Settings;
use wolli_models::registry::{ModelSource, RecordedModel, Registry, SavedDefaults};
use wolli_protocol::model::ThinkingLevel;

use crate::session::{RestoredModel, TurnSettings};

/// What a session starts with, and what a person should be told about it.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) settings: TurnSettings,
    pub(super) notice: Option<String>,
}

/// The model of the session's branch if that can still be used, else the agent's default.
pub(super) fn start_of_session(
    registry: &Registry,
    settings: &Settings,
    recorded: Option<&RestoredModel>,
    level: Option<ThinkingLevel>,
) -> Start {
    let saved = SavedDefaults {
        agent_model: settings.default_model.clone(),
        shared_provider: None,
        shared_model: None,
        level: settings.default_thinking_level,
    };
    let recorded = recorded.map(|recorded| RecordedModel {
        provider: recorded.provider.clone(),
        id: recorded.id.clone(),
        level,
        chosen: recorded.chosen,
    });
    let initial = registry.restored_model(recorded.as_ref(), &saved);
    let level = initial.model.clamp(level.or(initial.level).unwrap_or_default());
    let chosen = initial.source != ModelSource::Demo;
    Start { settings: TurnSettings { model: initial.model, level, chosen }, notice: initial.notice }
}
