//! From a list of patterns to the models that a selector offers.

use wolli_protocol::model::{Model, ThinkingLevel};

use super::demo::DEMO_PROVIDER;
use super::glob::{Glob, is_glob};
use super::reference::{Strictness, pattern};

/// Longer globs name nothing; the bound keeps hostile ones cheap.
const MAX_GLOB: usize = 256;

/// A model of a scope, with the level that its pattern asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScopedModel<'a> {
    pub model: &'a Model,
    pub level: Option<ThinkingLevel>,
}

/// What a list of patterns means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope<'a> {
    /// In the order of the patterns, each model once.
    pub models: Vec<ScopedModel<'a>>,
    pub warnings: Vec<String>,
}

/// Resolves patterns against the available models.
#[must_use]
pub fn scope<'a>(patterns: &[impl AsRef<str>], available: &[&'a Model]) -> Scope<'a> {
    let mut scope = Scope::default();
    for text in patterns.iter().map(AsRef::as_ref) {
        let mut add = |model: &'a Model, level| {
            if !scope.models.iter().any(|known| known.model.provider == model.provider && known.model.id == model.id) {
                scope.models.push(ScopedModel { model, level });
            }
        };
        let mut hit = false;
        if is_glob(text) {
            let (glob, level) = split_level(text);
            for model in globbed(glob, available) {
                hit = true;
                add(model, level);
            }
        } else {
            let found = pattern(text, available, Strictness::Lenient);
            if let Some(model) = found.model {
                hit = true;
                add(model, found.level);
            }
            scope.warnings.extend(found.warning.map(|warning| format!("Warning: {warning}")));
        }
        if !hit {
            scope.warnings.push(format!("Warning: No models match pattern \"{text}\""));
        }
    }
    scope
}

fn split_level(text: &str) -> (&str, Option<ThinkingLevel>) {
    match text.rsplit_once(':').map(|(glob, suffix)| (glob, ThinkingLevel::parse(suffix))) {
        Some((glob, Some(level))) => (glob, Some(level)),
        _ => (text, None),
    }
}

/// The demonstration model is in no scope that does not name its provider.
fn globbed<'a>(text: &str, available: &[&'a Model]) -> Vec<&'a Model> {
    if text.len() > MAX_GLOB {
        return Vec::new();
    }
    let glob = Glob::new(text);
    let names_demo = text.to_lowercase().starts_with(DEMO_PROVIDER);
    let hits = available.iter().copied().filter(|model| names_demo || model.provider != DEMO_PROVIDER);
    hits.filter(|model| glob.matches(&model.reference()) || glob.matches(&model.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::demo_model;

    #[test]
    fn globs_and_names_in_order_without_repeats() {
        let model = |provider: &str, id: &str| Model { provider: provider.into(), id: id.into(), ..Model::placeholder() };
        let models = [
            model("anthropic", "claude-haiku-4-5"),
            model("anthropic", "claude-opus-4-8"),
            model("openrouter", "moonshotai/kimi-k2.6"),
            model("ollama", "qwen3:14b"),
            demo_model(),
        ];
        let all: Vec<_> = models.iter().collect();
        let cases: [(&[&str], &[&str], &[&str]); 10] = [
            (&[], &[], &[]),
            (&["openrouter/*"], &["openrouter/moonshotai/kimi-k2.6"], &[]),
            (
                &["kimi", "ANTHROPIC/*"],
                &["openrouter/moonshotai/kimi-k2.6", "anthropic/claude-haiku-4-5", "anthropic/claude-opus-4-8"],
                &[],
            ),
            (&["opus:high", "claude-*:low"], &["anthropic/claude-opus-4-8:high", "anthropic/claude-haiku-4-5:low"], &[]),
            (&["qwen3:*"], &["ollama/qwen3:14b"], &[]),
            (&["qwen3:*:high"], &["ollama/qwen3:14b:high"], &[]),
            (&["gpt-*", "nothing"], &[], &["Warning: No models match pattern \"gpt-*\"", "Warning: No models match pattern \"nothing\""]),
            (
                &["*"],
                &["anthropic/claude-haiku-4-5", "anthropic/claude-opus-4-8", "openrouter/moonshotai/kimi-k2.6", "ollama/qwen3:14b"],
                &[],
            ),
            (&["echo/*"], &["echo/demo"], &[]),
            (
                &["opus:banana"],
                &["anthropic/claude-opus-4-8"],
                &["Warning: Invalid thinking level \"banana\" in pattern \"opus:banana\". Using default instead."],
            ),
        ];
        for (patterns, expected, warnings) in cases {
            let found = scope(patterns, &all);
            let shown: Vec<_> = found
                .models
                .iter()
                .map(|scoped| {
                    scoped.level.map_or_else(|| scoped.model.reference(), |level| format!("{}:{level}", scoped.model.reference()))
                })
                .collect();
            assert_eq!(shown, expected, "{patterns:?}");
            assert_eq!(found.warnings, warnings, "{patterns:?}");
        }
    }
}
