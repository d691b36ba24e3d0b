//! The configuration as the rest of the program sees it, with its defaults and their reasons.

use std::time::Duration;

/// Every value that can be configured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// `[events]`
    pub events: Events,
    /// `[resume]`
    pub resume: Resume,
    /// `[models]`
    pub models: Models,
    /// `[limits]`
    pub limits: Limits,
    /// `[security]`
    pub security: Security,
    /// `[logs]`
    pub logs: Logs,
}

/// What a client that asks for nothing gets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Events {
    /// The view of `GET /sessions/:id/events`.
    pub view: View,
    /// Notices that are sent unasked.
    pub include: Vec<Notice>,
}

/// A projection of a session's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Each byte of a reply once.
    #[default]
    Delta,
    /// The shapes of wolli 0.0.2.
    Full,
    /// Patches of one accumulated snapshot.
    Snapshot,
}

/// Frames that are sent only when asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// Compaction starts and ends.
    Compaction,
    /// A request to a provider is tried again.
    Retry,
    /// What a session waits for.
    Waiting,
    /// Steps of a login.
    LoginUi,
    /// Tokens and costs.
    Usage,
    /// Start and shutdown of the daemon.
    Lifecycle,
}

/// What happens to work that a crash interrupted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resume {
    /// Interrupted sessions go on by themselves. Off: tools may have done half of their work, and a person should look first.
    pub auto: bool,
}

/// Which models are there.
#[derive(Debug, Clone, PartialEq)]
pub struct Models {
    /// Without any credential the built-in demonstration answers.
    pub demo: bool,
}

impl Default for Models {
    fn default() -> Self {
        Self { demo: true }
    }
}

/// How much and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: u64,
    /// A command of the agent that names no limit is ended after this.
    pub bash_timeout: Duration,
    /// A provider that sends nothing for so long has failed.
    pub provider_idle: Duration,
    /// How often a failed request to a provider is tried again.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Some pictures in base64 beside a long prompt.
            body: 32 * 1024 * 1024,
            // Builds and test runs of usual projects.
            bash_timeout: Duration::from_secs(600),
            // Models think for minutes without a word.
            provider_idle: Duration::from_secs(300),
            // With growing pauses this bridges a minute of overload.
            retries: 4,
        }
    }
}

/// Who may talk to the daemon.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Security {
    /// Names beside the loopback ones that a request's `Host` may bear; lowercase.
    pub hosts: Vec<String>,
}

/// The daemon's log files.
#[derive(Debug, Clone, PartialEq)]
pub struct Logs {
    /// The least important lines that are written.
    pub level: LogLevel,
    /// How many files are kept.
    pub files: u32,
    /// Bytes of one file.
    pub size: u64,
}

impl Default for Logs {
    fn default() -> Self {
        Self { level: LogLevel::Info, files: 5, size: 10 * 1024 * 1024 }
    }
}

/// How important a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing is written.
    Off,
    /// Something failed.
    Error,
    /// Something is odd.
    Warn,
    /// Something happened.
    Info,
    /// For finding faults.
    Debug,
    /// Everything.
    Trace,
}

/// The words of the file for the values of an enum.
pub(super) trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Words for View {
    const WORDS: &'static [(&'static str, Self)] = &[("delta", Self::Delta), ("full", Self::Full), ("snapshot", Self::Snapshot)];
}

impl Words for Notice {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("compaction", Self::Compaction),
        ("retry", Self::Retry),
        ("waiting", Self::Waiting),
        ("login_ui", Self::LoginUi),
        ("usage", Self::Usage),
        ("lifecycle", Self::Lifecycle),
    ];
}

impl Words for LogLevel {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl View {
    /// Reads the word, as it also stands in `?view=`.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, view)| *view)
    }
}

impl Notice {
    /// Every notice.
    pub fn all() -> Vec<Self> {
        Self::WORDS.iter().map(|(_, notice)| *notice).collect()
    }

    /// Reads the word, as it also stands in `?include=`.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, notice)| *notice)
    }
}

impl LogLevel {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, level)| *level == self).map_or("info", |(word, _)| word)
    }
}
