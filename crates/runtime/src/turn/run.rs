//! The loop of one run: ask the model, run its tool calls, deliver what waits, until nothing is left to do.
//!
//! Invariant: an entry is in the file before the frame that announces its end is published; every `_start` has its
//! `_end`; the last frame is `agent_end`. Errors are events: the loop itself never fails.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wolli_models::event::{ModelEvent, RetryNotice};
use wolli_models::request::ModelRequest;
use wolli_models::stream::ABORTED;
use wolli_protocol::event::{MessageOrReference, SessionEvent};
use wolli_protocol::ids::{EntryId, SessionId};
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, TextContent};
use wolli_protocol::state::{Waiting, WaitingKind};

use super::after::After;
use super::toolcalls;
use crate::clock::{iso_after, now_iso, now_millis};
use crate::compaction::Counts;
use crate::hub::Hub;
use crate::runtime::Services;
use crate::session::{Durability, Journal, NewEntry, QueuedMessage, RunRequest, StoreError, TurnSettings, to_model_messages};
use crate::tools::ToolSet;

/// Events that readers are told of together at most; more would make the first of them wait for too long.
const EVENTS_TOGETHER: usize = 64;

/// What a run works with.
pub(crate) struct RunContext {
    pub(crate) session_id: SessionId,
    pub(crate) services: Arc<Services>,
    pub(crate) journal: Journal,
    pub(crate) hub: Arc<Hub>,
    pub(crate) actor: mpsc::Sender<RunRequest>,
    pub(crate) token: CancellationToken,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) system_prompt: Arc<str>,
}

pub(crate) struct Run {
    pub(super) context: RunContext,
    /// What this pass added, in order.
    added: Vec<EntryId>,
    pub(super) counts: Counts,
    /// The context did not fit, was compacted, and is tried once more.
    pub(super) recovering: bool,
    /// An answer that did not fit; the model is not told of it.
    pub(super) left_out: Option<EntryId>,
}

/// What a pass begins with.
pub(super) enum Start {
    Prompt(QueuedMessage),
    /// A message that waited when the pass before was over.
    Queued(QueuedMessage),
    /// Goes on where the history ends.
    History,
}

/// Why the loop stopped before the model was done. The text becomes the `errorMessage` of a closing message.
#[derive(Debug)]
struct Failure(String);

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// How the loop goes on after an answer.
enum Next {
    Turn,
    Stop(After),
}

impl Run {
    pub(crate) fn new(context: RunContext, counts: Counts) -> Self {
        Self { context, added: Vec::new(), counts, recovering: false, left_out: None }
    }

    /// Runs to the end. Without a prompt it goes on where an earlier process was cut off. More than one pass from `agent_start` to
    /// `agent_end` may come of it: what follows a pass is decided before its end is told.
    pub(crate) async fn execute(mut self, prompt: Option<QueuedMessage>) {
        let mut start = prompt.map_or(Start::History, Start::Prompt);
        loop {
            self.publish(&SessionEvent::AgentStart);
            self.publish(&SessionEvent::TurnStart);
            let (messages, after) = match self.turns(start).await {
                Ok(after) => (self.added.drain(..).map(MessageOrReference::from).collect(), after),
                Err(Failure(text)) => (vec![self.fail(text).await], After::Nothing),
            };
            let end = SessionEvent::AgentEnd { messages };
            match after {
                After::Nothing => return self.end(&end).await,
                After::Tell(notice) => {
                    self.told(&notice).await;
                    self.end(&end).await;
                    return self.publish(&notice);
                }
                After::Compact(compaction) => {
                    self.publish(&end);
                    let Some(next) = self.compact(*compaction).await else { return };
                    start = next;
                }
            }
        }
    }

    /// Tells the last event of the run.
    pub(super) async fn end(&self, event: &SessionEvent) {
        // From here on the actor takes no command until this task is over, so nothing falls between.
        self.ask(RunRequest::Ending).await;
        self.context.hub.publish_changing(event, |state| state.is_streaming = false);
    }

    async fn turns(&mut self, start: Start) -> Result<After, Failure> {
        match start {
            Start::Prompt(prompt) => self.deliver_prompt(prompt).await?,
            Start::Queued(message) => self.deliver(message).await?,
            Start::History => {}
        }
        if let Some(steering) = self.ask(RunRequest::NextSteering).await.flatten() {
            self.deliver(steering).await?;
        }
        loop {
            if let Next::Stop(after) = self.turn().await? {
                return Ok(after);
            }
        }
    }

    /// One answer of the model and its tool calls, and whatever is delivered after it.
    async fn turn(&mut self) -> Result<Next, Failure> {
        let (answer_id, answer) = self.ask_model().await?;
        let results = if answer.stop_reason.is_failure() { Vec::new() } else { toolcalls::run(self, &answer).await? };
        let called_tools = !results.is_empty();
        let tool_results = results.into_iter().map(Into::into).collect();
        self.publish(&SessionEvent::TurnEnd { message: answer_id.clone().into(), tool_results });
        self.context.journal.sync().await?;
        self.ask(RunRequest::SavePoint).await;
        if answer.stop_reason.is_failure() {
            return Ok(Next::Stop(self.after(answer_id, &answer).await));
        }
        let mut next = self.ask(RunRequest::NextSteering).await.flatten();
        if next.is_none() && !called_tools {
            let after = self.after(answer_id, &answer).await;
            let stays = matches!(after, After::Compact(_));
            next = self.ask(|answer| RunRequest::NextFollowUp { stays, answer }).await.flatten();
            if next.is_none() {
                return Ok(Next::Stop(after));
            }
        }
        self.publish(&SessionEvent::TurnStart);
        if let Some(message) = next {
            self.deliver(message).await?;
        }
        Ok(Next::Turn)
    }

    /// Stores the prompt of the run and tells the actor how that went, which answers the client.
    async fn deliver_prompt(&mut self, prompt: QueuedMessage) -> Result<(), Failure> {
        let stored = self.store_message(prompt, Durability::Synced).await;
        let told = self.context.actor.send(RunRequest::PromptStored(stored.clone())).await;
        if told.is_err() {
            tracing::debug!("the session ended before its prompt was stored");
        }
        Ok(stored?)
    }

    /// Stores a message that was queued, and tells the actor, which keeps it beside the session file until then.
    async fn deliver(&mut self, message: QueuedMessage) -> Result<(), Failure> {
        let stored = self.store_message(message, Durability::Written).await;
        let told = self.context.actor.send(RunRequest::Delivered(stored.clone())).await;
        if told.is_err() {
            tracing::debug!("the session ended before its message was delivered");
        }
        Ok(stored?)
    }

    async fn store_message(&mut self, queued: QueuedMessage, durability: Durability) -> Result<(), StoreError> {
        let QueuedMessage { entry_id, message, idempotency_key } = queued;
        let message = Message::User(message);
        self.publish(&SessionEvent::MessageStart { message: message.clone(), entry_id: Some(entry_id.clone()) });
        let entry = NewEntry::message(entry_id.clone(), message.clone(), idempotency_key);
        self.context.journal.append(vec![entry], durability).await?;
        self.end_message(entry_id, message);
        Ok(())
    }

    /// Announces a message that is in the file.
    fn end_message(&mut self, entry_id: EntryId, message: Message) {
        self.added.push(entry_id.clone());
        self.publish(&SessionEvent::MessageEnd { message, entry_id: Some(entry_id) });
    }

    /// Stores finished messages and announces each, in order.
    pub(super) async fn finish_messages(&mut self, messages: Vec<(EntryId, Message)>) -> Result<(), StoreError> {
        for (entry_id, message) in messages {
            self.publish(&SessionEvent::MessageStart { message: message.clone(), entry_id: Some(entry_id.clone()) });
            let entry = NewEntry::message(entry_id.clone(), message.clone(), None);
            self.context.journal.append(vec![entry], Durability::Written).await?;
            self.end_message(entry_id, message);
        }
        Ok(())
    }

    /// Asks the model and publishes its answer as it comes. A failure of the model is an answer, too.
    async fn ask_model(&mut self) -> Result<(EntryId, AssistantMessage), Failure> {
        let settings = self.ask(RunRequest::Settings).await.ok_or_else(|| Failure("the session is closing".into()))?;
        if let Some(tools) = self.ask(RunRequest::Tools).await {
            self.context.tools = tools;
        }
        let entry_id = EntryId::generate();
        let prepared = tokio::select! {
            biased;
            () = self.context.token.cancelled() => None,
            request = self.request(&settings) => Some(request?),
        };
        let Some(request) = prepared else {
            // Stopped before anything was asked.
            let mut answer = AssistantMessage::begin(&settings.model, now_millis());
            (answer.stop_reason, answer.error_message) = (StopReason::Aborted, Some(ABORTED.to_owned()));
            return self.finish_answer(&settings, entry_id, answer, false).await;
        };
        let mut started = false;
        let mut waiting = false;
        let mut stream = self.context.services.client.stream(request, self.context.token.clone());
        let mut together = 0;
        let answer = loop {
            // What one read of the provider brought is told to the readers together. The connection hands its pieces
            // over one at a time, so it gets one chance to run before the readers are woken.
            let mut ready = stream.next().now_or_never();
            if ready.is_none() && together > 0 {
                tokio::task::yield_now().await;
                ready = stream.next().now_or_never();
            }
            let event = match ready {
                Some(event) if together < EVENTS_TOGETHER => event,
                ready => {
                    self.context.hub.announce();
                    together = 0;
                    match ready {
                        // A provider that is always ready must not keep the readers from running.
                        Some(event) => {
                            tokio::task::yield_now().await;
                            event
                        }
                        None => stream.next().await,
                    }
                }
            };
            together += 1;
            let Some(event) = event else {
                return Err(Failure("the model's stream ended without an answer".into()));
            };
            if waiting && !matches!(event, ModelEvent::Retry(_)) {
                waiting = false;
                self.publish(&SessionEvent::Waiting { waiting: None });
            }
            match event {
                ModelEvent::Start(message) => {
                    started = true;
                    self.publish(&SessionEvent::MessageStart { message: Message::Assistant(message), entry_id: Some(entry_id.clone()) });
                }
                ModelEvent::Step(step) => {
                    self.context.hub.record(&SessionEvent::MessageUpdate { assistant_message_event: step, message: None }, |_| {});
                }
                ModelEvent::Retry(notice) => {
                    waiting = true;
                    self.publish_retry(&notice);
                }
                ModelEvent::End(message) => break message,
            }
        };
        self.finish_answer(&settings, entry_id, answer, started).await
    }

    /// Stores an answer and tells its end.
    async fn finish_answer(
        &mut self,
        settings: &TurnSettings,
        entry_id: EntryId,
        answer: AssistantMessage,
        started: bool,
    ) -> Result<(EntryId, AssistantMessage), Failure> {
        // Before the entry, so that an answer which is in the file is counted, whatever kills us in between.
        let used = self.context.services.usage.record(&self.context.session_id, &settings.model, &answer.usage).await;
        let message = Message::Assistant(answer.clone());
        if !started {
            self.publish(&SessionEvent::MessageStart { message: message.clone(), entry_id: Some(entry_id.clone()) });
        }
        let entry = NewEntry::message(entry_id.clone(), message.clone(), None);
        self.context.journal.append(vec![entry], Durability::Written).await?;
        self.end_message(entry_id.clone(), message);
        used.iter().for_each(|notice| self.publish(notice));
        self.judge(&answer, &settings.model).await;
        Ok((entry_id, answer))
    }

    fn publish_retry(&self, notice: &RetryNotice) {
        let until = iso_after(notice.delay);
        self.publish(&SessionEvent::Retry {
            attempt: notice.attempt,
            max: notice.max,
            until: until.clone(),
            reason: notice.reason.clone(),
        });
        let waiting = Waiting {
            kind: if notice.rate_limited { WaitingKind::RateLimit } else { WaitingKind::Retry },
            since: now_iso(),
            until: Some(until),
            attempt: Some(notice.attempt),
            max: Some(notice.max),
        };
        self.publish(&SessionEvent::Waiting { waiting: Some(waiting) });
    }

    async fn request(&self, settings: &TurnSettings) -> Result<ModelRequest, Failure> {
        let services = &self.context.services;
        if settings.model.is_placeholder() {
            return Err(Failure(wolli_models::registry::NO_MODEL.into()));
        }
        let registry = services.registry.get();
        let session_id = self.context.session_id.as_str();
        let model = registry.at_endpoint(&settings.model).map_err(|error| Failure(error.to_string()))?;
        let auth = registry.resolve_auth(&model, Some(session_id)).await.map_err(|error| Failure(error.to_string()))?;
        let mut context = self.context.journal.context().await?;
        if let Some(left_out) = &self.left_out {
            context.retain(|item| item.entry_id != *left_out);
        }
        Ok(ModelRequest {
            model,
            system: self.context.system_prompt.to_string(),
            messages: to_model_messages(&context),
            tools: model_tools(&self.context.tools),
            thinking: settings.level,
            session_id: session_id.to_owned(),
            auth,
            max_tokens: None,
            chosen_by_name: settings.chosen,
        })
    }

    /// Ends a run that cannot go on: an answer that says why, and the end of the turn.
    async fn fail(&mut self, text: String) -> MessageOrReference {
        tracing::warn!(error = %text, "a run failed");
        let model = self.ask(RunRequest::Settings).await.map_or_else(wolli_protocol::model::Model::placeholder, |settings| settings.model);
        let mut message = AssistantMessage::begin(&model, now_millis());
        message.content.push(AssistantBlock::Text(TextContent::default()));
        message.stop_reason = if self.context.token.is_cancelled() { StopReason::Aborted } else { StopReason::Error };
        message.error_message = Some(text);
        let entry_id = EntryId::generate();
        let message = Message::Assistant(message);
        let entry = NewEntry::message(entry_id.clone(), message.clone(), None);
        // If the disk is the reason, this fails as well; the clients are told all the same, without an entry.
        let stored = self.context.journal.append(vec![entry], Durability::Synced).await.is_ok();
        let announced = stored.then(|| entry_id.clone());
        self.publish(&SessionEvent::MessageStart { message: message.clone(), entry_id: announced.clone() });
        self.publish(&SessionEvent::MessageEnd { message: message.clone(), entry_id: announced });
        let reference = if stored { MessageOrReference::from(entry_id) } else { MessageOrReference::Message(Box::new(message)) };
        self.publish(&SessionEvent::TurnEnd { message: reference.clone(), tool_results: Vec::new() });
        self.ask(RunRequest::SavePoint).await;
        reference
    }

    pub(super) fn publish(&self, event: &SessionEvent) {
        self.context.hub.publish(event);
    }

    /// Asks the actor and waits for its answer; `None` if the session is gone.
    pub(super) async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> RunRequest) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.context.actor.send(question(answer)).await.ok()?;
        answered.await.ok()
    }
}

/// The tools as a model is told of them.
fn model_tools(tools: &ToolSet) -> Arc<[wolli_models::request::ToolSpec]> {
    tools
        .specs()
        .map(|tool| wolli_models::request::ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        })
        .collect()
}
