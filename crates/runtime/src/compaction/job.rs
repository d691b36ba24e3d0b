//! One compaction from its start to its entry in the session file.
//!
//! Invariants: what was asked of a model is accounted for; once the entry is written the compaction counts, whoever cancels it; a model is
//! asked a bounded number of times. Not here: when a history is compacted, and what follows.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wolli_home::settings::Compaction;
use wolli_protocol::entry::EntryBody;
use wolli_protocol::event::{CompactionReason, SessionEvent};
use wolli_protocol::ids::EntryId;
use wolli_protocol::model::Model;
use wolli_protocol::resource::CompactResult;
use wolli_protocol::state::{Waiting, WaitingKind};

use super::counts::Counts;
use super::cut::Reach;
use super::estimate::{context_tokens, text_tokens};
use super::need::effective_reserve;
use super::plan::{LEAST_ROOM, Plan};
use super::prompts;
use super::summary::{Summariser, SummaryError};
use crate::clock::now_iso;
use crate::limits::SUMMARY_ROUNDS;
use crate::session::{ContextMessage, Durability, NewEntry, RunRequest, StoreError, TurnSettings};
use crate::turn::RunContext;

/// Bytes of one token in what is sent for a summary; less than usual, so that a guess is not too long.
const BYTES_PER_TOKEN: u64 = 3;

/// Why a history was not compacted. The texts go to clients; those of wolli 0.0.2 are kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompactionError {
    #[error("Nothing to compact")]
    Nothing,
    #[error("Compaction cancelled")]
    Cancelled,
    #[error("No auth available for compaction")]
    NoAuth,
    #[error("Summarization failed: {0}")]
    Summary(String),
    #[error("Turn prefix summarization failed: {0}")]
    Prefix(String),
    #[error("{0}")]
    DoesNotFit(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is to be done.
pub(crate) struct Job<'a> {
    pub(crate) context: &'a RunContext,
    pub(crate) reason: CompactionReason,
    pub(crate) settings: TurnSettings,
    pub(crate) sizes: Compaction,
    /// What the person wants to be kept.
    pub(crate) focus: Option<&'a str>,
    /// The answer at the end that did not fit.
    pub(crate) failed: Option<EntryId>,
    pub(crate) token: CancellationToken,
}

/// Whether the rounds of a compaction are counted; those that a person asks for are not.
#[derive(Debug)]
pub(crate) enum Counted<'a> {
    No,
    In(&'a mut Counts),
}

/// What is going to be done, and what the history was before.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    plan: Plan,
    visible_before: u64,
    tokens_before: u64,
}

impl Job<'_> {
    /// Looks for something to summarise. Reads the session file; asks nobody.
    pub(crate) async fn plan(&self) -> Result<Planned, CompactionError> {
        let read = async { Ok::<_, StoreError>((self.context.journal.window().await?, self.context.journal.context().await?)) };
        let (window, context) = tokio::select! {
            biased;
            () = self.token.cancelled() => return Err(CompactionError::Cancelled),
            read = read => read?,
        };
        let reach = if self.reason == CompactionReason::Threshold { Reach::Spare } else { Reach::Force };
        let (keep, failed) = (self.sizes.keep_recent_tokens, self.failed.clone());
        // A history that was never compacted may be tens of megabytes, which are written anew as text.
        let planned = self.context.services.tasks.spawn_blocking(move || {
            let plan = Plan::new(&window, keep, reach, failed.as_ref())?;
            Some(Planned { plan, visible_before: context.len() as u64, tokens_before: context_tokens(&context) })
        });
        // Without an answer the daemon stops.
        planned.await.map_err(|_| CompactionError::Cancelled)?.ok_or(CompactionError::Nothing)
    }

    /// Compacts. The start is told to readers here, the end by the caller, who knows what follows. `Ok` means that the entry is on disk.
    pub(crate) async fn run(&self, planned: Planned, counted: &mut Counted<'_>) -> Result<CompactResult, CompactionError> {
        let hub = &self.context.hub;
        hub.publish(&SessionEvent::CompactionStart { reason: self.reason });
        let before = hub.waiting();
        let waiting = Waiting { kind: WaitingKind::Compaction, since: now_iso(), until: None, attempt: None, max: None };
        hub.publish(&SessionEvent::Waiting { waiting: Some(waiting) });
        let result = match self.summarise(&planned.plan, counted).await {
            Ok(summary) => self.store(planned, summary).await,
            Err(error) => Err(error),
        };
        hub.publish(&SessionEvent::Waiting { waiting: before });
        result
    }

    /// Asks until the model takes what it is sent, for a bounded number of times.
    async fn summarise(&self, plan: &Plan, counted: &mut Counted<'_>) -> Result<String, CompactionError> {
        let summariser = tokio::select! {
            biased;
            () = self.token.cancelled() => return Err(CompactionError::Cancelled),
            summariser = self.summariser() => summariser?,
        };
        let mut room = self.room();
        let mut failure = None;
        for _ in 0..SUMMARY_ROUNDS {
            if let Counted::In(counts) = counted {
                if counts.is_exhausted() {
                    break;
                }
                counts.rounds += 1;
                self.store_counts(**counts).await;
            }
            match self.ask(&summariser, plan, room).await {
                Ok((history, prefix)) => return Ok(plan.summary(history, prefix)),
                Err((error, true)) => failure = Some(error),
                Err((error, false)) => return Err(error),
            }
            room = room.min(plan.length()) / 2;
            if room < LEAST_ROOM {
                break;
            }
        }
        Err(failure.unwrap_or(CompactionError::Nothing))
    }

    async fn summariser(&self) -> Result<Summariser<'_>, CompactionError> {
        if self.settings.model.is_placeholder() {
            return Err(CompactionError::NoAuth);
        }
        let registry = self.context.services.registry.get();
        let model = registry.at_endpoint(&self.settings.model).map_err(|error| CompactionError::Summary(error.to_string()))?;
        let auth = registry.resolve_auth(&model, Some(self.context.session_id.as_str())).await.map_err(|error| {
            tracing::debug!(%error, "no credentials for a summary");
            CompactionError::NoAuth
        })?;
        Ok(Summariser { context: self.context, model, auth, level: self.settings.level, chosen: self.settings.chosen })
    }

    /// Both summaries at once. An error says whether less input may help.
    async fn ask(
        &self,
        summariser: &Summariser<'_>,
        plan: &Plan,
        room: usize,
    ) -> Result<(Option<String>, Option<String>), (CompactionError, bool)> {
        let reserve = self.reserve();
        let questions = plan.questions(room, self.focus);
        // If one fails the other is of no use.
        let together = self.token.child_token();
        let ask = |question: Option<String>, max_tokens: u64| {
            let together = together.clone();
            async move {
                let Some(question) = question else { return Ok(None) };
                let answer = summariser.ask(question, max_tokens, together.clone()).await;
                if answer.is_err() {
                    together.cancel();
                }
                answer.map(Some)
            }
        };
        let (history, prefix) = tokio::join!(ask(questions.history, reserve.saturating_mul(4) / 5), ask(questions.prefix, reserve / 2));
        if self.token.is_cancelled() {
            return Err((CompactionError::Cancelled, false));
        }
        match (history, prefix) {
            (Ok(history), Ok(prefix)) => Ok((history, prefix)),
            // The one that was cancelled says nothing.
            (Ok(_) | Err(SummaryError::Cancelled), Err(error)) => Err(failed(error, CompactionError::Prefix)),
            (Err(error), _) => Err(failed(error, CompactionError::Summary)),
        }
    }

    /// Writes the entry. From here on nothing cancels.
    async fn store(&self, planned: Planned, summary: String) -> Result<CompactResult, CompactionError> {
        let Planned { plan, visible_before, tokens_before } = planned;
        let entry = NewEntry::new(EntryBody::Compaction {
            summary: summary.clone(),
            first_kept_entry_id: plan.first_kept.clone(),
            tokens_before,
            details: Some(plan.details()),
            from_hook: Some(false),
        });
        let id = entry.id.clone();
        // The summary is a message of the context, too.
        let visible_now = plan.kept_messages + 1;
        let hub = Arc::clone(&self.context.hub);
        let written = move || {
            hub.update(|state| state.message_count = (state.message_count + visible_now).saturating_sub(visible_before));
            hub.set_leaf(Some(id));
        };
        self.context.journal.append_then(vec![entry], Durability::Synced, written).await?;
        let first_kept_entry_id = plan.first_kept.to_string();
        Ok(CompactResult { summary, first_kept_entry_id, tokens_before, details: Some(plan.details()) })
    }

    /// Keeps the counts beside the session file before the model is asked.
    async fn store_counts(&self, counts: Counts) {
        let (answer, answered) = oneshot::channel();
        if self.context.actor.send(RunRequest::CountCompactions { counts, stored: Some(answer) }).await.is_ok() {
            let _ = answered.await;
        }
    }

    fn reserve(&self) -> u64 {
        effective_reserve(self.settings.model.context_window, self.sizes.reserve_tokens)
    }

    /// Bytes of a conversation that the model takes.
    fn room(&self) -> usize {
        let window = self.settings.model.context_window;
        if window == 0 {
            return usize::MAX / 2;
        }
        let instructions = text_tokens(prompts::SYSTEM) + text_tokens(prompts::UPDATE);
        let tokens = window.saturating_sub(self.reserve()).saturating_sub(instructions);
        usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX / 2)
    }
}

/// What takes the room, for people.
pub(crate) fn sizes_text(context: &RunContext, model: &Model) -> String {
    format!(
        "the system prompt and the tools take about {} tokens, and {} takes {} in all; use a model with a larger context window, or shorten \
         what the model is told",
        fixed_tokens(context),
        model.reference(),
        model.context_window
    )
}

/// Tokens of a whole request, where the model does not say.
pub(crate) fn guessed_tokens(run: &RunContext, context: &[ContextMessage]) -> u64 {
    fixed_tokens(run) + context_tokens(context)
}

/// Tokens of what is sent with every request.
fn fixed_tokens(context: &RunContext) -> u64 {
    let tools: u64 = context
        .tools
        .specs()
        .map(|tool| text_tokens(&tool.name) + text_tokens(&tool.description) + text_tokens(&tool.parameters.to_string()))
        .sum();
    text_tokens(&context.system_prompt) + tools
}

fn failed(error: SummaryError, named: fn(String) -> CompactionError) -> (CompactionError, bool) {
    match error {
        SummaryError::Cancelled => (CompactionError::Cancelled, false),
        SummaryError::Overflow(text) => (named(text), true),
        SummaryError::Failed(text) => (named(text), false),
    }
}

/// How readers are told of the end.
pub(crate) fn end_event(reason: CompactionReason, result: &Result<CompactResult, CompactionError>, will_retry: bool) -> SessionEvent {
    let label = match reason {
        CompactionReason::Manual => "Compaction failed",
        CompactionReason::Threshold => "Auto-compaction failed",
        CompactionReason::Overflow => "Context overflow recovery failed",
    };
    let aborted = matches!(result, Err(CompactionError::Cancelled));
    let error_message = result.as_ref().err().filter(|_| !aborted).map(|error| format!("{label}: {error}"));
    SessionEvent::CompactionEnd { reason, result: result.as_ref().ok().cloned(), aborted, will_retry, error_message }
}
