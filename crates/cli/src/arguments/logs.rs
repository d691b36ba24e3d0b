//! The words behind `wolli logs`.

use std::time::{Duration, SystemTime};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use wolli_protocol::time::millis_from_iso;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The agent
    #[arg(value_name = "agent")]
    pub(crate) agent: String,
    /// Go on with what comes, until Ctrl+C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Lines since then: 90s, 5m, 2h or 1d ago, a day (2026-11-30) or a time (2026-11-30T17:00:00Z), both in UTC
    #[arg(long, value_name = "time", value_parser = parse_since)]
    pub(crate) since: Option<Since>,
    /// Lines that concern this session, or those whose id begins like that
    #[arg(long, value_name = "id", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// The last so many lines; with --follow 10, otherwise all
    #[arg(short = 'n', long, value_name = "n")]
    pub(crate) lines: Option<usize>,
    /// Print each line as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A point in time, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    /// Milliseconds since 1970.
    At(i64),
}

impl Since {
    /// Milliseconds since 1970.
    pub(crate) fn millis(self, now: SystemTime) -> i64 {
        match self {
            Self::At(millis) => millis,
            Self::Ago(ago) => {
                let then = now.checked_sub(ago).and_then(|then| then.duration_since(SystemTime::UNIX_EPOCH).ok());
                then.map_or(0, |then| i64::try_from(then.as_millis()).unwrap_or(i64::MAX))
            }
        }
    }
}

fn parse_since(text: &str) -> Result<Since, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()?.checked_mul(24)).filter(|hours| *hours > 0);
    if let Ok(ago) = super::parse_time(&days.map_or_else(|| text.to_owned(), |hours| format!("{hours}h"))) {
        return Ok(Since::Ago(ago));
    }
    let at = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z"), format!("{text}T00:00:00Z")];
    let at = at.iter().find_map(|text| millis_from_iso(text));
    at.map(Since::At).ok_or_else(|| "a time is 90s, 5m, 2h or 1d ago, a day such as 2026-11-30, or 2026-11-30T17:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time() {
        let hour = Duration::from_secs(3_600);
        for (text, since) in [
            ("90s", Since::Ago(Duration::from_secs(90))),
            ("2h", Since::Ago(2 * hour)),
            ("1d", Since::Ago(24 * hour)),
            ("2026-03-01", Since::At(1_772_323_200_000)),
            ("2026-03-01T09:00", Since::At(1_772_355_600_000)),
            ("2026-03-01T09:00:00", Since::At(1_772_355_600_000)),
            ("2026-03-01T09:00:00.123Z", Since::At(1_772_355_600_123)),
            ("2026-03-01T10:00:00+01:00", Since::At(1_772_355_600_000)),
        ] {
            assert_eq!(parse_since(text), Ok(since), "{text}");
        }
        for text in ["", "yesterday", "0d", "-1h", "99999999999999999999d", "2026-13-01", "d"] {
            assert!(parse_since(text).is_err(), "{text}");
        }
        assert_eq!(Since::Ago(hour).millis(SystemTime::UNIX_EPOCH + 2 * hour), 3_600_000);
        assert_eq!(Since::Ago(hour).millis(SystemTime::UNIX_EPOCH), 0);
    }
}
