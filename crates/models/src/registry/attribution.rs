//! Headers that tell a provider which program is asking.
//!
//! Most are sent only when the person turned telemetry on with `WOLLI_TELEMETRY`; nothing in a settings file does. One
//! provider routes by session and needs its two headers always.

use wolli_protocol::model::Model;

use crate::indirection::Environment;

/// The name under which we present ourselves.
const PRODUCT: &str = "wolli";

/// True if the environment turns telemetry on: `1`, `true` or `yes`, whatever the case.
pub(crate) fn telemetry(environment: &Environment) -> bool {
    environment.get("WOLLI_TELEMETRY").is_some_and(|word| ["1", "true", "yes"].contains(&word.to_ascii_lowercase().as_str()))
}

/// The headers for a request to `model`. `session` is the id of the session that asks, if one does.
pub(crate) fn headers(model: &Model, telemetry: bool, session: Option<&str>) -> Vec<(&'static str, String)> {
    let provider = model.provider.as_str();
    let host = host(&model.base_url);
    let at = |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    let mut headers = Vec::new();
    if telemetry {
        if provider == "openrouter" || model.base_url.contains("openrouter.ai") {
            headers.push(("HTTP-Referer", "https://github.com/opsyhq/wolli".to_owned()));
            headers.push(("X-OpenRouter-Title", PRODUCT.to_owned()));
            headers.push(("X-OpenRouter-Categories", "cli-agent".to_owned()));
        }
        if provider == "nvidia" || at("integrate.api.nvidia.com") {
            headers.push(("X-BILLING-INVOKE-ORIGIN", PRODUCT.to_owned()));
        }
        if provider.starts_with("cloudflare-") || at("api.cloudflare.com") || at("gateway.ai.cloudflare.com") {
            headers.push(("User-Agent", PRODUCT.to_owned()));
        }
    }
    if matches!(provider, "opencode" | "opencode-go") || at("opencode.ai") {
        headers.extend(session.map(|session| ("x-opencode-session", session.to_owned())));
        headers.push(("x-opencode-client", PRODUCT.to_owned()));
    }
    headers
}

/// The host of a URL, in lower case, without user, port and path.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_session_headers_are_sent_without_telemetry() {
        let openrouter = "HTTP-Referer X-OpenRouter-Title X-OpenRouter-Categories";
        let cases = [
            ("openrouter", "https://openrouter.ai/api/v1", openrouter, ""),
            ("mine", "https://proxy.test/openrouter.ai/v1", openrouter, ""),
            ("nvidia", "https://x.test", "X-BILLING-INVOKE-ORIGIN", ""),
            ("mine", "https://INTEGRATE.api.nvidia.com:443/v1", "X-BILLING-INVOKE-ORIGIN", ""),
            ("mine", "https://notintegrate.api.nvidia.com/v1", "", ""),
            ("cloudflare-workers-ai", "https://x.test", "User-Agent", ""),
            ("mine", "https://user@gateway.ai.cloudflare.com/v1", "User-Agent", ""),
            ("opencode", "https://x.test", "x-opencode-session x-opencode-client", "x-opencode-session x-opencode-client"),
            ("mine", "https://opencode.ai/zen/v1", "x-opencode-session x-opencode-client", "x-opencode-session x-opencode-client"),
            ("anthropic", "https://api.anthropic.com", "", ""),
            ("mine", "https://evil.test/integrate.api.nvidia.com", "", ""),
            ("mine", "", "", ""),
        ];
        for (provider, url, with, without) in cases {
            let model = Model { provider: provider.into(), base_url: url.into(), ..Model::placeholder() };
            let names = |telemetry| {
                let headers = headers(&model, telemetry, Some("s1"));
                headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
            };
            assert_eq!((names(true).as_str(), names(false).as_str()), (with, without), "{provider} {url}");
        }
    }

    #[test]
    fn telemetry_is_off_unless_the_environment_says_so() {
        for (word, expected) in [("1", true), ("TRUE", true), ("Yes", true), ("", false), ("0", false), ("on", false), ("2", false)] {
            assert_eq!(telemetry(&[("WOLLI_TELEMETRY", word)].into_iter().collect()), expected, "{word:?}");
        }
        assert!(!telemetry(&Environment::default()));
    }
}
