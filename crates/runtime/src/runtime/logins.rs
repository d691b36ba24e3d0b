//! Logging in to a provider and out again, by command.
//!
//! Invariants: a session has one login at a time; a key goes from the answer into `auth.json` and nowhere else: no log, frame or
//! error has it. A stored key counts from the next look at the models on, in this process and all others. Not here: how questions
//! reach people, and what the files hold beside.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;
use wolli_home::lockdir::map_file::MapFileError;
use wolli_protocol::command::AuthType;
use wolli_protocol::dialog::NotifyType;
use wolli_protocol::ids::SessionId;
use wolli_protocol::resource::AuthSelectorProvider;

use super::credentials::Stored;
use super::open::Runtime;
use crate::dialogs::Dialogs;
use crate::session::SessionHandle;

/// Why a login or logout did not happen. Texts go to clients; those of wolli 0.0.2 are kept.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// No provider of this version is logged in to in a browser.
    #[error("Unknown OAuth provider: {0}")]
    UnknownOAuth(String),
    #[error("Unknown provider: {0}")]
    Unknown(String),
    /// The answer was blank, or there was none.
    #[error("API key cannot be empty.")]
    EmptyKey,
    #[error("A login is already in progress.")]
    InProgress,
    /// Nothing that is stored here would be asked for a key.
    #[error("credentials come from the program that runs this agent")]
    NotOurs,
    /// The credential is not stored, or not removed.
    #[error(transparent)]
    File(#[from] MapFileError),
    #[error("the daemon is shutting down")]
    ShuttingDown,
}

/// The logins that go on, by session, with what ends each.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<HashMap<SessionId, CancellationToken>>);

impl Logins {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, session: &SessionId, token: CancellationToken) -> Result<Login<'_>, LoginError> {
        let mut logins = self.lock();
        if logins.contains_key(session) {
            return Err(LoginError::InProgress);
        }
        logins.insert(session.clone(), token);
        Ok(Login { logins: self, session: session.clone() })
    }
}

/// A login that goes on until this is dropped.
struct Login<'a> {
    logins: &'a Logins,
    session: SessionId,
}

impl Drop for Login<'_> {
    fn drop(&mut self) {
        self.logins.lock().remove(&self.session);
    }
}

impl Runtime {
    /// Logs in to a provider, with questions to those who are attached to `session`; returns when that is done.
    ///
    /// Dropping the future ends the login, unless its key is being written already.
    ///
    /// # Errors
    /// There is no such provider, no answer, another login in this session, or the key cannot be stored.
    pub async fn login(&self, session: &SessionHandle, provider: &str, kind: AuthType) -> Result<(), LoginError> {
        match kind {
            AuthType::Oauth => return Err(LoginError::UnknownOAuth(provider.to_owned())),
            AuthType::ApiKey if self.login_providers(Some(kind)).iter().all(|known| known.id != provider) => {
                return Err(LoginError::Unknown(provider.to_owned()));
            }
            AuthType::ApiKey => {}
        }
        let stored = self.services.credentials.clone().ok_or(LoginError::NotOurs)?;
        let token = self.token.child_token();
        let _login = self.services.logins.begin(session.id(), token.clone())?;
        let dialogs = Dialogs::new(session.hub().clone(), token);
        let question = format!("Enter API key for {}", self.services.registry.get().display_name(provider));
        let typed = SecretString::from(dialogs.clone().of_login().prompt(question, None).await);
        let key = SecretString::from(typed.expose_secret().trim());
        if key.expose_secret().is_empty() {
            return Err(LoginError::EmptyKey);
        }
        let name = provider.to_owned();
        self.change_credentials(move |stored| stored.store_key(&name, &key)).await?;
        if let Some(own) = stored.overridden_by(provider) {
            let warning = format!("{} has a credential for {provider} of its own, which goes before the one stored now", own.display());
            dialogs.notify(warning, NotifyType::Warning);
        }
        Ok(())
    }

    /// Ends the login that goes on in a session, if one does: its question counts as cancelled.
    pub fn cancel_login(&self, session: &SessionId) {
        if let Some(token) = self.services.logins.lock().get(session) {
            token.cancel();
        }
    }

    /// Removes what is stored for a provider, wherever that is. One that has nothing stored is logged out.
    ///
    /// # Errors
    /// A file cannot be changed; see [`LoginError::File`].
    pub async fn logout(&self, provider: &str) -> Result<(), LoginError> {
        let provider = provider.to_owned();
        self.change_credentials(move |stored| stored.remove(&provider)).await
    }

    /// Providers that can be logged in to, by name; all kinds, or one.
    #[must_use]
    pub fn login_providers(&self, kind: Option<AuthType>) -> Vec<AuthSelectorProvider> {
        match kind {
            // None is configured.
            Some(AuthType::Oauth) => Vec::new(),
            Some(AuthType::ApiKey) | None => self.services.registry.get().key_login_providers(),
        }
    }

    /// Providers with a stored credential, by name.
    #[must_use]
    pub fn logout_providers(&self) -> Vec<AuthSelectorProvider> {
        self.services.registry.get().logout_providers()
    }

    async fn change_credentials(
        &self,
        change: impl FnOnce(&Stored) -> Result<(), MapFileError> + Send + 'static,
    ) -> Result<(), LoginError> {
        let stored = self.services.credentials.clone().ok_or(LoginError::NotOurs)?;
        let changed = self.services.tasks.spawn_blocking(move || change(&stored)).await;
        Ok(changed.map_err(|_| LoginError::ShuttingDown)??)
    }
}
