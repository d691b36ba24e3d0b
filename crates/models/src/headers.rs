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
    for (name, value) in request.model.headers.iter().flatten() {
        set(&mut headers, name, value)?;
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
