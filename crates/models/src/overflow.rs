//! Tells whether an answer failed, or was quietly cut, because the context was too long for the model.
//!
//! Providers have no common code for this; their texts are matched. Pure.

use wolli_protocol::message::{AssistantMessage, StopReason};

/// Texts of providers, lower case, each run of digits as `#`.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "exceeds maximum allowed input length of # tokens",
    "exceeds the maximum allowed input length of # tokens",
    "input (# tokens) is longer than the model's context length (# tokens)",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "too large for model with # maximum context length",
    "model_context_window_exceeded",
    "prompt too long; exceeded context length",
    "prompt too long; exceeded max context length",
    "context_length_exceeded",
    "context length exceeded",
    "context_length exceeded",
    "context length_exceeded",
    "too many tokens",
    "token limit exceeded",
];

/// True if `message` is what a model gives when its context is too long. `window` is the model's context window in tokens;
/// 0 means unknown, and then only errors are recognised.
#[must_use]
pub fn is_context_overflow(message: &AssistantMessage, window: u64) -> bool {
    let prompt = message.usage.input.saturating_add(message.usage.cache_read);
    match message.stop_reason {
        StopReason::Error => message.error_message.as_deref().is_some_and(is_overflow_text),
        // Some servers cut the prompt without a word.
        StopReason::Stop => window > 0 && prompt > window,
        StopReason::Length => window > 0 && message.usage.output == 0 && prompt.saturating_mul(100) >= window.saturating_mul(99),
        StopReason::ToolUse | StopReason::Aborted => false,
    }
}

fn is_overflow_text(text: &str) -> bool {
    let lower = text.to_lowercase();
    let excluded = lower.starts_with("throttling error:")
        || lower.starts_with("service unavailable:")
        || lower.contains("rate limit")
        || lower.contains("too many requests");
    if excluded {
        return false;
    }
    let shape = digits_as_marks(&lower);
    OVERFLOW.iter().any(|pattern| shape.contains(pattern))
        || is_bare_status(&lower)
        || exceeds_maximum_length(&shape)
        || shape.split_once("input token count").is_some_and(|(_, rest)| rest.contains("exceeds the maximum"))
}

/// `exceeds (the )?(model's )?maximum context length (of N|(N))`.
fn exceeds_maximum_length(shape: &str) -> bool {
    shape.match_indices("maximum context length ").any(|(at, found)| {
        let (before, after) = (&shape[..at], &shape[at + found.len()..]);
        let before = before.strip_suffix("model's ").unwrap_or(before);
        let before = before.strip_suffix("the ").unwrap_or(before);
        before.ends_with("exceeds ") && (after.starts_with("of #") || after.starts_with("(#)"))
    })
}

/// `400 (no body)` or `413 status code (no body)` at the start: what is left of a refusal whose text got lost.
fn is_bare_status(text: &str) -> bool {
    text.strip_prefix("400").or_else(|| text.strip_prefix("413")).is_some_and(|rest| {
        let rest = rest.trim_start();
        rest.strip_prefix("status code").unwrap_or(rest).trim_start().starts_with("(no body)")
    })
}

/// Each number, also one with commas in it, as `#`.
fn digits_as_marks(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_ascii_digit() {
            shape.push(character);
            continue;
        }
        shape.push('#');
        loop {
            let mut ahead = characters.clone();
            match (ahead.next(), ahead.next()) {
                (Some(digit), _) if digit.is_ascii_digit() => characters.next(),
                (Some(','), Some(digit)) if digit.is_ascii_digit() => characters.next(),
                _ => break,
            };
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use wolli_protocol::message::{AssistantMessage, StopReason};
    use wolli_protocol::model::Model;

    use super::is_context_overflow;

    fn answer(stop_reason: StopReason, error: Option<&str>, input: u64, cache_read: u64, output: u64) -> AssistantMessage {
        let mut message = AssistantMessage::begin(&Model::placeholder(), 0);
        message.stop_reason = stop_reason;
        message.error_message = error.map(str::to_owned);
        (message.usage.input, message.usage.cache_read, message.usage.output) = (input, cache_read, output);
        message
    }

    #[test]
    fn texts_of_providers() {
        for (text, overflow) in [
            (r#"400 {"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#, true),
            ("413 {\"error\":{\"type\":\"request_too_large\"}}", true),
            ("400 Your input exceeds the context window of this model", true),
            ("This model's maximum context length is 8,192 tokens. However, you requested 9000", true),
            ("the request exceeds the model's maximum context length of 131072", true),
            ("prompt exceeds maximum context length (65536)", true),
            ("exceeds my maximum context length of 3", false),
            ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)", true),
            ("maximum prompt length is 131072 but", true),
            ("Please reduce the length of the messages or completion", true),
            ("the prompt exceeds the maximum allowed input length of 4096 tokens", true),
            ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", true),
            ("prompt token count of 9 exceeds the limit of 8", true),
            ("the request exceeds the available context size, try increasing it", true),
            ("tokens to keep is greater than the context length", true),
            ("context window exceeds limit (2013)", true),
            ("Your request exceeded model token limit: 262144", true),
            ("too large for model with 32768 maximum context length", true),
            ("Unhandled stop reason: model_context_window_exceeded", true),
            ("prompt too long; exceeded max context length by 4 tokens", true),
            ("context_length_exceeded", true),
            ("400 (no body)", true),
            ("413 status code (no body)", true),
            ("429 status code (no body)", false),
            ("too many tokens", true),
            ("429 Rate limit reached: too many tokens per minute", false),
            ("Too many requests, token limit exceeded", false),
            ("Throttling error: Too many tokens", false),
            ("Service unavailable: too many tokens", false),
            ("Overloaded", false),
        ] {
            assert_eq!(is_context_overflow(&answer(StopReason::Error, Some(text), 0, 0, 0), 1000), overflow, "{text}");
            assert!(!is_context_overflow(&answer(StopReason::Aborted, Some(text), 0, 0, 0), 1000), "{text}");
        }
    }

    #[test]
    fn silent_overflow() {
        for (stop_reason, input, cache_read, output, window, overflow) in [
            (StopReason::Stop, 900, 101, 5, 1000, true),
            (StopReason::Stop, 900, 100, 5, 1000, false),
            (StopReason::Stop, 900, 101, 5, 0, false),
            (StopReason::Length, 990, 0, 0, 1000, true),
            (StopReason::Length, 989, 0, 0, 1000, false),
            (StopReason::Length, 990, 0, 1, 1000, false),
            (StopReason::Length, 0, 0, 0, 0, false),
            (StopReason::ToolUse, 5000, 0, 1, 1000, false),
        ] {
            assert_eq!(is_context_overflow(&answer(stop_reason, None, input, cache_read, output), window), overflow);
        }
    }
}
