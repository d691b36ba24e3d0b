//! What follows the last answer of a pass: nothing, a compaction, and then perhaps another pass.
//!
//! Invariant: it is decided before the end of the pass is told, so that nobody takes the session for idle in between. A compaction is part of its
//! run: what stops the run stops it, and the run is not over before.

use tokio_util::sync::CancellationToken;
use wolli_home::settings::Compaction;
use wolli_protocol::event::{CompactionReason, SessionEvent};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{AssistantMessage, StopReason};
use wolli_protocol::model::Model;

use super::run::{Run, Start};
use crate::compaction::{CompactionError, Counted, Counts, Job, Planned, end_event, guessed_tokens, need, sizes_text};
use crate::limits::AUTOMATIC_COMPACTIONS;
use crate::session::{RunRequest, TurnSettings};

/// Told when a context was still too long after it was compacted. The text is that of wolli 0.0.2.
const SECOND_OVERFLOW: &str = "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching to a \
                               larger-context model.";

/// What is left to do when the model has nothing more to say.
#[derive(Debug)]
pub(super) enum After {
    Nothing,
    /// A notice behind the end of the run.
    Tell(Box<SessionEvent>),
    Compact(Box<PlannedCompaction>),
}

#[derive(Debug)]
pub(super) struct PlannedCompaction {
    reason: CompactionReason,
    settings: TurnSettings,
    sizes: Compaction,
    /// The answer that did not fit.
    failed: Option<EntryId>,
    planned: Planned,
}

impl Run {
    /// Takes note of an answer: a good one shows that the context is fine again.
    pub(super) async fn judge(&mut self, answer: &AssistantMessage, model: &Model) {
        if !need::is_good(answer, model) {
            return;
        }
        self.recovering = false;
        self.count(|counts| counts.rounds = 0).await;
    }

    /// Changes the counts, and tells the actor if that makes a difference.
    async fn count(&mut self, change: impl FnOnce(&mut Counts)) {
        let before = self.counts;
        change(&mut self.counts);
        if self.counts != before {
            // If the session is gone, so are its counts.
            let _ = self.context.actor.send(RunRequest::CountCompactions { counts: self.counts, stored: None }).await;
        }
    }

    /// Takes note of a notice that is told now: that compactions do not help is told once.
    pub(super) async fn told(&mut self, notice: &SessionEvent) {
        if self.counts.is_fruitless() && matches!(notice, SessionEvent::CompactionEnd { reason: CompactionReason::Threshold, .. }) {
            self.count(|counts| counts.fruitless = counts.fruitless.saturating_add(1)).await;
        }
    }

    /// Decides what follows if `answer` is the last one.
    pub(super) async fn after(&mut self, entry_id: EntryId, answer: &AssistantMessage) -> After {
        if answer.stop_reason == StopReason::Aborted || self.context.token.is_cancelled() {
            return After::Nothing;
        }
        let Some(settings) = self.ask(RunRequest::Settings).await else { return After::Nothing };
        if settings.model.is_placeholder() {
            return After::Nothing;
        }
        let overflowed = need::overflowed(answer, &settings.model);
        if !overflowed && settings.model.context_window == 0 {
            return After::Nothing;
        }
        let services = std::sync::Arc::clone(&self.context.services);
        let read = self.context.services.tasks.spawn_blocking(move || services.compaction_settings());
        let Ok(sizes) = read.await else { return After::Nothing };
        if !sizes.enabled {
            return After::Nothing;
        }
        if overflowed { self.after_overflow(entry_id, settings, sizes).await } else { self.after_answer(answer, settings, sizes).await }
    }

    async fn after_overflow(&self, entry_id: EntryId, settings: TurnSettings, sizes: Compaction) -> After {
        let reason = CompactionReason::Overflow;
        if self.recovering {
            return tell(reason, SECOND_OVERFLOW.to_owned());
        }
        if self.counts.is_exhausted() {
            let text = format!("{AUTOMATIC_COMPACTIONS} summaries in a row brought no answer");
            return self.does_not_fit(reason, &text, &settings.model);
        }
        let failed = Some(entry_id);
        match self.job(reason, &settings, sizes, failed.clone(), self.context.token.clone()).plan().await {
            Ok(planned) => After::Compact(Box::new(PlannedCompaction { reason, settings, sizes, failed, planned })),
            Err(CompactionError::Cancelled) => After::Nothing,
            Err(CompactionError::Nothing) => {
                self.does_not_fit(reason, "the newest messages alone are too long, and nothing stands before them", &settings.model)
            }
            Err(error) => After::Tell(Box::new(end_event(reason, &Err(error), false))),
        }
    }

    async fn after_answer(&mut self, answer: &AssistantMessage, settings: TurnSettings, sizes: Compaction) -> After {
        let reason = CompactionReason::Threshold;
        let used = if answer.stop_reason == StopReason::Error {
            let context = self.context.journal.context().await.ok();
            context.and_then(|context| need::used_tokens_after_failure(&context))
        } else {
            match need::used_tokens(&answer.usage) {
                // A server that does not count; it may cut what is too long without a word, so a guess is better than nothing.
                0 => self.context.journal.context().await.ok().map(|context| guessed_tokens(&self.context, &context)),
                counted => Some(counted),
            }
        };
        let (Some(used), Some(limit)) = (used, need::limit(&settings.model, sizes.reserve_tokens)) else { return After::Nothing };
        if used <= limit {
            self.count(|counts| counts.fruitless = 0).await;
            return After::Nothing;
        }
        if self.counts.is_exhausted() || self.counts.is_told() {
            return After::Nothing;
        }
        if self.counts.is_fruitless() {
            let text = format!("{AUTOMATIC_COMPACTIONS} compactions in a row left more than {limit} tokens in the context");
            return self.does_not_fit(reason, &text, &settings.model);
        }
        match self.job(reason, &settings, sizes, None, self.context.token.clone()).plan().await {
            Ok(planned) => After::Compact(Box::new(PlannedCompaction { reason, settings, sizes, failed: None, planned })),
            Err(CompactionError::Cancelled | CompactionError::Nothing) => After::Nothing,
            Err(error) => After::Tell(Box::new(end_event(reason, &Err(error), false))),
        }
    }

    fn does_not_fit(&self, reason: CompactionReason, what: &str, model: &Model) -> After {
        let text = format!("{what}: {}", sizes_text(&self.context, model));
        After::Tell(Box::new(end_event(reason, &Err(CompactionError::DoesNotFit(text)), false)))
    }

    fn job(
        &self,
        reason: CompactionReason,
        settings: &TurnSettings,
        sizes: Compaction,
        failed: Option<EntryId>,
        token: CancellationToken,
    ) -> Job<'_> {
        Job { context: &self.context, reason, settings: settings.clone(), sizes, focus: None, failed, token }
    }

    /// Compacts behind a pass, and says what the next one begins with. Without a next one the run is over, and that is told.
    pub(super) async fn compact(&mut self, compaction: PlannedCompaction) -> Option<Start> {
        let PlannedCompaction { reason, settings, sizes, failed, planned } = compaction;
        let token = self.ask(RunRequest::Compacting).await.unwrap_or_else(|| self.context.token.child_token());
        let mut counts = self.counts;
        counts.fruitless += u32::from(reason == CompactionReason::Threshold);
        let job = self.job(reason, &settings, sizes, failed.clone(), token);
        let result = job.run(planned, &mut Counted::In(&mut counts)).await;
        self.count(|known| *known = counts).await;
        self.ask(RunRequest::SavePoint).await;
        if reason == CompactionReason::Overflow {
            let retries = result.is_ok() && !self.context.token.is_cancelled();
            let event = end_event(reason, &result, retries);
            if !retries {
                // The run ended with an error: what waits in the queues goes with the next prompt.
                self.end(&event).await;
                return None;
            }
            self.publish(&event);
            (self.recovering, self.left_out) = (true, failed);
            return Some(Start::History);
        }
        let event = end_event(reason, &result, false);
        let next = if self.context.token.is_cancelled() {
            None
        } else {
            self.ask(|answer| RunRequest::NextFollowUp { stays: false, answer }).await.flatten()
        };
        let Some(message) = next else {
            self.end(&event).await;
            return None;
        };
        self.publish(&event);
        Some(Start::Queued(message))
    }
}

fn tell(reason: CompactionReason, text: String) -> After {
    After::Tell(Box::new(SessionEvent::CompactionEnd {
        reason,
        result: None,
        aborted: false,
        will_retry: false,
        error_message: Some(text),
    }))
}
