//! The model that an agent or a session starts with, and what to tell the person about it.
//!
//! Order: the agent's saved default, the shared one, each known provider's default, the first available model, the
//! demonstration, none. A saved model that cannot be used is passed over and named in the notice; nothing here is stored.

use wolli_protocol::model::{Model, ThinkingLevel};

use super::demo::{DEMO_MODEL, DEMO_PROVIDER};
use super::loaded::{Registry, SelectError};
use super::reference;

/// What a session without a model says.
pub const NO_MODEL: &str = "No model configured. Run /login to sign in, then /model to choose a model.";

const DEMO_NOTICE: &str =
    "No model is configured, so the built-in demonstration answers. Run /login to sign in, then /model to choose a model.";

/// The defaults that the settings hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedDefaults {
    /// The agent's `defaultModel`: `provider/id`.
    pub agent_model: Option<String>,
    /// The shared `defaultProvider`.
    pub shared_provider: Option<String>,
    /// The shared `defaultModel`: a bare id.
    pub shared_model: Option<String>,
    /// The effective `defaultThinkingLevel`.
    pub level: Option<ThinkingLevel>,
}

/// The model that stands on the branch of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedModel {
    pub provider: String,
    pub id: String,
    /// The last level on the branch, if one was recorded.
    pub level: Option<ThinkingLevel>,
    /// True if somebody chose it, false if it only answered. The demonstration comes back only when it was chosen.
    pub chosen: bool,
}

/// Why a model was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// It stands on the session's branch.
    Session,
    AgentDefault,
    SharedDefault,
    /// The default of a provider that can be used.
    ProviderDefault,
    FirstAvailable,
    /// The demonstration stands in; nobody chose it, so it is not to be stored.
    Demo,
    /// There is none; the model is the placeholder.
    None,
}

/// The outcome of looking for a model.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialModel {
    pub model: Model,
    /// The saved or recorded level, clamped to the model; absent if nobody ever set one.
    pub level: Option<ThinkingLevel>,
    pub source: ModelSource,
    /// What to tell the person, if anything is not as they left it.
    pub notice: Option<String>,
}

impl Registry {
    /// The model of a new session.
    #[must_use]
    pub fn initial_model(&self, saved: &SavedDefaults) -> InitialModel {
        let mut faults = Vec::new();
        let agent = saved.agent_model.as_deref().map(|reference| (ModelSource::AgentDefault, self.saved(None, reference)));
        let shared =
            || saved.shared_model.as_deref().map(|id| (ModelSource::SharedDefault, self.saved(saved.shared_provider.as_deref(), id)));
        for (source, found) in agent.into_iter().chain(std::iter::once_with(shared).flatten()) {
            match found {
                Ok(model) => return outcome(model, saved.level, source, faults),
                Err(fault) => faults.push(fault.to_string()),
            }
        }
        let available: Vec<_> = self.available().into_iter().filter(|model| model.provider != DEMO_PROVIDER).collect();
        let default = self.provider_defaults().find_map(|(provider, id)| {
            available.iter().find(|model| model.provider == provider && model.id == id).map(|model| (*model, ModelSource::ProviderDefault))
        });
        let first = || available.first().map(|model| (*model, ModelSource::FirstAvailable));
        if let Some((model, source)) = default.or_else(first) {
            return outcome(model, saved.level, source, faults);
        }
        match self.find(DEMO_PROVIDER, DEMO_MODEL) {
            Some(model) if self.demo && faults.is_empty() => InitialModel {
                model: model.clone(),
                level: saved.level.map(|level| model.clamp(level)),
                source: ModelSource::Demo,
                notice: Some(DEMO_NOTICE.to_owned()),
            },
            _ => none(faults),
        }
    }

    /// The model of a stored session: the recorded one if it can still be used, else that of a new session.
    #[must_use]
    pub fn restored_model(&self, recorded: Option<&RecordedModel>, saved: &SavedDefaults) -> InitialModel {
        let Some(recorded) = recorded.filter(|recorded| recorded.chosen || recorded.provider != DEMO_PROVIDER) else {
            return self.initial_model(saved);
        };
        let saved = SavedDefaults { level: recorded.level.or(saved.level), ..saved.clone() };
        match self.select(&recorded.provider, &recorded.id) {
            Ok(model) => outcome(model, saved.level, ModelSource::Session, Vec::new()),
            Err(fault) => {
                let mut initial = self.initial_model(&saved);
                // A prompt that found no model left the placeholder behind, a name that means nothing to anybody.
                let placeholder = Model::placeholder();
                let nameless = recorded.provider == placeholder.provider && recorded.id == placeholder.id;
                let faults = if nameless { Vec::new() } else { vec![fault.to_string()] };
                // A conversation with a real model is not continued by the demonstration.
                if initial.source == ModelSource::Demo {
                    return none(faults);
                }
                if nameless {
                    return initial;
                }
                let used = match initial.source {
                    ModelSource::None => None,
                    _ => Some(&initial.model),
                };
                let rest = initial.notice.as_deref().filter(|_| used.is_none());
                initial.notice = Some(told(&faults, used, rest));
                initial
            }
        }
    }

    /// A saved default, if it can be used. Without a provider it is `provider/id`, or a bare id that only one model has.
    fn saved(&self, provider: Option<&str>, text: &str) -> Result<&Model, SelectError> {
        if let Some((provider, id)) = provider.map(|provider| (provider, text)).or_else(|| text.split_once('/')) {
            match self.select(provider, id) {
                Err(SelectError::NotFound { .. }) => {}
                decided => return decided,
            }
        }
        let bare = || self.match_exact(text).or_else(|| reference::exact(text, &self.models()));
        match bare().filter(|_| provider.is_none()) {
            Some(model) => self.select(&model.provider, &model.id),
            None => {
                Err(SelectError::NotFound { reference: provider.map_or_else(|| text.to_owned(), |provider| format!("{provider}/{text}")) })
            }
        }
    }
}

fn outcome(model: &Model, level: Option<ThinkingLevel>, source: ModelSource, faults: Vec<String>) -> InitialModel {
    let notice = (!faults.is_empty()).then(|| told(&faults, Some(model), None));
    InitialModel { model: model.clone(), level: level.map(|level| model.clamp(level)), source, notice }
}

fn none(faults: Vec<String>) -> InitialModel {
    let notice = Some(told(&faults, None, Some(NO_MODEL)));
    InitialModel { model: Model::placeholder(), level: None, source: ModelSource::None, notice }
}

/// The faults as sentences, then what is used in their stead, then the rest.
fn told(faults: &[String], used: Option<&Model>, rest: Option<&str>) -> String {
    let mut unique: Vec<&String> = Vec::new();
    for fault in faults {
        // The session and the saved default may name the same model.
        if !unique.contains(&fault) {
            unique.push(fault);
        }
    }
    let faults = unique.into_iter().map(|fault| format!("{}.", fault.trim_end_matches('.')));
    let used = used.map(|model| format!("Using {} instead.", model.reference()));
    faults.chain(used).chain(rest.map(str::to_owned)).collect::<Vec<_>>().join(" ")
}
