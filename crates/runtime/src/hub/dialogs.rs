//! Dialogs in the log: raised, settled and shown in the same step in which readers come and go.

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::sync::oneshot;
use wolli_protocol::dialog::{DialogMethod, DialogReceipt, DialogRequest, DialogResolved, NotifyType};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::DialogId;
use wolli_protocol::state::{Waiting, WaitingKind};

use super::frame::{Audience, Body, Frame, Include, encode};
use super::log::{Hub, Log};
use crate::clock::now_iso;
use crate::dialogs::{NewDialog, OpenDialog, Outcome, Rail, answered_id};
use crate::limits::OPEN_DIALOGS;

impl Hub {
    /// Shows a question to everyone and keeps it until it is settled. Nothing if nobody is attached: there is no frame then.
    pub(crate) fn raise(&self, dialog: NewDialog) -> Option<oneshot::Receiver<Outcome>> {
        let mut log = self.lock();
        if log.closed || *self.readers().borrow() == 0 {
            return None;
        }
        if log.dialogs.len() >= OPEN_DIALOGS {
            tracing::warn!(open = log.dialogs.len(), "a question was not asked, since too many wait for answers");
            return None;
        }
        log.show(SessionEvent::ExtensionUiRequest(dialog.request.clone()), dialog.login.clone().map(SessionEvent::LoginUiRequest));
        let outcome = log.dialogs.add(dialog);
        log.tell_waiting();
        drop(log);
        self.announce();
        Some(outcome)
    }

    /// Shows something that needs no answer to those attached now.
    pub(crate) fn tell(&self, event: SessionEvent) {
        let mut log = self.lock();
        if log.closed || *self.readers().borrow() == 0 {
            return;
        }
        match event {
            SessionEvent::LoginUiRequest(login) => {
                log.show(SessionEvent::ExtensionUiRequest(login.as_dialog()), Some(SessionEvent::LoginUiRequest(login)));
            }
            event => log.show(event, None),
        }
        drop(log);
        self.announce();
    }

    /// Shows an error that no answer of the model and no answer to a command tells.
    pub(crate) fn tell_error(&self, message: impl Into<String>) {
        let method = DialogMethod::Notify { message: message.into(), notify_type: Some(NotifyType::Error) };
        self.tell(SessionEvent::ExtensionUiRequest(DialogRequest { id: DialogId::generate(), method, expires_at: None }));
    }

    /// Gives a question its outcome; the first one counts.
    pub(crate) fn settle(&self, id: &DialogId, outcome: Outcome) {
        let mut log = self.lock();
        log.settle(id, outcome);
        drop(log);
        self.announce();
    }

    /// Takes in an answer of a client; the receipt says whether it settled a question.
    #[must_use]
    pub fn answer_dialog(&self, rail: Rail, body: &Value) -> DialogReceipt {
        let mut log = self.lock();
        let found = log.dialogs.read_answer(answered_id(body).unwrap_or_default(), rail, body);
        let reason = match found {
            Ok((id, outcome)) => {
                log.settle(&id, outcome);
                None
            }
            Err(reason) => Some(reason.to_owned()),
        };
        drop(log);
        self.announce();
        DialogReceipt { success: true, applied: Some(reason.is_none()), reason, error: None }
    }

    /// The questions that wait for an answer, oldest first.
    #[must_use]
    pub fn dialogs(&self) -> Vec<DialogRequest> {
        self.lock().dialogs.requests()
    }

    /// A reader is gone; with the last one go the questions.
    pub(super) fn reader_left(&self) {
        let mut log = self.lock();
        let mut left = 0;
        self.readers().send_modify(|readers| {
            *readers = readers.saturating_sub(1);
            left = *readers;
        });
        if left == 0 && log.dialogs.len() > 0 {
            log.dialogs.settle_all(&Outcome::Unattended);
            log.tell_waiting();
        }
    }
}

impl Log {
    /// Shows the frame of a dialog to those attached now. With the form of a login, each reader gets the one that it understands.
    fn show(&mut self, dialog: SessionEvent, login: Option<SessionEvent>) {
        let audience = if login.is_some() { Audience::NotIncluded(Include::LOGIN_UI) } else { Audience::Attached };
        self.push(Frame::encode(&dialog, audience, Body::Plain));
        if let Some(login) = login {
            self.push(Frame::encode(&login, Audience::Included(Include::LOGIN_UI), Body::Plain));
        }
    }

    fn settle(&mut self, id: &DialogId, outcome: Outcome) {
        if self.dialogs.settle(id, outcome) {
            self.tell_resolved(id.clone());
            self.tell_waiting();
        }
    }

    /// The log is closed: nobody can answer any more.
    pub(super) fn end_dialogs(&mut self) {
        for id in self.dialogs.settle_all(&Outcome::Aborted) {
            self.tell_resolved(id);
        }
        self.tell_waiting();
    }

    fn tell_resolved(&mut self, id: DialogId) {
        self.show(SessionEvent::ExtensionUiResolved(DialogResolved { id }), None);
    }

    /// Says that the session waits for a person, or does not any more. What else it waits for is not ours to take back; when that is over,
    /// this is to be called again.
    pub(super) fn tell_waiting(&mut self) {
        self.show_questions();
        let told = match &self.waiting {
            Some(waiting) if !matches!(waiting.kind, WaitingKind::Dialog | WaitingKind::Login) => return,
            told => told.as_ref().map(|waiting| (waiting.kind, waiting.until.as_ref())),
        };
        let kind = |dialog: &OpenDialog| if dialog.is_login() { WaitingKind::Login } else { WaitingKind::Dialog };
        let oldest = self.dialogs.iter().next().map(|dialog| (kind(dialog), dialog.expires_at()));
        if oldest == told {
            return;
        }
        let waiting = oldest.map(|(kind, until)| Waiting { kind, since: now_iso(), until: until.cloned(), attempt: None, max: None });
        self.waiting.clone_from(&waiting);
        self.push(Frame::encode(&SessionEvent::Waiting { waiting }, Audience::Included(Include::WAITING), Body::Plain));
    }

    /// The open questions as frames, for a reader that attaches now.
    pub(super) fn dialog_frames(&self, include: Include) -> Bytes {
        let mut frames = BytesMut::new();
        for dialog in self.dialogs.iter() {
            frames.extend_from_slice(&encode(&dialog.frame_again(include), None));
        }
        frames.freeze()
    }
}
