//! The messages that wait in a session's two queues, and the one that is on its way into the session file.
//!
//! Invariant: a message that was accepted is here until it is known to be in the file or was handed back to a
//! client, so that every sidecar that is made meanwhile has it. Not here: writing, and who is told of a change.

use std::collections::VecDeque;

use wolli_protocol::ids::EntryId;
use wolli_protocol::message::UserMessage;

use super::sidecar::{QueuedMessage, Sidecar, messages};

/// Which queue a message waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Steer,
    FollowUp,
}

#[derive(Debug)]
pub(super) struct MessageQueues {
    steer: VecDeque<QueuedMessage>,
    follow_up: VecDeque<QueuedMessage>,
    /// Taken out of its queue; its entry is not known to be in the file yet. A run takes one at a time.
    in_delivery: Option<(Queue, QueuedMessage)>,
}

impl MessageQueues {
    pub(super) fn new(steer: Vec<QueuedMessage>, follow_up: Vec<QueuedMessage>) -> Self {
        Self { steer: steer.into(), follow_up: follow_up.into(), in_delivery: None }
    }

    pub(super) fn length(&self, queue: Queue) -> usize {
        self.waiting(queue).len()
    }

    pub(super) fn push(&mut self, queue: Queue, message: QueuedMessage) {
        self.waiting_mut(queue).push_back(message);
    }

    /// The next message, which stays in the sidecar until [`Self::delivered`].
    pub(super) fn take(&mut self, queue: Queue) -> Option<QueuedMessage> {
        let message = self.waiting_mut(queue).pop_front()?;
        self.in_delivery = Some((queue, message.clone()));
        Some(message)
    }

    /// The message that was taken last has its entry, or could not be written and goes back to its place. True if one
    /// was on its way.
    pub(super) fn delivered(&mut self, stored: bool) -> bool {
        let Some((queue, message)) = self.in_delivery.take() else { return false };
        if !stored {
            self.waiting_mut(queue).push_front(message);
        }
        true
    }

    /// Removes a message that still waits; false if there is none.
    pub(super) fn remove(&mut self, entry_id: &EntryId) -> bool {
        let before = self.steer.len() + self.follow_up.len();
        self.steer.retain(|queued| queued.entry_id != *entry_id);
        self.follow_up.retain(|queued| queued.entry_id != *entry_id);
        self.steer.len() + self.follow_up.len() < before
    }

    /// Empties both queues: steering, then follow-ups.
    pub(super) fn drain(&mut self) -> (Vec<UserMessage>, Vec<UserMessage>) {
        let drained = (self.messages(Queue::Steer), self.messages(Queue::FollowUp));
        self.steer.clear();
        self.follow_up.clear();
        drained
    }

    /// What waits, as clients are told of it.
    pub(super) fn messages(&self, queue: Queue) -> Vec<UserMessage> {
        messages(self.waiting(queue).iter())
    }

    /// The queues as they are to stand on disk. What is being delivered is among them: another message may be queued
    /// after it left and before its entry is written, and a kill at that moment must not lose it. Once the
    /// entry is in the file, its id says that it was delivered.
    pub(super) fn sidecar(&self, epoch: u32) -> Sidecar {
        let stored = |queue| {
            let leaving = self.in_delivery.iter().filter(|(from, _)| *from == queue).map(|(_, message)| message);
            leaving.chain(self.waiting(queue)).cloned().collect()
        };
        Sidecar::new(epoch, stored(Queue::Steer), stored(Queue::FollowUp))
    }

    fn waiting(&self, queue: Queue) -> &VecDeque<QueuedMessage> {
        match queue {
            Queue::Steer => &self.steer,
            Queue::FollowUp => &self.follow_up,
        }
    }

    fn waiting_mut(&mut self, queue: Queue) -> &mut VecDeque<QueuedMessage> {
        match queue {
            Queue::Steer => &mut self.steer,
            Queue::FollowUp => &mut self.follow_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::message::UserMessage;

    use super::{MessageQueues, Queue};
    use crate::session::sidecar::{QueuedMessage, Sidecar};

    fn message(id: &str) -> QueuedMessage {
        QueuedMessage { entry_id: id.into(), message: UserMessage::new(id, Vec::new(), 1), idempotency_key: None }
    }

    fn on_disk(sidecar: &Sidecar) -> (Vec<&str>, Vec<&str>) {
        (
            sidecar.steer.iter().map(|queued| queued.entry_id.as_str()).collect(),
            sidecar.follow_up.iter().map(|queued| queued.entry_id.as_str()).collect(),
        )
    }

    #[test]
    fn a_message_stays_on_disk_until_its_entry_is_there() {
        let mut queues = MessageQueues::new(Vec::new(), Vec::new());
        queues.push(Queue::Steer, message("s1"));
        queues.push(Queue::FollowUp, message("f1"));
        assert_eq!(queues.take(Queue::FollowUp), Some(message("f1")));
        // Another one is accepted before the entry of the first is written: its sidecar has both.
        queues.push(Queue::FollowUp, message("f2"));
        assert_eq!(on_disk(&queues.sidecar(0)), (vec!["s1"], vec!["f1", "f2"]));
        // Clients see only what still waits.
        assert_eq!(queues.messages(Queue::FollowUp), [message("f2").message]);
        assert!(queues.delivered(true));
        assert_eq!(on_disk(&queues.sidecar(0)), (vec!["s1"], vec!["f2"]));
        assert!(!queues.delivered(true), "nothing is on its way any more");
    }

    #[test]
    fn a_message_that_could_not_be_written_goes_back_to_its_place() {
        let mut queues = MessageQueues::new(vec![message("s1"), message("s2")], Vec::new());
        assert_eq!(queues.take(Queue::Steer), Some(message("s1")));
        assert!(queues.delivered(false));
        assert_eq!(on_disk(&queues.sidecar(0)), (vec!["s1", "s2"], Vec::new()));
        assert_eq!(queues.take(Queue::Steer), Some(message("s1")));
    }

    #[test]
    fn what_is_on_its_way_is_not_cleared() {
        let mut queues = MessageQueues::new(vec![message("s1"), message("s2")], vec![message("f1")]);
        queues.take(Queue::Steer);
        assert!(!queues.remove(&"s1".into()));
        assert_eq!(queues.drain(), (vec![message("s2").message], vec![message("f1").message]));
        assert_eq!(on_disk(&queues.sidecar(0)), (vec!["s1"], Vec::new()));
    }
}
