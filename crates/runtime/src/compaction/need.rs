//! Whether a history has to be compacted, judged by the last answer. Pure.

use wolli_models::overflow::is_context_overflow;
use wolli_protocol::message::{AssistantMessage, Message, Usage};
use wolli_protocol::model::Model;

use super::estimate::message_tokens;
use crate::session::ContextMessage;

/// True if the model did not take the whole context. An answer of another model than the current one says nothing about that.
pub(crate) fn overflowed(answer: &AssistantMessage, model: &Model) -> bool {
    answer.provider == model.provider && answer.model == model.id && is_context_overflow(answer, model.context_window)
}

/// Tokens that the context took when the model answered.
pub(crate) fn used_tokens(usage: &Usage) -> u64 {
    if usage.total_tokens > 0 { usage.total_tokens } else { usage.input + usage.output + usage.cache_read + usage.cache_write }
}

/// Tokens of a context whose last answer failed: those of the last good answer, and what came after it. `None` if there is
/// no good answer, or if it saw what was summarised since.
pub(crate) fn used_tokens_after_failure(context: &[ContextMessage]) -> Option<u64> {
    let compacted = context.iter().find_map(|item| match &*item.message {
        Message::CompactionSummary(summary) => Some(summary.timestamp),
        _ => None,
    });
    let (last, answer) = context.iter().enumerate().rev().find_map(|(index, item)| match &*item.message {
        Message::Assistant(answer) if !answer.stop_reason.is_failure() => Some((index, answer)),
        _ => None,
    })?;
    if compacted.is_some_and(|at| answer.timestamp <= at) {
        return None;
    }
    let after: u64 = context[last + 1..].iter().map(|item| message_tokens(&item.message)).sum();
    Some(used_tokens(&answer.usage) + after)
}

/// Tokens of a context that are still fine; `None` if the model's window is unknown.
pub(crate) fn limit(model: &Model, reserve: u64) -> Option<u64> {
    let window = model.context_window;
    (window > 0).then(|| window - effective_reserve(window, reserve))
}

/// What is kept free in a window. A reserve that leaves nothing was meant for a larger model; half of the window serves then.
pub(super) fn effective_reserve(window: u64, reserve: u64) -> u64 {
    if window > 0 && reserve >= window { window / 2 } else { reserve }
}

/// True for an answer that shows that the context is fine as it is.
pub(crate) fn is_good(answer: &AssistantMessage, model: &Model) -> bool {
    !answer.stop_reason.is_failure() && !overflowed(answer, model)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wolli_protocol::message::{AssistantMessage, CompactionSummaryMessage, Message, StopReason, Usage, UserMessage};
    use wolli_protocol::model::Model;

    use super::{is_good, limit, overflowed, used_tokens, used_tokens_after_failure};
    use crate::session::ContextMessage;

    fn model(window: u64) -> Model {
        Model { id: "m".into(), provider: "p".into(), context_window: window, ..Model::placeholder() }
    }

    fn answer(stop_reason: StopReason, total: u64, timestamp: i64) -> AssistantMessage {
        let usage = Usage { total_tokens: total, ..Usage::default() };
        AssistantMessage { stop_reason, usage, ..AssistantMessage::begin(&model(100), timestamp) }
    }

    fn context(messages: Vec<Message>) -> Vec<ContextMessage> {
        messages.into_iter().map(|message| ContextMessage { entry_id: "e".into(), message: Arc::new(message) }).collect()
    }

    #[test]
    fn only_the_current_model_overflows() {
        let failed = AssistantMessage { error_message: Some("prompt is too long".into()), ..answer(StopReason::Error, 0, 1) };
        assert!(overflowed(&failed, &model(100)));
        assert!(!overflowed(&failed, &Model { id: "other".into(), ..model(100) }));
        assert!(!is_good(&failed, &model(100)) && is_good(&answer(StopReason::Stop, 5, 1), &model(100)));
        let silent = AssistantMessage { usage: Usage { input: 101, ..Usage::default() }, ..answer(StopReason::Stop, 0, 1) };
        assert!(overflowed(&silent, &model(100)) && !is_good(&silent, &model(100)));
    }

    #[test]
    fn the_limit_is_exact() {
        for (tokens, window, reserve, over) in [
            (900, 1000, 100, false),
            (901, 1000, 100, true),
            (1000, 1000, 0, false),
            (u64::MAX, 0, 100, false),
            // A reserve for larger models leaves half of this one.
            (4096, 8192, 16_384, false),
            (4097, 8192, 16_384, true),
            (501, 1000, 1000, true),
        ] {
            assert_eq!(limit(&model(window), reserve).is_some_and(|limit| tokens > limit), over, "{tokens} of {window} with {reserve}");
        }
        assert_eq!(limit(&model(0), 1), None);
    }

    #[test]
    fn tokens_are_counted_or_added_up() {
        let parts = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, ..Usage::default() };
        assert_eq!(used_tokens(&parts), 10);
        assert_eq!(used_tokens(&Usage { total_tokens: 7, ..parts }), 7);
    }

    #[test]
    fn after_a_failure_the_last_good_answer_counts_and_what_followed() {
        let user = || Message::User(UserMessage::new("12345678", Vec::new(), 1));
        let good = |at| Message::Assistant(answer(StopReason::Stop, 500, at));
        let failed = || Message::Assistant(answer(StopReason::Error, 0, 30));
        let summary = || Message::CompactionSummary(CompactionSummaryMessage { summary: "s".into(), tokens_before: 1, timestamp: 20 });
        for (messages, expected) in [
            (vec![user(), good(10), user(), failed()], Some(502)),
            (vec![user(), failed()], None),
            // It saw what the summary replaced.
            (vec![summary(), good(10), user(), failed()], None),
            (vec![summary(), good(10), user(), good(25), user(), failed()], Some(502)),
            (Vec::new(), None),
        ] {
            assert_eq!(used_tokens_after_failure(&context(messages)), expected);
        }
    }
}
