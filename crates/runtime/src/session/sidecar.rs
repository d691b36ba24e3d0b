//! The file beside a session file: the epoch of its frame numbers, the messages that wait in its queues, and changes that wait for the
//! end of a turn.
//!
//! It is named `<session file without .jsonl>.state.json`, which wolli 0.0.2 does not look at. Queued messages carry
//! the id of the entry that they will become; one whose entry is in the session file was delivered before a crash.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::UserMessage;

use crate::compaction::Counts;

use super::append::NewEntry;

/// Version of the sidecar's format.
const SIDECAR_VERSION: u32 = 1;

/// A message that waits to be delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuedMessage {
    pub(crate) entry_id: EntryId,
    pub(crate) message: UserMessage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sidecar {
    pub(super) version: u32,
    /// Counts the processes that opened the session, from 0.
    pub(crate) epoch: u32,
    #[serde(default)]
    pub(crate) steer: Vec<QueuedMessage>,
    #[serde(default)]
    pub(crate) follow_up: Vec<QueuedMessage>,
    /// Changes that wait for the end of the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) deferred: Vec<NewEntry>,
    #[serde(default, skip_serializing_if = "Counts::is_zero")]
    pub(crate) compactions: Counts,
}

/// The messages alone, as clients are told of them.
pub(super) fn messages<'a>(queue: impl Iterator<Item = &'a QueuedMessage>) -> Vec<UserMessage> {
    queue.map(|queued| queued.message.clone()).collect()
}

/// Where the sidecar of a session file stands.
pub(super) fn sidecar_path(session_file: &Path) -> PathBuf {
    session_file.with_extension("state.json")
}

impl Sidecar {
    pub(crate) fn new(epoch: u32, steer: Vec<QueuedMessage>, follow_up: Vec<QueuedMessage>) -> Self {
        Self { version: SIDECAR_VERSION, epoch, steer, follow_up, deferred: Vec::new(), compactions: Counts::default() }
    }

    pub(super) fn with_deferred(self, deferred: Vec<NewEntry>) -> Self {
        Self { deferred, ..self }
    }

    pub(super) fn first() -> Self {
        Self { version: SIDECAR_VERSION, ..Self::default() }
    }

    /// An epoch that is above every one that was counted, unless the session was opened more than once an hour ever since:
    /// the hours since 2026. Frame numbers stay below 2^53 with it, which JavaScript needs, for two centuries.
    pub(crate) fn epoch_by_clock() -> u32 {
        const START_OF_2026: i64 = 1_767_225_600_000;
        const HOUR: i64 = 3_600_000;
        u32::try_from((crate::clock::now_millis() - START_OF_2026) / HOUR).unwrap_or(0).max(1)
    }

    /// Reads the sidecar. A session file without one was written by wolli 0.0.2, or lost it; or it is unreadable. Numbers that
    /// were counted in it may be known to somebody, so it goes on with one from the clock, which is above them.
    pub(super) fn load(session_file: &Path) -> Self {
        let path = sidecar_path(session_file);
        let mut content = Vec::new();
        match wolli_home::reading::open(&path).and_then(|mut file| file.read_to_end(&mut content)) {
            Ok(_) => serde_json::from_slice(&content).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "the session's sidecar is unreadable; queued messages in it are lost");
                Self { epoch: Self::epoch_by_clock(), ..Self::first() }
            }),
            Err(_) => Self { epoch: Self::epoch_by_clock(), ..Self::first() },
        }
    }

    /// Writes it whole: after a crash the old or the new content is there.
    pub(super) fn store(&self, session_file: &Path) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        wolli_home::atomic::write(&sidecar_path(session_file), &bytes).map_err(|error| std::io::Error::other(error.to_string()))
    }
}
