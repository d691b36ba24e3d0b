//! A log for tests, of a session in which nothing has happened.

use std::sync::Arc;

use wolli_protocol::ids::FrameId;
use wolli_protocol::model::ThinkingLevel;
use wolli_protocol::state::SessionState;

use super::Hub;
use crate::session::MessageSource;
use crate::tasks::Tasks;

pub(crate) fn state() -> SessionState {
    SessionState {
        session_id: "s".into(),
        model: None,
        thinking_level: ThinkingLevel::Off,
        scoped_models: Vec::new(),
        is_streaming: false,
        session_name: None,
        session_file: None,
        message_count: 0,
        pending_message_count: 0,
        confinement: None,
    }
}

pub(crate) fn hub() -> Arc<Hub> {
    Arc::new(Hub::new(state(), FrameId::before_epoch(0)))
}

/// For readers that need no message from a file.
pub(crate) fn no_messages() -> MessageSource {
    MessageSource::new("/nonexistent".into(), Arc::default(), Tasks::new())
}
