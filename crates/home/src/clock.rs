//! The time as the files carry it. Pure: the caller says what time it is.

use std::time::SystemTime;

use wolli_protocol::time::iso_from_millis;

/// ISO 8601, UTC, milliseconds. Times before 1970 become its start.
pub fn iso_time(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    iso_from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_milliseconds() {
        for (ms, text) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_782_673_800_123, "2026-06-28T19:10:00.123Z"), (999, "1970-01-01T00:00:00.999Z")]
        {
            assert_eq!(iso_time(SystemTime::UNIX_EPOCH + Duration::from_millis(ms)), text);
        }
        let fine = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_999_999_999);
        assert_eq!(iso_time(fine), "1970-01-01T00:00:01.999Z");
        assert_eq!(iso_time(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }
}
