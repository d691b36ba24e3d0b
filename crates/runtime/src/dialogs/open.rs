//! The open questions of one session, and the last ones that were settled. Plain data; the session's log holds it under its lock.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wolli_protocol::dialog::{DialogMethod, DialogRequest};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::DialogId;
use wolli_protocol::login::LoginRequest;

use super::answer::{self, Outcome, Rail};
use crate::clock::iso_after;
use crate::hub::Include;
use crate::limits::SETTLED_DIALOGS;

/// A question that is about to be raised.
#[derive(Debug)]
pub(crate) struct NewDialog {
    pub(crate) request: DialogRequest,
    /// The form for clients that included `login_ui`.
    pub(crate) login: Option<LoginRequest>,
    pub(crate) time_limit: Option<Duration>,
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(crate) struct OpenDialog {
    pub(super) request: DialogRequest,
    pub(super) login: Option<LoginRequest>,
    expires: Option<Instant>,
    answer: oneshot::Sender<Outcome>,
}

impl OpenDialog {
    fn open(dialog: NewDialog, answer: oneshot::Sender<Outcome>) -> Self {
        let NewDialog { mut request, login, time_limit } = dialog;
        request.expires_at = time_limit.map(iso_after);
        let expires = time_limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { request, login, expires, answer }
    }

    pub(crate) fn is_login(&self) -> bool {
        self.login.is_some()
    }

    pub(crate) fn expires_at(&self) -> Option<&String> {
        self.request.expires_at.as_ref()
    }

    /// The frame for a client that attached after the question was raised; its time-out is what is left of it.
    pub(crate) fn frame_again(&self, include: Include) -> SessionEvent {
        if let Some(login) = self.login.as_ref().filter(|_| include.contains(Include::LOGIN_UI)) {
            return SessionEvent::LoginUiRequest(login.clone());
        }
        let mut request = self.request.clone();
        request.expires_at = None;
        if let Some(expires) = self.expires {
            let left = u64::try_from(expires.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(u64::MAX).max(1);
            match &mut request.method {
                DialogMethod::Select { timeout, .. } | DialogMethod::Confirm { timeout, .. } | DialogMethod::Input { timeout, .. } => {
                    *timeout = Some(left);
                }
                DialogMethod::Editor { .. }
                | DialogMethod::Notify { .. }
                | DialogMethod::SetStatus { .. }
                | DialogMethod::SetWidget { .. }
                | DialogMethod::SetTitle { .. }
                | DialogMethod::SetEditorText { .. } => {}
            }
        }
        SessionEvent::ExtensionUiRequest(request)
    }
}

/// The questions of one session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct OpenDialogs {
    open: Vec<OpenDialog>,
    /// The last ones that were settled, and why a later answer to them does not count.
    settled: VecDeque<(DialogId, &'static str)>,
}

impl OpenDialogs {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenDialog> {
        self.open.iter()
    }

    /// As lists of open dialogs show them.
    pub(crate) fn requests(&self) -> Vec<DialogRequest> {
        self.open.iter().map(|dialog| dialog.request.clone()).collect()
    }

    /// Opens a question; its outcome comes out of the receiver, once.
    pub(crate) fn add(&mut self, dialog: NewDialog) -> oneshot::Receiver<Outcome> {
        let (answer, outcome) = oneshot::channel();
        self.open.push(OpenDialog::open(dialog, answer));
        outcome
    }

    /// What an answer that came by `rail` says to the question with this id.
    ///
    /// # Errors
    /// Why the answer does not count.
    pub(crate) fn read_answer(&self, id: &str, rail: Rail, body: &Value) -> Result<(DialogId, Outcome), &'static str> {
        let finds = |dialog: &&OpenDialog| dialog.request.id.as_str() == id && (rail == Rail::Ui || dialog.is_login());
        match self.open.iter().find(finds) {
            Some(dialog) => Ok((dialog.request.id.clone(), answer::read(dialog, rail, body))),
            None => Err(self.settled.iter().find(|(settled, _)| settled.as_str() == id).map_or(UNKNOWN, |(_, reason)| reason)),
        }
    }

    /// Gives a question its outcome; false if it has one already.
    pub(crate) fn settle(&mut self, id: &DialogId, outcome: Outcome) -> bool {
        let Some(place) = self.open.iter().position(|dialog| dialog.request.id == *id) else { return false };
        let dialog = self.open.remove(place);
        if self.settled.len() >= SETTLED_DIALOGS {
            self.settled.pop_front();
        }
        self.settled.push_back((dialog.request.id, outcome.reason()));
        // Who asked may have gone; then nobody needs it.
        let _ = dialog.answer.send(outcome);
        true
    }

    /// Gives every open question the same outcome.
    pub(crate) fn settle_all(&mut self, outcome: &Outcome) -> Vec<DialogId> {
        let ids: Vec<DialogId> = self.open.iter().map(|dialog| dialog.request.id.clone()).collect();
        for id in &ids {
            self.settle(id, outcome.clone());
        }
        ids
    }
}

/// Why an answer does not count whose id names nothing here.
pub(crate) const UNKNOWN: &str = "no open dialog has this id";
