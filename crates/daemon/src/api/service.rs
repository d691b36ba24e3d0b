//! One request from head to answer: access, then the route, then what goes with every answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use http::header::{CONNECTION, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Version};
use hyper::body::{Body, Incoming};
use tokio::sync::watch;

use super::events::{Defaults, Pace};
use super::health::Identity;
use super::opening::{self, Opening};
use super::{control, dialogs, events, reference, sessions};
use crate::http::access::{Access, Transport};
use crate::http::answer::{self, Answer};
use crate::http::query::parameter;
use crate::http::request_body::{self, BodyLimits};
use crate::http::route::Route;
use crate::server::activity::{Activity, InProgress};
use crate::server::limits::{ANNOUNCED_IDLE, Timing};
use crate::stop::Stop;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// What requests are answered with.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) identity: Identity,
    pub(crate) access: Access,
    pub(crate) opening: watch::Receiver<Opening>,
    pub(crate) defaults: Defaults,
    pub(crate) pace: Pace,
    /// Bytes of a body.
    pub(crate) body_limit: u64,
    pub(crate) timing: Timing,
    pub(crate) stop: Stop,
}

/// A request's body, until somebody reads it.
struct RequestBody {
    incoming: Option<Incoming>,
    /// Some of it may still be on its way.
    unread: bool,
}

impl Service {
    /// Answers one request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>, transport: Transport, activity: Arc<Activity>) -> Answer {
        let started = Instant::now();
        let (head, body) = request.into_parts();
        let in_progress = activity.begin();
        let mut body = RequestBody { unread: !body.is_end_stream(), incoming: Some(body) };
        if !body.unread {
            in_progress.received();
        }
        let route = Route::of(&head.method, head.uri.path());
        let answered = AssertUnwindSafe(self.respond(&head, &route, transport, &mut body, &in_progress)).catch_unwind().await;
        // The panic was logged where it happened; it is the request's, not the daemon's.
        let mut answer = answered.unwrap_or_else(|_| answer::internal_error());
        if body.unread {
            activity.leave_body_unread();
        }
        self.finish(&head, &mut answer, body.unread);
        // Only the path: queries and headers may hold secrets.
        tracing::debug!(method = %head.method, path = head.uri.path(), status = answer.status().as_u16(), elapsed = ?started.elapsed(), "request");
        if route.is_stream() && answer.status().is_success() && head.method != Method::HEAD {
            in_progress.streaming();
        }
        answer.map(|body| body.holding(in_progress))
    }

    async fn respond(&self, head: &Parts, route: &Route, transport: Transport, body: &mut RequestBody, in_progress: &InProgress) -> Answer {
        if let Err(refusal) = self.access.check(head, transport, route) {
            return answer::refusal(&refusal);
        }
        if self.stop.is_wanted() {
            return answer::error(http::StatusCode::SERVICE_UNAVAILABLE, "the daemon is shutting down");
        }
        let query = head.uri.query();
        match route {
            Route::Health => return self.health(head, query),
            Route::Reference => return reference::answer(),
            Route::Unknown | Route::UnknownGuarded => return answer::not_found(),
            Route::Control(_) | Route::DialogAnswer(..) => {
                let Some(incoming) = body.incoming.take() else { return answer::internal_error() };
                let limits = BodyLimits { bytes: self.body_limit, time: self.timing.request_body };
                let bytes = match request_body::read(incoming, limits).await {
                    Ok(bytes) => bytes,
                    Err(error) => return error.answer(),
                };
                body.unread = false;
                in_progress.received();
                return match route {
                    Route::Control(id) => control::answer(&self.opening, id.clone(), bytes, &self.timing, &self.stop).await,
                    Route::DialogAnswer(id, rail) => dialogs::answer(&self.opening, id, *rail, bytes, &self.timing).await,
                    _ => answer::not_found(),
                };
            }
            Route::ControlStream | Route::Sessions | Route::SessionStream(_) | Route::Entries(_) => {}
        }
        let runtime = match opening::wait(&self.opening, self.timing.loading).await {
            Ok(runtime) => runtime,
            Err(unavailable) => return unavailable.answer(),
        };
        let attach = head.method != Method::HEAD;
        match route {
            Route::ControlStream => events::control(&runtime, query, self.defaults, &self.pace, attach).await,
            Route::Sessions => sessions::list(&runtime).await,
            Route::SessionStream(id) => events::session(&runtime, id, (query, &head.headers), self.defaults, &self.pace, attach).await,
            Route::Entries(id) => sessions::entries(&runtime, id, query).await,
            Route::Health | Route::Reference | Route::Control(_) | Route::DialogAnswer(..) | Route::Unknown | Route::UnknownGuarded => {
                answer::not_found()
            }
        }
    }

    fn health(&self, head: &Parts, query: Option<&str>) -> Answer {
        let proof = parameter(query, "nonce").and_then(|nonce| self.access.proof(&nonce));
        answer::json(self.identity.health(proof, self.access.bearer(head).is_ok()))
    }

    /// What every answer says about its connection.
    fn finish(&self, head: &Parts, answer: &mut Answer, unread: bool) {
        let mut wishes = head.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        let close = wishes.any(|wish| wish.trim().eq_ignore_ascii_case("close"));
        let headers = answer.headers_mut();
        if unread || close || self.stop.is_wanted() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        } else if head.version == Version::HTTP_11 && !headers.contains_key(CONNECTION) {
            headers.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
            headers.insert(KEEP_ALIVE, HeaderValue::from_static(ANNOUNCED_IDLE));
        }
    }
}
