//! Answers of people to dialogs. No part of this version asks yet, so that no answer finds its question.

use wolli_protocol::dialog::DialogReceipt;

use super::envelope;
use crate::http::answer::{self, Answer};

/// `POST .../ui-response` and `.../login-response`. Never opens a session.
pub(crate) fn answer(body: &[u8]) -> Answer {
    let receipt = if envelope::parse(body).is_some() {
        DialogReceipt { success: true, applied: Some(false), reason: Some("no open dialog has this id".into()), error: None }
    } else {
        DialogReceipt { success: false, applied: None, reason: None, error: Some("Malformed JSON body.".into()) }
    };
    answer::json_of(&receipt)
}
