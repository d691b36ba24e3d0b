//! What a call is given and what it gives back.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wolli_exec::{Background, Ledger};
use wolli_protocol::event::ToolResult;
use wolli_protocol::message::UserBlock;

use super::control::ControlState;
use crate::dialogs::Dialogs;

/// Everything a tool may know and use. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The agent's home: the working directory of every tool.
    pub home: PathBuf,
    /// The whole environment of programs. `HOME` is also what `~` means in paths.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Where long outputs go.
    pub spill_dir: PathBuf,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// How long a command may run that names no time limit.
    pub bash_time_limit: Duration,
    /// Where running programs are recorded.
    pub ledger: Option<Ledger>,
    /// What `write` and `edit` keep away from.
    pub control: ControlState,
    pub agent: Arc<dyn AgentFiles>,
    pub updates: ToolUpdates,
    pub background: BackgroundCommands,
    /// Questions to the people at the session; they end with the call.
    pub dialogs: Dialogs,
}

/// What tools change about the agent itself, apart from plain files in its home.
pub trait AgentFiles: Send + Sync {
    /// Writes the purpose into the agent's configuration. Blocking.
    ///
    /// # Errors
    /// A text that says what went wrong.
    fn set_purpose(&self, purpose: &str) -> Result<(), String>;
}

impl fmt::Debug for dyn AgentFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AgentFiles")
    }
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    pub content: Vec<UserBlock>,
    pub details: Option<Value>,
    pub is_error: bool,
}

impl ToolOutput {
    /// A good result of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![UserBlock::text(text)], details: None, is_error: false }
    }

    /// A failure of one text.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![UserBlock::text(text)], details: Some(json!({})), is_error: true }
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(mut self, details: Option<Value>) -> Self {
        self.details = details;
        self
    }

    /// As events carry it.
    #[must_use]
    pub fn to_result(&self) -> ToolResult {
        ToolResult { content: self.content.clone(), details: self.details.clone(), terminate: None }
    }
}

/// What a running call has to show so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUpdate {
    /// The whole result so far.
    pub partial: ToolResult,
    /// Text since the last update.
    pub appended: String,
    /// Bytes of output left out before `appended`.
    pub skipped: u64,
}

/// Who is told about updates; must not block. The default is nobody.
#[derive(Clone, Default)]
pub struct ToolUpdates(Option<Arc<dyn Fn(ToolUpdate) + Send + Sync>>);

impl ToolUpdates {
    pub fn new(deliver: impl Fn(ToolUpdate) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(deliver)))
    }

    pub(super) fn send(&self, update: ToolUpdate) {
        if let Some(deliver) = &self.0 {
            deliver(update);
        }
    }
}

impl fmt::Debug for ToolUpdates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "ToolUpdates(somebody)" } else { "ToolUpdates(nobody)" })
    }
}

/// Who keeps what a command left running (a server, say): it has to supervise it. The default ends it with the command.
#[derive(Clone, Default)]
pub struct BackgroundCommands(Option<Arc<dyn Fn(Background) + Send + Sync>>);

impl BackgroundCommands {
    pub fn new(keep: impl Fn(Background) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(keep)))
    }

    pub(super) fn keep(&self, background: Background) {
        if let Some(keep) = &self.0 {
            keep(background);
        }
    }
}

impl fmt::Debug for BackgroundCommands {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "BackgroundCommands(kept)" } else { "BackgroundCommands(ended)" })
    }
}
