//! The part of a request in which the answer arrives.
//!
//! Invariant: what was fed to the folder is in its message, whether the reader has taken the steps or not.

use std::time::Duration;

use reqwest::Response;
use tokio::time::Instant;
use wolli_protocol::sse::Decoder;

use super::waiting::{Outcome, first};
use super::{MAX_ERROR_BYTES, ModelStream, Phase};
use crate::event::ModelEvent;
use crate::formats::{Failure, Fed, Folder, error_in_body};
use crate::transport;

/// Largest single event of a provider. Whole images and encrypted thinking come as one event.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Largest answer as it comes over the wire, where a token may cost 300 bytes; no model says this much.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// Most blocks of one answer.
const MAX_BLOCKS: usize = 4096;
/// How much of a body that is no stream of events is shown when it is not an error in the provider's own form.
const MAX_SHOWN_BYTES: usize = 500;
/// How long the end of a body is waited for after the answer is whole: a connection that was read to its end can be used
/// again, which is worth less than this.
const DRAIN: Duration = Duration::from_millis(10);

/// An answer that is arriving.
pub(super) struct Reading {
    response: Response,
    decoder: Decoder,
    pub(super) folder: Folder,
    /// The start of the body, until the first event shows that it is a stream of events.
    unknown: Option<Vec<u8>>,
    received: usize,
    ended: bool,
}

impl ModelStream {
    pub(super) async fn read(&mut self) {
        // Bodies can be long without a step in them, and then nothing else would make this task pause.
        tokio::task::coop::consume_budget().await;
        let Phase::Reading(reading) = &mut self.phase else { return };
        match reading.decoder.next() {
            Some(Ok(event)) => {
                reading.unknown = None;
                let fed = reading.folder.feed(&event.name, &event.data, &mut self.scratch);
                self.streamed |= !self.scratch.is_empty();
                self.ready.extend(self.scratch.drain(..).map(ModelEvent::Step));
                match fed {
                    Fed::More if reading.is_too_long() => self.break_off(Failure::lasting("the answer is too long to be kept")),
                    Fed::More => {}
                    Fed::Complete => self.complete(),
                    // The last event was cut short: what counts is that the stream ended.
                    Fed::Unreadable(_) if reading.ended => self.stream_ended(),
                    Fed::Unreadable(text) => self.break_off(Failure::lasting(text)),
                    Fed::Failed(failure) => self.break_off(failure),
                }
            }
            Some(Err(error)) => self.break_off(Failure::lasting(error.to_string())),
            None if reading.ended => self.stream_ended(),
            None => match first(&mut self.cancelled, &mut self.timer, reading.response.chunk()).await {
                Outcome::Cancelled => {
                    if let Phase::Reading(reading) = self.take_phase() {
                        self.abort(reading.folder);
                    }
                }
                Outcome::Silence => {
                    let text = self.silence_text();
                    self.break_off(Failure { text, may_pass: true });
                }
                Outcome::Ready(Ok(Some(bytes))) => {
                    reading.take_in(&bytes);
                    self.set_timer(self.shared.config.idle_timeout);
                }
                Outcome::Ready(Ok(None)) => {
                    reading.ended = true;
                    // Some servers leave out the empty line behind the last event.
                    reading.decoder.finish(true);
                }
                // What the provider called finished is whole, however the connection ends.
                Outcome::Ready(Err(_)) if reading.folder.at_end().is_ok() => self.complete(),
                Outcome::Ready(Err(error)) => {
                    let text = format!("Connection error: the stream of {} broke off: {}", self.host(), transport::root_cause(&error));
                    self.break_off(Failure { text, may_pass: true });
                }
            },
        }
    }

    /// The body ended without the event that ends an answer.
    pub(super) fn stream_ended(&mut self) {
        let Phase::Reading(reading) = &self.phase else { return };
        let failure = match (reading.folder.at_end(), &reading.unknown) {
            (Ok(()), _) => return self.complete(),
            (Err(text), None) => Failure { text: text.to_owned(), may_pass: true },
            (Err(text), Some(body)) => {
                // There was no event at all, so this may be an error in other clothes.
                let body = String::from_utf8_lossy(body);
                let shown = wolli_protocol::text::byte_prefix(body.trim(), MAX_SHOWN_BYTES);
                error_in_body(&body).unwrap_or_else(|| match shown {
                    "" => Failure { text: text.to_owned(), may_pass: true },
                    shown => Failure::lasting(format!("{text}: the answer is not a stream of events: {shown}")),
                })
            }
        };
        self.break_off(failure);
    }

    pub(super) fn complete(&mut self) {
        let Phase::Reading(reading) = self.take_phase() else { return };
        let reading = *reading;
        let mut message = reading.folder.finish(&mut self.scratch);
        self.ready.extend(self.scratch.drain(..).map(ModelEvent::Step));
        self.hide_secrets(&mut message);
        if reading.ended {
            return self.end(message);
        }
        self.set_timer(DRAIN);
        self.phase = Phase::Draining { response: reading.response, message: Box::new(message) };
    }

    pub(super) async fn drain(&mut self) {
        let Phase::Draining { response, .. } = &mut self.phase else { return };
        let in_time = self.timer.as_ref().is_some_and(|timer| timer.deadline() > Instant::now());
        if let (Outcome::Ready(Ok(Some(_))), true) = (first(&mut self.cancelled, &mut self.timer, response.chunk()).await, in_time) {
            return;
        }
        // A cancellation comes too late here: the answer is whole.
        if let Phase::Draining { message, .. } = self.take_phase() {
            self.end(*message);
        }
    }

    /// The stream of an answer failed.
    pub(super) fn break_off(&mut self, failure: Failure) {
        if let Phase::Reading(reading) = self.take_phase() {
            self.fail(reading.folder, failure, None);
        }
    }
}

impl Reading {
    pub(super) fn new(response: Response, folder: Folder) -> Self {
        Self { response, decoder: Decoder::new(MAX_EVENT_BYTES), folder, unknown: Some(Vec::new()), received: 0, ended: false }
    }

    /// A server that never stops must not fill the memory.
    fn is_too_long(&self) -> bool {
        self.received > MAX_ANSWER_BYTES || self.folder.blocks() > MAX_BLOCKS
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.received = self.received.saturating_add(bytes.len());
        if let Some(unknown) = &mut self.unknown {
            let room = MAX_ERROR_BYTES.saturating_sub(unknown.len());
            unknown.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.decoder.feed(bytes);
    }
}
