//! The switches of each wire kind: which exist, of which type, and how two sets are laid over each other.
//!
//! A switch of the wrong type is dropped, since nothing could act on it; one that no kind knows is kept and named, for
//! it is most likely a slip. What the switches do is the matter of the wire kinds.

use serde_json::Value;
use wolli_protocol::message::JsonObject;

/// What a switch accepts.
#[derive(Clone, Copy)]
enum Shape {
    Bool,
    OneOf(&'static [&'static str]),
    /// An object that is sent as it stands; its keys.
    Routing(&'static [&'static str]),
}

const THINKING_FORMATS: &[&str] =
    &["openai", "openrouter", "together", "deepseek", "zai", "qwen", "qwen-chat-template", "string-thinking", "ant-ling"];

const OPENROUTER_ROUTING: &[&str] = &[
    "allow_fallbacks",
    "require_parameters",
    "data_collection",
    "zdr",
    "enforce_distillable_text",
    "order",
    "only",
    "ignore",
    "quantizations",
    "sort",
    "max_price",
    "preferred_min_throughput",
    "preferred_max_latency",
];

const COMPLETIONS: &[(&str, Shape)] = &[
    ("supportsStore", Shape::Bool),
    ("supportsDeveloperRole", Shape::Bool),
    ("supportsReasoningEffort", Shape::Bool),
    ("supportsUsageInStreaming", Shape::Bool),
    ("maxTokensField", Shape::OneOf(&["max_completion_tokens", "max_tokens"])),
    ("requiresToolResultName", Shape::Bool),
    ("requiresAssistantAfterToolResult", Shape::Bool),
    ("requiresThinkingAsText", Shape::Bool),
    ("requiresReasoningContentOnAssistantMessages", Shape::Bool),
    ("thinkingFormat", Shape::OneOf(THINKING_FORMATS)),
    ("cacheControlFormat", Shape::OneOf(&["anthropic"])),
    ("openRouterRouting", Shape::Routing(OPENROUTER_ROUTING)),
    ("vercelGatewayRouting", Shape::Routing(&["only", "order"])),
    ("supportsStrictMode", Shape::Bool),
    ("supportsLongCacheRetention", Shape::Bool),
    ("zaiToolStream", Shape::Bool),
    ("sendSessionAffinityHeaders", Shape::Bool),
];

const RESPONSES: &[(&str, Shape)] =
    &[("supportsDeveloperRole", Shape::Bool), ("sendSessionIdHeader", Shape::Bool), ("supportsLongCacheRetention", Shape::Bool)];

const ANTHROPIC: &[(&str, Shape)] = &[
    ("supportsEagerToolInputStreaming", Shape::Bool),
    ("supportsLongCacheRetention", Shape::Bool),
    ("sendSessionAffinityHeaders", Shape::Bool),
    ("supportsCacheControlOnTools", Shape::Bool),
    ("forceAdaptiveThinking", Shape::Bool),
    ("supportsTemperature", Shape::Bool),
    ("allowEmptySignature", Shape::Bool),
];

/// The switches of a kind; `None` for kinds whose switches are not known here.
fn switches(api: &str) -> Option<&'static [(&'static str, Shape)]> {
    match api {
        "openai-completions" => Some(COMPLETIONS),
        "openai-responses" | "azure-openai-responses" => Some(RESPONSES),
        "anthropic-messages" => Some(ANTHROPIC),
        _ => None,
    }
}

/// The switches that can be acted on, and one sentence for each that is wrong. `apis` are the kinds they are meant for.
pub(crate) fn check(apis: &[&str], compat: &JsonObject) -> (JsonObject, Vec<String>) {
    let tables: Option<Vec<_>> = apis.iter().map(|api| switches(api)).collect();
    let Some(tables) = tables.filter(|tables| !tables.is_empty()) else { return (compat.clone(), Vec::new()) };
    let mut usable = JsonObject::new();
    let mut problems = Vec::new();
    for (key, value) in compat {
        let shape = tables.iter().copied().flatten().find(|(known, _)| known == key).map(|(_, shape)| *shape);
        match (shape, value) {
            (None, _) => problems.push(format!("unknown compat key \"{key}\" for {}", apis.join(", "))),
            (Some(Shape::Bool), Value::Bool(_)) => {}
            (Some(Shape::OneOf(words)), Value::String(word)) if words.contains(&word.as_str()) => {}
            (Some(Shape::Routing(keys)), Value::Object(routing)) => {
                let unknown = routing.keys().filter(|routed| !keys.contains(&routed.as_str()));
                problems.extend(unknown.map(|routed| format!("unknown compat key \"{key}.{routed}\" for {}", apis.join(", "))));
            }
            (Some(shape), _) => {
                problems.push(format!("compat key \"{key}\" is ignored: it must be {}", expected(shape)));
                continue;
            }
        }
        usable.insert(key.clone(), value.clone());
    }
    (usable, problems)
}

fn expected(shape: Shape) -> String {
    match shape {
        Shape::Bool => "boolean".to_owned(),
        Shape::Routing(_) => "object".to_owned(),
        Shape::OneOf(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
    }
}

/// Lays `over` on `base`: key by key, the two routing objects one level deeper.
pub(crate) fn merge(base: Option<&JsonObject>, over: Option<&JsonObject>) -> Option<JsonObject> {
    let (Some(base), Some(over)) = (base, over) else { return base.or(over).cloned() };
    let mut merged = base.clone();
    for (key, value) in over {
        let deeper = matches!(key.as_str(), "openRouterRouting" | "vercelGatewayRouting");
        match (merged.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) if deeper => {
                below.extend(above.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    Some(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn merging_is_shallow_but_for_routing() {
        let cases = [
            (json!({"a": 1}), json!({}), json!({"a": 1})),
            (json!({"a": 1, "b": 2}), json!({"b": 3, "c": 4}), json!({"a": 1, "b": 3, "c": 4})),
            (json!({"x": {"a": 1}}), json!({"x": {"b": 2}}), json!({"x": {"b": 2}})),
            (
                json!({"openRouterRouting": {"only": ["a"], "zdr": true}}),
                json!({"openRouterRouting": {"only": ["b"]}}),
                json!({"openRouterRouting": {"only": ["b"], "zdr": true}}),
            ),
            (json!({"vercelGatewayRouting": {"only": ["a"]}}), json!({"vercelGatewayRouting": 7}), json!({"vercelGatewayRouting": 7})),
        ];
        for (base, over, expected) in cases {
            assert_eq!(merge(Some(&object(base)), Some(&object(over))), Some(object(expected)));
        }
        let one = object(json!({"a": 1}));
        assert_eq!((merge(None, None), merge(Some(&one), None), merge(None, Some(&one))), (None, Some(one.clone()), Some(one.clone())));
    }

    #[test]
    fn switches_are_checked_against_their_kind() {
        let completions = &["openai-completions"][..];
        let both = &["openai-completions", "anthropic-messages"][..];
        let cases: [(&[&str], Value, Value, &[&str]); 9] = [
            (
                completions,
                json!({"supportsStore": false, "thinkingFormat": "ant-ling"}),
                json!({"supportsStore": false, "thinkingFormat": "ant-ling"}),
                &[],
            ),
            (
                completions,
                json!({"supportsDevRole": false}),
                json!({"supportsDevRole": false}),
                &["unknown compat key \"supportsDevRole\" for openai-completions"],
            ),
            (completions, json!({"supportsStore": "no"}), json!({}), &["compat key \"supportsStore\" is ignored: it must be boolean"]),
            (
                completions,
                json!({"maxTokensField": "maxTokens"}),
                json!({}),
                &["compat key \"maxTokensField\" is ignored: it must be \"max_completion_tokens\" or \"max_tokens\""],
            ),
            (completions, json!({"openRouterRouting": []}), json!({}), &["compat key \"openRouterRouting\" is ignored: it must be object"]),
            (
                completions,
                json!({"openRouterRouting": {"zdr": true, "odrer": []}}),
                json!({"openRouterRouting": {"zdr": true, "odrer": []}}),
                &["unknown compat key \"openRouterRouting.odrer\" for openai-completions"],
            ),
            (
                &["anthropic-messages"],
                json!({"supportsStore": false}),
                json!({"supportsStore": false}),
                &["unknown compat key \"supportsStore\" for anthropic-messages"],
            ),
            (
                both,
                json!({"supportsStore": false, "forceAdaptiveThinking": true}),
                json!({"supportsStore": false, "forceAdaptiveThinking": true}),
                &[],
            ),
            (&["my-own-kind"], json!({"anything": {}}), json!({"anything": {}}), &[]),
        ];
        for (apis, compat, usable, problems) in cases {
            let (kept, said) = check(apis, &object(compat));
            assert_eq!((kept, said), (object(usable), problems.iter().map(|text| (*text).to_owned()).collect()));
        }
    }
}
