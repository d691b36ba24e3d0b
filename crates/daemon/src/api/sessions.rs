//! `GET /sessions` and `GET /sessions/:id/entries`.

use std::num::NonZeroUsize;

use http::StatusCode;
use wolli_protocol::ids::SessionId;
use wolli_runtime::runtime::{Runtime, SessionError};
use wolli_runtime::session::PageError;

use super::envelope;
use crate::http::answer::{self, Answer};
use crate::http::query::parameter;

/// Entries of a page unless the client names another number.
const PAGE: usize = 200;
/// Entries of a page at most.
const LARGEST_PAGE: usize = 10_000;
/// Bytes after which a page ends: what a client can take at once without noticing.
const PAGE_BYTES: usize = 4 << 20;

pub(crate) async fn list(runtime: &Runtime) -> Answer {
    match runtime.agent_state().await {
        Ok(state) => answer::json_of(&state),
        Err(error) => session_error(&error),
    }
}

pub(crate) async fn entries(runtime: &Runtime, id: &SessionId, query: Option<&str>) -> Answer {
    let limit = match parameter(query, "limit") {
        None => PAGE,
        Some(text) => match text.parse::<NonZeroUsize>() {
            Ok(limit) if limit.get() <= LARGEST_PAGE => limit.get(),
            _ => return answer::error(StatusCode::BAD_REQUEST, &format!("limit must be a number from 1 to {LARGEST_PAGE}")),
        },
    };
    match runtime.entries(id, parameter(query, "after"), limit, PAGE_BYTES).await {
        Ok(page) => {
            let mut text = envelope::list("entries", &page.entries);
            if let Some(next) = page.next {
                text.pop();
                text.push_str(",\"next\":");
                text.push_str(&serde_json::Value::from(next.as_str()).to_string());
                text.push('}');
            }
            answer::json(text)
        }
        Err(error) => session_error(&error),
    }
}

/// `{"error": ...}` with the status that fits.
pub(crate) fn session_error(error: &SessionError) -> Answer {
    let status = match error {
        SessionError::Unknown { .. } | SessionError::Page(PageError::UnknownEntry(_)) => StatusCode::NOT_FOUND,
        SessionError::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        SessionError::Forming
        | SessionError::File(_)
        | SessionError::Listing(_)
        | SessionError::Delete(_)
        | SessionError::Page(PageError::File(_))
        | SessionError::Model(_)
        | SessionError::Agent(_)
        | SessionError::Service(_)
        | SessionError::Invocation(_)
        | SessionError::Reload(_)
        | SessionError::NotReached(_)
        | SessionError::Patterns(_)
        | SessionError::NameTooLong
        | SessionError::Command(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    answer::error(status, &error.to_string())
}
