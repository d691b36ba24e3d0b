//! Texts of errors that providers answer with, and what they say about sending again.

use serde_json::Value;

use super::{Failure, Kind};
use crate::retry::may_pass;

/// The text for an error status, as the official client of the kind would word it.
pub(crate) fn status_text(kind: Kind, status: u16, body: &str) -> String {
    let body = body.trim();
    if body.is_empty() {
        return format!("{status} status code (no body)");
    }
    let Ok(parsed) = serde_json::from_str::<Value>(body) else { return format!("{status} {body}") };
    match kind {
        Kind::Anthropic => match parsed.get("message").and_then(Value::as_str) {
            Some(message) => format!("{status} {message}"),
            None => format!("{status} {parsed}"),
        },
        Kind::OpenAiCompletions => {
            let error = parsed.get("error").unwrap_or(&parsed);
            with_raw(format!("{status} {}", message_of(error)), error)
        }
    }
}

/// The error in a body that came with status 200 where a stream of events should be; `None` if there is none in it.
pub(crate) fn error_in_body(body: &str) -> Option<Failure> {
    let parsed: Value = serde_json::from_str(body).ok()?;
    Some(failure_of(parsed.get("error").filter(|error| !error.is_null())?))
}

/// The failure that an `error` object inside a stream means.
pub(super) fn failure_of(error: &Value) -> Failure {
    let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("");
    let code = error.get("code").and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
    let text = with_raw(message_of(error), error);
    let may_pass = may_pass(word("type"), code, &text) || may_pass(word("code"), None, &text);
    Failure { text, may_pass }
}

fn message_of(error: &Value) -> String {
    match error.get("message").and_then(Value::as_str).or_else(|| error.as_str()) {
        Some(message) => message.to_owned(),
        None => error.to_string(),
    }
}

/// Gateways put what the upstream said beside their own words.
fn with_raw(text: String, error: &Value) -> String {
    match error.pointer("/metadata/raw") {
        None | Some(Value::Null) => text,
        Some(Value::String(raw)) => format!("{text}\n{raw}"),
        Some(raw) => format!("{text}\n{raw}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, error_in_body, status_text};

    #[test]
    fn texts_of_error_statuses() {
        for (kind, status, body, expected) in [
            (Kind::Anthropic, 529, "", "529 status code (no body)"),
            (Kind::Anthropic, 502, "<html>bad gateway</html>", "502 <html>bad gateway</html>"),
            (
                Kind::Anthropic,
                400,
                r#"{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}"#,
                r#"400 {"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#,
            ),
            (Kind::Anthropic, 404, r#"{"message":"no such path"}"#, "404 no such path"),
            (Kind::OpenAiCompletions, 401, r#"{"error":{"message":"Incorrect API key","type":"x"}}"#, "401 Incorrect API key"),
            (Kind::OpenAiCompletions, 404, r#"{"error":"model not found"}"#, "404 model not found"),
            (Kind::OpenAiCompletions, 422, r#"{"detail":"odd"}"#, r#"422 {"detail":"odd"}"#),
            (
                Kind::OpenAiCompletions,
                429,
                r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"upstream says no"}}}"#,
                "429 Provider returned error\nupstream says no",
            ),
        ] {
            assert_eq!(status_text(kind, status, body), expected);
        }
    }

    #[test]
    fn errors_in_a_body_of_status_200() {
        let failure = error_in_body(r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#).unwrap();
        assert_eq!((failure.text.as_str(), failure.may_pass), ("Overloaded", true));
        let failure = error_in_body(r#"{"error":{"message":"bad key","code":"401"}}"#).unwrap();
        assert_eq!((failure.text.as_str(), failure.may_pass), ("bad key", false));
        assert_eq!(error_in_body(r#"{"choices":[],"error":null}"#), None);
        assert_eq!(error_in_body("<html>"), None);
    }
}
