//! Reads the entries of a session in pages. This does not make the session live.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use wolli_protocol::ids::{EntryId, SessionId};

use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::link::refusal;
use crate::transport::{Body, Failure, Transport, encode_segment};

/// Entries of one page.
const PAGE: usize = 500;

/// How long a page may take.
const PAGE_LIMIT: Duration = Duration::from_secs(60);

/// Attempts for one page; reading it again does no harm.
const ATTEMPTS: u32 = 5;

#[derive(Deserialize)]
struct Page<T> {
    entries: Vec<T>,
    #[serde(default)]
    next: Option<EntryId>,
}

/// All entries of the active branch after that one, or from its beginning.
pub(crate) async fn read<T: DeserializeOwned>(
    transport: &Transport,
    session: &SessionId,
    after: Option<EntryId>,
) -> Result<Vec<T>, ClientError> {
    let mut entries = Vec::new();
    let mut after = after;
    loop {
        let mut page = page(transport, session, after.as_ref()).await?;
        entries.append(&mut page.entries);
        // A page that goes nowhere would be asked for again and again.
        match page.next {
            Some(next) if Some(&next) != after.as_ref() => after = Some(next),
            _ => return Ok(entries),
        }
    }
}

async fn page<T: DeserializeOwned>(transport: &Transport, session: &SessionId, after: Option<&EntryId>) -> Result<Page<T>, ClientError> {
    let mut path = format!("/sessions/{}/entries?limit={PAGE}", encode_segment(session.as_str()));
    if let Some(after) = after {
        path = format!("{path}&after={}", encode_segment(after.as_str()));
    }
    let mut backoff = Backoff::default();
    let limit = PAGE_LIMIT.min(transport.daemon().silence_limit);
    loop {
        let error = match transport.send(Method::GET, &path, Body::None, Some(limit)).await {
            Ok(answer) if answer.status.is_success() => {
                return serde_json::from_slice(&answer.body)
                    .map_err(|error| ClientError::BadAnswer { request: path, problem: error.to_string() });
            }
            Ok(answer) => {
                if answer.status.as_u16() == 401 {
                    transport.forget_connections();
                }
                refusal(transport, &path, &answer, || ClientError::BadAnswer {
                    request: path.clone(),
                    problem: "there is no such session or entry".into(),
                })
            }
            Err(Failure::NotSent(error)) => error,
            Err(Failure::Interrupted(problem)) => ClientError::Unreachable { agent: transport.daemon().home.name().clone(), problem },
        };
        if error.is_final() || matches!(error, ClientError::BadAnswer { .. }) || backoff.attempts() >= ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(backoff.next()).await;
    }
}
