//! From what a person writes to one model: an exact reference, a part of a name, a pattern with a thinking level.
//!
//! Plain functions over a list; the caller decides whether that is all models, the available ones, or a scope.

use wolli_protocol::model::{Model, ThinkingLevel};

/// Longer texts name no model; the bound keeps hostile ones cheap.
const MAX_REFERENCE: usize = 1024;

/// The one model that a reference names, whatever its case: `provider/id`, else a bare id that only one model has.
#[must_use]
pub fn exact<'a>(reference: &str, models: &[&'a Model]) -> Option<&'a Model> {
    let wanted = cleaned(reference)?;
    let same = |text: &str, wanted: &str| text.to_lowercase() == wanted;
    let only = |matches: &dyn Fn(&Model) -> bool| {
        let mut hits = models.iter().copied().filter(|model| matches(model));
        hits.next().filter(|_| hits.next().is_none())
    };
    if let Some(model) = only(&|model| same(&model.reference(), &wanted)) {
        return Some(model);
    }
    if let Some((provider, id)) = wanted.split_once('/')
        && let Some(model) = only(&|model| same(&model.provider, provider.trim()) && same(&model.id, id.trim()))
    {
        return Some(model);
    }
    only(&|model| same(&model.id, &wanted))
}

/// The exact model, else the best whose id or name contains the text: an alias before a dated one, the greatest id first.
#[must_use]
pub fn fuzzy<'a>(text: &str, models: &[&'a Model]) -> Option<&'a Model> {
    if let Some(model) = exact(text, models) {
        return Some(model);
    }
    let wanted = cleaned(text)?;
    let hit = |model: &&&Model| model.id.to_lowercase().contains(&wanted) || model.name.to_lowercase().contains(&wanted);
    // `max_by` takes the last of equals; reversed, that is the first of the list.
    models.iter().rev().filter(hit).copied().max_by(|left, right| (is_alias(&left.id), &left.id).cmp(&(is_alias(&right.id), &right.id)))
}

fn cleaned(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_REFERENCE).then(|| text.to_lowercase())
}

/// An id that moves on by itself: `...-latest`, or one without a date at its end.
fn is_alias(id: &str) -> bool {
    let dated = id.rsplit_once('-').is_some_and(|(_, date)| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()));
    !dated
}

/// What to do with a suffix that is no thinking level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Leave it off and warn.
    Lenient,
    /// No match.
    Strict,
}

/// What a pattern means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatternMatch<'a> {
    pub model: Option<&'a Model>,
    pub level: Option<ThinkingLevel>,
    pub warning: Option<String>,
}

/// A model, optionally followed by `:<level>`. The whole text is tried first, so that ids may contain colons.
#[must_use]
pub fn pattern<'a>(text: &str, models: &[&'a Model], strictness: Strictness) -> PatternMatch<'a> {
    let text = text.trim();
    if text.len() > MAX_REFERENCE {
        return PatternMatch::default();
    }
    // Cut suffixes off until a model is found, then judge them from the inside out.
    let mut rest = text;
    let mut cuts: Vec<(&str, &str)> = Vec::new();
    let model = loop {
        if let Some(model) = fuzzy(rest, models) {
            break model;
        }
        let Some((shorter, suffix)) = rest.rsplit_once(':') else { return PatternMatch::default() };
        if strictness == Strictness::Strict && ThinkingLevel::parse(suffix).is_none() {
            return PatternMatch::default();
        }
        cuts.push((rest, suffix));
        rest = shorter;
    };
    let mut found = PatternMatch { model: Some(model), ..PatternMatch::default() };
    for (whole, suffix) in cuts.into_iter().rev() {
        match ThinkingLevel::parse(suffix) {
            Some(level) => found.level = Some(level).filter(|_| found.warning.is_none()),
            None => {
                found.level = None;
                found.warning = Some(format!("Invalid thinking level \"{suffix}\" in pattern \"{whole}\". Using default instead."));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn models() -> Vec<Model> {
        let names = [
            ("anthropic", "claude-opus-4-5", "Claude Opus 4.5 (latest)"),
            ("anthropic", "claude-opus-4-5-20251101", "Claude Opus 4.5"),
            ("anthropic", "claude-opus-4-8", "Claude Opus 4.8"),
            ("anthropic", "claude-3-7-sonnet-20250219", "Claude Sonnet 3.7"),
            ("anthropic", "claude-3-7-sonnet-20250119", "Claude Sonnet 3.7 old"),
            ("mistral", "devstral-latest", "Devstral"),
            ("ollama", "qwen3:14b", "qwen3:14b"),
            ("ollama", "tagged:high", "tagged:high"),
            ("openrouter", "moonshotai/kimi-k2.6", "Kimi"),
            ("together", "moonshotai/Kimi-K2.6", "Kimi"),
            ("moonshotai", "kimi-k2.6", "Kimi K2.6"),
        ];
        let model = |(provider, id, name): (&str, &str, &str)| Model {
            provider: provider.into(),
            id: id.into(),
            name: name.into(),
            ..Model::placeholder()
        };
        names.into_iter().map(model).collect()
    }

    fn named(model: Option<&Model>) -> Option<String> {
        model.map(Model::reference)
    }

    #[test]
    fn exact_references() {
        let models = models();
        let all: Vec<_> = models.iter().collect();
        let cases = [
            (" Anthropic/Claude-Opus-4-8 ", Some("anthropic/claude-opus-4-8")),
            ("claude-opus-4-8", Some("anthropic/claude-opus-4-8")),
            ("openrouter/moonshotai/kimi-k2.6", Some("openrouter/moonshotai/kimi-k2.6")),
            // As a full reference it is the third; as a bare id it would be two others.
            ("moonshotai/kimi-k2.6", Some("moonshotai/kimi-k2.6")),
            ("kimi-k2.6", Some("moonshotai/kimi-k2.6")),
            ("ollama / qwen3:14b", Some("ollama/qwen3:14b")),
            ("qwen3:14b", Some("ollama/qwen3:14b")),
            ("opus", None),
            ("anthropic/", None),
            ("/claude-opus-4-8", None),
            ("", None),
        ];
        for (reference, expected) in cases {
            assert_eq!(named(exact(reference, &all)).as_deref(), expected, "{reference:?}");
        }
        let without: Vec<_> = models[..10].iter().collect();
        assert_eq!(exact("moonshotai/kimi-k2.6", &without), None, "two models have that id");
    }

    #[test]
    fn parts_of_names() {
        let models = models();
        let all: Vec<_> = models.iter().collect();
        let cases = [
            ("opus", Some("anthropic/claude-opus-4-8")),
            ("opus-4-5", Some("anthropic/claude-opus-4-5")),
            ("sonnet", Some("anthropic/claude-3-7-sonnet-20250219")),
            ("SONNET 3.7", Some("anthropic/claude-3-7-sonnet-20250219")),
            ("latest", Some("mistral/devstral-latest")),
            ("no such", None),
            ("  ", None),
        ];
        for (text, expected) in cases {
            assert_eq!(named(fuzzy(text, &all)).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn patterns_with_levels() {
        let models = models();
        let all: Vec<_> = models.iter().collect();
        let invalid =
            |suffix: &str, whole: &str| format!("Invalid thinking level \"{suffix}\" in pattern \"{whole}\". Using default instead.");
        let cases = [
            ("opus:high", Some("anthropic/claude-opus-4-8"), Some("high"), None),
            ("ollama/qwen3:14b", Some("ollama/qwen3:14b"), None, None),
            ("qwen3:14b:low", Some("ollama/qwen3:14b"), Some("low"), None),
            ("tagged:high", Some("ollama/tagged:high"), None, None),
            ("tagged:high:off", Some("ollama/tagged:high"), Some("off"), None),
            ("opus:low:high", Some("anthropic/claude-opus-4-8"), Some("high"), None),
            ("opus:banana", Some("anthropic/claude-opus-4-8"), None, Some(invalid("banana", "opus:banana"))),
            ("opus:banana:high", Some("anthropic/claude-opus-4-8"), None, Some(invalid("banana", "opus:banana"))),
            ("opus:high:banana", Some("anthropic/claude-opus-4-8"), None, Some(invalid("banana", "opus:high:banana"))),
            ("opus:", Some("anthropic/claude-opus-4-8"), None, Some(invalid("", "opus:"))),
            ("nothing:high", None, None, None),
            // The whole text is a part of a name before it is a suffix.
            (":high", Some("ollama/tagged:high"), None, None),
        ];
        for (text, model, level, warning) in cases {
            let found = pattern(text, &all, Strictness::Lenient);
            let shown = (named(found.model), found.level.map(ThinkingLevel::as_str), found.warning);
            assert_eq!(shown, (model.map(str::to_owned), level, warning), "{text:?}");
        }
        assert_eq!(pattern("opus:banana", &all, Strictness::Strict), PatternMatch::default());
        assert_eq!(pattern("opus:high", &all, Strictness::Strict).level, Some(ThinkingLevel::High));
    }

    #[test]
    fn a_huge_pattern_is_refused_at_once() {
        let models = models();
        let all: Vec<_> = models.iter().collect();
        assert_eq!(pattern(&":high".repeat(1_000_000), &all, Strictness::Lenient), PatternMatch::default());
        assert_eq!(pattern(&"|:".repeat(500), &all, Strictness::Lenient), PatternMatch::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn no_text_panics(text in "[a-k:/ .4é]{0,20}(:high|:low|:)?") {
            let models = models();
            let all: Vec<_> = models.iter().collect();
            let found = pattern(&text, &all, Strictness::Lenient);
            prop_assert!(found.model.is_some() || (found.level.is_none() && found.warning.is_none()));
        }
    }
}
