//! What an agent would have to think with, found out without opening its home: for those who look after agents that do not run.
//!
//! Reads files and changes none; runs no command, sends nothing. Not here: which server answers.

use std::sync::Arc;

use wolli_home::agent::AgentDocument;
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, SharedFolder};
use wolli_models::credentials::{AuthStatus, CredentialSource, Tier};
use wolli_models::registry::{DEMO_PROVIDER, ModelSource, SavedDefaults};
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use super::credentials::{ModelSources, Stored};
use super::hubs::Hubs;
use super::open::read_settings;
use crate::embed::Ports;

/// What a new session would get.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// What is wrong with `models.json`, the settings and the two `auth.json`.
    pub problems: Vec<ResourceDiagnostic>,
    /// `None`: there is none.
    pub model: Option<FoundModel>,
    /// Why it is not the saved one, or none.
    pub notice: Option<String>,
}

/// A model that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundModel {
    pub provider: String,
    pub id: String,
    /// Empty for what is built in.
    pub base_url: String,
    /// The environment variable that its key comes from, if it does.
    pub variable: Option<String>,
    /// The demonstration, which nobody chose.
    pub stands_in: bool,
}

/// Finds the model that a new session would get. `demo`: whether the demonstration may stand in. Blocking.
#[must_use]
pub fn model_facts(home: &AgentHome, shared: &SharedFolder, environment: &Environment, agent: &AgentDocument, demo: bool) -> ModelFacts {
    let stored = Arc::new(Stored::new(home, shared, Arc::new(Hubs::default())));
    let source = Arc::clone(&stored) as Arc<dyn CredentialSource>;
    let sources = ModelSources::new(home, shared, environment, &Ports::default(), demo, source);
    let mut problems = Vec::new();
    let models_json = sources.read().unwrap_or_else(|problem| {
        problems.push(ResourceDiagnostic::new(DiagnosticKind::Error, problem, Some(&shared.models())));
        None
    });
    let registry = sources.load(models_json, None);
    let (settings, faults) = read_settings(shared, agent);
    // Both files are read now, whether the model needs them or not.
    for tier in Tier::IN_ORDER {
        let _ = stored.tier(tier);
    }
    problems.extend(registry.diagnostics().iter().cloned());
    problems.extend(faults);
    problems.extend(stored.diagnostics());
    let saved = SavedDefaults {
        agent_model: settings.default_model.clone(),
        shared_provider: None,
        shared_model: None,
        level: settings.default_thinking_level,
    };
    let initial = registry.initial_model(&saved);
    let usable = initial.source != ModelSource::None;
    let model = usable.then(|| FoundModel {
        provider: initial.model.provider.clone(),
        id: initial.model.id.clone(),
        base_url: if initial.model.provider == DEMO_PROVIDER { String::new() } else { initial.model.base_url.clone() },
        variable: match registry.auth_status(&initial.model.provider) {
            AuthStatus::Environment(name) => Some(name),
            _ => None,
        },
        stands_in: initial.source == ModelSource::Demo,
    });
    ModelFacts { problems, model, notice: initial.notice }
}
