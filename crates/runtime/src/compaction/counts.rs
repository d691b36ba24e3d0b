//! How often a history was compacted by itself without success. Kept beside the session file, so that a restart does not begin anew.

use serde::{Deserialize, Serialize};

use crate::limits::AUTOMATIC_COMPACTIONS;

/// What was tried since it last helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Counts {
    /// Rounds of summaries since the last good answer of the model.
    pub(crate) rounds: u32,
    /// Compactions since an answer was last below the threshold. One more than the limit means that a person was told.
    pub(crate) fruitless: u32,
}

impl Counts {
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// No further round is made before there is a good answer.
    pub(crate) const fn is_exhausted(self) -> bool {
        self.rounds >= AUTOMATIC_COMPACTIONS
    }

    /// Compactions do not get the context below the threshold.
    pub(crate) const fn is_fruitless(self) -> bool {
        self.fruitless >= AUTOMATIC_COMPACTIONS
    }

    /// Somebody was told so.
    pub(crate) const fn is_told(self) -> bool {
        self.fruitless > AUTOMATIC_COMPACTIONS
    }
}
