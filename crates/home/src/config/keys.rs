//! The keys of the file: their names, meanings, readers and writers, in the order in which they are shown.
//!
//! Invariant: one row per key, and no key without a reader in the program. Sections that protect something are [`STRICT_SECTIONS`].

use std::time::Duration;

use toml::Value;
use toml::de::DeValue;

use super::schema::Config;
use super::value;

/// Sections in which doubt means the strictest value.
pub(super) const STRICT_SECTIONS: &[&str] = &["approvals", "security"];

const MIB: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(86_400);

/// One key.
pub(super) struct Key {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    /// Sets the value, or says what would be valid.
    pub(super) set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    pub(super) get: fn(&Config) -> Value,
    pub(super) copy: fn(&mut Config, &Config),
}

/// A row: section, key, meaning, a reader of the value, a writer.
macro_rules! key {
    ($section:ident . $name:ident, $meaning:literal, $read:expr, $write:expr) => {
        Key {
            section: stringify!($section),
            name: stringify!($name),
            meaning: $meaning,
            set: |config, value| {
                config.$section.$name = $read(value)?;
                Ok(())
            },
            get: |config| $write(&config.$section.$name),
            copy: |to, from| to.$section.$name.clone_from(&from.$section.$name),
        }
    };
}

pub(super) const KEYS: &[Key] = &[
    key!(events.view, "view that clients get unless they ask: delta, full (as wolli 0.0.2), or snapshot", value::word, value::from_word),
    key!(
        events.include,
        "notices sent unasked: compaction, retry, waiting, login_ui, usage, lifecycle, or all",
        value::notices,
        |notices: &Vec<_>| value::from_notices(notices)
    ),
    key!(resume.auto, "go on with interrupted sessions after a restart", value::flag, |flag: &bool| Value::Boolean(*flag)),
    key!(models.demo, "answer with the built-in demonstration when there is no credential", value::flag, |flag: &bool| {
        Value::Boolean(*flag)
    }),
    key!(limits.body, "largest body of a request", |v: &DeValue<'_>| value::size(v, 64 * 1024..=1024 * MIB), |size: &u64| {
        value::from_size(*size)
    }),
    key!(
        limits.bash_timeout,
        "longest run of a command that names no limit itself",
        |v: &DeValue<'_>| value::time(v, Duration::from_secs(1)..=DAY),
        |time: &Duration| value::from_time(*time)
    ),
    key!(
        limits.provider_idle,
        "longest silence of a model provider",
        |v: &DeValue<'_>| value::time(v, Duration::from_secs(1)..=DAY),
        |time: &Duration| value::from_time(*time)
    ),
    key!(limits.retries, "how often a failed request to a provider is repeated", |v: &DeValue<'_>| value::count(v, 0..=20), |n: &u32| {
        Value::Integer(i64::from(*n))
    }),
    key!(security.hosts, "names beside the loopback ones by which the daemon may be addressed", value::hosts, |hosts: &Vec<String>| {
        value::from_texts(hosts)
    }),
    key!(logs.level, "least important lines that are written: off, error, warn, info, debug, trace", value::word, value::from_word),
    key!(logs.files, "how many log files are kept", |v: &DeValue<'_>| value::count(v, 1..=100), |n: &u32| Value::Integer(i64::from(*n))),
    key!(logs.size, "size of one log file", |v: &DeValue<'_>| value::size(v, 64 * 1024..=1024 * MIB), |size: &u64| value::from_size(*size)),
];

/// The configuration in which each key of a strict section has its strictest value.
pub(super) fn strictest() -> Config {
    let mut config = Config::default();
    // No foreign name is let in.
    config.security.hosts.clear();
    config
}

/// Sections in the order of the keys, each once.
pub(super) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<_> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    sections
}
