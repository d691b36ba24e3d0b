//! Compaction as the actor sees it: the one that a client asks for is a task of its own, the automatic one a part of its run.
//!
//! Invariant: while either goes on the session is at work: prompts are queued or refused, and it stays in memory. An abort stops a run and
//! the compaction in it, and leaves alone what a client asked for.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wolli_protocol::event::{CompactionReason, SessionEvent};
use wolli_protocol::resource::CompactResult;

use super::actor::{Actor, Phase, RunRequest, TurnSettings};
use super::handle::{CommandError, Reply};
use crate::compaction::{CompactionError, Counted, Counts, Job, end_event};
use crate::limits::RUN_REQUESTS;
use crate::turn::RunContext;

/// A compaction that a client asked for.
pub(super) struct ManualCompaction {
    reply: Reply<CompactResult>,
    result: Option<Result<CompactResult, CompactionError>>,
}

impl ManualCompaction {
    pub(super) fn answer(self) {
        let result = self.result.unwrap_or_else(panicked);
        // The client may have gone.
        let _ = self.reply.send(result.map_err(CommandError::from));
    }
}

impl Actor {
    /// Starts a compaction; it is answered when it is over.
    pub(super) fn compact(&mut self, instructions: Option<String>, reply: Reply<CompactResult>) {
        if !matches!(self.phase, Phase::Idle) {
            let _ = reply.send(Err(CommandError::CompactWhileBusy));
            return;
        }
        self.write_deferred();
        let (requests, asked) = mpsc::channel(RUN_REQUESTS);
        let token = self.token.child_token();
        self.hub.update(|state| state.is_streaming = true);
        let context = self.run_context(requests, token.clone());
        let ended = self.services.tasks.spawn("compaction", compact(context, self.settings.clone(), instructions));
        self.manual = Some(ManualCompaction { reply, result: None });
        self.compacting = Some(token.clone());
        self.phase = Phase::Running { ended, requests: asked, token, ending: false };
    }

    pub(super) fn abort_compaction(&self) {
        if let Some(token) = &self.compacting {
            token.cancel();
        }
    }

    /// A run compacts; gives what stops that and not the run.
    pub(super) fn compaction_begins(&mut self) -> CancellationToken {
        let token = match &self.phase {
            Phase::Running { token, .. } => token.child_token(),
            Phase::Idle => self.token.child_token(),
        };
        self.compacting = Some(token.clone());
        token
    }

    /// Keeps what automatic compactions came to. A number that rose is on disk before the model is asked; one that fell can wait.
    pub(super) fn count_compactions(&mut self, counts: Counts, stored: Option<oneshot::Sender<()>>) {
        self.compactions = counts;
        self.sidecar_stale = true;
        let Some(answer) = stored else { return };
        self.sidecar_stale = false;
        let stored = self.journal.store_sidecar(self.sidecar());
        self.services.tasks.spawn("sidecar", async move {
            if let Err(error) = stored.await {
                tracing::warn!(%error, "the number of compactions was not stored");
            }
            let _ = answer.send(());
        });
    }

    pub(super) fn compacted(&mut self, result: Result<CompactResult, CompactionError>) {
        if let Some(manual) = &mut self.manual {
            manual.result = Some(result);
        }
    }

    /// Tells what a task that panicked can tell no more.
    pub(super) fn end_panicked_compaction(&self, manual: bool) {
        if manual || self.compacting.is_some() {
            let reason = if manual { CompactionReason::Manual } else { CompactionReason::Threshold };
            self.hub.publish_changing(&end_event(reason, &panicked(), false), |state| state.is_streaming = false);
        }
        if self.hub.waiting().is_some() {
            self.hub.publish(&SessionEvent::Waiting { waiting: None });
        }
    }

    /// True if the task of the phase will look at no queue any more: it was aborted, or is a compaction.
    pub(super) fn takes_no_more(&self) -> bool {
        match &self.phase {
            Phase::Running { token, .. } => self.manual.is_some() || token.is_cancelled(),
            Phase::Idle => false,
        }
    }
}

/// What a compaction came to whose task panicked.
fn panicked() -> Result<CompactResult, CompactionError> {
    Err(CompactionError::Summary("the daemon's log has the details".into()))
}

/// The task of a compaction that a client asked for.
async fn compact(context: RunContext, settings: TurnSettings, instructions: Option<String>) {
    let services = Arc::clone(&context.services);
    let read = context.services.tasks.spawn_blocking(move || services.compaction_settings());
    let Ok(sizes) = read.await else { return };
    let reason = CompactionReason::Manual;
    let focus = instructions.as_deref();
    let token = context.token.clone();
    let job = Job { context: &context, reason, settings, sizes, focus, failed: None, token };
    let (result, notice) = match job.plan().await {
        // Nothing began, so nothing ends.
        Err(error) => (Err(error), None),
        Ok(planned) => {
            let result = job.run(planned, &mut Counted::No).await;
            let notice = end_event(reason, &result, false);
            (result, Some(notice))
        }
    };
    // From here on the actor takes no command until this task is over.
    let (answer, answered) = oneshot::channel();
    if context.actor.send(RunRequest::Compacted { result, answer }).await.is_ok() {
        let _ = answered.await;
    }
    match notice {
        Some(notice) => context.hub.publish_changing(&notice, |state| state.is_streaming = false),
        None => context.hub.update(|state| state.is_streaming = false),
    }
}
