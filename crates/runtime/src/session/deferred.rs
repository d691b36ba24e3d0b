//! Changes of a session that were asked for while a run is active: they become entries when the turn ends.
//!
//! Invariant: a change that was acknowledged is in the session file or here, and what is here is in every sidecar that is made
//! meanwhile, so that a kill does not lose it. Its entry has the id that it got when it was asked for; one whose id is in the file was
//! written before a crash. Not here: writing.

use super::append::NewEntry;
use wolli_protocol::ids::EntryId;

#[derive(Debug, Default)]
pub(super) struct Deferred {
    waiting: Vec<NewEntry>,
    /// Handed to the writer, not known to be in the file.
    in_flight: Vec<NewEntry>,
}

impl Deferred {
    pub(super) fn new(waiting: Vec<NewEntry>) -> Self {
        Self { waiting, in_flight: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    pub(super) fn push(&mut self, entries: Vec<NewEntry>) {
        self.waiting.extend(entries);
    }

    /// Everything that waits, which stays in the sidecar until [`Self::written`]. Empty while an earlier batch is on its way: a failure
    /// of that one must not change the order.
    pub(super) fn take(&mut self) -> Vec<NewEntry> {
        if self.in_flight.is_empty() {
            self.in_flight = std::mem::take(&mut self.waiting);
            return self.in_flight.clone();
        }
        Vec::new()
    }

    /// What was taken last is in the file, or could not be written and waits again, before what came after it.
    pub(super) fn written(&mut self, stored: bool) {
        let batch = std::mem::take(&mut self.in_flight);
        if !stored {
            self.waiting.splice(0..0, batch);
        }
    }

    /// Removes entries that still wait; false if they are on their way or in the file.
    pub(super) fn remove(&mut self, ids: &[EntryId]) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|entry| !ids.contains(&entry.id));
        self.waiting.len() < before
    }

    /// In the order in which they were asked for, as the sidecar keeps them.
    pub(super) fn entries(&self) -> Vec<NewEntry> {
        self.in_flight.iter().chain(&self.waiting).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::entry::EntryBody;

    use super::{Deferred, NewEntry};

    fn entry(id: &str) -> NewEntry {
        NewEntry { id: id.into(), timestamp: "t".into(), body: EntryBody::SessionInfo { name: None } }
    }

    fn ids(entries: &[NewEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    #[test]
    fn what_could_not_be_written_waits_in_its_place() {
        let mut deferred = Deferred::new(vec![entry("a")]);
        deferred.push(vec![entry("b")]);
        assert_eq!(ids(&deferred.take()), ["a", "b"]);
        deferred.push(vec![entry("c")]);
        assert!(deferred.take().is_empty(), "one batch at a time");
        assert_eq!(ids(&deferred.entries()), ["a", "b", "c"]);
        deferred.written(false);
        assert_eq!(ids(&deferred.take()), ["a", "b", "c"]);
        deferred.written(true);
        assert!(deferred.entries().is_empty());
    }

    #[test]
    fn only_what_still_waits_can_be_taken_back() {
        let mut deferred = Deferred::default();
        deferred.push(vec![entry("a")]);
        deferred.take();
        deferred.push(vec![entry("b")]);
        assert!(!deferred.remove(&["a".into()]));
        assert!(deferred.remove(&["b".into()]));
        assert_eq!(ids(&deferred.entries()), ["a"]);
    }
}
