//! The port through which tools, hooks, approvals and logins talk to the people at a session.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wolli_protocol::dialog::{DialogMethod, DialogRequest, NotifyType, WidgetPlacement};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::DialogId;
use wolli_protocol::login::LoginRequest;

use super::answer::Outcome;
use super::login::LoginDialogs;
use super::open::NewDialog;
use crate::hub::Hub;

/// How long a question may wait. The default is for as long as somebody is attached.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    /// After this time the question ends without an answer; zero counts as absent. Clients count down with it.
    pub time_limit: Option<Duration>,
    /// Ends the question, beside the token of the port itself.
    pub cancel: Option<CancellationToken>,
}

impl Patience {
    /// Ends the question after `limit`.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        Self { time_limit: Some(limit), cancel: None }
    }

    fn limit(&self) -> Option<Duration> {
        self.time_limit.filter(|limit| !limit.is_zero())
    }
}

/// Asks and tells the people at one session. Cheap to clone. The default has nobody to talk to: its questions end at once.
///
/// Every question ends with its default result (nothing, or "no") when it times out, when a token is cancelled, when nobody is
/// attached and when the last client leaves. All of them are cancel-safe: dropping the future withdraws the question.
#[derive(Clone, Debug, Default)]
pub struct Dialogs {
    hub: Option<Arc<Hub>>,
    scope: CancellationToken,
}

impl Dialogs {
    /// Talks to those who are attached to `hub`; questions end when `scope` is cancelled.
    #[must_use]
    pub fn new(hub: Arc<Hub>, scope: CancellationToken) -> Self {
        Self { hub: Some(hub), scope }
    }

    /// One of `options`, or nothing.
    pub async fn select(&self, title: impl Into<String>, options: Vec<String>, patience: Patience) -> Option<String> {
        let method = DialogMethod::Select { title: title.into(), options, timeout: milliseconds(patience.limit()) };
        text(self.ask(method, None, patience).await)
    }

    /// True if somebody said yes.
    pub async fn confirm(&self, title: impl Into<String>, message: impl Into<String>, patience: Patience) -> bool {
        let method = DialogMethod::Confirm { title: title.into(), message: message.into(), timeout: milliseconds(patience.limit()) };
        self.ask(method, None, patience).await == Outcome::Confirmed(true)
    }

    /// A line of text, or nothing.
    pub async fn input(&self, title: impl Into<String>, placeholder: Option<String>, patience: Patience) -> Option<String> {
        let method = DialogMethod::Input { title: title.into(), placeholder, timeout: milliseconds(patience.limit()) };
        text(self.ask(method, None, patience).await)
    }

    /// A longer text, which begins as `prefill`, or nothing. It has no time limit and ends with the port's own token alone.
    pub async fn editor(&self, title: impl Into<String>, prefill: Option<String>) -> Option<String> {
        text(self.ask(DialogMethod::Editor { title: title.into(), prefill }, None, Patience::default()).await)
    }

    /// Shows a message.
    pub fn notify(&self, message: impl Into<String>, kind: NotifyType) {
        self.tell(DialogMethod::Notify { message: message.into(), notify_type: Some(kind) });
    }

    /// Sets the status line of this name; without a text it goes.
    pub fn set_status(&self, name: impl Into<String>, status: Option<String>) {
        self.tell(DialogMethod::SetStatus { status_key: name.into(), status_text: status });
    }

    /// Sets the lines of the widget of this name; without lines it goes. The usual place is above the editor.
    pub fn set_widget(&self, name: impl Into<String>, lines: Option<Vec<String>>, placement: Option<WidgetPlacement>) {
        self.tell(DialogMethod::SetWidget { widget_key: name.into(), widget_lines: lines, widget_placement: placement });
    }

    pub fn set_title(&self, title: impl Into<String>) {
        self.tell(DialogMethod::SetTitle { title: title.into() });
    }

    /// Puts a text where people type.
    pub fn set_editor_text(&self, text: impl Into<String>) {
        self.tell(DialogMethod::SetEditorText { text: text.into() });
    }

    /// The same port for the steps of a login.
    #[must_use]
    pub fn of_login(self) -> LoginDialogs {
        LoginDialogs::new(self)
    }

    pub(super) fn tell(&self, method: DialogMethod) {
        if let Some(hub) = &self.hub {
            hub.tell(SessionEvent::ExtensionUiRequest(DialogRequest { id: DialogId::generate(), method, expires_at: None }));
        }
    }

    pub(super) fn tell_login(&self, request: LoginRequest) {
        if let Some(hub) = &self.hub {
            hub.tell(SessionEvent::LoginUiRequest(request));
        }
    }

    pub(super) async fn ask(&self, method: DialogMethod, login: Option<LoginRequest>, patience: Patience) -> Outcome {
        let Some(hub) = &self.hub else { return Outcome::Unattended };
        let time_limit = patience.limit();
        let cancel = patience.cancel.unwrap_or_default();
        if self.scope.is_cancelled() || cancel.is_cancelled() {
            return Outcome::Aborted;
        }
        let id = login.as_ref().map_or_else(DialogId::generate, |login| login.id.clone());
        let request = DialogRequest { id: id.clone(), method, expires_at: None };
        let Some(outcome) = hub.raise(NewDialog { request, login, time_limit }) else { return Outcome::Unattended };
        let mut asked = Asked { hub, id, outcome };
        let expired = async {
            match time_limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            biased;
            outcome = &mut asked.outcome => return outcome.unwrap_or(Outcome::Aborted),
            () = self.scope.cancelled() => Outcome::Aborted,
            () = cancel.cancelled() => Outcome::Aborted,
            () = expired => Outcome::TimedOut,
        };
        // Unless somebody was faster: an answer that was told to count does count.
        hub.settle(&asked.id, end);
        (&mut asked.outcome).await.unwrap_or(Outcome::Aborted)
    }
}

/// A question that is withdrawn when nobody waits for it any more.
struct Asked<'a> {
    hub: &'a Hub,
    id: DialogId,
    outcome: oneshot::Receiver<Outcome>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.hub.settle(&self.id, Outcome::Aborted);
    }
}

pub(super) fn text(outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::Value(text) => Some(text),
        Outcome::Confirmed(_) | Outcome::Cancelled | Outcome::TimedOut | Outcome::Aborted | Outcome::Unattended => None,
    }
}

fn milliseconds(limit: Option<Duration>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}
