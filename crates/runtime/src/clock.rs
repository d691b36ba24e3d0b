//! Wall-clock time, the only clock that files and frames carry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wolli_protocol::time::iso_from_millis;

/// Milliseconds since 1970.
#[must_use]
pub fn now_millis() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// ISO 8601 UTC with milliseconds.
#[must_use]
pub fn now_iso() -> String {
    iso_from_millis(now_millis())
}

/// ISO time `delay` from now.
#[must_use]
pub fn iso_after(delay: Duration) -> String {
    iso_from_millis(now_millis().saturating_add(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)))
}
