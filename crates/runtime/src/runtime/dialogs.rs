//! Dialogs of all sessions, found by the session's id. Nothing here opens a session.

use serde_json::Value;
use wolli_protocol::dialog::{DialogMethod, DialogReceipt, DialogRequest, NotifyType};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{DialogId, SessionId};

use super::hubs::Hubs;
use super::open::Runtime;
use crate::dialogs::{Rail, UNKNOWN};

impl Runtime {
    /// Takes in an answer for a dialog of session `id`; the receipt says whether it settled one.
    #[must_use]
    pub fn answer_dialog(&self, id: &SessionId, rail: Rail, body: &Value) -> DialogReceipt {
        match self.services.hubs.get(id) {
            Some(hub) => hub.answer_dialog(rail, body),
            None => DialogReceipt { success: true, applied: Some(false), reason: Some(UNKNOWN.into()), error: None },
        }
    }
}

impl Hubs {
    /// Tells everyone who is attached to any session of an error that belongs to none of them.
    pub(super) fn tell_error(&self, message: &str) {
        let method = DialogMethod::Notify { message: message.to_owned(), notify_type: Some(NotifyType::Error) };
        for hub in self.all() {
            hub.tell(SessionEvent::ExtensionUiRequest(DialogRequest {
                id: DialogId::generate(),
                method: method.clone(),
                expires_at: None,
            }));
        }
    }
}
