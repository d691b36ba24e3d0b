//! Readers: where one begins, what it is told first, and how it goes on.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::watch;
use wolli_protocol::ids::{EntryId, FrameId};
use wolli_protocol::state::{Hello, StreamPosition};

use super::frame::{Frame, Include, View};
use super::full;
use super::log::{Hub, Log};
use super::snapshot::Follower;
use crate::limits::READ_BATCH_BYTES;
use crate::session::MessageSource;

/// What a reader asks for.
#[derive(Clone, Debug, Default)]
pub struct Attach {
    pub view: View,
    pub include: Include,
    /// The text of `Last-Event-ID`, if the client sent one.
    pub last_event_id: Option<String>,
}

/// A reader's start: its first frame's content and its place in the log, taken in one step.
#[derive(Debug)]
pub struct Attached {
    pub hello: Hello,
    /// The newest entry that `hello` accounts for.
    pub leaf: Option<EntryId>,
    /// The open questions as frames, which follow `hello` in view `full`; empty in the others, which take them from `hello`.
    pub dialog_frames: Bytes,
    pub cursor: Cursor,
}

/// Why a reader's stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorEnd {
    /// The reader fell off the ring; it comes back with its last id.
    Lagged,
    /// The session's log was closed.
    Closed,
}

/// Encoded frames, ready for the socket.
pub type Batch = Bytes;

/// A reader's place in the log. Dropping it detaches.
#[derive(Debug)]
pub struct Cursor {
    pub(super) hub: Arc<Hub>,
    pub(super) head: watch::Receiver<u64>,
    pub(super) position: u64,
    /// Where the log ended when the reader attached; what stands before it is a replay.
    pub(super) attached_at: u64,
    view: View,
    pub(super) include: Include,
    /// Where a reader of view `snapshot` stands in it.
    pub(super) follower: Follower,
}

impl Hub {
    /// Attaches a reader.
    #[must_use]
    pub fn attach(self: &Arc<Self>, attach: &Attach) -> Attached {
        // Subscribed before the position is taken, so that no frame is missed.
        let head = self.subscribe_head();
        let mut log = self.lock();
        // Both under the lock, so that a ring is never packed while somebody reads it.
        self.readers().send_modify(|readers| *readers += 1);
        log.unpack();
        let (mut resume, mut gap) = resume_position(&log, attach.last_event_id.as_deref());
        let mut follower = Follower::new(self.subscribe_urgent());
        if attach.view == View::Snapshot {
            follower.resume(&log, attach.last_event_id.as_deref().filter(|_| resume.is_some()));
            resume = resume.filter(|_| follower.is_resumed());
            gap = attach.last_event_id.is_some() && resume.is_none();
        }
        let hello = Hello {
            state: log.state.clone(),
            stream: Some(StreamPosition { first_id: log.first_id(), last_id: log.last_id, resumed: resume.is_some(), gap }),
            dialogs: log.dialogs.requests(),
            waiting: log.waiting.clone(),
            // The snapshot that follows has it.
            in_flight: if resume.is_some() || attach.view == View::Snapshot { None } else { log.live.in_flight() },
            queues: if resume.is_some() || log.queues.is_empty() { None } else { Some(log.queues.clone()) },
            entries: None,
            entries_truncated: None,
            usage: None,
        };
        let attached_at = log.end_position();
        let position = resume.unwrap_or(attached_at);
        let leaf = log.leaf.clone();
        let dialog_frames = match attach.view {
            View::Delta | View::Snapshot => Bytes::new(),
            View::Full => log.dialog_frames(attach.include),
        };
        drop(log);
        let (hub, view, include) = (Arc::clone(self), attach.view, attach.include);
        let cursor = Cursor { hub, head, position, attached_at, view, include, follower };
        Attached { hello, leaf, dialog_frames, cursor }
    }
}

/// Where a resuming reader goes on, and whether what it asked for is gone.
fn resume_position(log: &Log, last_event_id: Option<&str>) -> (Option<u64>, bool) {
    let Some(text) = last_event_id else { return (None, false) };
    let Some(id) = FrameId::parse(text) else { return (None, true) };
    let next = FrameId(id.0.saturating_add(1));
    if next < log.first_id() || next > log.last_id.next() {
        return (None, true);
    }
    // Frames without a number that stand before the next numbered one were for those attached then; the ones
    // after the newest numbered frame as well, and are skipped with it.
    let index = log.frames.iter().position(|frame| frame.id().is_some_and(|frame| frame >= next)).unwrap_or(log.frames.len());
    (Some(log.first_position + index as u64), false)
}

impl Cursor {
    /// The next frames, waiting until there are some. Cancel-safe: nothing is taken before it is returned.
    ///
    /// # Errors
    /// The reader's stream is over; see [`CursorEnd`].
    pub async fn next(&mut self, messages: &MessageSource) -> Result<Batch, CursorEnd> {
        loop {
            let before = self.position;
            match self.view {
                View::Delta => {
                    let (batch, position) = self.read_joined()?;
                    self.position = position;
                    if !batch.is_empty() {
                        return Ok(batch);
                    }
                }
                View::Full => {
                    let (frames, position) = self.read()?;
                    let batch = if frames.is_empty() { None } else { Some(full::render(&frames, messages).await) };
                    // Only now: a caller that gave up while messages were read gets the same frames again.
                    self.position = position;
                    if let Some(batch) = batch {
                        return Ok(batch);
                    }
                }
                View::Snapshot => return self.next_snapshot().await,
            }
            // What was read was not for this reader; there may be more behind it.
            if self.position != before {
                continue;
            }
            if self.head.changed().await.is_err() {
                return Err(CursorEnd::Closed);
            }
        }
    }

    /// The bytes of the next frames, and the position after them. Readers that are at one place share one buffer.
    fn read_joined(&self) -> Result<(Bytes, u64), CursorEnd> {
        let mut log = self.hub.lock();
        self.check(&log)?;
        if self.position == log.end_position() {
            return Ok((Bytes::new(), self.position));
        }
        if self.position < self.attached_at {
            let (frames, to) = self.upcoming(&log);
            return Ok((join(&frames), to));
        }
        if let Some(joined) = log.joined.as_ref().filter(|joined| joined.serves(self.position, self.include, log.end_position())) {
            return Ok((joined.bytes.clone(), joined.to));
        }
        let (frames, to) = self.upcoming(&log);
        let bytes = join(&frames);
        drop(frames);
        log.joined = Some(Joined { from: self.position, to, end: log.end_position(), include: self.include, bytes: bytes.clone() });
        Ok((bytes, to))
    }

    /// The next frames for this reader, and the position after them.
    fn read(&self) -> Result<(Vec<Frame>, u64), CursorEnd> {
        let log = self.hub.lock();
        self.check(&log)?;
        let (frames, to) = self.upcoming(&log);
        Ok((frames.into_iter().cloned().collect(), to))
    }

    fn check(&self, log: &Log) -> Result<(), CursorEnd> {
        if self.position < log.first_position {
            return Err(CursorEnd::Lagged);
        }
        if log.closed && self.position == log.end_position() {
            return Err(CursorEnd::Closed);
        }
        Ok(())
    }

    /// Frames of a replay and live ones are never together.
    fn upcoming<'a>(&self, log: &'a Log) -> (Vec<&'a Frame>, u64) {
        let replayed = self.position < self.attached_at;
        let end = if replayed { self.attached_at } else { u64::MAX };
        let mut frames = Vec::new();
        let mut position = self.position;
        let mut bytes = 0;
        let start = usize::try_from(self.position - log.first_position).unwrap_or(usize::MAX);
        for frame in log.frames.iter().skip(start) {
            if position == end || (bytes > 0 && bytes + frame.bytes.len() > READ_BATCH_BYTES) {
                break;
            }
            position += 1;
            if frame.reaches(self.include, replayed) {
                bytes += frame.bytes.len();
                frames.push(frame);
            }
        }
        (frames, position)
    }
}

/// What the last reader was given; the next one is mostly at the same place.
#[derive(Debug)]
pub(super) struct Joined {
    from: u64,
    to: u64,
    /// Where the log ended then; a batch that reached it is out of date once the log has grown.
    end: u64,
    include: Include,
    bytes: Bytes,
}

impl Joined {
    fn serves(&self, position: u64, include: Include, end: u64) -> bool {
        self.from == position && self.include == include && (self.to < self.end || self.end == end)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.hub.reader_left();
    }
}

/// One frame is shared with the ring; several are copied into one buffer, which saves system calls.
fn join(frames: &[&Frame]) -> Bytes {
    if let [frame] = frames {
        return frame.bytes.clone();
    }
    let mut buffer = BytesMut::with_capacity(frames.iter().map(|frame| frame.bytes.len()).sum());
    for frame in frames {
        buffer.extend_from_slice(&frame.bytes);
    }
    buffer.freeze()
}
