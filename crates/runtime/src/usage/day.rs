//! Which day it is where the person is.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use wolli_home::environment::Environment;

/// Where the system keeps the rules of time zones by name.
const ZONE_FOLDER: &str = "/usr/share/zoneinfo";
/// The machine's own.
const SYSTEM_ZONE: &str = "/etc/localtime";

/// The days of one time zone.
#[derive(Clone, Debug)]
pub(crate) struct LocalDays {
    zone: TimeZone,
}

impl LocalDays {
    /// The zone of `TZ`, else the machine's, else UTC. Blocking.
    pub(crate) fn of(environment: &Environment) -> Self {
        let named = environment.variable("TZ").and_then(named);
        Self { zone: named.or_else(|| from_file(SYSTEM_ZONE)).unwrap_or(TimeZone::UTC) }
    }

    #[cfg(test)]
    pub(crate) fn posix(rule: &str) -> Self {
        Self { zone: TimeZone::posix(rule).unwrap() }
    }

    /// `2026-11-30` for milliseconds since 1970.
    pub(crate) fn day(&self, millis: i64) -> String {
        let stamp = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
        self.zone.to_datetime(stamp).date().to_string()
    }
}

/// `Europe/Berlin`, `:/path/of/a/file`, or a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
fn named(text: &str) -> Option<TimeZone> {
    let name = text.strip_prefix(':').unwrap_or(text);
    let file = if name.starts_with('/') { name.to_owned() } else { format!("{ZONE_FOLDER}/{name}") };
    from_file(&file).or_else(|| TimeZone::posix(name).ok())
}

fn from_file(path: &str) -> Option<TimeZone> {
    let rules = wolli_home::reading::read(path.as_ref()).ok()??;
    TimeZone::tzif("local", &rules).ok()
}
