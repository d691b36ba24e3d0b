//! One accumulating snapshot of a session's run, and the patches between two of them.
//!
//! The daemon folds its events into a snapshot ([`SnapshotFold`]) and sends patches; a client applies them ([`SnapshotView`])
//! and has at each moment everything that a screen shows, without knowing what happened in between. [`diff`] and
//! [`apply`] are the laws that both follow: `apply(a, diff(a, b)) == b`. Growing text costs its own length, not the whole.
//! Not here: when patches are sent, sockets, the history of earlier runs.

mod fold;
mod patch;
mod project;
mod shape;
mod view;

pub use fold::{Mark, SnapshotFold};
pub use patch::{PatchError, SnapshotPatch, apply, diff};
pub use shape::{
    Artifact, ArtifactKind, CallStatus, Choice, Compaction, CompactionTrigger, Interaction, InteractionKind, Phase, Plan, PlanStep,
    PlanStepStatus, Question, QueuedTask, RunUsage, SubAgent, SubAgentTool, ToolProgress, UniversalSnapshot,
};
pub use view::{SnapshotError, SnapshotFrame, SnapshotView, Taken};

#[cfg(test)]
mod tests;
