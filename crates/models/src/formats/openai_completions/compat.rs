//! What a server that speaks this kind can do.
//!
//! Known by provider id or base URL; the model record's own `compat` beats what is known, switch by switch.

use serde_json::Value;
use wolli_protocol::message::JsonObject;
use wolli_protocol::model::Model;

/// How thinking is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingFormat {
    OpenAi,
    OpenRouter,
    Together,
    DeepSeek,
    Zai,
    Qwen,
    QwenChatTemplate,
    StringThinking,
    AntLing,
}

/// Switches of the kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compat {
    pub(crate) store: bool,
    pub(crate) developer_role: bool,
    pub(crate) reasoning_effort: bool,
    pub(crate) usage_in_streaming: bool,
    pub(crate) max_tokens_field: &'static str,
    pub(crate) tool_result_name: bool,
    pub(crate) assistant_after_tool_result: bool,
    pub(crate) thinking_as_text: bool,
    pub(crate) reasoning_content_required: bool,
    pub(crate) thinking_format: ThinkingFormat,
    pub(crate) anthropic_cache_control: bool,
    pub(crate) open_router_routing: Option<JsonObject>,
    pub(crate) vercel_gateway_routing: Option<JsonObject>,
    pub(crate) strict_mode: bool,
    pub(crate) long_cache_retention: bool,
    pub(crate) zai_tool_stream: bool,
    pub(crate) session_affinity_headers: bool,
}

const MAX_TOKENS: &str = "max_tokens";
const MAX_COMPLETION_TOKENS: &str = "max_completion_tokens";

impl Compat {
    pub(crate) fn of(model: &Model) -> Self {
        Self::detect(model).overridden(model)
    }

    /// What OpenAI itself takes.
    fn openai() -> Self {
        Self {
            store: true,
            developer_role: true,
            reasoning_effort: true,
            usage_in_streaming: true,
            max_tokens_field: MAX_COMPLETION_TOKENS,
            tool_result_name: false,
            assistant_after_tool_result: false,
            thinking_as_text: false,
            reasoning_content_required: false,
            thinking_format: ThinkingFormat::OpenAi,
            anthropic_cache_control: false,
            open_router_routing: None,
            vercel_gateway_routing: None,
            strict_mode: true,
            long_cache_retention: true,
            zai_tool_stream: false,
            session_affinity_headers: false,
        }
    }

    fn detect(model: &Model) -> Self {
        let base = Self::openai();
        let is =
            |ids: &[&str], urls: &[&str]| ids.contains(&model.provider.as_str()) || urls.iter().any(|part| model.base_url.contains(part));
        let without_extras = Self { store: false, developer_role: false, ..base.clone() };
        if is(&["openrouter"], &["openrouter.ai"]) {
            let anthropic = model.id.starts_with("anthropic/");
            let developer_role = anthropic || model.id.starts_with("openai/");
            return Self { developer_role, thinking_format: ThinkingFormat::OpenRouter, anthropic_cache_control: anthropic, ..base };
        }
        if is(&["deepseek"], &["deepseek.com"]) {
            return Self { thinking_format: ThinkingFormat::DeepSeek, reasoning_content_required: true, ..without_extras };
        }
        if is(&["xai"], &["api.x.ai"]) {
            return Self { reasoning_effort: false, ..without_extras };
        }
        if is(&["cerebras", "opencode", "opencode-go"], &["cerebras.ai", "opencode.ai"]) {
            return without_extras;
        }
        if is(&["chutes"], &["chutes.ai"]) {
            return Self { max_tokens_field: MAX_TOKENS, ..without_extras };
        }
        if is(&["zai", "zai-coding-cn"], &["api.z.ai", "open.bigmodel.cn"]) {
            return Self { reasoning_effort: false, thinking_format: ThinkingFormat::Zai, ..without_extras };
        }
        if is(&["moonshotai", "moonshotai-cn"], &["api.moonshot."]) {
            return Self { reasoning_effort: false, max_tokens_field: MAX_TOKENS, strict_mode: false, ..without_extras };
        }
        if is(&["cloudflare-workers-ai"], &["api.cloudflare.com"]) {
            return Self { long_cache_retention: false, ..without_extras };
        }
        let narrow = Self {
            reasoning_effort: false,
            max_tokens_field: MAX_TOKENS,
            strict_mode: false,
            long_cache_retention: false,
            ..without_extras.clone()
        };
        if is(&["together"], &["api.together.ai", "api.together.xyz"]) {
            return Self { thinking_format: ThinkingFormat::Together, ..narrow };
        }
        if is(&["nvidia"], &["integrate.api.nvidia.com"]) || is(&["cloudflare-ai-gateway"], &["gateway.ai.cloudflare.com"]) {
            return narrow;
        }
        if is(&["ant-ling"], &["api.ant-ling.com"]) {
            return Self { thinking_format: ThinkingFormat::AntLing, strict_mode: true, ..narrow };
        }
        match LocalServer::of(model) {
            Some(server) => server.compat(model, without_extras),
            None => base,
        }
    }

    fn overridden(mut self, model: &Model) -> Self {
        let switches: [(&str, &mut bool); 12] = [
            ("supportsStore", &mut self.store),
            ("supportsDeveloperRole", &mut self.developer_role),
            ("supportsReasoningEffort", &mut self.reasoning_effort),
            ("supportsUsageInStreaming", &mut self.usage_in_streaming),
            ("requiresToolResultName", &mut self.tool_result_name),
            ("requiresAssistantAfterToolResult", &mut self.assistant_after_tool_result),
            ("requiresThinkingAsText", &mut self.thinking_as_text),
            ("requiresReasoningContentOnAssistantMessages", &mut self.reasoning_content_required),
            ("supportsStrictMode", &mut self.strict_mode),
            ("supportsLongCacheRetention", &mut self.long_cache_retention),
            ("zaiToolStream", &mut self.zai_tool_stream),
            ("sendSessionAffinityHeaders", &mut self.session_affinity_headers),
        ];
        for (key, switch) in switches {
            if let Some(value) = model.compat(key).and_then(Value::as_bool) {
                *switch = value;
            }
        }
        match model.compat("maxTokensField").and_then(Value::as_str) {
            Some(MAX_TOKENS) => self.max_tokens_field = MAX_TOKENS,
            Some(MAX_COMPLETION_TOKENS) => self.max_tokens_field = MAX_COMPLETION_TOKENS,
            _ => {}
        }
        if let Some(format) = model.compat("thinkingFormat").and_then(Value::as_str).and_then(ThinkingFormat::parse) {
            self.thinking_format = format;
        }
        if let Some(format) = model.compat("cacheControlFormat") {
            self.anthropic_cache_control = format == "anthropic";
        }
        let object = |key: &str| model.compat(key).and_then(Value::as_object).cloned();
        self.open_router_routing = object("openRouterRouting");
        self.vercel_gateway_routing = object("vercelGatewayRouting");
        self
    }
}

impl ThinkingFormat {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "openai" => Self::OpenAi,
            "openrouter" => Self::OpenRouter,
            "together" => Self::Together,
            "deepseek" => Self::DeepSeek,
            "zai" => Self::Zai,
            "qwen" => Self::Qwen,
            "qwen-chat-template" => Self::QwenChatTemplate,
            "string-thinking" => Self::StringThinking,
            "ant-ling" => Self::AntLing,
            _ => return None,
        })
    }
}

/// A server on the person's own machine or net, known by its provider id or by its usual port on loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LocalServer {
    /// Ollama, LM Studio.
    Desktop,
    LlamaCpp,
    /// vLLM, SGLang.
    Vllm,
    LiteLlm,
}

impl LocalServer {
    fn of(model: &Model) -> Option<Self> {
        match model.provider.as_str() {
            "ollama" | "lmstudio" | "lm-studio" => return Some(Self::Desktop),
            "llama.cpp" | "llama-cpp" | "llamacpp" => return Some(Self::LlamaCpp),
            "vllm" | "sglang" => return Some(Self::Vllm),
            "litellm" => return Some(Self::LiteLlm),
            _ => {}
        }
        let (_, rest) = model.base_url.split_once("://")?;
        let authority = rest.split(['/', '?']).next()?;
        let (host, port) = authority.rsplit_once(':')?;
        if !matches!(host, "127.0.0.1" | "localhost" | "[::1]") {
            return None;
        }
        match port {
            "11434" | "1234" => Some(Self::Desktop),
            "8080" => Some(Self::LlamaCpp),
            "8000" => Some(Self::Vllm),
            _ => None,
        }
    }

    fn compat(self, model: &Model, base: Compat) -> Compat {
        let qwen = model.reasoning && model.id.to_ascii_lowercase().contains("qwen");
        let local = Compat { max_tokens_field: MAX_TOKENS, ..base };
        match self {
            Self::Desktop => Compat { reasoning_effort: model.reasoning, ..local },
            Self::LlamaCpp | Self::Vllm if qwen => {
                Compat { thinking_format: ThinkingFormat::QwenChatTemplate, reasoning_effort: false, ..local }
            }
            Self::LlamaCpp | Self::Vllm => Compat { reasoning_effort: false, ..local },
            Self::LiteLlm => Compat { strict_mode: false, ..local },
        }
    }
}
