//! The part of a request that the program's own port answers.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use wolli_protocol::message::{AssistantMessage, StopReason};
use wolli_protocol::reduce::StreamingMessage;

use super::waiting::{Outcome, first};
use super::{ABORTED, ModelStream, Phase};
use crate::event::ModelEvent;

/// An answer that comes from the port.
pub(super) struct Provided {
    events: BoxStream<'static, ModelEvent>,
    /// What was told so far, for an answer that is cut off.
    so_far: StreamingMessage,
}

impl Provided {
    pub(super) fn new(events: BoxStream<'static, ModelEvent>, begun: &AssistantMessage) -> Self {
        Self { events, so_far: StreamingMessage::begin(None, begun) }
    }
}

impl ModelStream {
    pub(super) async fn read_provided(&mut self) {
        let Phase::Provided(provided) = &mut self.phase else { return };
        let next = provided.events.next();
        match first(&mut self.cancelled, &mut self.timer, next).await {
            Outcome::Cancelled => self.cut_provided(StopReason::Aborted, ABORTED.to_owned()),
            Outcome::Silence => {
                let text = self.silence_text();
                self.cut_provided(StopReason::Error, text);
            }
            Outcome::Ready(None) => self.cut_provided(StopReason::Error, "the model's answer stopped without an end".to_owned()),
            Outcome::Ready(Some(ModelEvent::Start(_))) => {}
            Outcome::Ready(Some(ModelEvent::Retry(notice))) => {
                // After the first step nothing may be taken back, so nothing is announced either.
                if !self.streamed {
                    self.ready.push_back(ModelEvent::Retry(notice));
                }
            }
            Outcome::Ready(Some(ModelEvent::Step(step))) => {
                self.streamed = true;
                provided.so_far.apply(&step, None);
                self.ready.push_back(ModelEvent::Step(step));
                let idle = self.shared.config.idle_timeout;
                self.set_timer(idle);
            }
            Outcome::Ready(Some(ModelEvent::End(message))) => {
                // Whatever it says of its origin, it came from the model that was asked.
                let begun = AssistantMessage::begin(&self.request.model, self.timestamp);
                self.end(AssistantMessage { api: begun.api, provider: begun.provider, model: begun.model, ..message });
            }
        }
    }

    fn cut_provided(&mut self, stop_reason: StopReason, text: String) {
        let Phase::Provided(provided) = self.take_phase() else { return };
        let mut message = provided.so_far.message();
        message.stop_reason = stop_reason;
        message.error_message = Some(text);
        self.end(message);
    }
}
