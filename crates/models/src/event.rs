//! The events of one model request.
//!
//! Order: at most one `Start`, then `Step`s, then exactly one `End`, which is last. `Retry` may stand before or after
//! `Start`, never after a `Step`: what was streamed once is not streamed again.

use std::time::Duration;

use wolli_protocol::event::AssistantMessageEvent;
use wolli_protocol::message::AssistantMessage;

/// One event of a model request.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider answers; the message has no content yet.
    Start(AssistantMessage),
    /// The request failed in a way that may pass and is sent again after `delay`. A notice, no part of the answer.
    Retry(RetryNotice),
    /// A piece of the answer, in its form without `partial`; `toolcall_start` has id and name.
    Step(AssistantMessageEvent),
    /// The whole answer. Its stop reason says whether it is one: on `error` and `aborted`, `error_message` says why, and
    /// the content is what had arrived.
    End(AssistantMessage),
}

/// Why and when a request is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryNotice {
    /// Counts from 1.
    pub attempt: u32,
    pub max: u32,
    pub delay: Duration,
    /// The provider refused it because there were too many requests (429).
    pub rate_limited: bool,
    /// For people; free of secrets.
    pub reason: String,
}
