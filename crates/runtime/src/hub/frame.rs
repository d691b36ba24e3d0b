//! Frames as they stand in the ring: encoded once, in the form of view `delta`.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{EntryId, FrameId};
use wolli_protocol::snapshot::Mark;
use wolli_protocol::sse;

use super::live::{LiveMessage, LiveTool};

/// The projection of the log that a reader asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// A reply costs bytes in proportion to its length.
    #[default]
    Delta,
    /// The shapes of wolli 0.0.2: whole messages in every update.
    Full,
    /// What the newest run has produced so far, and patches of it.
    Snapshot,
}

impl View {
    /// Reads the word of a `view=` parameter or of the configuration.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "delta" => Some(Self::Delta),
            "full" => Some(Self::Full),
            "snapshot" => Some(Self::Snapshot),
            _ => None,
        }
    }
}

/// The extra frames that a reader asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include(u8);

impl Include {
    pub const NONE: Self = Self(0);
    pub const COMPACTION: Self = Self(1);
    pub const RETRY: Self = Self(1 << 1);
    pub const WAITING: Self = Self(1 << 2);
    pub const LOGIN_UI: Self = Self(1 << 3);
    pub const USAGE: Self = Self(1 << 4);
    pub const LIFECYCLE: Self = Self(1 << 5);
    pub const ALL: Self = Self(0b11_1111);

    /// Reads a comma list; `Err` holds the first word that is none of them.
    ///
    /// # Errors
    /// Returns the unknown word.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut include = Self::NONE;
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let one = match word {
                "compaction" => Self::COMPACTION,
                "retry" => Self::RETRY,
                "waiting" => Self::WAITING,
                "login_ui" => Self::LOGIN_UI,
                "usage" => Self::USAGE,
                "lifecycle" => Self::LIFECYCLE,
                "all" => Self::ALL,
                unknown => return Err(unknown.to_owned()),
            };
            include = include.with(one);
        }
        Ok(include)
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Who gets a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    /// Numbered, for every reader, replayed.
    Everyone(FrameId),
    /// Without a number, for every reader attached now.
    Attached,
    /// Without a number, for attached readers that included the kind.
    Included(Include),
    /// Without a number, for attached readers that did not include the kind.
    NotIncluded(Include),
}

/// What view `full` needs to know of a frame beyond its bytes.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// The same bytes in both views.
    Plain,
    Update(Arc<Mutex<LiveMessage>>),
    ToolUpdate(Arc<Mutex<LiveTool>>),
    TurnEnd {
        message: EntryId,
        results: Arc<[EntryId]>,
    },
    AgentEnd {
        messages: Arc<[EntryId]>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) audience: Audience,
    pub(super) bytes: Bytes,
    pub(super) body: Body,
    /// The snapshot as of this frame; set when it is put into the log.
    pub(super) mark: Mark,
}

/// The `event` field of every frame in the log.
pub(super) const EVENT: &str = "message";

impl Frame {
    pub(super) fn encode(event: &SessionEvent, audience: Audience, body: Body) -> Self {
        let id = match audience {
            Audience::Everyone(id) => Some(id),
            Audience::Attached | Audience::Included(_) | Audience::NotIncluded(_) => None,
        };
        Self { audience, bytes: encode(event, id), body, mark: Mark::default() }
    }

    /// The JSON text of the event, which is one line.
    pub(super) fn data(&self) -> &[u8] {
        let data = &self.bytes["event: \ndata: ".len() + EVENT.len()..];
        data.split(|byte| *byte == b'\n').next().unwrap_or_default()
    }

    pub(super) fn id(&self) -> Option<FrameId> {
        match self.audience {
            Audience::Everyone(id) => Some(id),
            Audience::Attached | Audience::Included(_) | Audience::NotIncluded(_) => None,
        }
    }

    /// Whether a reader gets it. Replayed frames were recorded before the reader attached; those without a number are not for it.
    pub(super) fn reaches(&self, include: Include, replayed: bool) -> bool {
        match self.audience {
            Audience::Everyone(_) => true,
            Audience::Attached => !replayed,
            Audience::Included(kind) => !replayed && include.contains(kind),
            Audience::NotIncluded(kind) => !replayed && !include.contains(kind),
        }
    }
}

/// One frame. An event that does not serialise (none of ours) is told as an empty object, so that numbers stay whole.
pub(super) fn encode(event: &SessionEvent, id: Option<FrameId>) -> Bytes {
    let mut buffer = BytesMut::with_capacity(192);
    if let Err(error) = sse::encode_json(&mut buffer, EVENT, event, id) {
        tracing::error!(%error, "an event did not serialise");
        sse::encode_frame(&mut buffer, EVENT, b"{}", id);
    }
    buffer.freeze()
}

/// The same, for JSON text that stands already.
pub(super) fn encode_text(json: &str, id: Option<FrameId>, out: &mut BytesMut) {
    sse::encode_frame(out, EVENT, json.as_bytes(), id);
}
