//! What a program brings along. The daemon brings nothing: every port has the built-in as its default.

use std::fmt;
use std::sync::Arc;

use wolli_models::credentials::CredentialSource;
use wolli_models::port::ModelPort;

use crate::prompt::SystemPrompt;
use crate::service::{NoServiceManager, ServiceManager};
use crate::tools::{Stage, Tool, ToolSet, ToolSetError};

/// Writes the system prompt of a session that becomes resident, from the parts that the built-in one is made of. Called on
/// a thread for blocking work; the text then stays the same for as long as the session is resident.
#[derive(Clone)]
pub struct PromptPort(Arc<dyn Fn(&SystemPrompt<'_>) -> String + Send + Sync>);

impl PromptPort {
    pub fn new(write: impl Fn(&SystemPrompt<'_>) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn write(&self, parts: &SystemPrompt<'_>) -> String {
        (self.0)(parts)
    }
}

impl fmt::Debug for PromptPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PromptPort")
    }
}

/// Which tools sessions have.
#[derive(Clone, Debug)]
pub enum Tools {
    /// The built-in ones, then these.
    BuiltInAnd(Vec<Arc<dyn Tool>>),
    /// These alone.
    Only(Vec<Arc<dyn Tool>>),
}

impl Default for Tools {
    fn default() -> Self {
        Self::BuiltInAnd(Vec::new())
    }
}

impl Tools {
    /// # Errors
    /// Two tools have one name.
    pub(crate) fn set(&self, stage: Stage) -> Result<ToolSet, ToolSetError> {
        match self {
            Self::BuiltInAnd(more) => ToolSet::new(stage, more.iter().cloned()),
            Self::Only(tools) => ToolSet::from_tools(tools.iter().cloned()),
        }
    }
}

/// All ports of a program.
#[derive(Clone)]
pub struct Ports {
    pub tools: Tools,
    /// Absent: the built-in prompt.
    pub system_prompt: Option<PromptPort>,
    /// Models that the program answers for itself, beside those of providers.
    pub models: Option<Arc<dyn ModelPort>>,
    /// Absent: the two `auth.json`.
    pub credentials: Option<Arc<dyn CredentialSource>>,
    /// Makes a deployed agent a service; by default nothing does.
    pub service: Arc<dyn ServiceManager>,
    /// Called on a thread for blocking work soon after the start and after sessions left memory: the daemon gives memory back then. A program
    /// with other work to do may have no such moment.
    pub at_rest: Option<fn()>,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            tools: Tools::default(),
            system_prompt: None,
            models: None,
            credentials: None,
            service: Arc::new(NoServiceManager),
            at_rest: None,
        }
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Ports")
            .field("tools", &self.tools)
            .field("system_prompt", &self.system_prompt)
            .field("models", &self.models)
            .field("credentials", &self.credentials.is_some())
            .field("service", &self.service)
            .field("at_rest", &self.at_rest.is_some())
            .finish()
    }
}
