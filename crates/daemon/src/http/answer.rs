//! Answers, with the statuses, headers and bytes that clients know.

use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use super::access::Refusal;
use super::body::AnswerBody;

pub(crate) type Answer = Response<AnswerBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=UTF-8");
/// As wolli 0.0.2 spells it in its refusals, without the space.
const REFUSAL_TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

fn with(status: StatusCode, content_type: HeaderValue, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// JSON text as it stands.
pub(crate) fn json(text: impl Into<Bytes>) -> Answer {
    with(StatusCode::OK, JSON, AnswerBody::whole(text))
}

/// JSON whose text comes piece by piece.
pub(crate) fn slow_json(stream: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    with(StatusCode::OK, JSON, AnswerBody::stream(stream))
}

/// `value` as JSON.
pub(crate) fn json_of(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(text) => json(text),
        Err(error) => {
            tracing::error!(%error, "an answer did not serialise");
            internal_error()
        }
    }
}

/// `{"error": ...}` with a status that says what kind of error it is.
pub(crate) fn error(status: StatusCode, message: &str) -> Answer {
    let text = serde_json::json!({ "error": message }).to_string();
    with(status, JSON, AnswerBody::whole(text))
}

pub(crate) fn not_found() -> Answer {
    with(StatusCode::NOT_FOUND, TEXT, AnswerBody::whole("404 Not Found"))
}

pub(crate) fn internal_error() -> Answer {
    with(StatusCode::INTERNAL_SERVER_ERROR, TEXT, AnswerBody::whole("Internal Server Error"))
}

/// The headers of an event stream; intermediaries must neither keep nor change nor gather it.
pub(crate) fn event_stream(body: AnswerBody) -> Answer {
    let mut answer = with(StatusCode::OK, EVENT_STREAM, body);
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}

/// The answer to a request that may not ask.
pub(crate) fn refusal(refusal: &Refusal) -> Answer {
    let challenge = |status, challenge: &'static str, body: &'static str| {
        let mut answer = with(status, REFUSAL_TEXT, AnswerBody::chunk(body));
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        answer
    };
    match refusal {
        Refusal::NoToken => challenge(StatusCode::UNAUTHORIZED, "Bearer realm=\"\"", "Unauthorized"),
        Refusal::MalformedToken => challenge(StatusCode::BAD_REQUEST, "Bearer error=\"invalid_request\"", "Bad Request"),
        Refusal::WrongToken => challenge(StatusCode::UNAUTHORIZED, "Bearer error=\"invalid_token\"", "Unauthorized"),
        Refusal::Host(name) => {
            let name = name.as_ref().map_or_else(|| "the name in the request".to_owned(), |name| format!("\"{name}\""));
            let text = format!(
                "{name} is not a name of this daemon. Use 127.0.0.1 or localhost, or a tunnel (ssh -L). If you do reach it by that \
                 name, add the name to \"hosts\" in [security] of config.toml: whoever controls it can then reach the daemon, and \
                 only the token stands between.\n"
            );
            with(StatusCode::MISDIRECTED_REQUEST, TEXT, AnswerBody::whole(text))
        }
        Refusal::Origin => with(
            StatusCode::FORBIDDEN,
            TEXT,
            AnswerBody::whole(
                "pages of other origins may not talk to this daemon. Open the page under the daemon's own address. If it is served under \
                 another name by a proxy, add that name to \"hosts\" in [security] of config.toml: pages of that name can then send \
                 requests.\n",
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_which_setting_to_change() {
        use futures_util::FutureExt;
        use http_body_util::BodyExt;
        for one in [Refusal::Host(Some("evil.example".into())), Refusal::Host(None), Refusal::Origin] {
            let body = refusal(&one).into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
            let text = std::str::from_utf8(&body).unwrap();
            assert!(text.contains("[security] of config.toml"), "{text}");
        }
    }
}
