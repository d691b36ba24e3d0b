//! What every session of the agent uses: models, tools, tasks, and the way back when a session leaves memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wolli_home::paths::SharedFolder;
use wolli_home::settings::Compaction;
use wolli_models::client::ModelClient;
use wolli_models::registry::Registry;
use wolli_protocol::event::ControlEvent;
use wolli_protocol::ids::SessionId;

use super::control::Control;
use super::credentials::Stored;
use super::current::Current;
use super::hubs::Hubs;
use super::logins::Logins;
use super::open::read_settings;
use crate::agent::Agent;
use crate::dialogs::Dialogs;
use crate::limits::REST_PAUSE;
use crate::resources::Resources;
use crate::tasks::Tasks;
use crate::tools::{AgentFiles, BackgroundCommands, ControlState, ToolContext, ToolUpdates};
use crate::usage::UsageCounter;
use wolli_exec::Ledger;

/// Shared by all sessions of one runtime.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) tasks: Tasks,
    pub(crate) client: ModelClient,
    /// Replaced by a reload.
    pub(crate) registry: Current<Registry>,
    /// Skills and templates; replaced by a reload.
    pub(crate) resources: Current<Resources>,
    pub(crate) agent: Arc<Agent>,
    pub(super) shared: SharedFolder,
    pub(crate) control: Control,
    pub(super) hubs: Arc<Hubs>,
    /// What models used.
    pub(crate) usage: UsageCounter,
    /// Absent if the program that embeds the runtime has credentials of its own.
    pub(super) credentials: Option<Arc<Stored>>,
    pub(super) logins: Logins,
    /// The whole environment of tools: an allow list, without our token and without keys.
    pub(crate) tool_environment: Arc<BTreeMap<String, String>>,
    /// What tools keep away from.
    pub(crate) control_state: ControlState,
    pub(crate) spill_folder: PathBuf,
    /// Replaced by a reload.
    pub(super) bash_time_limit: Current<Duration>,
    /// Sessions that were cut off go on by themselves when they become resident.
    pub(crate) resume_unasked: bool,
    /// What runs, so that the next daemon can end what a killed one left.
    pub(crate) ledger: Option<Ledger>,
    pub(super) at_rest: Option<fn()>,
    /// `at_rest` will be called.
    pub(super) rest_is_near: Arc<AtomicBool>,
    /// Ends everything that runs beside sessions.
    pub(crate) token: CancellationToken,
}

impl Services {
    pub(crate) fn tool_context(&self, cancel: CancellationToken, updates: ToolUpdates, dialogs: Dialogs) -> ToolContext {
        ToolContext {
            home: self.agent.home().path().to_owned(),
            environment: Arc::clone(&self.tool_environment),
            spill_dir: self.spill_folder.clone(),
            cancel,
            bash_time_limit: *self.bash_time_limit.get(),
            ledger: self.ledger.clone(),
            control: self.control_state.clone(),
            agent: Arc::clone(&self.agent) as Arc<dyn AgentFiles>,
            updates,
            background: self.background(),
            dialogs,
        }
    }

    /// When and how far histories are compacted, by the settings of the moment. What is wrong in them was reported when they were
    /// read as a whole. Blocking.
    pub(crate) fn compaction_settings(&self) -> Compaction {
        read_settings(&self.shared, &self.agent.refresh()).0.compaction
    }

    /// What a command leaves running (a server, say) lives until the daemon stops.
    fn background(&self) -> BackgroundCommands {
        let tasks = self.tasks.clone();
        let token = self.token.clone();
        BackgroundCommands::new(move |left| {
            let token = token.clone();
            tasks.spawn("background command", async move { left.supervise(&token).await });
        })
    }

    /// A session left memory. At the end of everything nobody is told: clients see their streams end.
    pub(crate) fn session_left(&self, id: &SessionId) {
        self.hubs.session_left(id);
        if !self.token.is_cancelled() {
            self.control.announce(&ControlEvent::SessionRemoved { session_id: id.clone() });
            self.rest();
        }
    }

    /// Soon after the start and after sessions left, the program may tidy up, once for all that left together.
    pub(super) fn rest(&self) {
        let Some(at_rest) = self.at_rest else { return };
        if self.rest_is_near.swap(true, Ordering::AcqRel) {
            return;
        }
        let (is_near, tasks, token) = (Arc::clone(&self.rest_is_near), self.tasks.clone(), self.token.clone());
        self.tasks.spawn("rest", async move {
            let stopped = token.run_until_cancelled(tokio::time::sleep(REST_PAUSE)).await.is_none();
            is_near.store(false, Ordering::Release);
            if !stopped {
                drop(tasks.spawn_blocking(at_rest));
            }
        });
    }
}
