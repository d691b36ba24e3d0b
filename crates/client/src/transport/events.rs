//! An open event stream.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use tokio::time::timeout;
use wolli_protocol::sse::{Decoder, Event};

use super::connect::Connection;
use super::request::{Body, Failure};
use super::{Answer, Transport};
use crate::error::ClientError;

/// The daemon pings every 15 s. Three missed ones mean that the link is dead, also if nothing ever told this side.
pub(crate) const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// Largest frame: a `hello` with entries, or a message with images.
const FRAME_BYTES: usize = 256 << 20;

/// Largest body of a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Frames from an event stream. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// Its end would end the body.
    _connection: Connection,
    body: Incoming,
    decoder: Decoder,
    silence_limit: Duration,
}

impl Transport {
    /// Opens an event stream, or gives back the answer that is none.
    pub(crate) async fn open_events(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
    ) -> Result<Result<EventStream, Answer>, ClientError> {
        let silence_limit = self.daemon().silence_limit;
        let opened = timeout(silence_limit, self.exchange(Method::GET, path, headers, Body::None)).await;
        let exchanged = opened.unwrap_or_else(|_| Err(Failure::Interrupted("no answer".into())));
        let (connection, response) = exchanged.map_err(|failure| match failure {
            Failure::NotSent(error) => error,
            Failure::Interrupted(problem) => ClientError::Unreachable { agent: self.daemon().home.name().clone(), problem },
        })?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::OK {
            return Ok(Ok(EventStream { _connection: connection, body, decoder: Decoder::new(FRAME_BYTES), silence_limit }));
        }
        let body = timeout(silence_limit, Limited::new(body, REFUSAL_BYTES).collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Ok(Err(Answer { status: head.status, body }))
    }
}

impl EventStream {
    /// The next event, or why there is none any more.
    ///
    /// Cancel-safe: what was read and not given out is kept.
    pub(crate) async fn next(&mut self) -> Result<Event, String> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) => return Ok(event),
                Some(Err(error)) => return Err(error.to_string()),
                None => {}
            }
            match timeout(self.silence_limit, self.body.frame()).await {
                Err(_) => return Err(format!("nothing came for {} s", self.silence_limit.as_secs_f64())),
                Ok(None) => return Err("the stream ended".into()),
                Ok(Some(Err(error))) => return Err(error.to_string()),
                Ok(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.feed(&bytes);
                    }
                }
            }
        }
    }
}
