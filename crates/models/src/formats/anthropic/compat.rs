//! What a server that speaks this kind can do, by what is known of it and what the model record says.

use wolli_protocol::model::Model;

/// Switches of the kind; the model record's own `compat` beats what is known of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compat {
    pub(crate) eager_tool_input_streaming: bool,
    pub(crate) long_cache_retention: bool,
    pub(crate) session_affinity_headers: bool,
    pub(crate) cache_control_on_tools: bool,
    pub(crate) force_adaptive_thinking: bool,
    pub(crate) allow_empty_signature: bool,
}

impl Compat {
    pub(crate) fn of(model: &Model) -> Self {
        let fireworks = model.provider == "fireworks";
        let switch = |key: &str, default: bool| model.compat(key).and_then(serde_json::Value::as_bool).unwrap_or(default);
        Self {
            eager_tool_input_streaming: switch("supportsEagerToolInputStreaming", !fireworks),
            long_cache_retention: switch("supportsLongCacheRetention", !fireworks),
            session_affinity_headers: switch("sendSessionAffinityHeaders", fireworks),
            cache_control_on_tools: switch("supportsCacheControlOnTools", !fireworks),
            force_adaptive_thinking: switch("forceAdaptiveThinking", false),
            allow_empty_signature: switch("allowEmptySignature", false),
        }
    }
}
