//! Where the key and the other headers of a request go.
//!
//! Values that may be secret are marked, so that they never show in a log of the HTTP client. Headers of the request's own
//! authorisation win over all others; lists of betas are joined.

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use secrecy::{ExposeSecret, SecretString};
use wolli_protocol::message::Message;

use crate::formats::{Kind, Written, anthropic, openai_completions};
use crate::request::ModelRequest;

/// How we introduce ourselves where nothing else is configured.
const OURSELVES: &str = concat!("wolli/", env!("CARGO_PKG_VERSION"));
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// A header that cannot be sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum HeaderError {
    #[error("header {0:?} has a name or a value that cannot be sent")]
    Invalid(String),
    #[error("the API key for provider {0} has characters that cannot be sent")]
    Key(String),
}

/// All headers of a request.
pub(crate) fn headers(kind: Kind, request: &ModelRequest, key: &SecretString, written: &Written) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(OURSELVES));
    let affinity = match kind {
        Kind::Anthropic => {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
            anthropic::Compat::of(&request.model).session_affinity_headers.then_some(&["x-session-affinity"][..])
        }
        Kind::OpenAiCompletions => {
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            let names = &["session_id", "x-client-request-id", "x-session-affinity"][..];
            openai_completions::Compat::of(&request.model).session_affinity_headers.then_some(names)
        }
    };
    if let (Some(names), Ok(session)) = (affinity, HeaderValue::from_str(&request.session_id)) {
        for name in names {
            headers.insert(*name, session.clone());
        }
    }
    let (name, value) = key_header(kind, &request.model.provider, key.expose_secret());
    let mut value = HeaderValue::from_str(&value).map_err(|_| HeaderError::Key(request.model.provider.clone()))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    if request.model.provider == "github-copilot" {
        copilot(request, written, &mut headers);
    }
    for (name, value) in &request.auth.headers {
        set(&mut headers, name, value.expose_secret())?;
    }
    join_betas(&mut headers, &written.betas)?;
    Ok(headers)
}

/// The header that carries the key.
fn key_header(kind: Kind, provider: &str, key: &str) -> (HeaderName, String) {
    let bearer = format!("Bearer {key}");
    match kind {
        _ if provider == "cloudflare-ai-gateway" => (HeaderName::from_static("cf-aig-authorization"), bearer),
        // A token of a login is a bearer token; we do not pass ourselves off as the client that it was made for.
        Kind::Anthropic if provider != "github-copilot" && !key.contains("sk-ant-oat") => {
            (HeaderName::from_static("x-api-key"), key.to_owned())
        }
        Kind::Anthropic | Kind::OpenAiCompletions => (AUTHORIZATION, bearer),
    }
}

fn copilot(request: &ModelRequest, written: &Written, headers: &mut HeaderMap) {
    let by_user = matches!(request.messages.last().map(AsRef::as_ref), Some(Message::User(_)));
    headers.insert("x-initiator", HeaderValue::from_static(if by_user { "user" } else { "agent" }));
    headers.insert("openai-intent", HeaderValue::from_static("conversation-edits"));
    if written.has_images {
        headers.insert("copilot-vision-request", HeaderValue::from_static("true"));
    }
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), HeaderError> {
    let invalid = || HeaderError::Invalid(name.to_owned());
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
    value.set_sensitive(true);
    headers.insert(header, value);
    Ok(())
}

fn join_betas(headers: &mut HeaderMap, betas: &[&'static str]) -> Result<(), HeaderError> {
    let configured = headers.get(BETA).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    let mut all: Vec<&str> = betas.to_vec();
    all.extend(configured.split(',').map(str::trim).filter(|beta| !beta.is_empty() && !betas.contains(beta)));
    if !all.is_empty() {
        let value = HeaderValue::from_str(&all.join(",")).map_err(|_| HeaderError::Invalid(BETA.to_string()))?;
        headers.insert(BETA, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{HeaderError, Kind, headers};
    use crate::repair::Repairs;
    use crate::request::{CacheRetention, ModelRequest};
    use crate::testing::{ANTHROPIC, OPENAI, PNG, model, request, tool};

    /// Headers of a request, as `name: value`, sorted; the ones that are always there are left out.
    fn shown(request: &ModelRequest) -> Vec<String> {
        let kind = Kind::of(&request.model.api).unwrap();
        let written = kind.write(request, CacheRetention::Short, &Repairs::default()).unwrap();
        let headers = headers(kind, request, request.auth.key.as_ref().unwrap(), &written).unwrap();
        // Nothing that may be secret shows in a log.
        assert!(!format!("{headers:?}").contains("planted"), "{headers:?}");
        let mut shown: Vec<_> = headers
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "content-type" | "accept" | "user-agent" | "anthropic-version"))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        shown.sort();
        shown
    }

    fn asked(api: &str, provider: &str) -> ModelRequest {
        let mut request = request(model(api), json!([{"role": "user", "content": "x"}]));
        request.model.provider = provider.into();
        request
    }

    #[test]
    fn the_key_goes_where_each_kind_and_provider_wants_it() {
        let beta = "anthropic-beta: interleaved-thinking-2025-05-14";
        for (api, provider, key, expected) in [
            (ANTHROPIC, "anthropic", "sk-planted", vec![beta, "x-api-key: sk-planted"]),
            (ANTHROPIC, "anthropic", "sk-ant-oat-planted", vec![beta, "authorization: Bearer sk-ant-oat-planted"]),
            (ANTHROPIC, "cloudflare-ai-gateway", "planted", vec![beta, "cf-aig-authorization: Bearer planted"]),
            (OPENAI, "cloudflare-ai-gateway", "planted", vec!["cf-aig-authorization: Bearer planted"]),
            (OPENAI, "groq", "planted", vec!["authorization: Bearer planted"]),
            (
                ANTHROPIC,
                "github-copilot",
                "planted",
                vec![beta, "authorization: Bearer planted", "openai-intent: conversation-edits", "x-initiator: user"],
            ),
            (ANTHROPIC, "fireworks", "planted", vec![beta, "x-api-key: planted", "x-session-affinity: session-1"]),
        ] {
            let mut request = asked(api, provider);
            request.auth.key = Some(key.into());
            assert_eq!(shown(&request), expected, "{api} {provider}");
        }
    }

    #[test]
    fn configured_headers_win_and_betas_are_joined() {
        let mut request = asked(ANTHROPIC, "fireworks");
        request.tools = vec![tool("read")].into();
        request.auth.set_header("X-Api-Key", "planted-other".into());
        request.auth.set_header("Anthropic-Beta", "mine, interleaved-thinking-2025-05-14".into());
        request.auth.set_header("x-team", "planted-team".into());
        assert_eq!(
            shown(&request),
            [
                "anthropic-beta: fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14,mine",
                "x-api-key: planted-other",
                "x-session-affinity: session-1",
                "x-team: planted-team"
            ]
        );
        let mut adaptive = asked(ANTHROPIC, "anthropic");
        adaptive.model.compat = json!({"forceAdaptiveThinking": true}).as_object().cloned();
        assert_eq!(shown(&adaptive), ["x-api-key: sk-test-planted-key"]);
    }

    #[test]
    fn images_and_tool_results_show_in_the_headers_of_one_provider() {
        let mut request = asked(OPENAI, "github-copilot");
        request.model.compat = json!({"sendSessionAffinityHeaders": true}).as_object().cloned();
        request.messages = crate::testing::history(json!([
            {"role": "user", "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
            {"role": "assistant", "content": [{"type": "toolCall", "id": "a", "name": "read", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "a", "content": []}
        ]));
        assert_eq!(
            shown(&request),
            [
                "authorization: Bearer sk-test-planted-key",
                "copilot-vision-request: true",
                "openai-intent: conversation-edits",
                "session_id: session-1",
                "x-client-request-id: session-1",
                "x-initiator: agent",
                "x-session-affinity: session-1"
            ]
        );
    }

    #[test]
    fn what_cannot_be_a_header_is_named_and_not_shown() {
        let mut request = asked(OPENAI, "groq");
        let written = Kind::OpenAiCompletions.write(&request, CacheRetention::Short, &Repairs::default()).unwrap();
        let error = headers(Kind::OpenAiCompletions, &request, &"planted\nkey".into(), &written).unwrap_err();
        assert_eq!(error, HeaderError::Key("groq".into()));
        request.auth.headers.push(("x-a".into(), "planted\r\nvalue".into()));
        let error = headers(Kind::OpenAiCompletions, &request, &"k".into(), &written).unwrap_err();
        assert_eq!(error.to_string(), "header \"x-a\" has a name or a value that cannot be sent");
    }
}
