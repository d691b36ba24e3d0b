//! One connection from its first byte to its last: HTTP/1.1 over a guarded socket, ended when it rests too long or the daemon stops.
//!
//! Everything about a connection happens in its one task; a reader of events costs no other.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Phase};
use super::limits::{CONNECTION_BUFFER, Timing};
use super::transport::{Guarded, Socket};
use crate::http::answer::Answer;

/// When connections end; one for the whole server.
#[derive(Clone, Debug)]
pub(crate) struct Endings {
    /// No new requests: connections at rest close, the others close when they have answered.
    pub(crate) drain: CancellationToken,
    /// Whatever is left is cut off.
    pub(crate) cut: CancellationToken,
}

/// Serves the requests of one connection, one after the other.
pub(crate) async fn serve<F, R>(socket: Socket, timing: &Timing, endings: &Endings, answer: F)
where
    F: Fn(Request<Incoming>, Arc<Activity>) -> R,
    R: Future<Output = Answer>,
{
    let activity = Arc::new(Activity::default());
    let io = TokioIo::new(Guarded::new(socket, Arc::clone(&activity), timing.write_stall));
    let service = service_fn(|request| {
        let answered = answer(request, Arc::clone(&activity));
        async move { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timing.request_head)
        .max_buf_size(CONNECTION_BUFFER)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut drain = pin!(endings.drain.cancelled());
    let mut cut = pin!(endings.cut.cancelled());
    let mut draining = false;
    // The rest since which request, and when it has lasted too long.
    let mut rest: Option<(u64, Pin<Box<Sleep>>)> = None;

    let ended = poll_fn(|cx| {
        if !draining && drain.as_mut().poll(cx).is_ready() {
            draining = true;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended.err());
        }
        if !activity.is_at_rest() {
            rest = None;
        } else if draining {
            return Poll::Ready(None);
        } else if activity.phase() == Phase::Idle {
            let requests = activity.requests();
            let (since, limit) = rest.get_or_insert_with(|| (requests, Box::pin(tokio::time::sleep(timing.idle))));
            if std::mem::replace(since, requests) != requests {
                limit.as_mut().reset(Instant::now() + timing.idle);
            }
            if limit.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
        }
        // Nothing is cut off before it was asked to end.
        if draining && cut.as_mut().poll(cx).is_ready() { Poll::Ready(None) } else { Poll::Pending }
    });
    if let Some(error) = ended.await {
        // Clients that go away in the middle are everyday life.
        tracing::debug!(%error, "a connection broke");
    }
}
