//! Settings in two tiers: the shared `settings.json`, and over it the `settings` object of an agent's `agent.json`.
//!
//! Invariant: a broken shared file is reported, counts as empty, and is never overwritten. Ill-typed values are reported and count
//! as absent. Not here: which model a name means, and where plugins come from.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use wolli_protocol::model::ThinkingLevel;

use crate::atomic::{self, WriteError, parent};
use crate::filelock::{CHANGE_WAIT, FileLock, FileLockError};
use crate::json;
use crate::reading::{self, Settled, is_blank};

#[cfg(test)]
mod tests;

/// Tokens that are kept free for the answer, unless set.
pub const DEFAULT_RESERVE_TOKENS: u64 = 16_384;
/// Tokens of recent history that compaction keeps, unless set.
pub const DEFAULT_KEEP_RECENT_TOKENS: u64 = 20_000;

/// Why shared settings were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file exists but cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else than a JSON object.
    #[error("{path} is not a JSON object: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file was not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Another process is changing the file, and does not end.
    #[error(transparent)]
    Lock(#[from] FileLockError),
}

/// What the tiers say together, for the keys that the daemon reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `provider/id`, or a bare id: the agent's `defaultModel`, else the shared `defaultProvider` and `defaultModel`.
    pub default_model: Option<String>,
    /// Level of new sessions; `None` leaves it to the place of use.
    pub default_thinking_level: Option<ThinkingLevel>,
    /// Patterns of the models that new sessions may use; `None` means all.
    pub enabled_models: Option<Vec<String>>,
    /// Automatic compaction.
    pub compaction: Compaction,
    /// Headers that tell providers about this program.
    pub enable_install_telemetry: bool,
    /// Everything, also what is not listed above, one level deep merged.
    pub all: Map<String, Value>,
}

/// When and how far a history is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Whether it happens by itself.
    pub enabled: bool,
    /// Tokens that are kept free for the answer.
    pub reserve_tokens: u64,
    /// Tokens of recent history that stay as they are.
    pub keep_recent_tokens: u64,
}

impl Settings {
    /// Lays `agent` over `shared`; also returns what is wrong in them, a sentence for each.
    pub fn resolve(shared: &Map<String, Value>, agent: Option<&Map<String, Value>>) -> (Self, Vec<String>) {
        let all = merge(shared, agent);
        let mut reader = Reader { problems: Vec::new() };
        let agent_model = agent.and_then(|agent| reader.text(agent, "defaultModel"));
        let default_model = agent_model.or_else(|| {
            let model = reader.text(shared, "defaultModel")?;
            Some(match reader.text(shared, "defaultProvider") {
                Some(provider) => format!("{provider}/{model}"),
                None => model,
            })
        });
        let nothing = Map::new();
        let compaction = match reader.get(&all, "compaction", "an object", Value::as_object) {
            Some(compaction) => compaction,
            None => &nothing,
        };
        let settings = Self {
            default_model,
            default_thinking_level: reader.get(&all, "defaultThinkingLevel", LEVELS, |value| {
                ThinkingLevel::ALL.into_iter().find(|level| Some(level.as_str()) == value.as_str())
            }),
            enabled_models: reader.get(&all, "enabledModels", "a list of strings", |value| {
                value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
            }),
            compaction: Compaction {
                enabled: reader.get(compaction, "enabled", "true or false", Value::as_bool).unwrap_or(true),
                reserve_tokens: reader.tokens(compaction, "reserveTokens").unwrap_or(DEFAULT_RESERVE_TOKENS),
                keep_recent_tokens: reader.tokens(compaction, "keepRecentTokens").unwrap_or(DEFAULT_KEEP_RECENT_TOKENS),
            },
            enable_install_telemetry: reader.get(&all, "enableInstallTelemetry", "true or false", Value::as_bool).unwrap_or(true),
            all,
        };
        (settings, reader.problems)
    }
}

const LEVELS: &str = "one of off, minimal, low, medium, high, xhigh";

/// `agent` over `shared`: objects merge one level deep, all else is replaced, also by `null`.
pub fn merge(shared: &Map<String, Value>, agent: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut merged = shared.clone();
    for (key, value) in agent.into_iter().flatten() {
        match (merged.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => {
                below.extend(above.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

/// Reads the shared tier; absent and blank files are empty, and broken ones an error, to be shown while `{}` is used.
pub fn read_shared(path: &Path) -> Result<Map<String, Value>, SettingsError> {
    match reading::read_settled(path, json::object) {
        Ok(None) => Ok(Map::new()),
        Ok(Some(Settled { parsed: Ok(settings), .. })) => Ok(settings),
        Ok(Some(Settled { content, .. })) if is_blank(&content) => Ok(Map::new()),
        Ok(Some(Settled { parsed: Err(problem), .. })) => Err(SettingsError::Content { path: path.to_owned(), problem }),
        Err(source) => Err(SettingsError::Read { path: path.to_owned(), source }),
    }
}

/// Changes the shared tier, under a lock; a broken file is an error and stays as it is.
pub fn update_shared(path: &Path, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), SettingsError> {
    let folder = parent(path);
    atomic::create_folder(folder).map_err(|source| WriteError::Write { path: folder.to_owned(), source })?;
    let _guard = FileLock::acquire(&folder.join("settings.json.change"), CHANGE_WAIT)?;
    let before = read_shared(path)?;
    let mut settings = before.clone();
    change(&mut settings);
    if settings != before {
        let mut text = serde_json::to_vec_pretty(&settings).map_err(|e| WriteError::Write { path: path.to_owned(), source: e.into() })?;
        text.push(b'\n');
        atomic::write(path, &text)?;
    }
    Ok(())
}

/// Collects what is ill-typed. `null` counts as absent, for that is how a tier takes a value back.
struct Reader {
    problems: Vec<String>,
}

impl Reader {
    fn get<'a, T>(
        &mut self,
        from: &'a Map<String, Value>,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = from.get(key).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.problems.push(format!("setting {key} must be {expected}; it is ignored"));
        }
        read
    }

    fn text(&mut self, from: &Map<String, Value>, key: &str) -> Option<String> {
        self.get(from, key, "a string", |value| value.as_str().map(str::to_owned)).filter(|text| !text.is_empty())
    }

    fn tokens(&mut self, from: &Map<String, Value>, key: &str) -> Option<u64> {
        self.get(from, key, "a number of tokens", |value| {
            // JavaScript knows one kind of number: 1e4 and 10000.0 are counts too.
            let number = value.as_f64().filter(|number| *number >= 0.0 && *number <= 1e15)?;
            Some(number as u64)
        })
    }
}
