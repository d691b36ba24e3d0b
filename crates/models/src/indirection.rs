//! Configured values that name where a secret is instead of being it: `!command`, `$NAME`, `${NAME}`.
//!
//! One policy for every place that allows it: results of commands are kept for [`COMMAND_CACHE`], failures are not
//! kept at all, and a missing variable makes the whole value absent. Commands are run by whoever hands in a
//! [`CommandRunner`]; nothing here starts a program or reads the process environment.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

/// How long a command may take: password managers answer within seconds, and a person is waiting.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// How long the result of a command is used again: one turn makes many requests, a rotated key should count soon.
pub const COMMAND_CACHE: Duration = Duration::from_secs(60);

/// Runs the command of a `!command` value.
pub trait CommandRunner: Send + Sync {
    /// Runs `command` in the shell and returns its standard output; its standard error is discarded.
    ///
    /// `None` if it could not start, ended with a failure, or took longer than `limit`.
    /// Dropping the future must end the command.
    fn run<'a>(&'a self, command: &'a str, limit: Duration) -> BoxFuture<'a, Option<SecretString>>;
}

/// A runner that refuses every command, for places that have none.
#[derive(Clone, Copy, Debug)]
pub struct NoCommands;

impl CommandRunner for NoCommands {
    fn run<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Option<SecretString>> {
        Box::pin(std::future::ready(None))
    }
}

/// The environment as it was read once at start. `Debug` shows no value.
#[derive(Clone, Default)]
pub struct Environment(Arc<BTreeMap<String, String>>);

impl Environment {
    /// The value of a variable; an empty one counts as unset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(Arc::new(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Environment({} variables)", self.0.len())
    }
}

/// A configured value, read but not yet looked up.
#[derive(Clone, PartialEq, Eq)]
pub enum Template {
    /// `!command`
    Command(String),
    /// Text with references to variables.
    Text(Vec<Part>),
}

/// A piece of a text value.
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    Literal(String),
    Variable(String),
}

impl fmt::Debug for Template {
    /// Names of variables, but neither commands nor literal text: a literal may be the key itself.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(_) => formatter.write_str("Command"),
            Self::Text(_) => write!(formatter, "Text(variables {:?})", self.variables().collect::<Vec<_>>()),
        }
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(_) => formatter.write_str("Literal"),
            Self::Variable(name) => write!(formatter, "Variable({name})"),
        }
    }
}

impl Template {
    /// Reads a value. Every text is a template: what is malformed stands for itself.
    #[must_use]
    pub fn parse(value: &str) -> Self {
        if let Some(command) = value.strip_prefix('!') {
            return Self::Command(command.to_owned());
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = value;
        while let Some(at) = rest.find('$') {
            literal.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some((name, tail)) = variable(after) {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(Part::Variable(name.to_owned()));
                rest = tail;
            } else if let Some(escaped) = after.chars().next().filter(|next| matches!(next, '$' | '!')) {
                literal.push(escaped);
                rest = &after[1..];
            } else {
                literal.push('$');
                rest = after;
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Self::Text(parts)
    }

    /// The variables that the value needs, in order, with repeats.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let parts = match self {
            Self::Command(_) => &[][..],
            Self::Text(parts) => parts.as_slice(),
        };
        parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// True if all variables are set. A command counts as configured without being run.
    #[must_use]
    pub fn is_configured(&self, environment: &Environment) -> bool {
        self.variables().all(|name| environment.get(name).is_some())
    }
}

/// Reads `NAME` or `{NAME}` after a `$`: the name, and what follows it.
fn variable(after: &str) -> Option<(&str, &str)> {
    let (text, braced) = match after.strip_prefix('{') {
        Some(text) => (text, true),
        None => (after, false),
    };
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let (name, tail) = text.split_at(length);
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if braced { tail.strip_prefix('}').map(|tail| (name, tail)) } else { Some((name, tail)) }
}

/// Why a configured value has no value. `what` names its place, for example `API key for provider "groq"`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndirectionError {
    #[error("Failed to resolve {what} from shell command: {command}")]
    Command { what: String, command: String },
    #[error("Failed to resolve {what} from environment {}: {}", if .names.len() == 1 { "variable" } else { "variables" }, .names.join(", "))]
    Variables { what: String, names: Vec<String> },
}

/// Looks up values; shared by everything that reads configuration, so that a command runs once for all.
pub struct Resolver {
    environment: Environment,
    runner: Arc<dyn CommandRunner>,
    /// Short sections only, never held while a command runs. At most as many entries as commands in the last minute.
    results: Mutex<HashMap<String, (Instant, SecretString)>>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resolver").field("environment", &self.environment).finish_non_exhaustive()
    }
}

impl Resolver {
    #[must_use]
    pub fn new(environment: Environment, runner: Arc<dyn CommandRunner>) -> Self {
        Self { environment, runner, results: Mutex::default() }
    }

    #[must_use]
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Forgets results of commands, so that the next request runs them afresh (after a login or a reload).
    pub fn forget(&self) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The value that `template` stands for. `what` names its place in errors.
    ///
    /// # Errors
    /// If a variable is unset or empty, or the command failed, took too long, or printed nothing.
    ///
    /// Cancel-safe: dropping the future ends a running command and keeps nothing.
    pub async fn resolve(&self, template: &Template, what: impl FnOnce() -> String + Send) -> Result<SecretString, IndirectionError> {
        match template {
            Template::Command(command) => match self.command(command).await {
                Some(value) => Ok(value),
                None => Err(IndirectionError::Command { what: what(), command: command.clone() }),
            },
            Template::Text(parts) => self.text(parts).map_err(|names| IndirectionError::Variables { what: what(), names }),
        }
    }

    /// What `template` stands for as far as it is known without running anything.
    #[must_use]
    pub fn known(&self, template: &Template) -> Option<SecretString> {
        match template {
            Template::Command(command) => self.fresh(Instant::now()).get(command).map(|(_, value)| value.clone()),
            Template::Text(parts) => self.text(parts).ok(),
        }
    }

    /// The text with its variables filled in, or the names that are missing, each once.
    fn text(&self, parts: &[Part]) -> Result<SecretString, Vec<String>> {
        let mut value = String::new();
        let mut missing: Vec<String> = Vec::new();
        for part in parts {
            match part {
                Part::Literal(text) => value.push_str(text),
                Part::Variable(name) => match self.environment.get(name) {
                    Some(text) => value.push_str(text),
                    None if missing.contains(name) => {}
                    None => missing.push(name.clone()),
                },
            }
        }
        if missing.is_empty() { Ok(value.into()) } else { Err(missing) }
    }

    async fn command(&self, command: &str) -> Option<SecretString> {
        let now = Instant::now();
        if let Some((_, value)) = self.fresh(now).get(command) {
            return Some(value.clone());
        }
        // The runner keeps the limit itself, since only it can end the program; this one is for a runner that does not.
        let output = tokio::time::timeout(COMMAND_LIMIT, self.runner.run(command, COMMAND_LIMIT)).await.ok()??;
        let text = output.expose_secret().trim();
        if text.is_empty() {
            return None;
        }
        let value = SecretString::from(text);
        self.fresh(Instant::now()).insert(command.to_owned(), (Instant::now(), value.clone()));
        Some(value)
    }

    /// The results that still count; the others are dropped.
    fn fresh(&self, now: Instant) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, SecretString)>> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|_, (since, _)| now.saturating_duration_since(*since) < COMMAND_CACHE);
        results
    }
}

#[cfg(test)]
mod tests;
