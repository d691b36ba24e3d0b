//! View `snapshot`: the newest run as one growing whole, and patches of it.
//!
//! A reader keeps three numbers, not a copy: what it lacks is read off the fold that all readers share. One that is behind gets
//! everything at once, so none is ever too slow. Growing text is told at most every [`SNAPSHOT_PAUSE`]; all else at once. While
//! nothing happens there is no timer, and while text grows within a pause the reader sleeps. Invariant: a frame covers everything up to its
//! id, and what it does not cover comes with a later one, once.

use bytes::BytesMut;
use tokio::sync::watch;
use tokio::time::Instant;
use wolli_protocol::ids::FrameId;
use wolli_protocol::snapshot::{Mark, SnapshotFrame, SnapshotPatch};
use wolli_protocol::sse;

use super::attach::{Batch, Cursor, CursorEnd};
use super::frame::EVENT;
use super::log::Log;
use crate::limits::SNAPSHOT_PAUSE;

/// Where a reader stands in the snapshot.
#[derive(Debug)]
pub(super) struct Follower {
    /// What it has; `None` before its first frame, which is the whole.
    mark: Option<Mark>,
    /// When it was told something last.
    told: Option<Instant>,
    urgent: watch::Receiver<u64>,
}

impl Follower {
    pub(super) const fn new(urgent: watch::Receiver<u64>) -> Self {
        Self { mark: None, told: None, urgent }
    }

    /// Goes on behind the frame of that id, if the ring still knows how the snapshot was then.
    pub(super) fn resume(&mut self, log: &Log, last_event_id: Option<&str>) {
        self.mark = last_event_id.and_then(FrameId::parse).and_then(|id| log.mark_at(id));
    }

    pub(super) const fn is_resumed(&self) -> bool {
        self.mark.is_some()
    }
}

/// What there is for a reader at the moment.
enum Look {
    Told(Batch),
    Nothing,
    /// Growing text, which waits until then.
    Later(Instant),
}

impl Cursor {
    /// The next frames, waiting until there are some. Cancel-safe.
    pub(super) async fn next_snapshot(&mut self) -> Result<Batch, CursorEnd> {
        loop {
            match self.look()? {
                Look::Told(batch) => return Ok(batch),
                Look::Nothing => self.head.changed().await.map_err(|_| CursorEnd::Closed)?,
                Look::Later(until) => tokio::select! {
                    biased;
                    changed = self.follower.urgent.changed() => changed.map_err(|_| CursorEnd::Closed)?,
                    () = tokio::time::sleep_until(until) => {}
                },
            }
        }
    }

    fn look(&mut self) -> Result<Look, CursorEnd> {
        let log = self.hub.lock();
        let end = log.end_position();
        let mut out = BytesMut::new();
        // What left the ring meanwhile was a notice of something that is over, or is in the snapshot.
        let from = self.position.max(self.attached_at).saturating_sub(log.first_position);
        for frame in log.frames.iter().skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if frame.id().is_none() && frame.reaches(self.include, false) {
                out.extend_from_slice(&frame.bytes);
            }
        }
        let now_at = log.snapshot.mark();
        let patch = match self.follower.mark {
            None => Some(SnapshotPatch::full(log.snapshot.snapshot().clone())),
            Some(mark) => {
                let hurry = !out.is_empty() || log.closed || log.snapshot.is_urgent_since(mark);
                let due = self.follower.told.map(|told| told + SNAPSHOT_PAUSE).filter(|due| *due > Instant::now());
                if let (false, true, Some(due)) = (hurry, mark != now_at, due) {
                    return Ok(Look::Later(due));
                }
                log.snapshot.patch_since(mark)
            }
        };
        if patch.is_none() && out.is_empty() {
            self.position = end;
            return if log.closed { Err(CursorEnd::Closed) } else { Ok(Look::Nothing) };
        }
        let last_id = log.last_id;
        drop(log);
        if let Some(patch) = patch
            && let Err(error) = sse::encode_json(&mut out, EVENT, &SnapshotFrame::Snapshot { patch }, Some(last_id))
        {
            tracing::error!(%error, "a snapshot did not serialise");
        }
        self.position = end;
        self.follower.mark = Some(now_at);
        self.follower.told = Some(Instant::now());
        Ok(Look::Told(out.freeze()))
    }
}

#[cfg(test)]
mod tests;
