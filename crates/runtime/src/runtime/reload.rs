//! Reading the agent's files again while it works.
//!
//! Invariant: everything is read and built before anything is replaced, so that a file that cannot be used leaves the agent as it was. What
//! the model was told at the beginning of a session stays as it is, to the byte. Not here: what each file means.

use std::sync::Arc;

use wolli_home::agent::AgentDocument;
use wolli_home::config::{self, Config, Diagnostic};
use wolli_home::settings::{self, Settings};
use wolli_models::registry::Registry;
use wolli_protocol::resource::{DiagnosticKind, ResourceDiagnostic};

use super::diagnostics::Topic;
use super::models::start_of_session;
use super::open::Runtime;
use super::sessions::SessionError;
use crate::resources::Resources;
use crate::session::CommandError;

/// What takes the place of what there is.
struct Built {
    registry: Registry,
    resources: Resources,
    /// Absent if the configuration is not in files.
    config: Option<Config>,
    configuration_problems: Vec<ResourceDiagnostic>,
    settings_problems: Vec<ResourceDiagnostic>,
    /// What a session that begins now would be told about its model.
    model_problem: Option<ResourceDiagnostic>,
}

impl Runtime {
    /// Reads settings, models, skills and templates again, and gives every resident session its tools anew. A run goes on; its next turn
    /// uses what is new. Of `config.toml` what can be replaced takes effect: `models.demo` and `limits.bash_timeout`.
    ///
    /// Once begun it is best not dropped: sessions that were not reached keep what they had.
    ///
    /// # Errors
    /// A file cannot be used as a whole; then nothing has changed. Or a session could not be reached or written; the rest is then done.
    pub async fn reload(&self) -> Result<(), SessionError> {
        let _one_at_a_time = self.reloading.lock().await;
        let built = self.blocking(Self::build).await??;
        self.replace(built);
        self.equip_residents().await
    }

    /// Blocking.
    fn build(&self) -> Result<Built, SessionError> {
        let sources = &self.sources;
        let agent = self.read_agent()?;
        let tier = settings::read_shared(&sources.shared.settings()).map_err(|error| SessionError::Reload(error.to_string()))?;
        let (settings, faults) = Settings::resolve(&tier, agent.settings());
        let configuration =
            (!sources.configuration.is_empty()).then(|| config::load(sources.configuration.iter().map(|path| path.as_path())));
        let faulty = configuration.as_ref().map_or(&[][..], |configuration| configuration.diagnostics.as_slice());
        if let Some(fault) = faulty.iter().find(|fault| fault.whole_file) {
            return Err(SessionError::Reload(fault.to_string()));
        }
        let configuration_problems = faulty.iter().map(told).collect();
        let config = configuration.map(|configuration| configuration.values);
        let models_json = sources.models.read().map_err(SessionError::Reload)?;
        if let Some(text) = &models_json {
            let problem = |problem| SessionError::Reload(format!("{}: {problem}", text.path));
            text.check().map_err(problem)?;
        }
        let registry = sources.models.load(models_json, config.as_ref().map(|config| config.models.demo));
        let resources = Resources::load(&sources.places, &settings.all);
        self.services.agent.refresh();
        let settings_problems = faults.into_iter().map(|fault| ResourceDiagnostic::new(DiagnosticKind::Warning, fault, None)).collect();
        let model_notice = start_of_session(&registry, &settings, None, None).notice;
        let model_problem = model_notice.map(|notice| ResourceDiagnostic::new(DiagnosticKind::Warning, notice, None));
        Ok(Built { registry, resources, config, configuration_problems, settings_problems, model_problem })
    }

    /// `agent.json` as it is, not its last good copy: whoever edited it wants to know.
    fn read_agent(&self) -> Result<AgentDocument, SessionError> {
        let path = self.services.agent.home().config_json();
        let problem = |problem: String| SessionError::Reload(format!("{}: {problem}", path.display()));
        let content = wolli_home::reading::read(&path).map_err(|error| problem(error.to_string()))?;
        let content = content.ok_or_else(|| problem("the file is gone".to_owned()))?;
        AgentDocument::parse(&content).map_err(problem)
    }

    fn replace(&self, built: Built) {
        let Built { registry, resources, config, configuration_problems, settings_problems, model_problem } = built;
        self.services.registry.replace(registry);
        self.services.resources.replace(resources);
        if let Some(config) = config {
            self.services.bash_time_limit.replace(config.limits.bash_timeout);
        }
        self.renew_diagnostics(Topic::Configuration, configuration_problems);
        self.renew_diagnostics(Topic::Settings, settings_problems);
        self.renew_diagnostics(Topic::Model, model_problem.into_iter().collect());
    }

    async fn equip_residents(&self) -> Result<(), SessionError> {
        let tools = Arc::new(self.equipment.tools(self.services.agent.stage()));
        let mut missed = Vec::new();
        for (id, slot) in self.slots.all() {
            // One that is being opened may have got what was there before; its place is free when it is open.
            let session = slot.lock().await.clone();
            let Some(session) = session else { continue };
            match session.equip(Arc::clone(&tools)).await {
                // What is opened again gets what is new.
                Ok(()) | Err(CommandError::Closed) => {}
                Err(error) => missed.push(format!("session {id}: {error}")),
            }
        }
        if missed.is_empty() { Ok(()) } else { Err(SessionError::NotReached(missed.join("; "))) }
    }
}

fn told(fault: &Diagnostic) -> ResourceDiagnostic {
    ResourceDiagnostic::new(DiagnosticKind::Error, fault.message.clone(), Some(&fault.path))
}
