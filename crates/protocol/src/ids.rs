//! Names of things, each its own type so that they cannot be mixed up.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! text_id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// One conversation. New ones are lower-case UUIDs of version 7; treat any as opaque.
    SessionId
);
text_id!(
    /// One line of a session file. New ones are UUIDs of version 7; wolli 0.0.2 also writes 8 digits.
    EntryId
);
text_id!(
    /// One question to a person. UUIDs of version 4.
    DialogId
);

impl SessionId {
    /// A fresh id; ids of one process rise strictly.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }
}

impl EntryId {
    /// A fresh id; ids of one process rise strictly.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }
}

impl DialogId {
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::new_v4().to_string())
    }
}

/// The `id` of a numbered frame: `epoch * 2^32 + n`, rising for the life of the session on disk.
///
/// The epoch grows with each process that opens the session, so that a number is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FrameId(pub u64);

impl FrameId {
    /// The number before the first frame of `epoch`.
    #[must_use]
    pub const fn before_epoch(epoch: u32) -> Self {
        Self((epoch as u64) << 32)
    }

    /// The epoch that it belongs to.
    #[must_use]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Reads a `Last-Event-ID` value. Only `^[0-9]+$` counts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Self)
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryId, FrameId};

    #[test]
    fn last_event_id_is_digits_only() {
        assert_eq!(FrameId::parse("41"), Some(FrameId(41)));
        assert_eq!(FrameId::parse("007"), Some(FrameId(7)));
        for bad in ["", " 4", "4 ", "-1", "+1", "1e1", "0x9", "3.5", "NaN", "99999999999999999999999"] {
            assert_eq!(FrameId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn epochs_follow_each_other() {
        assert_eq!(FrameId::before_epoch(0).next(), FrameId(1));
        assert_eq!(FrameId::before_epoch(1).next(), FrameId(4_294_967_297));
        for epoch in [0, 1, u32::MAX] {
            assert_eq!(FrameId::before_epoch(epoch).next().epoch(), epoch);
        }
    }

    #[test]
    fn entry_ids_rise() {
        let ids: Vec<_> = (0..1000).map(|_| EntryId::generate()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
