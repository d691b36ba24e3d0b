//! Dialogs of all sessions, found by the session's id. Nothing here opens a session.

use serde_json::Value;
use wolli_protocol::dialog::DialogReceipt;
use wolli_protocol::ids::SessionId;

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
        for hub in self.all() {
            hub.tell_error(message);
        }
    }
}
