//! The agent's control stream: which sessions come and go.

use bytes::{Bytes, BytesMut};
use tokio::sync::broadcast;
use wolli_protocol::event::ControlEvent;
use wolli_protocol::sse;

use crate::hub::Include;
use crate::limits::CONTROL_FRAMES;

/// Announces lifecycle events to every reader of the control stream.
#[derive(Debug)]
pub(crate) struct Control {
    frames: broadcast::Sender<(Include, Bytes)>,
}

/// Why a control stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlEnd {
    /// The reader was too slow; it starts again from a new `hello`.
    Lagged,
    /// The daemon stops.
    Closed,
}

/// A reader of the control stream. Frames are not numbered and not replayed.
#[derive(Debug)]
pub struct ControlReader {
    frames: broadcast::Receiver<(Include, Bytes)>,
    include: Include,
}

impl Control {
    pub(super) fn new() -> Self {
        Self { frames: broadcast::Sender::new(CONTROL_FRAMES) }
    }

    pub(super) fn subscribe(&self, include: Include) -> ControlReader {
        ControlReader { frames: self.frames.subscribe(), include }
    }

    pub(super) fn announce(&self, event: &ControlEvent) {
        let mut frame = BytesMut::new();
        if let Err(error) = sse::encode_json(&mut frame, "message", event, None) {
            tracing::error!(%error, "a lifecycle event did not serialise");
            return;
        }
        let wanted_by = match event {
            ControlEvent::SessionDeleted { .. } => Include::LIFECYCLE,
            ControlEvent::SessionAdded { .. } | ControlEvent::SessionRemoved { .. } | ControlEvent::SessionRenamed { .. } => Include::NONE,
        };
        // Nobody attached is fine.
        let _ = self.frames.send((wanted_by, frame.freeze()));
    }
}

impl ControlReader {
    /// The next frame that the reader asked for. Cancel-safe.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn next(&mut self) -> Result<Bytes, ControlEnd> {
        loop {
            let (wanted_by, frame) = self.frames.recv().await.map_err(|error| match error {
                broadcast::error::RecvError::Lagged(_) => ControlEnd::Lagged,
                broadcast::error::RecvError::Closed => ControlEnd::Closed,
            })?;
            if self.include.contains(wanted_by) {
                return Ok(frame);
            }
        }
    }
}
