//! Which failures may pass, and how long to wait before the request is sent again.
//!
//! Pure: the clock and the dice are handed in. Never again: refused keys, used-up quotas, invalid requests.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// What follows from a failure before anything was streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Final,
    /// Send again, if the server asked for it not before this time has passed.
    Again {
        after: Option<Duration>,
    },
}

/// Words in a refusal that say that waiting will not help: money and quotas.
const USED_UP: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "billing_hard_limit",
    "billing_not_active",
    "billing_error",
    "quota exhausted",
    "usage_limit_reached",
    "usage_not_included",
];

/// Kinds of errors, as events inside a stream or codes in a body name them, that may pass.
const PASSING_KINDS: &[&str] = &[
    "overloaded_error",
    "overloaded",
    "rate_limit_error",
    "rate_limit_exceeded",
    "api_error",
    "timeout_error",
    "server_error",
    "internal_server_error",
    "service_unavailable",
];

/// The verdict on an error status. `now` is for dates in `retry-after`.
pub(crate) fn verdict_on_status(status: u16, headers: &HeaderMap, body: &str, now: SystemTime) -> Verdict {
    let advice = headers.get("x-should-retry").and_then(|value| value.to_str().ok());
    if advice == Some("false") || is_used_up(body) {
        return Verdict::Final;
    }
    if matches!(status, 408 | 409 | 429 | 500..=599) || advice == Some("true") {
        return Verdict::Again { after: retry_after(headers, now) };
    }
    Verdict::Final
}

/// True if an error that came inside a stream may pass: by its kind, or by a status it gives.
pub(crate) fn may_pass(kind: &str, code: Option<u64>, text: &str) -> bool {
    if is_used_up(text) {
        return false;
    }
    PASSING_KINDS.contains(&kind) || matches!(code, Some(408 | 409 | 429 | 500..=599)) || text.to_ascii_lowercase().contains("overloaded")
}

fn is_used_up(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    USED_UP.iter().any(|words| lower.contains(words))
}

/// How long the server asks to wait: `retry-after-ms`, else `retry-after` in seconds or as a date. A date in the past is 0.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let duration = |number: &str, scale: f64| {
        let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
        Duration::try_from_secs_f64(value * scale).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|number| duration(number, 0.001)) {
        return Some(wait);
    }
    let value = text("retry-after")?;
    duration(value, 1.0).or_else(|| httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default()))
}

/// The wait before retry `attempt` (from 1): what the server asked for and up to a tenth more, so that not everyone comes
/// back at once; else a random part of `base` doubled with each attempt, up to `cap`. `dice` is in 0..1.
pub(crate) fn delay(attempt: u32, after: Option<Duration>, base: Duration, cap: Duration, dice: f64) -> Duration {
    if let Some(after) = after.filter(|after| !after.is_zero()) {
        return after + after.mul_f64(dice.clamp(0.0, 1.0) / 10.0);
    }
    let doubled = base.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
    doubled.min(cap).mul_f64(dice.clamp(0.0, 1.0))
}

/// A number in 0..1 that differs from call to call. Good enough for jitter and nothing else.
pub(crate) fn throw_dice() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let part = (bits >> 11) as f64 / (1_u64 << 53) as f64;
    part
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::{Verdict, delay, may_pass, retry_after, throw_dice, verdict_on_status};

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn statuses() {
        let again = |after: Option<u64>| Verdict::Again { after: after.map(Duration::from_secs) };
        let none: &[(&str, &str)] = &[];
        for (status, pairs, body, expected) in [
            (408, none, "", again(None)),
            (409, none, "", again(None)),
            (429, &[("retry-after", "7")], "slow down", again(Some(7))),
            (429, &[("retry-after", "7")], r#"{"error":{"code":"insufficient_quota"}}"#, Verdict::Final),
            (500, none, "", again(None)),
            (503, &[("x-should-retry", "false")], "", Verdict::Final),
            (529, none, "overloaded_error", again(None)),
            (400, none, "", Verdict::Final),
            (400, &[("x-should-retry", "true")], "", again(None)),
            (400, none, "Your credit balance is too low", Verdict::Final),
            (401, none, "", Verdict::Final),
            (402, none, "", Verdict::Final),
            (403, none, "", Verdict::Final),
            (404, none, "", Verdict::Final),
            (413, none, "", Verdict::Final),
        ] {
            assert_eq!(verdict_on_status(status, &headers(pairs), body, SystemTime::now()), expected, "{status} {body}");
        }
    }

    #[test]
    fn errors_inside_a_stream() {
        for (kind, code, text, passes) in [
            ("overloaded_error", None, "Overloaded", true),
            ("rate_limit_error", None, "", true),
            ("invalid_request_error", None, "", false),
            ("authentication_error", None, "", false),
            ("", Some(502), "upstream", true),
            ("", Some(400), "bad", false),
            ("", None, "The engine is currently overloaded", true),
            ("rate_limit_error", None, "You exceeded your current quota", false),
        ] {
            assert_eq!(may_pass(kind, code, text), passes, "{kind} {code:?} {text}");
        }
    }

    #[test]
    fn waits_that_servers_ask_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let date = |seconds: u64| httpdate::fmt_http_date(now + Duration::from_secs(seconds) - Duration::from_secs(100));
        for (pairs, expected) in [
            (vec![], None),
            (vec![("retry-after", "0".to_owned())], Some(Duration::ZERO)),
            (vec![("retry-after", "7".to_owned())], Some(Duration::from_secs(7))),
            (vec![("retry-after", "1.5".to_owned())], Some(Duration::from_millis(1500))),
            (vec![("retry-after", "-3".to_owned())], None),
            (vec![("retry-after", "soon".to_owned())], None),
            (vec![("retry-after", "NaN".to_owned())], None),
            (vec![("retry-after", "1e300".to_owned())], None),
            (vec![("retry-after", date(130))], Some(Duration::from_secs(30))),
            (vec![("retry-after", date(0))], Some(Duration::ZERO)),
            (vec![("retry-after-ms", "250".to_owned()), ("retry-after", "7".to_owned())], Some(Duration::from_millis(250))),
            (vec![("retry-after-ms", "x".to_owned()), ("retry-after", "7".to_owned())], Some(Duration::from_secs(7))),
        ] {
            let borrowed: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(retry_after(&headers(&borrowed), now), expected, "{pairs:?}");
        }
    }

    #[test]
    fn delays_double_up_to_the_cap_and_honour_the_server() {
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        let full = |attempt| delay(attempt, None, base, cap, 1.0);
        assert_eq!([full(1), full(2), full(3), full(4)].map(|it| it.as_millis()), [500, 1000, 2000, 4000]);
        assert_eq!([full(8), full(40), full(u32::MAX)], [cap; 3]);
        assert_eq!(delay(3, None, base, cap, 0.5), Duration::from_secs(1));
        assert_eq!(delay(1, Some(Duration::from_secs(7)), base, cap, 0.0), Duration::from_secs(7));
        assert_eq!(delay(1, Some(Duration::from_secs(7)), base, cap, 1.0), Duration::from_millis(7700));
        assert_eq!(delay(2, Some(Duration::ZERO), base, cap, 1.0), Duration::from_secs(1));
        assert!((0..1000).map(|_| throw_dice()).all(|it| (0.0..1.0).contains(&it)));
    }
}
