//! The task that owns one resident session: its phase, its queues, and the settings of its next turn.
//!
//! Everything that changes a session goes through its mailbox, so order is a fact. A handler never waits: it
//! starts, parks or refuses. Invariant: at most one run; a prompt that was accepted gets its turn or an answer that
//! says why not; the session leaves memory only when it is idle and its file is written.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{EntryId, SessionId};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::resource::CompactResult;
use wolli_protocol::state::{Queues, Waiting, WaitingKind};

use super::compact::ManualCompaction;
use super::deferred::Deferred;
use super::file::{Restored, SessionFile};
use super::handle::{ClearedQueues, Command, Reply, SessionHandle};
use super::queues::MessageQueues;
use super::read::MessageSource;
use super::sidecar::{self, QueuedMessage, Sidecar};
use super::silent::Answer;
use super::writer::{Journal, StoreError};
use crate::clock::now_iso;
use crate::compaction::{CompactionError, Counts};
use crate::hub::Hub;
use crate::limits::{SESSION_MAILBOX, UNATTENDED_LINGER};
use crate::runtime::Services;
use crate::tools::ToolSet;

/// What a run asks of its actor. Each question holds the place for its answer.
#[derive(Debug)]
pub(crate) enum RunRequest {
    /// The prompt's entry is on disk, or could not be written.
    PromptStored(Result<(), StoreError>),
    /// The entry of the message that was taken last out of a queue is in the file, or could not be written.
    Delivered(Result<(), StoreError>),
    /// The next steering message, taken out of its queue.
    NextSteering(oneshot::Sender<Option<QueuedMessage>>),
    /// The next follow-up message. Without one the run is over and the actor takes no command until it has ended, unless the
    /// run stays for a compaction.
    NextFollowUp {
        stays: bool,
        answer: oneshot::Sender<Option<QueuedMessage>>,
    },
    /// A compaction begins inside the run; the answer is what stops it alone.
    Compacting(oneshot::Sender<CancellationToken>),
    /// What automatic compactions came to; told when that is on disk, if somebody waits for it.
    CountCompactions {
        counts: Counts,
        stored: Option<oneshot::Sender<()>>,
    },
    /// The compaction that a client asked for is over; nothing more is done in its task.
    Compacted {
        result: Result<CompactResult, CompactionError>,
        answer: oneshot::Sender<()>,
    },
    /// The run ends without looking at the follow-ups.
    Ending(oneshot::Sender<()>),
    /// A turn is complete: write what was put off. The answer comes when it is handed over.
    SavePoint(oneshot::Sender<()>),
    Settings(oneshot::Sender<TurnSettings>),
    /// The tools of the next turn.
    Tools(oneshot::Sender<Arc<ToolSet>>),
}

/// What the next model call is to use.
#[derive(Clone, Debug)]
pub(crate) struct TurnSettings {
    pub(crate) model: Model,
    pub(crate) level: ThinkingLevel,
    /// The model was named by a person, not fallen back to.
    pub(crate) chosen: bool,
}

/// What a session starts with.
pub(crate) struct SessionParts {
    pub(crate) id: SessionId,
    pub(crate) file: SessionFile,
    /// Absent for a session that was just created.
    pub(crate) restored: Option<Restored>,
    pub(crate) sidecar: Sidecar,
    pub(crate) hub: Arc<Hub>,
    pub(crate) settings: TurnSettings,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) services: Arc<Services>,
    pub(crate) token: CancellationToken,
}

pub(super) enum Phase {
    Idle,
    Running {
        ended: JoinHandle<()>,
        requests: mpsc::Receiver<RunRequest>,
        token: CancellationToken,
        /// The run has taken its last message; commands wait for its end.
        ending: bool,
    },
}

/// A change whose place on disk is awaited.
pub(super) struct Queued {
    pub(super) reply: QueueReply,
    pub(super) stored: Result<(), StoreError>,
}

pub(super) enum QueueReply {
    Accepted {
        entry_id: EntryId,
        key: Option<String>,
        reply: Reply<()>,
    },
    Cleared(Reply<ClearedQueues>, ClearedQueues),
    /// Entries that were to be written at once.
    Stored(Answer),
    /// Entries that wait for the end of the turn are in the sidecar.
    Deferred {
        ids: Vec<EntryId>,
        answer: Answer,
    },
    /// Entries that waited were handed to the writer.
    Flushed,
}

pub(super) enum Key {
    /// Accepted, not yet on disk; these wait for the same answer.
    Pending(Vec<Reply<()>>),
    Stored,
}

pub(super) struct Actor {
    pub(super) id: SessionId,
    pub(super) services: Arc<Services>,
    pub(super) hub: Arc<Hub>,
    pub(super) journal: Journal,
    pub(super) phase: Phase,
    pub(super) settings: TurnSettings,
    pub(super) tools: Arc<ToolSet>,
    pub(super) system_prompt: Arc<str>,
    pub(super) token: CancellationToken,
    pub(super) epoch: u32,
    pub(super) queues: MessageQueues,
    /// The sidecar on disk differs from the queues.
    pub(super) sidecar_stale: bool,
    /// Entries that wait for the end of the turn.
    pub(super) deferred: Deferred,
    pub(super) queue_writes: FuturesUnordered<BoxFuture<'static, Queued>>,
    pub(super) prompt_replies: Vec<Reply<()>>,
    pub(super) prompt_key: Option<String>,
    pub(super) keys: HashMap<String, Key>,
    pub(super) key_order: VecDeque<String>,
    pub(super) idle_waiters: Vec<Reply<()>>,
    pub(super) abort_waiters: Vec<(Reply<ClearedQueues>, ClearedQueues)>,
    /// Some client has been attached since the session became resident.
    pub(super) attended: bool,
    /// Leaves memory although readers are attached.
    pub(super) retiring: bool,
    /// The task of the phase is a compaction that a client asked for, not a run.
    pub(super) manual: Option<ManualCompaction>,
    /// Stops the compaction that goes on, whoever began it.
    pub(super) compacting: Option<CancellationToken>,
    pub(super) compactions: Counts,
    /// Messages were queued that the task of the phase will not take; another run is for them.
    pub(super) go_on: bool,
}

/// Makes a session resident.
pub(crate) fn open_session(parts: SessionParts) -> SessionHandle {
    let SessionParts { id, file, restored, sidecar, hub, settings, tools, system_prompt, services, token } = parts;
    let path: Arc<Path> = file.path().into();
    let messages = MessageSource::new(path.to_path_buf(), file.recent(), services.tasks.clone());
    let journal = Journal::start(file, &services.tasks);
    let (mailbox, commands) = mpsc::channel(SESSION_MAILBOX);
    let ended = CancellationToken::new();
    let handle = SessionHandle::new(id.clone(), mailbox, Arc::clone(&hub), path, messages, ended.clone());

    hub.update(|state| {
        state.model = Some(settings.model.clone());
        state.thinking_level = settings.level;
    });
    hub.set_queues(Queues {
        steer: sidecar::messages(sidecar.steer.iter()),
        follow_up: sidecar::messages(sidecar.follow_up.iter()),
        next_turn: Vec::new(),
    });
    hub.set_leaf(restored.as_ref().and_then(|restored| restored.leaf.clone()));
    let cut_off = restored.as_ref().is_some_and(|restored| restored.interrupted);
    let unfinished = cut_off || !sidecar.steer.is_empty() || !sidecar.follow_up.is_empty();
    if unfinished {
        let waiting = Waiting { kind: WaitingKind::Resume, since: now_iso(), until: None, attempt: None, max: None };
        hub.publish(&SessionEvent::Waiting { waiting: Some(waiting) });
    }
    let mut key_order: VecDeque<String> = restored.map(|restored| restored.idempotency_keys).unwrap_or_default().into();
    // What waits in the queues was accepted too, and has no entry yet.
    key_order.extend(sidecar.steer.iter().chain(&sidecar.follow_up).filter_map(|queued| queued.idempotency_key.clone()));
    let keys = key_order.iter().map(|key| (key.clone(), Key::Stored)).collect();
    let span = tracing::info_span!("session", %id);
    let tasks = services.tasks.clone();
    let resume = unfinished && services.resume_unasked;
    let mut actor = Actor {
        id,
        services,
        hub,
        journal,
        phase: Phase::Idle,
        settings,
        tools,
        system_prompt,
        token,
        epoch: sidecar.epoch,
        queues: MessageQueues::new(sidecar.steer, sidecar.follow_up),
        sidecar_stale: false,
        deferred: Deferred::new(sidecar.deferred),
        queue_writes: FuturesUnordered::new(),
        prompt_replies: Vec::new(),
        prompt_key: None,
        keys,
        key_order,
        idle_waiters: Vec::new(),
        abort_waiters: Vec::new(),
        attended: false,
        retiring: false,
        manual: None,
        compacting: None,
        compactions: sidecar.compactions,
        go_on: false,
    };
    actor.write_deferred();
    if resume {
        actor.resume(cut_off);
    }
    let leaving = Leaving { id: actor.id.clone(), services: Arc::clone(&actor.services), ended };
    tasks.spawn(
        "session",
        async move {
            // Dropped last, also when the actor panics.
            let _leaving = leaving;
            actor.live(commands).await;
        }
        .instrument(span),
    );
    handle
}

/// Tells everybody that the session is not resident any more, however its task ended.
struct Leaving {
    id: SessionId,
    services: Arc<Services>,
    ended: CancellationToken,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(session = %self.id, "the session's task panicked; the next command opens the session again");
        }
        self.services.session_left(&self.id);
        self.ended.cancel();
    }
}

impl Actor {
    async fn live(mut self, mut commands: mpsc::Receiver<Command>) {
        let mut readers = self.hub.watch_readers();
        let mut linger = Box::pin(tokio::time::sleep(UNATTENDED_LINGER));
        self.attended = *readers.borrow_and_update() > 0;
        loop {
            let accepts = !matches!(self.phase, Phase::Running { ending: true, .. });
            tokio::select! {
                biased;
                () = self.token.cancelled() => break,
                step = next_step(&mut self.phase) => match step {
                    Step::Asked(request) => self.answer(request),
                    Step::Ended(panicked) => {
                        self.run_ended(panicked);
                        linger.as_mut().reset(tokio::time::Instant::now() + UNATTENDED_LINGER);
                    }
                },
                Some(queued) = self.queue_writes.next(), if !self.queue_writes.is_empty() => self.queue_written(queued),
                command = commands.recv(), if accepts => match command {
                    Some(command) => {
                        self.handle(command);
                        linger.as_mut().reset(tokio::time::Instant::now() + UNATTENDED_LINGER);
                    }
                    None => break,
                },
                changed = readers.changed() => {
                    if changed.is_err() { break }
                    // Also when somebody came and went between two looks.
                    self.attended = true;
                }
                () = linger.as_mut(), if !self.attended && self.is_idle() => self.attended = true,
            }
            if self.retiring || self.attended && self.is_idle() && no_readers(&mut readers) && commands.is_empty() {
                break;
            }
        }
        self.close(commands).await;
    }

    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.queue_writes.is_empty()
    }

    /// Ends the run if there is one, refuses what still waits, and writes what is left.
    async fn close(&mut self, mut commands: mpsc::Receiver<Command>) {
        commands.close();
        // Dropping the commands drops their replies, which tells the callers that the session is closed.
        while commands.try_recv().is_ok() {}
        if let Phase::Running { token, .. } = &self.phase {
            token.cancel();
        }
        while let Phase::Running { .. } = self.phase {
            match next_step(&mut self.phase).await {
                Step::Asked(request) => self.answer(request),
                Step::Ended(panicked) => self.run_ended(panicked),
            }
        }
        while let Some(queued) = self.queue_writes.next().await {
            self.queue_written(queued);
        }
        if self.sidecar_stale {
            let stored = self.journal.store_sidecar(self.sidecar());
            if let Err(error) = stored.await {
                tracing::warn!(%error, "queued messages were not stored");
            }
        }
        if let Err(error) = self.journal.sync().await {
            tracing::warn!(%error, "the session file was not synced");
        }
    }
}

enum Step {
    Asked(RunRequest),
    /// The run's task is over; true if it panicked.
    Ended(bool),
}

/// What the run does next; never resolves while there is none. Cancel-safe.
async fn next_step(phase: &mut Phase) -> Step {
    let Phase::Running { ended, requests, token, .. } = phase else { return std::future::pending().await };
    if let Some(request) = requests.recv().await {
        return Step::Asked(request);
    }
    let panicked = ended.await.is_err();
    // Also one that panicked takes along what its tools still do and ask.
    token.cancel();
    *phase = Phase::Idle;
    Step::Ended(panicked)
}

fn no_readers(readers: &mut watch::Receiver<usize>) -> bool {
    *readers.borrow_and_update() == 0
}
