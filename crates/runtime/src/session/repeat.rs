//! Whether a prompt was given before, for those who have work to do before they give it.

use tokio::sync::oneshot;

use super::actor::{Actor, Key};
use super::handle::{CommandError, Reply};

impl Actor {
    pub(super) fn repeat(&mut self, key: &str, reply: Reply<bool>) {
        match self.keys.get_mut(key) {
            None => drop(reply.send(Ok(false))),
            Some(Key::Stored) => drop(reply.send(Ok(true))),
            Some(Key::Pending(waiting)) => {
                let (stored, answer) = oneshot::channel();
                waiting.push(stored);
                self.services.tasks.spawn("repeat", async move {
                    let answer = answer.await.unwrap_or(Err(CommandError::Closed));
                    let _ = reply.send(answer.map(|()| true));
                });
            }
        }
    }
}
