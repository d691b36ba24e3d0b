//! The two time formats of the wire and the files: ISO 8601 UTC with milliseconds, and integer milliseconds.

use jiff::Timestamp;

/// `2026-03-01T09:00:00.123Z` for milliseconds since 1970; times outside year 1 to 9999 are clamped.
#[must_use]
pub fn iso_from_millis(millis: i64) -> String {
    let stamp = Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 { Timestamp::MIN } else { Timestamp::MAX });
    format!("{stamp:.3}")
}

/// Milliseconds since 1970 for an ISO 8601 text; `None` if it is not one.
#[must_use]
pub fn millis_from_iso(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::{iso_from_millis, millis_from_iso};

    #[test]
    fn iso_has_three_decimals_and_goes_both_ways() {
        assert_eq!(iso_from_millis(1_772_355_600_000), "2026-03-01T09:00:00.000Z");
        assert_eq!(iso_from_millis(1_772_355_600_123), "2026-03-01T09:00:00.123Z");
        assert_eq!(millis_from_iso("2026-03-01T09:00:00.123Z"), Some(1_772_355_600_123));
        assert_eq!(millis_from_iso("yesterday"), None);
    }
}
