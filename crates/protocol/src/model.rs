//! The record of a model, and thinking levels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::message::JsonObject;
use crate::number::Number;

/// A model as the catalogue, `models.json` and the wire describe it. Identified by (provider, id).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    pub id: String,
    pub name: String,
    /// Wire kind, for example `anthropic-messages`.
    pub api: String,
    pub provider: String,
    pub base_url: String,
    pub reasoning: bool,
    /// Level to the word that is sent; `null` means that the level is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level_map: Option<BTreeMap<ThinkingLevel, Option<String>>>,
    /// `text`, `image`.
    pub input: Vec<String>,
    pub cost: ModelCost,
    pub context_window: u64,
    pub max_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Switches of the wire kind; passed through untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compat: Option<JsonObject>,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCost {
    pub input: Number,
    pub output: Number,
    pub cache_read: Number,
    pub cache_write: Number,
}

impl Model {
    /// What a session holds while no model is configured.
    #[must_use]
    pub fn placeholder() -> Self {
        Self {
            id: "unknown".into(),
            name: "unknown".into(),
            api: "unknown".into(),
            provider: "unknown".into(),
            base_url: String::new(),
            reasoning: false,
            thinking_level_map: None,
            input: Vec::new(),
            cost: ModelCost::default(),
            context_window: 0,
            max_tokens: 0,
            headers: None,
            compat: None,
        }
    }

    /// True for [`Model::placeholder`].
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        self.provider == "unknown" && self.api == "unknown"
    }

    /// `provider/id`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }

    #[must_use]
    pub fn accepts_images(&self) -> bool {
        self.input.iter().any(|kind| kind == "image")
    }

    /// A switch of `compat`, if it is set.
    #[must_use]
    pub fn compat(&self, key: &str) -> Option<&Value> {
        self.compat.as_ref()?.get(key)
    }

    /// The levels that this model supports, in rising order; never empty.
    #[must_use]
    pub fn supported_levels(&self) -> Vec<ThinkingLevel> {
        if !self.reasoning {
            return vec![ThinkingLevel::Off];
        }
        let mapped = |level| self.thinking_level_map.as_ref().and_then(|map| map.get(&level));
        let supported: Vec<_> = ThinkingLevel::ALL
            .into_iter()
            .filter(|level| match mapped(*level) {
                Some(word) => word.is_some(),
                None => *level != ThinkingLevel::Xhigh,
            })
            .collect();
        if supported.is_empty() { vec![ThinkingLevel::Off] } else { supported }
    }

    /// The level itself if supported, else the next higher supported one, else the next lower.
    #[must_use]
    pub fn clamp(&self, level: ThinkingLevel) -> ThinkingLevel {
        let supported = self.supported_levels();
        let higher = supported.iter().copied().find(|candidate| *candidate >= level);
        higher.or_else(|| supported.last().copied()).unwrap_or(ThinkingLevel::Off)
    }
}

/// How hard a model is asked to think.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    #[default]
    Medium,
    High,
    Xhigh,
}

impl ThinkingLevel {
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// Reads one of the six words.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

impl std::fmt::Display for ThinkingLevel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Model, ThinkingLevel as L};

    #[test]
    fn levels_are_clamped_up_then_down() {
        let mut model = Model { reasoning: true, ..Model::placeholder() };
        assert_eq!(model.supported_levels(), [L::Off, L::Minimal, L::Low, L::Medium, L::High]);
        assert_eq!(model.clamp(L::Xhigh), L::High);
        let map = r#"{"off":null,"minimal":null,"low":"LOW","medium":null,"high":"HIGH"}"#;
        model.thinking_level_map = Some(serde_json::from_str(map).unwrap());
        assert_eq!(model.supported_levels(), [L::Low, L::High]);
        assert_eq!(model.clamp(L::Off), L::Low);
        assert_eq!(model.clamp(L::Medium), L::High);
        assert_eq!(model.clamp(L::Xhigh), L::High);
        model.reasoning = false;
        assert_eq!(model.clamp(L::High), L::Off);
    }
}
