//! How results say what was left out: the truncation record, sizes, notices.

use serde_json::{Value, json};
use wolli_exec::{Limits, TruncatedBy, Truncation};
use wolli_protocol::number::MAX_SAFE_INTEGER;

/// No limit of lines, as a JavaScript program would write it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2^53 - 1 fits a pointer on every platform we run on")]
pub(super) const UNLIMITED: usize = MAX_SAFE_INTEGER as usize;

/// What grep, find and ls show: no limit of lines.
pub(super) const BYTES_ONLY: Limits = Limits { max_lines: UNLIMITED, max_bytes: 50 * 1024 };

/// The most that is collected before it is cut to what is shown.
pub(super) const RAW_LIMIT: usize = 16 * 1024 * 1024;

/// The notice for `max_bytes`.
pub(super) const BYTE_LIMIT_REACHED: &str = "50.0KB limit reached";

/// The record for `details.truncation`. The text itself is in the content.
pub(super) fn truncation(record: &Truncation) -> Value {
    json!({
        "truncated": record.truncated(),
        "truncatedBy": record.truncated_by.map(|by| match by {
            TruncatedBy::Lines => "lines",
            TruncatedBy::Bytes => "bytes",
        }),
        "totalLines": record.total_lines,
        "totalBytes": record.total_bytes,
        "outputLines": record.output_lines,
        "outputBytes": record.output_bytes,
        "lastLinePartial": record.last_line_partial,
        "firstLineExceedsLimit": record.first_line_exceeds_limit,
        "maxLines": record.limits.max_lines,
        "maxBytes": record.limits.max_bytes,
    })
}

/// `12B`, `1.5KB`, `2.0MB`.
pub(super) fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let in_units = |unit: u64| bytes as f64 / unit as f64;
    if bytes < KIB {
        format!("{bytes}B")
    } else if bytes < KIB * KIB {
        format!("{:.1}KB", in_units(KIB))
    } else {
        format!("{:.1}MB", in_units(KIB * KIB))
    }
}

/// Adds notices in one bracket after a blank line.
pub(super) fn add_notices(text: &mut String, notices: &[String]) {
    if !notices.is_empty() {
        text.push_str("\n\n[");
        text.push_str(&notices.join(". "));
        text.push(']');
    }
}

/// A count that came as a JSON number: fractions are cut off, what is below `least` or is no number is `least`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to integer casts saturate, which is what is wanted")]
pub(super) fn count(number: f64, least: usize) -> usize {
    (number as usize).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, text) in [(0, "0B"), (1023, "1023B"), (1024, "1.0KB"), (51_200, "50.0KB"), (1_048_576, "1.0MB"), (1_572_864, "1.5MB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn counts_never_overflow() {
        for (number, expected) in [(3.9, 3), (-5.0, 1), (0.0, 1), (f64::NAN, 1), (f64::INFINITY, usize::MAX), (1e300, usize::MAX)] {
            assert_eq!(count(number, 1), expected, "{number}");
        }
    }
}
