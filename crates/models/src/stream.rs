//! One request as a state machine: send, read, fold, retry, repair, end.
//!
//! The reader's poll goes straight to the socket, so a byte is an event after one hop. Invariant: all state is in the
//! struct, so a dropped `next` loses nothing; there is one `End`, and after the first step nothing is sent again.

mod attempt;
mod echoing;
mod provided;
mod reading;
mod waiting;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::Response;
use secrecy::ExposeSecret;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use wolli_protocol::event::AssistantMessageEvent;
use wolli_protocol::message::{AssistantMessage, StopReason};

use crate::client::Shared;
use crate::echo::Echo;
use crate::event::{ModelEvent, RetryNotice};
use crate::formats::{Failure, Folder, Kind};
use crate::repair::Repairs;
use crate::request::ModelRequest;
use crate::{retry, transport};
use attempt::{Attempt, Prepared, Refusal};
use provided::Provided;
use reading::Reading;
use waiting::{Outcome, first};

/// Text of an answer that was cancelled.
pub const ABORTED: &str = "Request was aborted";

/// How much of a body that is no stream of events is kept to say what went wrong.
const MAX_ERROR_BYTES: usize = 16 * 1024;

/// How long the text of a refusal may take to arrive; the status alone says enough.
const REFUSAL_LIMIT: Duration = Duration::from_secs(10);

type Sending = Pin<Box<dyn Future<Output = Result<Response, reqwest::Error>> + Send>>;

/// The events of one request. Dropping it ends the request.
pub struct ModelStream {
    shared: Arc<Shared>,
    request: ModelRequest,
    cancel: CancellationToken,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// For silence, back-off and pauses; one timer is enough, as only one of them is waited for at a time.
    timer: Option<Pin<Box<Sleep>>>,
    phase: Phase,
    ready: VecDeque<ModelEvent>,
    scratch: VecDeque<AssistantMessageEvent>,
    attempt: Attempt,
    repairs: Repairs,
    timestamp: i64,
    started: bool,
    /// Something of the answer was given out.
    streamed: bool,
}

enum Phase {
    Begin,
    /// A large request is being written.
    Preparing(JoinHandle<Result<Prepared, String>>),
    Sending {
        response: Sending,
        folder: Box<Folder>,
    },
    /// Reading the body of an error status.
    Refused(Box<Refused>),
    Reading(Box<Reading>),
    /// The answer is whole; the rest of the body is read so that the connection can be used again.
    Draining {
        response: Response,
        message: Box<AssistantMessage>,
    },
    BackingOff,
    Echoing(Box<Echo>),
    Provided(Box<Provided>),
    Over,
}

struct Refused {
    refusal: Refusal,
    response: Response,
    folder: Folder,
}

impl ModelStream {
    pub(crate) fn new(shared: Arc<Shared>, request: ModelRequest, cancel: CancellationToken) -> Self {
        Self {
            repairs: Repairs::knowing(shared.refused.known()),
            shared,
            request,
            cancelled: Box::pin(cancel.clone().cancelled_owned()),
            cancel,
            timer: None,
            phase: Phase::Begin,
            ready: VecDeque::new(),
            scratch: VecDeque::new(),
            attempt: Attempt::default(),
            timestamp: now_millis(),
            started: false,
            streamed: false,
        }
    }

    /// The next event; `None` after the [`End`](ModelEvent::End).
    ///
    /// Cancel-safe: a dropped future loses no event.
    pub async fn next(&mut self) -> Option<ModelEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &self.phase {
                Phase::Begin => self.begin(),
                Phase::Preparing(_) => self.await_prepared().await,
                Phase::Sending { .. } => self.await_response().await,
                Phase::Refused(_) => self.read_refusal().await,
                Phase::Reading(_) => self.read().await,
                Phase::Draining { .. } => self.drain().await,
                Phase::BackingOff => self.back_off().await,
                Phase::Echoing(_) => self.echo().await,
                Phase::Provided(_) => self.read_provided().await,
                Phase::Over => return None,
            }
        }
    }

    /// Takes the phase out, to replace it.
    fn take_phase(&mut self) -> Phase {
        std::mem::replace(&mut self.phase, Phase::Over)
    }

    fn begin(&mut self) {
        if let Some(provided) = self.shared.provided.as_ref().filter(|provided| provided.serves(&self.request.model)) {
            let events = provided.port.answer(self.request.clone(), self.cancel.clone());
            let begun = AssistantMessage::begin(&self.request.model, self.timestamp);
            let provided = Provided::new(events, &begun);
            self.start(begun);
            self.set_timer(self.shared.config.idle_timeout);
            self.phase = Phase::Provided(Box::new(provided));
            return;
        }
        if self.request.model.api == crate::registry::DEMO_API {
            let echo = Echo::new(&self.request, self.timestamp);
            self.start(echo.begun());
            self.phase = Phase::Echoing(Box::new(echo));
            return;
        }
        if attempt::is_heavy(&self.shared, &self.request) {
            let (shared, request, repairs) = (Arc::clone(&self.shared), self.request.clone(), self.repairs.clone());
            let timestamp = self.timestamp;
            // If nobody waits for it any more, its result is thrown away; it takes milliseconds and touches nothing.
            let work = tokio::task::spawn_blocking(move || attempt::prepare(&shared, &request, &repairs, timestamp));
            self.timer = None;
            self.phase = Phase::Preparing(work);
        } else {
            let prepared = attempt::prepare(&self.shared, &self.request, &self.repairs, self.timestamp);
            self.send(prepared);
        }
    }

    async fn await_prepared(&mut self) {
        let Phase::Preparing(work) = &mut self.phase else { return };
        match first(&mut self.cancelled, &mut self.timer, work).await {
            Outcome::Ready(Ok(prepared)) => self.send(prepared),
            Outcome::Ready(Err(error)) => self.send(Err(format!("could not write the request: {error}"))),
            Outcome::Cancelled | Outcome::Silence => self.end_without_folder(StopReason::Aborted, ABORTED.to_owned()),
        }
    }

    fn send(&mut self, prepared: Result<Prepared, String>) {
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(text) => return self.end_without_folder(StopReason::Error, text),
        };
        let unchanged = self.attempt.repeats(&prepared.body);
        if let Some(text) = self.attempt.take_refused().filter(|_| unchanged) {
            // The part that the provider named is not in the request: sending it again would change nothing.
            return self.end(prepared.folder.fail(StopReason::Error, text));
        }
        self.attempt.left_out = prepared.left_out;
        tracing::debug!(
            provider = %self.request.model.provider, model = %self.request.model.id,
            attempt = self.attempt.retries, bytes = prepared.body.len(), "asking a model"
        );
        self.set_timer(self.shared.config.idle_timeout);
        let response = attempt::send(prepared.client, prepared.url, prepared.headers, prepared.body);
        self.phase = Phase::Sending { response, folder: Box::new(prepared.folder) };
    }

    async fn await_response(&mut self) {
        let Phase::Sending { response, .. } = &mut self.phase else { return };
        let outcome = first(&mut self.cancelled, &mut self.timer, response).await;
        let Phase::Sending { folder, .. } = self.take_phase() else { return };
        match outcome {
            Outcome::Cancelled => self.abort(*folder),
            Outcome::Silence => {
                let text = self.silence_text();
                self.fail(*folder, Failure { text, may_pass: true }, None);
            }
            Outcome::Ready(Err(error)) => {
                let host = self.host();
                let text = if error.is_connect() || error.is_timeout() {
                    format!("Connection error: could not reach {host}: {}", transport::root_cause(&error))
                } else {
                    format!("Connection error: {host}: {}", transport::root_cause(&error))
                };
                let may_pass = transport::may_pass(&error);
                self.fail(*folder, Failure { text, may_pass }, None);
            }
            Outcome::Ready(Ok(response)) if response.status().is_success() => {
                if !self.attempt.left_out.is_empty() {
                    // It was that part: it is not sent again.
                    self.shared.refused.remember(std::mem::take(&mut self.attempt.left_out));
                }
                let begun = AssistantMessage::begin(&self.request.model, self.timestamp);
                self.start(begun);
                self.set_timer(self.shared.config.idle_timeout);
                self.phase = Phase::Reading(Box::new(Reading::new(response, *folder)));
            }
            Outcome::Ready(Ok(response)) => {
                self.set_timer(self.shared.config.idle_timeout.min(REFUSAL_LIMIT));
                self.phase = Phase::Refused(Box::new(Refused { refusal: Refusal::new(&response), response, folder: *folder }));
            }
        }
    }

    async fn read_refusal(&mut self) {
        let Phase::Refused(refused) = &mut self.phase else { return };
        let Refused { response, refusal, .. } = refused.as_mut();
        let outcome = first(&mut self.cancelled, &mut self.timer, response.chunk()).await;
        let done = match &outcome {
            Outcome::Cancelled | Outcome::Silence => true,
            Outcome::Ready(Ok(Some(bytes))) => refusal.take_in(bytes, MAX_ERROR_BYTES),
            // Half an error text is better than none.
            Outcome::Ready(Ok(None) | Err(_)) => true,
        };
        if !done {
            return;
        }
        let Phase::Refused(refused) = self.take_phase() else { return };
        let Refused { refusal, folder, .. } = *refused;
        if matches!(outcome, Outcome::Cancelled) {
            return self.abort(folder);
        }
        let Some(kind) = Kind::of(&self.request.model.api) else { return };
        let text = refusal.text(kind);
        if let Some(repair) = refusal.repair()
            && self.attempt.may_repair()
            && self.repairs.add(repair.clone())
        {
            tracing::warn!(provider = %self.request.model.provider, ?repair, "a provider refused a part of a request; it is left out");
            self.attempt.repaired(text);
            self.phase = Phase::Begin;
            return;
        }
        self.attempt.rate_limited = refusal.is_rate_limit();
        match refusal.verdict(SystemTime::now()) {
            retry::Verdict::Final => self.fail(folder, Failure::lasting(text), None),
            retry::Verdict::Again { after } => self.fail(folder, Failure { text, may_pass: true }, after),
        }
    }

    async fn back_off(&mut self) {
        let forever = std::future::pending::<std::convert::Infallible>();
        match first(&mut self.cancelled, &mut self.timer, forever).await {
            Outcome::Cancelled => self.end_without_folder(StopReason::Aborted, ABORTED.to_owned()),
            Outcome::Silence => self.phase = Phase::Begin,
            Outcome::Ready(never) => match never {},
        }
    }

    /// Tries again if that makes sense, else ends with what had arrived.
    fn fail(&mut self, folder: Folder, failure: Failure, after: Option<Duration>) {
        let config = &self.shared.config;
        let retry = !self.streamed && failure.may_pass && self.attempt.retries < config.retries;
        let mut text = failure.text;
        if let (true, Some(wait)) = (retry, after.filter(|wait| *wait > config.retry_after_cap)) {
            text = format!(
                "{text} (the provider asks to wait {} s; waiting is limited to {} s)",
                wait.as_secs(),
                config.retry_after_cap.as_secs()
            );
        } else if retry {
            self.attempt.retries += 1;
            let delay = retry::delay(self.attempt.retries, after, config.backoff_base, config.backoff_cap, retry::throw_dice());
            let reason = self.without_secrets(text);
            tracing::debug!(provider = %self.request.model.provider, attempt = self.attempt.retries, ?delay, %reason, "asking again");
            let rate_limited = std::mem::take(&mut self.attempt.rate_limited);
            let notice = RetryNotice { attempt: self.attempt.retries, max: config.retries, delay, rate_limited, reason };
            self.ready.push_back(ModelEvent::Retry(notice));
            self.set_timer(delay);
            self.phase = Phase::BackingOff;
            return;
        }
        self.end(folder.fail(StopReason::Error, text));
    }

    fn abort(&mut self, folder: Folder) {
        self.end(folder.fail(StopReason::Aborted, ABORTED.to_owned()));
    }

    fn end_without_folder(&mut self, stop_reason: StopReason, text: String) {
        let mut message = AssistantMessage::begin(&self.request.model, self.timestamp);
        message.stop_reason = stop_reason;
        message.error_message = Some(text);
        self.end(message);
    }

    fn end(&mut self, mut message: AssistantMessage) {
        self.hide_secrets(&mut message);
        self.ready.push_back(ModelEvent::End(message));
        self.phase = Phase::Over;
    }

    fn start(&mut self, message: AssistantMessage) {
        if !self.started {
            self.started = true;
            self.ready.push_back(ModelEvent::Start(message));
        }
    }

    fn set_timer(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(until),
            None => self.timer = Some(Box::pin(tokio::time::sleep_until(until))),
        }
    }

    fn silence_text(&self) -> String {
        format!("Request timed out: {} sent nothing for {:?}", self.host(), self.shared.config.idle_timeout)
    }

    /// Who is asked, for people: never the path or the query, which may hold credentials.
    fn host(&self) -> String {
        let url = reqwest::Url::parse(&self.request.model.base_url).ok();
        let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or(&self.request.model.provider);
        match url.as_ref().and_then(reqwest::Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    fn hide_secrets(&self, message: &mut AssistantMessage) {
        message.error_message = message.error_message.take().map(|text| self.without_secrets(text));
    }

    /// Providers repeat keys in their errors.
    fn without_secrets(&self, mut text: String) -> String {
        /// Shorter values are no secrets (`none`, `ollama`), and their letters occur in any text.
        const SHORTEST: usize = 8;
        let auth = &self.request.auth;
        let secrets = auth.key.iter().chain(auth.headers.iter().map(|(_, value)| value));
        for secret in secrets.map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= SHORTEST) {
            if text.contains(secret) {
                text = text.replace(secret, "***");
            }
        }
        text
    }
}

impl fmt::Debug for ModelStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Begin => "begin",
            Phase::Preparing(_) => "preparing",
            Phase::Sending { .. } => "sending",
            Phase::Refused(_) => "refused",
            Phase::Reading(_) => "reading",
            Phase::Draining { .. } => "draining",
            Phase::BackingOff => "backing off",
            Phase::Echoing(_) => "echoing",
            Phase::Provided(_) => "provided",
            Phase::Over => "over",
        };
        formatter.debug_struct("ModelStream").field("model", &self.request.model.reference()).field("phase", &phase).finish_non_exhaustive()
    }
}

fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
