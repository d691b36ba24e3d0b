//! Parts of histories that a provider refused, remembered as long as the process lives.
//!
//! A part that was left out once, with success, is left out of every later request at once: else each prompt of that session would be
//! refused first. Only fingerprints are kept. What a provider refuses depends on the provider, so they are kept apart.
//!
//! Not here: what to leave out after a refusal, and how.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// More than anybody meets in months; 64 KiB. Beyond it the memory begins anew, which costs one refusal each.
const MOST: usize = 4096;

/// How much of the beginning, the middle and the end of an image tells it from others.
const SAMPLE: usize = 1024;

/// Stands for one part of a history at one provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    fn new(sort: &str, provider: &str, part: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (sort, provider, part).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Of the base64 of an image. Large ones are not read to the end for it.
    pub(crate) fn image(provider: &str, data: &str) -> Self {
        let bytes = data.as_bytes();
        let sample = |from: usize| &bytes[from.min(bytes.len())..(from + SAMPLE).min(bytes.len())];
        let middle = bytes.len() / 2;
        Self::new("image", provider, (bytes.len(), sample(0), sample(middle), sample(bytes.len().saturating_sub(SAMPLE))))
    }

    /// Of thinking, by its signature.
    pub(crate) fn thinking(provider: &str, signature: &str) -> Self {
        Self::new("thinking", provider, signature)
    }

    /// Of the schema of a tool.
    pub(crate) fn schema(provider: &str, tool: &str, schema: &Value) -> Self {
        Self::new("schema", provider, (tool, schema.to_string()))
    }
}

/// What is known when a request is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(Arc<HashSet<Fingerprint>>);

impl Known {
    /// Whether the part was refused. The fingerprint is made only if anything was ever refused.
    pub(crate) fn has(&self, part: impl FnOnce() -> Fingerprint) -> bool {
        !self.0.is_empty() && self.0.contains(&part())
    }
}

/// The memory of a process.
#[derive(Debug, Default)]
pub(crate) struct RefusedParts(Mutex<Known>);

impl RefusedParts {
    pub(crate) fn known(&self) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn remember(&self, parts: impl IntoIterator<Item = Fingerprint>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads it at this moment keeps what was known before.
        let set = Arc::make_mut(&mut known.0);
        for part in parts {
            if set.len() >= MOST {
                set.clear();
            }
            set.insert(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Fingerprint, MOST, RefusedParts};

    #[test]
    fn what_is_remembered_is_known_at_that_provider() {
        let refused = RefusedParts::default();
        let before = refused.known();
        let parts = |provider: &str| {
            let schema = json!({"type": "object"});
            let long = "x".repeat(10_000);
            [
                Fingerprint::thinking(provider, "sig"),
                Fingerprint::image(provider, "sig"),
                Fingerprint::image(provider, &long),
                Fingerprint::image(provider, &long[1..]),
                Fingerprint::schema(provider, "read", &schema),
                Fingerprint::schema(provider, "write", &schema),
            ]
        };
        for (number, part) in parts("p").into_iter().enumerate() {
            assert!(!refused.known().has(|| part), "{number}");
            refused.remember([part]);
            assert!(refused.known().has(|| part), "{number}");
        }
        assert!(parts("q").into_iter().all(|part| !refused.known().has(|| part)));
        assert!(!before.has(|| unreachable!("nothing was known")));
    }

    #[test]
    fn the_memory_is_bounded() {
        let refused = RefusedParts::default();
        let part = |number: usize| Fingerprint::thinking("p", &number.to_string());
        refused.remember((0..=MOST).map(part));
        assert!(refused.known().has(|| part(MOST)) && !refused.known().has(|| part(0)));
    }
}
