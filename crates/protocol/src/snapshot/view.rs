//! A client's side: takes in the frames of view `snapshot` and has the snapshot.
//!
//! Invariant: a patch is applied once, on top of the snapshot that it was made for. A stream is resumed only after a frame of it
//! was taken in, since patches mean nothing without the whole before them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::patch::{PatchError, SnapshotPatch, apply};
use super::shape::UniversalSnapshot;
use crate::ids::FrameId;
use crate::sse;
use crate::state::StreamPosition;

/// One frame of view `snapshot`. Its id is that of the newest event that it covers, so several may have the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SnapshotFrame {
    Snapshot { patch: SnapshotPatch },
}

/// Why a frame cannot be taken in. Attach anew, without an id.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("a patch came before any snapshot")]
    NoBase,
    #[error("snapshot frame cannot be read: {0}")]
    Malformed(serde_json::Error),
    #[error(transparent)]
    Patch(#[from] PatchError),
}

/// What a frame did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The snapshot changed.
    Changed,
    /// It was another event: a notice, or of a newer daemon.
    Other,
}

/// The snapshot of a session as its stream tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SnapshotView {
    snapshot: UniversalSnapshot,
    last_id: Option<FrameId>,
    /// The snapshot is the base of the next patch.
    based: bool,
}

impl SnapshotView {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The newest snapshot; the empty one before the first frame.
    #[must_use]
    pub const fn snapshot(&self) -> &UniversalSnapshot {
        &self.snapshot
    }

    /// What a reconnect sends as `Last-Event-ID`.
    #[must_use]
    pub fn resume_id(&self) -> Option<FrameId> {
        self.last_id.filter(|_| self.based)
    }

    /// The `hello` of another connection: patches follow, or first the whole.
    pub fn begin(&mut self, stream: Option<StreamPosition>) {
        self.based = self.based && stream.is_some_and(|stream| stream.resumed);
    }

    /// Takes in an event that is not `hello`.
    ///
    /// # Errors
    /// See [`SnapshotError`]; the next attach begins anew.
    pub fn apply_frame(&mut self, frame: &sse::Event) -> Result<Taken, SnapshotError> {
        #[derive(Deserialize)]
        struct Type {
            #[serde(rename = "type", default)]
            kind: String,
        }
        if serde_json::from_str::<Type>(&frame.data).map_or(true, |object| object.kind != "snapshot") {
            return Ok(Taken::Other);
        }
        let taken = self.take(&frame.data);
        self.based = taken.is_ok();
        taken?;
        self.last_id = frame.id.as_deref().and_then(FrameId::parse).or(self.last_id);
        Ok(Taken::Changed)
    }

    fn take(&mut self, data: &str) -> Result<(), SnapshotError> {
        let SnapshotFrame::Snapshot { patch } = serde_json::from_str(data).map_err(SnapshotError::Malformed)?;
        if !self.based && patch.full.is_none() {
            return Err(SnapshotError::NoBase);
        }
        let shown = std::mem::take(&mut self.snapshot);
        self.snapshot = apply(Some(shown), patch)?;
        Ok(())
    }
}
