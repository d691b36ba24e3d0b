//! One request for a summary.

use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use wolli_models::auth::RequestAuth;
use wolli_models::event::ModelEvent;
use wolli_models::overflow::is_context_overflow;
use wolli_models::request::ModelRequest;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, UserMessage};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::text::byte_prefix;

use super::prompts;
use crate::clock::{iso_after, now_millis};
use crate::turn::RunContext;

/// Bytes of a summary per token that it may have: more than any language takes. A model that does not keep its limit is cut.
const BYTES_PER_TOKEN: u64 = 16;

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SummaryError {
    Cancelled,
    /// The request was too long for the model; the provider's text.
    Overflow(String),
    Failed(String),
}

/// Who is asked.
pub(super) struct Summariser<'a> {
    pub(super) context: &'a RunContext,
    pub(super) model: Model,
    pub(super) auth: RequestAuth,
    pub(super) level: ThinkingLevel,
    pub(super) chosen: bool,
}

impl Summariser<'_> {
    /// Asks for a summary of at most `max_tokens`. What it took is accounted for, however it ends.
    pub(super) async fn ask(&self, text: String, max_tokens: u64, token: CancellationToken) -> Result<String, SummaryError> {
        let max_tokens = if self.model.max_tokens > 0 { max_tokens.min(self.model.max_tokens) } else { max_tokens }.max(1);
        let request = ModelRequest {
            model: self.model.clone(),
            system: prompts::SYSTEM.to_owned(),
            messages: vec![Arc::new(Message::User(UserMessage::new(text, Vec::new(), now_millis())))],
            tools: Arc::default(),
            thinking: if self.model.reasoning { self.level } else { ThinkingLevel::Off },
            session_id: self.context.session_id.to_string(),
            auth: self.auth.clone(),
            max_tokens: Some(max_tokens),
            chosen_by_name: self.chosen,
        };
        let mut stream = self.context.services.client.stream(request, token);
        while let Some(event) = stream.next().await {
            match event {
                ModelEvent::Start(_) | ModelEvent::Step(_) => {}
                ModelEvent::Retry(notice) => self.context.hub.publish(&SessionEvent::Retry {
                    attempt: notice.attempt,
                    max: notice.max,
                    until: iso_after(notice.delay),
                    reason: notice.reason,
                }),
                ModelEvent::End(answer) => {
                    let used = self.context.services.usage.record(&self.context.session_id, &self.model, &answer.usage).await;
                    used.iter().for_each(|notice| self.context.hub.publish(notice));
                    return judge(answer, &self.model, max_tokens);
                }
            }
        }
        Err(SummaryError::Failed("the model's stream ended without an answer".into()))
    }
}

fn judge(answer: AssistantMessage, model: &Model, max_tokens: u64) -> Result<String, SummaryError> {
    let overflow = is_context_overflow(&answer, model.context_window);
    let reason = || answer.error_message.clone().unwrap_or_else(|| "Unknown error".to_owned());
    match answer.stop_reason {
        StopReason::Aborted => return Err(SummaryError::Cancelled),
        StopReason::Error if overflow => return Err(SummaryError::Overflow(reason())),
        StopReason::Error => return Err(SummaryError::Failed(reason())),
        StopReason::Length if overflow => return Err(SummaryError::Overflow("the request fills the model's context window".into())),
        StopReason::Stop | StopReason::Length | StopReason::ToolUse => {}
    }
    let texts: Vec<&str> = answer
        .content
        .iter()
        .filter_map(|block| match block {
            AssistantBlock::Text(text) => Some(text.text.as_str()),
            AssistantBlock::Thinking(_) | AssistantBlock::ToolCall(_) => None,
        })
        .collect();
    let text = texts.join("\n");
    let limit = usize::try_from(max_tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    let text = byte_prefix(text.trim(), limit);
    if text.is_empty() { Err(SummaryError::Failed("the model gave no text".into())) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::message::{AssistantBlock, AssistantMessage, StopReason, TextContent};
    use wolli_protocol::model::Model;

    use super::{SummaryError, judge};

    #[test]
    fn an_answer_is_a_summary_or_says_why_not() {
        let model = Model { context_window: 1000, ..Model::placeholder() };
        let failed = |text: &str| Err(SummaryError::Failed(text.into()));
        for (stop_reason, text, error, input, expected) in [
            (StopReason::Stop, " sum \n", None, 10, Ok("sum".to_owned())),
            (StopReason::Length, "half", None, 10, Ok("half".to_owned())),
            (StopReason::Stop, " \n", None, 10, failed("the model gave no text")),
            (StopReason::Error, "half", Some("500 broken"), 10, failed("500 broken")),
            (StopReason::Error, "", Some("prompt is too long"), 10, Err(SummaryError::Overflow("prompt is too long".into()))),
            (StopReason::Length, "", None, 995, Err(SummaryError::Overflow("the request fills the model's context window".into()))),
            (StopReason::Aborted, "half", Some("Request was aborted"), 10, Err(SummaryError::Cancelled)),
            (StopReason::Stop, &"x".repeat(100), None, 10, Ok("x".repeat(64))),
        ] {
            let mut answer = AssistantMessage::begin(&model, 1);
            answer.content = vec![AssistantBlock::Text(TextContent { text: text.into(), text_signature: None })];
            (answer.stop_reason, answer.error_message, answer.usage.input) = (stop_reason, error.map(str::to_owned), input);
            assert_eq!(judge(answer, &model, 4), expected);
        }
    }
}
