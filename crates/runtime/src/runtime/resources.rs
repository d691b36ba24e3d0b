//! What clients ask about skills, templates and everything that was wrong while loading; and prompts that call one of them.

use std::sync::Arc;

use wolli_protocol::ids::SessionId;
use wolli_protocol::resource::{ConfiguredPlugin, ResourceSummary, Skill, SlashCommandInfo};

use super::open::Runtime;
use super::sessions::SessionError;
use crate::session::NewPrompt;

impl Runtime {
    /// The skills of the agent, in the order of their precedence.
    #[must_use]
    pub fn skills(&self) -> Vec<Skill> {
        self.services.resources.get().skills().to_vec()
    }

    /// What can be called with a slash: templates, then skills. What clients build in themselves is not among them.
    #[must_use]
    pub fn commands(&self) -> Vec<SlashCommandInfo> {
        self.services.resources.get().commands()
    }

    /// The plugins that the settings list; none of them is loaded.
    #[must_use]
    pub fn plugins(&self) -> Vec<ConfiguredPlugin> {
        self.services.resources.get().plugins().to_vec()
    }

    /// How much there is of everything, and what was wrong with it.
    ///
    /// # Errors
    /// The daemon is shutting down.
    pub async fn resource_summary(&self) -> Result<ResourceSummary, SessionError> {
        // Looks at the files of credentials, if they changed.
        self.blocking(|runtime| {
            let resources = runtime.services.resources.get();
            ResourceSummary {
                // In-process extensions, and the commands that they bring, are never loaded.
                extensions: 0,
                skills: resources.skills().len() as u64,
                prompts: resources.template_count() as u64,
                commands: 0,
                diagnostics: runtime.diagnostics(),
            }
        })
        .await
    }

    /// Gives a session a prompt: what a slash calls is put in its place, then a run starts or the prompt is queued.
    ///
    /// `/skill:<name> <arguments>` and `/<template> <arguments>` are expanded, with what their file says now; every other text is
    /// taken as it is. A repeat of a prompt with a known key reads nothing and starts nothing.
    ///
    /// Returns like [`SessionHandle::prompt`](crate::session::SessionHandle::prompt). Not cancel-safe while a file is read: the prompt
    /// is then not given.
    ///
    /// # Errors
    /// There is no such session or skill, the file of a skill or template cannot be read, or the session refused.
    pub async fn prompt(&self, id: &SessionId, mut prompt: NewPrompt) -> Result<(), SessionError> {
        if prompt.text.starts_with('/') {
            if let Some(key) = &prompt.idempotency_key {
                let repeated = self.with_session(id, |session| {
                    let key = key.clone();
                    async move { session.is_repeat(key).await }
                });
                if repeated.await? {
                    return Ok(());
                }
            }
            if let Some(invocation) = self.services.resources.get().invocation(&prompt.text)? {
                prompt.text = self.blocking(move |_| invocation.expand()).await??;
            }
        }
        let prompt = Arc::new(prompt);
        self.with_session(id, |session| {
            let prompt = NewPrompt::clone(&prompt);
            async move { session.prompt(prompt).await }
        })
        .await
    }
}
