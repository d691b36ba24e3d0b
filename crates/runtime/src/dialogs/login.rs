//! The steps of a login, for both kinds of clients at once: those that included `login_ui` see them on the rail of logins, the others
//! as dialogs. The first answer by either way counts. Not here: the flows of providers, and what is stored.

use wolli_protocol::ids::DialogId;
use wolli_protocol::login::{LoginMethod, LoginOption, LoginRequest};

use super::port::{Dialogs, Patience, text};

/// Asks and tells the people at one session about a login. Ends and cancels as [`Dialogs`] does.
#[derive(Clone, Debug)]
pub struct LoginDialogs {
    dialogs: Dialogs,
}

impl LoginDialogs {
    pub(super) fn new(dialogs: Dialogs) -> Self {
        Self { dialogs }
    }

    /// Where to sign in; clients may open a browser.
    pub fn auth(&self, url: impl Into<String>, instructions: Option<String>) {
        self.tell(LoginMethod::Auth { url: url.into(), instructions });
    }

    /// The code to enter at `verification_uri`.
    pub fn device_code(&self, user_code: impl Into<String>, verification_uri: impl Into<String>) {
        self.tell(LoginMethod::DeviceCode { user_code: user_code.into(), verification_uri: verification_uri.into() });
    }

    pub fn progress(&self, message: impl Into<String>) {
        self.tell(LoginMethod::Progress { message: message.into() });
    }

    /// A line of text; empty if there is no answer.
    pub async fn prompt(&self, message: impl Into<String>, placeholder: Option<String>) -> String {
        self.ask(LoginMethod::Prompt { message: message.into(), placeholder }).await.unwrap_or_default()
    }

    /// What the browser was sent to, pasted; empty if there is no answer.
    pub async fn manual_input(&self) -> String {
        self.ask(LoginMethod::ManualInput {}).await.unwrap_or_default()
    }

    /// The `id` of one of `options`, or nothing.
    pub async fn select(&self, message: impl Into<String>, options: Vec<LoginOption>) -> Option<String> {
        self.ask(LoginMethod::Select { message: message.into(), options }).await
    }

    fn tell(&self, method: LoginMethod) {
        self.dialogs.tell_login(LoginRequest { id: DialogId::generate(), method });
    }

    async fn ask(&self, method: LoginMethod) -> Option<String> {
        let dialog = method.as_dialog();
        let request = LoginRequest { id: DialogId::generate(), method };
        text(self.dialogs.ask(dialog, Some(request), Patience::default()).await)
    }
}
