//! Answers of people to dialogs. They never open a session: one that is not in memory asks nothing.

use bytes::Bytes;
use tokio::sync::watch;
use wolli_protocol::dialog::DialogReceipt;
use wolli_protocol::ids::SessionId;
use wolli_runtime::dialogs::Rail;

use super::control::LIGHT_BODY;
use super::envelope;
use super::opening::{self, Opening};
use crate::http::answer::{self, Answer};
use crate::server::limits::Timing;

/// `POST .../ui-response` and `.../login-response`. Whatever JSON the body is, the answer is a success: late answers are normal.
pub(crate) async fn answer(opening: &watch::Receiver<Opening>, id: &SessionId, rail: Rail, body: Bytes, timing: &Timing) -> Answer {
    let light = if body.len() <= LIGHT_BODY { Some(envelope::parse(&body)) } else { None };
    if matches!(light, Some(None)) {
        return malformed();
    }
    let runtime = match opening::wait(opening, timing.loading).await {
        Ok(runtime) => runtime,
        Err(unavailable) => return unavailable.answer(),
    };
    let parsed = match light {
        Some(parsed) => parsed,
        None => match runtime.tasks().spawn_blocking(move || envelope::parse(&body)).await {
            Ok(parsed) => parsed,
            Err(_) => return answer::internal_error(),
        },
    };
    match parsed {
        Some(body) => answer::json_of(&runtime.answer_dialog(id, rail, &body)),
        None => malformed(),
    }
}

fn malformed() -> Answer {
    answer::json_of(&DialogReceipt { success: false, applied: None, reason: None, error: Some("Malformed JSON body.".into()) })
}
