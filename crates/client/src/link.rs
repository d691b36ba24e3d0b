//! One event stream that is kept alive: connect, read, and when it breaks connect again, without end.
//!
//! Only an explicit answer ends a link (the token is refused, the session does not exist), or its handle. What the
//! frames mean is the business of a [`Feed`].

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use wolli_protocol::sse::Event;

use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::transport::{Answer, EventStream, Transport};

/// How a stream is at the moment.
#[derive(Clone, Debug)]
pub enum LinkState {
    /// The first attempt, or another one, is under way.
    Connecting,
    /// `hello` came; what follows comes as it happens.
    Live,
    /// It broke; another attempt follows soon.
    Waiting {
        /// Failed attempts in a row.
        attempts: u32,
        problem: String,
    },
    /// It will not come back.
    Ended(ClientError),
}

/// What a frame did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// `hello`: the link is live.
    Hello,
    Frame,
}

/// Why reading stops.
#[derive(Debug)]
pub(crate) enum Break {
    /// This connection is of no use.
    Reconnect(String),
    Final(ClientError),
}

/// Takes in the frames of one stream, over all its connections.
pub(crate) trait Feed: Send {
    /// Path and query of the next connection.
    fn path(&self) -> String;

    /// Where the next connection goes on.
    fn last_event_id(&self) -> Option<String>;

    /// The error that stands for 404.
    fn unknown(&self) -> ClientError;

    /// A connection was opened; `hello` comes first.
    fn begin(&mut self);

    /// Takes in one event.
    fn take(&mut self, event: Event) -> impl Future<Output = Result<Taken, Break>> + Send;
}

/// Runs until the token is cancelled or the link ends for good.
pub(crate) async fn run(transport: Transport, mut feed: impl Feed, state: watch::Sender<LinkState>, token: CancellationToken) {
    let ended = tokio::select! {
        biased;
        () = token.cancelled() => ClientError::Closed,
        error = keep_alive(&transport, &mut feed, &state) => error,
    };
    state.send_replace(LinkState::Ended(ended));
}

async fn keep_alive(transport: &Transport, feed: &mut impl Feed, state: &watch::Sender<LinkState>) -> ClientError {
    let mut backoff = Backoff::default();
    let mut refused_tokens = 0;
    loop {
        let problem = match connect(transport, feed).await {
            Ok(stream) => {
                feed.begin();
                match read(stream, feed, state, &mut backoff).await {
                    Break::Final(error) => return error,
                    Break::Reconnect(problem) => problem,
                }
            }
            // The token may have been changed a moment ago; it was read anew only if the connection was.
            Err(ClientError::Unauthorized { .. }) if refused_tokens == 0 => {
                refused_tokens += 1;
                transport.forget_connections();
                continue;
            }
            Err(error) if error.is_final() => return error,
            Err(error) => error.to_string(),
        };
        if matches!(*state.borrow(), LinkState::Live) {
            refused_tokens = 0;
        }
        let wait = backoff.next();
        tracing::debug!(%problem, attempts = backoff.attempts(), ?wait, "event stream broke");
        state.send_replace(LinkState::Waiting { attempts: backoff.attempts(), problem });
        tokio::time::sleep(wait).await;
    }
}

async fn connect(transport: &Transport, feed: &impl Feed) -> Result<EventStream, ClientError> {
    let resume: Vec<_> = feed.last_event_id().map(|id| ("last-event-id", id)).into_iter().collect();
    let path = feed.path();
    transport.open_events(&path, &resume).await?.map_err(|answer| refusal(transport, &path, &answer, || feed.unknown()))
}

/// The error for an answer that is not 200.
pub(crate) fn refusal(transport: &Transport, request: &str, answer: &Answer, unknown: impl FnOnce() -> ClientError) -> ClientError {
    let agent = transport.daemon().home.name().clone();
    let text = || format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
    match answer.status.as_u16() {
        401 => ClientError::Unauthorized { agent },
        404 => unknown(),
        // It is too early, or too much, or something broke: all of that passes.
        408 | 429 | 500..=599 => ClientError::Unreachable { agent, problem: text() },
        400..=499 => ClientError::Command(text()),
        _ => ClientError::BadAnswer { request: request.to_owned(), problem: text() },
    }
}

async fn read(mut stream: EventStream, feed: &mut impl Feed, state: &watch::Sender<LinkState>, backoff: &mut Backoff) -> Break {
    loop {
        let event = match stream.next().await {
            Ok(event) => event,
            Err(problem) => return Break::Reconnect(problem),
        };
        match feed.take(event).await {
            Ok(Taken::Frame) => {}
            Ok(Taken::Hello) => {
                backoff.reset();
                state.send_replace(LinkState::Live);
            }
            Err(reason) => return reason,
        }
    }
}

/// The next of what a link's task tells, or how many are lost to a slow reader; none when the link has ended and all was
/// given.
///
/// Cancel-safe.
pub(crate) async fn receive<T: Clone>(told: &mut broadcast::Receiver<T>, link: &mut watch::Receiver<LinkState>) -> Option<Result<T, u64>> {
    loop {
        tokio::select! {
            biased;
            received = told.recv() => return match received {
                Ok(value) => Some(Ok(value)),
                Err(broadcast::error::RecvError::Lagged(count)) => Some(Err(count)),
                Err(broadcast::error::RecvError::Closed) => None,
            },
            () = ended(link) => {
                // Nothing is told after the end, so what is empty now stays so.
                if told.is_empty() {
                    return None;
                }
            }
        }
    }
}

/// Waits for the end of a link.
///
/// Cancel-safe.
pub(crate) async fn ended(link: &mut watch::Receiver<LinkState>) {
    // A sender that is gone ended without saying so.
    let _ = link.wait_for(|state| matches!(state, LinkState::Ended(_))).await;
}
