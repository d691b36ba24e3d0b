//! What the actor does with each command and each question of its run. Nothing here waits.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wolli_protocol::entry::EntryBody;
use wolli_protocol::event::{ModelSource, SessionEvent};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{ImageContent, Message, UserMessage};
use wolli_protocol::model::{Model, ThinkingLevel};

use super::actor::{Actor, Key, Phase, QueueReply, Queued, RunRequest, TurnSettings};
use super::append::NewEntry;
use super::handle::{ClearedQueues, Command, CommandError, NewPrompt, Reply, SubmitBehavior};
use super::queues::Queue;
use super::sidecar::{QueuedMessage, Sidecar};
use super::writer::StoreError;
use crate::clock::now_millis;
use crate::limits::{IDEMPOTENCY_KEY_BYTES, IDEMPOTENCY_KEYS, QUEUED_MESSAGES, RUN_REQUESTS};
use crate::turn::{Run, RunContext};

impl Actor {
    pub(super) fn handle(&mut self, command: Command) {
        match command {
            Command::Prompt { prompt, reply } => self.prompt(prompt, reply),
            Command::Repeat { key, reply } => self.repeat(&key, reply),
            Command::Steer { text, images, reply } => {
                if matches!(self.phase, Phase::Idle) {
                    let _ = reply.send(Err(CommandError::SteerWhileIdle));
                } else {
                    self.enqueue(Queue::Steer, queued(text, images, None), reply);
                }
            }
            Command::FollowUp { text, images, reply } => {
                let message = queued(text, images, None);
                if matches!(self.phase, Phase::Idle) {
                    self.prompt_replies.push(reply);
                    self.start_run(Some(message));
                } else {
                    self.enqueue(Queue::FollowUp, message, reply);
                }
            }
            Command::Abort { reply } => self.abort(reply),
            Command::Compact { instructions, reply } => self.compact(instructions, reply),
            Command::AbortCompaction { reply } => {
                self.abort_compaction();
                let _ = reply.send(Ok(()));
            }
            Command::ClearQueue { reply } => {
                let cleared = self.clear_queues();
                self.write_queues(QueueReply::Cleared(reply, cleared));
            }
            Command::WaitForIdle { reply } => {
                if matches!(self.phase, Phase::Idle) {
                    let _ = reply.send(Ok(()));
                } else {
                    self.idle_waiters.push(reply);
                }
            }
            Command::SetModel { model, reply } => self.set_model(*model, reply),
            Command::SetThinkingLevel { level, reply } => self.set_thinking_level(level, reply),
            Command::SeedAssistantMessage { text, reply } => self.seed_assistant_message(text, reply),
            Command::AppendMessage { message, reply } => self.append_message(*message, reply),
            Command::Rename { name, reply } => self.rename(&name, reply),
            Command::Equip { tools, reply } => self.equip(tools, reply),
            Command::SetScopedModels { models, reply } => self.set_scoped_models(models, reply),
            Command::Tools { reply } => self.tell_tools(reply),
            Command::Retire { reply } => {
                // Whoever asks while something is at work is told, and nothing happens.
                self.retiring = matches!(self.phase, Phase::Idle);
                let _ = reply.send(if self.retiring { Ok(()) } else { Err(CommandError::Busy) });
            }
        }
    }

    pub(super) fn answer(&mut self, request: RunRequest) {
        // The run waits for each answer; if it is gone, nobody needs it.
        match request {
            RunRequest::PromptStored(stored) => self.prompt_stored(stored),
            RunRequest::Delivered(stored) => self.delivered(stored.is_ok()),
            RunRequest::NextSteering(answer) => drop(answer.send(self.dequeue(Queue::Steer))),
            RunRequest::NextFollowUp { stays, answer } => {
                // Steering that came after the run looked for it goes first.
                let next = self.dequeue(Queue::Steer).or_else(|| self.dequeue(Queue::FollowUp));
                if next.is_none() && !stays {
                    self.set_ending();
                }
                drop(answer.send(next));
            }
            RunRequest::Ending(answer) => {
                self.set_ending();
                let _ = answer.send(());
            }
            RunRequest::SavePoint(answer) => {
                self.write_deferred();
                let _ = answer.send(());
            }
            RunRequest::Settings(answer) => drop(answer.send(self.settings.clone())),
            RunRequest::Tools(answer) => drop(answer.send(Arc::clone(&self.tools))),
            RunRequest::Compacting(answer) => drop(answer.send(self.compaction_begins())),
            RunRequest::CountCompactions { counts, stored } => self.count_compactions(counts, stored),
            RunRequest::Compacted { result, answer } => {
                self.compacted(result);
                self.set_ending();
                let _ = answer.send(());
            }
        }
    }

    fn set_ending(&mut self) {
        if let Phase::Running { ending, .. } = &mut self.phase {
            *ending = true;
        }
    }

    fn prompt(&mut self, prompt: NewPrompt, reply: Reply<()>) {
        if let Some(key) = &prompt.idempotency_key {
            if key.len() > IDEMPOTENCY_KEY_BYTES {
                let _ = reply.send(Err(CommandError::KeyTooLong));
                return;
            }
            match self.keys.get_mut(key) {
                Some(Key::Stored) => {
                    let _ = reply.send(Ok(()));
                    return;
                }
                Some(Key::Pending(waiting)) => {
                    waiting.push(reply);
                    return;
                }
                None => {}
            }
        }
        let message = queued(prompt.text, prompt.images, prompt.idempotency_key);
        match (&self.phase, prompt.behavior) {
            (Phase::Idle, _) => {
                self.remember_key(message.idempotency_key.clone());
                self.prompt_key.clone_from(&message.idempotency_key);
                self.prompt_replies.push(reply);
                self.start_run(Some(message));
            }
            (Phase::Running { .. }, None) => {
                let _ = reply.send(Err(CommandError::Ambiguous));
            }
            (Phase::Running { .. }, Some(behavior)) => {
                let queue = match behavior {
                    SubmitBehavior::Steer => Queue::Steer,
                    SubmitBehavior::FollowUp => Queue::FollowUp,
                };
                self.enqueue(queue, message, reply);
            }
        }
    }

    /// Goes on with what an earlier process left: the turn that was cut off, or else the next message in the queues.
    pub(super) fn resume(&mut self, cut_off: bool) {
        if cut_off {
            self.start_run(None);
        } else {
            self.start_waiting();
        }
    }

    /// Starts a run for the message that waits longest, steering first; false if none waits.
    pub(super) fn start_waiting(&mut self) -> bool {
        let message = self.dequeue(Queue::Steer).or_else(|| self.dequeue(Queue::FollowUp));
        let waits = message.is_some();
        if waits {
            self.start_run(message);
        }
        waits
    }

    /// What a task needs that works for this session.
    pub(super) fn run_context(&self, requests: mpsc::Sender<RunRequest>, token: CancellationToken) -> RunContext {
        RunContext {
            session_id: self.id.clone(),
            services: Arc::clone(&self.services),
            journal: self.journal.clone(),
            hub: Arc::clone(&self.hub),
            actor: requests,
            token,
            tools: Arc::clone(&self.tools),
            system_prompt: Arc::clone(&self.system_prompt),
        }
    }

    /// Registers a run. Its prompt is acknowledged when it is stored.
    fn start_run(&mut self, prompt: Option<QueuedMessage>) {
        self.write_deferred();
        let (requests, asked) = mpsc::channel(RUN_REQUESTS);
        let token = self.token.child_token();
        self.hub.update(|state| state.is_streaming = true);
        if self.hub.waiting().is_some() {
            self.hub.publish(&SessionEvent::Waiting { waiting: None });
        }
        let run = Run::new(self.run_context(requests, token.clone()), self.compactions);
        let ended = self.services.tasks.spawn("run", run.execute(prompt));
        self.phase = Phase::Running { ended, requests: asked, token, ending: false };
    }

    fn prompt_stored(&mut self, stored: Result<(), StoreError>) {
        self.delivered(stored.is_ok());
        let result = stored.map_err(CommandError::from);
        for reply in self.prompt_replies.drain(..) {
            let _ = reply.send(result.clone());
        }
        if let Some(key) = self.prompt_key.take() {
            self.settle_key(&key, &result);
        }
    }

    fn remember_key(&mut self, key: Option<String>) {
        let Some(key) = key else { return };
        self.keys.insert(key.clone(), Key::Pending(Vec::new()));
        self.key_order.push_back(key);
        while self.key_order.len() > IDEMPOTENCY_KEYS {
            if let Some(oldest) = self.key_order.pop_front() {
                self.keys.remove(&oldest);
            }
        }
    }

    /// A stored key answers later repeats; one that was refused is free again.
    fn settle_key(&mut self, key: &str, result: &Result<(), CommandError>) {
        let waiting = match result {
            Ok(()) => self.keys.insert(key.to_owned(), Key::Stored),
            Err(_) => {
                self.key_order.retain(|known| known != key);
                self.keys.remove(key)
            }
        };
        if let Some(Key::Pending(waiting)) = waiting {
            for reply in waiting {
                let _ = reply.send(result.clone());
            }
        }
    }

    /// What is left to do when a run's task has ended.
    pub(super) fn run_ended(&mut self, panicked: bool) {
        let manual = self.manual.take();
        if panicked {
            tracing::error!("a run panicked; the session goes on");
            self.end_panicked_compaction(manual.is_some());
        }
        if panicked && manual.is_none() {
            self.hub.publish_changing(&SessionEvent::AgentEnd { messages: Vec::new() }, |state| state.is_streaming = false);
        }
        // A run that could not even store its prompt never said so if it panicked; nobody waits for ever.
        self.prompt_stored(Err(StoreError::Closed));
        self.write_deferred();
        self.compacting = None;
        // Before the next run begins, so that no other compaction is refused when the answer is there.
        if let Some(manual) = manual {
            manual.answer();
        }
        let goes_on = std::mem::take(&mut self.go_on) && !self.token.is_cancelled() && self.start_waiting();
        if !goes_on {
            self.hub.update(|state| state.is_streaming = false);
        }
        if self.sidecar_stale {
            self.sidecar_stale = false;
            let stored = self.journal.store_sidecar(self.sidecar());
            self.services.tasks.spawn("sidecar", async move {
                if let Err(error) = stored.await {
                    tracing::warn!(%error, "the delivered messages stay in the queue file; they are recognised by their ids");
                }
            });
        }
        if !goes_on {
            for reply in self.idle_waiters.drain(..) {
                let _ = reply.send(Ok(()));
            }
        }
        for (reply, cleared) in self.abort_waiters.drain(..) {
            let _ = reply.send(Ok(cleared));
        }
    }

    fn abort(&mut self, reply: Reply<ClearedQueues>) {
        let cleared = self.clear_queues();
        match &self.phase {
            Phase::Running { token, .. } if self.manual.is_none() => {
                token.cancel();
                self.abort_waiters.push((reply, cleared));
            }
            // A compaction that a client asked for is not a run: it goes on.
            Phase::Running { .. } | Phase::Idle => self.write_queues(QueueReply::Cleared(reply, cleared)),
        }
    }

    fn clear_queues(&mut self) -> ClearedQueues {
        let (steer, follow_up) = self.queues.drain();
        self.go_on = false;
        let told = |messages: Vec<UserMessage>| messages.into_iter().map(Message::User).collect();
        self.queues_changed();
        ClearedQueues { steer: told(steer), follow_up: told(follow_up) }
    }

    fn enqueue(&mut self, queue: Queue, message: QueuedMessage, reply: Reply<()>) {
        if self.queues.length(queue) >= QUEUED_MESSAGES {
            let _ = reply.send(Err(CommandError::QueueFull(QUEUED_MESSAGES)));
            return;
        }
        let entry_id = message.entry_id.clone();
        let key = message.idempotency_key.clone();
        self.queues.push(queue, message);
        self.go_on |= self.takes_no_more();
        self.remember_key(key.clone());
        self.queues_changed();
        self.write_queues(QueueReply::Accepted { entry_id, key, reply });
    }

    fn dequeue(&mut self, queue: Queue) -> Option<QueuedMessage> {
        let message = self.queues.take(queue)?;
        self.queues_changed();
        Some(message)
    }

    /// The message that was taken out of a queue has its entry; one that could not be written waits again.
    fn delivered(&mut self, stored: bool) {
        if !self.queues.delivered(stored) {
            return;
        }
        self.sidecar_stale = true;
        if !stored {
            self.queues_changed();
        }
    }

    fn queues_changed(&mut self) {
        self.sidecar_stale = true;
        self.hub.publish(&SessionEvent::QueueUpdate {
            steer: self.queues.messages(Queue::Steer),
            follow_up: self.queues.messages(Queue::FollowUp),
            next_turn: Vec::new(),
        });
    }

    /// Writes the queues; the reply is sent when they are on disk.
    fn write_queues(&mut self, reply: QueueReply) {
        let stored = self.journal.store_sidecar(self.sidecar());
        self.sidecar_stale = false;
        self.answer_when(stored, reply);
    }

    /// What stands beside the session file as of now.
    pub(super) fn sidecar(&self) -> Sidecar {
        let sidecar = self.queues.sidecar(self.epoch).with_deferred(self.deferred.entries());
        Sidecar { compactions: self.compactions, ..sidecar }
    }

    /// Looks at `reply` again when `stored` is done, without making the actor wait.
    pub(super) fn answer_when(&self, stored: impl Future<Output = Result<(), StoreError>> + Send + 'static, reply: QueueReply) {
        self.queue_writes.push(Box::pin(async move { Queued { reply, stored: stored.await } }));
    }

    pub(super) fn queue_written(&mut self, queued: Queued) {
        let stored = queued.stored.map_err(CommandError::from);
        match queued.reply {
            QueueReply::Cleared(reply, cleared) => drop(reply.send(stored.map(|()| cleared))),
            QueueReply::Stored(answer) => answer(stored),
            QueueReply::Flushed => self.flushed(stored),
            QueueReply::Deferred { ids, answer } => {
                let stored = self.put_off(&ids, stored);
                answer(stored);
            }
            QueueReply::Accepted { entry_id, key, reply } => {
                // One that was delivered meanwhile counts: its entry is in the session file.
                let result = if stored.is_err() && self.take_back(&entry_id) { stored } else { Ok(()) };
                if let Some(key) = key {
                    self.settle_key(&key, &result);
                }
                drop(reply.send(result));
            }
        }
    }

    /// Removes a message whose place in the queue could not be stored; false if it is not in a queue any more.
    fn take_back(&mut self, entry_id: &EntryId) -> bool {
        let removed = self.queues.remove(entry_id);
        if removed {
            self.queues_changed();
        }
        removed
    }

    fn set_model(&mut self, model: Model, reply: Reply<()>) {
        let mut entries = vec![NewEntry::new(EntryBody::ModelChange { provider: model.provider.clone(), model_id: model.id.clone() })];
        let settings = TurnSettings { level: self.settings.level, model: model.clone(), chosen: true };
        let previous = std::mem::replace(&mut self.settings, settings);
        self.hub.publish(&SessionEvent::ModelUpdate {
            model: model.clone(),
            previous_model: Some(previous.model),
            source: ModelSource::Set,
        });
        let level = model.clamp(previous.level);
        if level != previous.level {
            entries.push(NewEntry::new(EntryBody::ThinkingLevelChange { thinking_level: level }));
            self.settings.level = level;
            self.hub.publish(&SessionEvent::ThinkingLevelUpdate { level, previous_level: previous.level });
        }
        self.store_silently(entries, reply, ());
    }

    fn set_thinking_level(&mut self, level: ThinkingLevel, reply: Reply<ThinkingLevel>) {
        let level = self.settings.model.clamp(level);
        let previous_level = std::mem::replace(&mut self.settings.level, level);
        self.hub.publish(&SessionEvent::ThinkingLevelUpdate { level, previous_level });
        self.store_silently(vec![NewEntry::new(EntryBody::ThinkingLevelChange { thinking_level: level })], reply, level);
    }
}

fn queued(text: String, images: Vec<ImageContent>, idempotency_key: Option<String>) -> QueuedMessage {
    QueuedMessage { entry_id: EntryId::generate(), message: UserMessage::new(text, images, now_millis()), idempotency_key }
}
