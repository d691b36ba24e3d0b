//! Sends a command and waits for its answer, over broken connections where that cannot do harm.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use wolli_protocol::command::{Command, Response};
use wolli_protocol::ids::SessionId;

use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::link::refusal;
use crate::transport::{Answer, Body, Failure, Transport, encode_segment};

/// How long a command waits for a daemon that is away, for example because it is restarted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a command to a session. `repeatable` says that carrying it out twice is the same as once.
pub(crate) async fn command<T: DeserializeOwned>(
    transport: &Transport,
    session: &SessionId,
    command: &Command,
    repeatable: bool,
    limit: Option<Duration>,
) -> Result<T, ClientError> {
    let path = format!("/sessions/{}/control", encode_segment(session.as_str()));
    let value = serde_json::to_value(command).unwrap_or_default();
    let name = Command::names().find(|name| value["type"] == *name).unwrap_or("command");
    let unknown = || ClientError::UnknownSession { agent: transport.daemon().home.name().clone(), session: session.clone() };
    let body = Bytes::from(value.to_string());
    let answer = post(transport, Method::POST, &path, body, name, repeatable, limit, unknown).await?;
    let bad = |problem: String| ClientError::BadAnswer { request: name.to_owned(), problem };
    let response: Response = serde_json::from_slice(&answer.body).map_err(|error| bad(error.to_string()))?;
    if !response.success {
        return Err(ClientError::Command(response.error.unwrap_or_else(|| format!("{name} failed"))));
    }
    serde_json::from_value(response.data.unwrap_or_default()).map_err(|error| bad(error.to_string()))
}

/// Sends a request until it has an answer of status 200, or one that is final.
///
/// A connection may die without a sound. So one that is repeatable is sent again over another when nothing came for the silence limit:
/// without a `limit` again and again, as the daemon may have good reason to take that long.
#[expect(clippy::too_many_arguments, reason = "each is one fact of the request, and there are two callers")]
pub(super) async fn post(
    transport: &Transport,
    method: Method,
    path: &str,
    body: Bytes,
    name: &'static str,
    repeatable: bool,
    limit: Option<Duration>,
    unknown: impl Fn() -> ClientError,
) -> Result<Answer, ClientError> {
    let mut backoff = Backoff::default();
    let silence_limit = transport.daemon().silence_limit;
    let attempt_limit = if repeatable { Some(limit.map_or(silence_limit, |limit| limit.min(silence_limit))) } else { limit };
    let mut started = Instant::now();
    let mut refused = false;
    loop {
        let sent = Instant::now();
        let error = match transport.send(method.clone(), path, Body::Json(body.clone()), attempt_limit).await {
            Ok(answer) if answer.status.is_success() => return Ok(answer),
            // The token may have been changed; a kept connection has the old one. Nothing was carried out.
            Ok(answer) if answer.status.as_u16() == 401 && !refused => {
                refused = true;
                transport.forget_connections();
                continue;
            }
            // 503 says that the daemon is not ready, so it did nothing; after other failures it may have.
            Ok(answer) if answer.status.is_server_error() && answer.status.as_u16() != 503 && !repeatable => {
                return Err(ClientError::BadAnswer { request: name.to_owned(), problem: answer.status.to_string() });
            }
            Ok(answer) => refusal(transport, name, &answer, &unknown),
            Err(Failure::NotSent(error)) => error,
            Err(Failure::Interrupted(problem)) if repeatable => {
                if limit.is_none() && sent.elapsed() >= silence_limit {
                    // It was not away: somebody took the request.
                    (started, backoff) = (Instant::now(), Backoff::default());
                }
                ClientError::Unreachable { agent: transport.daemon().home.name().clone(), problem }
            }
            Err(Failure::Interrupted(problem)) => {
                tracing::debug!(command = name, %problem, "connection broke before the answer");
                return Err(ClientError::Interrupted { command: name });
            }
        };
        let wait = backoff.next();
        if error.is_final() || started.elapsed() + wait >= PATIENCE {
            return Err(error);
        }
        sleep(wait).await;
    }
}
