//! Making sessions resident, creating them, and attaching readers.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use wolli_home::agent::Change;
use wolli_home::settings::Settings;
use wolli_models::registry::SelectError;
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::event::ControlEvent;
use wolli_protocol::ids::{EntryId, FrameId, SessionId};
use wolli_protocol::message::AssistantMessage;
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::resource::{ContextInfo, DiagnosticKind, ResourceDiagnostic, ToolInfo};
use wolli_protocol::sse;
use wolli_protocol::state::{AgentState, SessionSummary};

use super::control::ControlReader;
use super::diagnostics::Topic;
use super::models::start_of_session;
use super::open::Runtime;
use crate::clock::now_iso;
use crate::hub::{Attach, Attached, Cursor, Hub, Include};
use crate::limits::{HELLO_ENTRIES_BYTES, SESSION_NAME_BYTES};
use crate::prompt::{MemoryFiles, SystemPrompt, project_contexts};
use crate::resources::InvocationError;
use crate::service::ServiceError;
use crate::session::{
    CommandError, EntriesPage, OpenFileError, PageError, Restored, RestoredModel, SessionFile, SessionHandle, SessionParts, Sidecar,
    StoredSession, TurnSettings, initial_state, is_unfinished, open_session, read_page,
};
use crate::tools::{Stage, ToolSet};

/// How commands are confined in this version.
pub(super) const CONFINEMENT: &str = "none";

/// How often a command is handed to a session that just left memory before the caller is told.
pub(super) const REOPEN_ATTEMPTS: usize = 5;

/// Why a session cannot be had. Texts go to clients.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("No session \"{id}\" for agent \"{agent}\"")]
    Unknown { id: SessionId, agent: String },
    #[error("This agent is still forming — it stays in its birth session until it deploys.")]
    Forming,
    #[error(transparent)]
    File(#[from] OpenFileError),
    #[error("cannot read the sessions of the agent: {0}")]
    Listing(std::io::Error),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Model(#[from] SelectError),
    #[error("cannot delete the session: {0}")]
    Delete(std::io::Error),
    #[error("cannot change agent.json: {0}")]
    Agent(String),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Invocation(#[from] InvocationError),
    #[error("nothing was reloaded: {0}")]
    Reload(String),
    #[error("reloaded, but not in every session: {0}")]
    NotReached(String),
    #[error("at most {0} model patterns can be given")]
    Patterns(usize),
    #[error("Invalid rename_session: sessionName must have at most {SESSION_NAME_BYTES} bytes")]
    NameTooLong,
    #[error("the daemon is shutting down")]
    ShuttingDown,
}

pub(super) type Slot = Arc<tokio::sync::Mutex<Option<SessionHandle>>>;

/// The resident sessions. The lock of a slot is held while its session opens, so that it is built once.
#[derive(Debug)]
pub(super) struct Slots(pub(super) Mutex<HashMap<SessionId, Slot>>);

impl Slots {
    pub(super) fn all(&self) -> Vec<(SessionId, Slot)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(id, slot)| (id.clone(), Arc::clone(slot))).collect()
    }

    pub(super) fn slot(&self, id: &SessionId) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(id) {
            return Arc::clone(slot);
        }
        // Slots of sessions that left memory go when a new one comes, unless somebody is at them.
        slots.retain(|_, slot| {
            Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|handle| handle.as_ref().is_some_and(|handle| !handle.is_closed()))
        });
        Arc::clone(slots.entry(id.clone()).or_default())
    }
}

/// A reader that was attached: its first frame, and where the rest comes from.
#[derive(Debug)]
pub struct AttachedSession {
    /// The `hello` frame; in view `full` also the open questions.
    pub hello: Bytes,
    pub cursor: Cursor,
    pub session: SessionHandle,
}

impl Runtime {
    fn agent_name(&self) -> String {
        self.services.agent.home().name().as_str().to_owned()
    }

    pub(super) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T, SessionError> {
        let runtime = self.clone();
        self.services.tasks.spawn_blocking(move || work(&runtime)).await.map_err(|_| SessionError::ShuttingDown)
    }

    /// Every stored session, newest first.
    pub(super) async fn stored_sessions(&self) -> Result<Arc<[StoredSession]>, SessionError> {
        self.blocking(|runtime| {
            let mut listing = runtime.listing.lock().unwrap_or_else(PoisonError::into_inner);
            let (stored, strangers) = (listing.refresh(), listing.take_strangers());
            drop(listing);
            runtime.note_strangers(&strangers);
            stored
        })
        .await?
        .map_err(SessionError::Listing)
    }

    pub(super) async fn stored_session(&self, id: &SessionId) -> Result<StoredSession, SessionError> {
        let wanted = id.clone();
        let found = self.blocking(move |runtime| runtime.listing.lock().unwrap_or_else(PoisonError::into_inner).find(&wanted)).await?;
        found.ok_or_else(|| SessionError::Unknown { id: id.clone(), agent: self.agent_name() })
    }

    /// A session that was deleted between the look at the list and that at its file is one that there is not.
    fn unknown_if_gone(&self, id: &SessionId, error: SessionError) -> SessionError {
        match &error {
            SessionError::File(OpenFileError::Io { source, .. })
            | SessionError::Page(PageError::File(OpenFileError::Io { source, .. }))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                SessionError::Unknown { id: id.clone(), agent: self.agent_name() }
            }
            _ => error,
        }
    }

    /// The resident session `id`, opened if it is not in memory. Concurrent calls build it once.
    ///
    /// # Errors
    /// It does not exist, or its file cannot be used.
    pub async fn session(&self, id: &SessionId) -> Result<SessionHandle, SessionError> {
        let slot = self.slots.slot(id);
        let mut handle = slot.lock().await;
        if let Some(open) = &*handle {
            if !open.is_closed() {
                return Ok(open.clone());
            }
            // Its writer may still be at work; two must never have one file.
            open.ended().await;
            *handle = None;
        }
        if self.token.is_cancelled() {
            return Err(SessionError::ShuttingDown);
        }
        let stored = self.stored_session(id).await?;
        let parts = self.blocking(move |runtime| runtime.load(&stored)).await?;
        let parts = parts.map_err(|error| self.unknown_if_gone(id, error))?;
        let opened = self.make_resident(parts);
        *handle = Some(opened.clone());
        Ok(opened)
    }

    /// Makes the sessions resident that an earlier process left in the middle of something, which lets them go on.
    pub(super) async fn resume_unfinished(&self, stored: Arc<[StoredSession]>) {
        for session in stored.iter() {
            let path = session.path.clone();
            if !self.blocking(move |_| is_unfinished(&path)).await.unwrap_or(false) {
                continue;
            }
            if let Err(error) = self.session(&session.id).await {
                tracing::warn!(session = %session.id, %error, "an unfinished session was not resumed");
            }
        }
    }

    /// Hands a command to the session, again if it was just leaving memory.
    ///
    /// # Errors
    /// The session cannot be had, or refused the command.
    pub async fn with_session<T, F>(&self, id: &SessionId, command: impl Fn(SessionHandle) -> F) -> Result<T, SessionError>
    where
        F: Future<Output = Result<T, CommandError>>,
    {
        for _ in 0..REOPEN_ATTEMPTS {
            let handle = self.session(id).await?;
            match command(handle).await {
                Err(CommandError::Closed) => {}
                result => return Ok(result?),
            }
        }
        Err(SessionError::Command(CommandError::Closed))
    }

    /// Reads a stored session and takes its log into use. Blocking.
    fn load(&self, stored: &StoredSession) -> Result<SessionParts, SessionError> {
        let (mut file, restored) = SessionFile::open(&stored.path)?;
        for diagnostic in &restored.diagnostics {
            self.note_session(DiagnosticKind::Warning, diagnostic.clone(), &stored.path);
        }
        let state = initial_state(stored.id.clone(), &stored.path, Some(&restored), CONFINEMENT);
        let mut sidecar = restored.sidecar.clone();
        let hub = if let Some(hub) = self.services.hubs.reuse(&stored.id) {
            hub.update(|known| *known = state);
            sidecar.epoch = hub.last_id().epoch();
            hub
        } else {
            sidecar = self.begin_epoch(&mut file, sidecar);
            self.services.hubs.add(Hub::new(state, FrameId::before_epoch(sidecar.epoch)))
        };
        Ok(self.parts(file, Some(restored), sidecar, hub, self.services.agent.stage()))
    }

    /// Gives a session file the tools, the prompt and the model that a session gets which becomes resident now. Blocking.
    fn parts(&self, file: SessionFile, restored: Option<Restored>, sidecar: Sidecar, hub: Arc<Hub>, stage: Stage) -> SessionParts {
        let saved = self.settings();
        let settings = match &restored {
            Some(restored) => self.start(&saved, restored.model.as_ref(), restored.level),
            None => self.start(&saved, None, None),
        };
        let scoped_models = self.first_scope(&saved);
        hub.update(|state| state.scoped_models = scoped_models);
        let (tools, system_prompt) = self.equip(stage);
        SessionParts {
            id: hub.session_id().clone(),
            file,
            restored,
            sidecar,
            hub,
            settings,
            tools,
            system_prompt,
            services: Arc::clone(&self.services),
            token: self.token.child_token(),
        }
    }

    /// Takes the next epoch, which has to be on disk before its first frame. A session on a full disk can still be read: its epoch then
    /// comes from the clock, and is above all that were stored. Blocking.
    fn begin_epoch(&self, file: &mut SessionFile, mut sidecar: Sidecar) -> Sidecar {
        sidecar.epoch = sidecar.epoch.saturating_add(1);
        if let Err(error) = file.store_sidecar(&sidecar) {
            self.note_session(DiagnosticKind::Error, format!("the session can be read, but not be written: {error}"), file.path());
            sidecar.epoch = sidecar.epoch.max(Sidecar::epoch_by_clock());
        }
        sidecar
    }

    /// Creates a session file and everything that goes with it. Blocking.
    fn create(&self, stage: Stage) -> Result<SessionParts, SessionError> {
        let id = SessionId::generate();
        let home = self.services.agent.home();
        let workspace = home.workspace().to_string_lossy().into_owned();
        let (file, sidecar) = SessionFile::create(&home.session_folder(), &id, &now_iso(), &workspace)?;
        let state = initial_state(id, file.path(), None, CONFINEMENT);
        let hub = self.services.hubs.add(Hub::new(state, FrameId::before_epoch(sidecar.epoch)));
        Ok(self.parts(file, None, sidecar, hub, stage))
    }

    /// The model and level of a session that becomes resident now. Blocking.
    fn start(&self, saved: &Settings, recorded: Option<&RestoredModel>, level: Option<ThinkingLevel>) -> TurnSettings {
        let start = start_of_session(&self.services.registry.get(), saved, recorded, level);
        if let Some(notice) = start.notice {
            self.note(Topic::Model, ResourceDiagnostic::new(DiagnosticKind::Warning, notice, None));
        }
        start.settings
    }

    /// The tools and the prompt of a session that becomes resident now. Blocking.
    fn equip(&self, stage: Stage) -> (Arc<ToolSet>, Arc<str>) {
        let document = self.services.agent.document();
        let home = self.services.agent.home();
        let tools = self.equipment.tools(stage);
        let memory = MemoryFiles::read(home.path());
        let skills = self.services.resources.get().prompt_part();
        let appendix =
            wolli_home::reading::read(&home.append_system()).ok().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let prompt = SystemPrompt {
            agent: document.name(),
            purpose: document.purpose(),
            stage,
            home: home.path(),
            memory: &memory,
            tools: &tools,
            skills: skills.as_deref(),
            confinement: CONFINEMENT,
            appendix: appendix.as_deref(),
        };
        let text = match &self.equipment.system_prompt {
            Some(port) => port.write(&prompt),
            None => prompt.render(),
        };
        (Arc::new(tools), text.into())
    }

    fn make_resident(&self, parts: SessionParts) -> SessionHandle {
        let handle = open_session(parts);
        let state = handle.hub().state();
        self.services.control.announce(&ControlEvent::SessionAdded {
            session: SessionSummary {
                session_id: state.session_id,
                session_name: state.session_name,
                created_at: None,
                is_streaming: state.is_streaming,
                live: true,
                tags: BTreeMap::new(),
            },
        });
        handle
    }

    pub(super) async fn new_session(&self) -> Result<SessionHandle, SessionError> {
        self.add_session(|runtime| runtime.create(runtime.services.agent.stage())).await
    }

    async fn add_session(
        &self,
        create: impl FnOnce(&Self) -> Result<SessionParts, SessionError> + Send + 'static,
    ) -> Result<SessionHandle, SessionError> {
        if self.token.is_cancelled() {
            return Err(SessionError::ShuttingDown);
        }
        let parts = self.blocking(create).await??;
        let slot = self.slots.slot(&parts.id);
        let mut place = slot.lock().await;
        let handle = self.make_resident(parts);
        *place = Some(handle.clone());
        Ok(handle)
    }

    /// False once the last session was deleted.
    ///
    /// # Errors
    /// The sessions folder cannot be read.
    pub async fn has_sessions(&self) -> Result<bool, SessionError> {
        Ok(!self.stored_sessions().await?.is_empty())
    }

    /// Creates a session beside the others.
    ///
    /// # Errors
    /// The agent is still forming, or the disk refused.
    pub async fn create_session(&self) -> Result<SessionHandle, SessionError> {
        // Whose birth session was deleted gets another one.
        if self.services.agent.stage() == Stage::Forming && self.has_sessions().await? {
            return Err(SessionError::Forming);
        }
        self.new_session().await
    }

    /// Makes the agent a service, marks it as deployed and gives it a fresh session: all of it or nothing.
    ///
    /// Again is fine: the time of the first deployment stays, and another session is created.
    ///
    /// # Errors
    /// The service manager or the disk refused; the agent is what it was before.
    pub async fn deploy(&self) -> Result<SessionHandle, SessionError> {
        self.add_session(|runtime| {
            runtime.service.check()?;
            let parts = runtime.create(Stage::Deployed)?;
            match runtime.commit_deployment() {
                Ok(()) => Ok(parts),
                Err(error) => {
                    runtime.services.hubs.forget(&parts.id);
                    parts.file.discard();
                    Err(error)
                }
            }
        })
        .await
    }

    /// Installs the service, then sets the latch, which is the moment from which the agent counts as deployed. Blocking.
    fn commit_deployment(&self) -> Result<(), SessionError> {
        let installed = self.service.install()?;
        self.services.agent.change(Change::Deploy(std::time::SystemTime::now())).map_err(|error| {
            if installed && let Err(undo) = self.service.uninstall() {
                tracing::error!(%undo, "the service of an agent that could not be deployed was not taken away");
            }
            SessionError::Agent(error.to_string())
        })
    }

    /// A reader of the control stream, with the kinds of frames that it asked for, and the snapshot that it starts from. Frames after the
    /// snapshot come from the reader.
    ///
    /// # Errors
    /// The sessions folder cannot be read.
    pub async fn attach_control(&self, include: Include) -> Result<(AgentState, ControlReader), SessionError> {
        let reader = self.services.control.subscribe(include);
        Ok((self.agent_state().await?, reader))
    }

    /// Attaches a reader to a session, which makes the session live. With `after` the first frame also carries the
    /// entries after that one, unless the reader could resume.
    ///
    /// # Errors
    /// There is no such session, its file cannot be used, or `after` is not on its active branch.
    pub async fn attach(&self, id: &SessionId, attach: &Attach, after: Option<EntryId>) -> Result<AttachedSession, SessionError> {
        let (session, mut attached) = self.attach_reader(id, attach).await?;
        if attach.include.contains(Include::USAGE) {
            attached.hello.usage = self.services.usage.totals(id).await;
        }
        let resumed = attached.hello.stream.is_some_and(|stream| stream.resumed);
        let mut json = serde_json::to_string(&attached.hello).unwrap_or_else(|_| "{}".into());
        if let Some(after) = after.filter(|_| !resumed) {
            let path = Arc::clone(session.path());
            let leaf = attached.leaf.clone();
            let page = self
                .blocking(move |_| {
                    read_page(&path, Some(after.as_str()), leaf.as_ref().map(EntryId::as_str), usize::MAX, HELLO_ENTRIES_BYTES)
                })
                .await??;
            splice_entries(&mut json, &page);
        }
        let mut hello = BytesMut::new();
        sse::encode_frame(&mut hello, "hello", json.as_bytes(), None);
        hello.extend_from_slice(&attached.dialog_frames);
        Ok(AttachedSession { hello: hello.freeze(), cursor: attached.cursor, session })
    }

    /// Attaches a reader, which makes the session live.
    pub(crate) async fn attach_reader(&self, id: &SessionId, attach: &Attach) -> Result<(SessionHandle, Attached), SessionError> {
        let mut attempts = 0;
        loop {
            let session = self.session(id).await?;
            let attached = session.hub().attach(attach);
            attempts += 1;
            // It may have been leaving memory while we attached.
            if !session.is_closed() || attempts >= REOPEN_ATTEMPTS {
                return Ok((session, attached));
            }
        }
    }

    /// What a session and the agent have used.
    ///
    /// # Errors
    /// The daemon is shutting down.
    pub async fn usage(&self, id: &SessionId) -> Result<UsageTotals, SessionError> {
        self.services.usage.totals(id).await.ok_or(SessionError::ShuttingDown)
    }

    /// A page of the active branch, without making the session live.
    ///
    /// # Errors
    /// There is no such session or entry, or the file cannot be used.
    pub async fn entries(
        &self,
        id: &SessionId,
        after: Option<String>,
        limit: usize,
        max_bytes: usize,
    ) -> Result<EntriesPage, SessionError> {
        let stored = self.stored_session(id).await?;
        let page = self.blocking(move |_| read_page(&stored.path, after.as_deref(), None, limit, max_bytes)).await?;
        page.map_err(|error| self.unknown_if_gone(id, error.into()))
    }

    /// Runs `read` on a session's file on a thread made for blocking work.
    ///
    /// # Errors
    /// The file cannot be used.
    pub async fn read_file<T: Send + 'static>(
        &self,
        path: Arc<Path>,
        read: impl FnOnce(&Path) -> Result<T, OpenFileError> + Send + 'static,
    ) -> Result<T, SessionError> {
        Ok(self.blocking(move |_| read(&path)).await??)
    }

    /// Switches a session's model and makes it the agent's default.
    ///
    /// # Errors
    /// The model is unknown or has no credentials, or the disk refused.
    pub async fn set_model(&self, id: &SessionId, provider: &str, model_id: &str) -> Result<Model, SessionError> {
        let model = self.services.registry.get().select(provider, model_id)?.clone();
        self.with_session(id, |session| {
            let model = model.clone();
            async move { session.set_model(model).await }
        })
        .await?;
        let reference = model.reference();
        self.change_agent(Change::DefaultModel(reference)).await?;
        Ok(model)
    }

    /// Switches a session's thinking level, clamped to its model, and makes it the agent's default if it changed.
    ///
    /// # Errors
    /// The disk refused.
    pub async fn set_thinking_level(&self, id: &SessionId, level: ThinkingLevel) -> Result<ThinkingLevel, SessionError> {
        let session = self.session(id).await?;
        let before = session.hub().with_state(|state| state.thinking_level);
        let level = self.with_session(id, |session| async move { session.set_thinking_level(level).await }).await?;
        let reasons = session.hub().with_state(|state| state.model.as_ref().is_some_and(|model| model.reasoning));
        if level != before && (reasons || level != ThinkingLevel::Off) {
            self.change_agent(Change::DefaultThinkingLevel(level.as_str().into())).await?;
        }
        Ok(level)
    }

    pub(super) async fn change_agent(&self, change: Change) -> Result<(), SessionError> {
        self.blocking(move |runtime| runtime.services.agent.change(change)).await?.map_err(|error| SessionError::Agent(error.to_string()))
    }

    /// Writes an assistant message into a session.
    ///
    /// # Errors
    /// The disk refused.
    pub async fn seed_assistant_message(&self, id: &SessionId, text: &str) -> Result<AssistantMessage, SessionError> {
        self.with_session(id, |session| {
            let text = text.to_owned();
            async move { session.seed_assistant_message(text).await }
        })
        .await
    }

    /// The models that can be used now.
    #[must_use]
    pub fn available_models(&self) -> Vec<Model> {
        self.services.registry.get().available().into_iter().cloned().collect()
    }

    /// The tools that a session which opens now gets.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolInfo> {
        self.equipment.tools(self.services.agent.stage()).specs().map(crate::tools::ToolSpec::info).collect()
    }

    /// The tools that a session has, in order; all of them are offered to the model.
    ///
    /// # Errors
    /// The session cannot be had.
    pub async fn tools_of(&self, id: &SessionId) -> Result<Vec<ToolInfo>, SessionError> {
        let tools = self.with_session(id, |session| async move { session.tools().await }).await?;
        Ok(tools.specs().map(crate::tools::ToolSpec::info).collect())
    }

    /// The agent's context files.
    ///
    /// # Errors
    /// The daemon is shutting down.
    pub async fn contexts(&self) -> Result<Vec<ContextInfo>, SessionError> {
        self.blocking(|runtime| project_contexts(runtime.services.agent.home().path())).await
    }
}

fn splice_entries(json: &mut String, page: &EntriesPage) {
    json.pop();
    json.push_str(",\"entries\":[");
    for (index, entry) in page.entries.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(entry.get());
    }
    json.push(']');
    if page.next.is_some() {
        json.push_str(",\"entriesTruncated\":true");
    }
    json.push('}');
}
