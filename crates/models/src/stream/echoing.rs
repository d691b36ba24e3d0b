//! The part of a request that `echo` answers.

use super::waiting::{Outcome, first, is_cancelled};
use super::{ABORTED, ModelStream, Phase};
use crate::echo::Advance;
use crate::event::ModelEvent;

impl ModelStream {
    pub(super) async fn echo(&mut self) {
        tokio::task::coop::consume_budget().await;
        let waited = match &mut self.timer {
            None => false,
            Some(_) => {
                let forever = std::future::pending::<std::convert::Infallible>();
                if let Outcome::Cancelled = first(&mut self.cancelled, &mut self.timer, forever).await {
                    return self.abort_echo();
                }
                self.timer = None;
                true
            }
        };
        if is_cancelled(&mut self.cancelled).await {
            return self.abort_echo();
        }
        let Phase::Echoing(echo) = &mut self.phase else { return };
        let advance = echo.advance(waited, &mut self.scratch);
        self.ready.extend(self.scratch.drain(..).map(ModelEvent::Step));
        match advance {
            Advance::Stepped => {}
            Advance::Wait(pause) => self.set_timer(pause),
            Advance::Done => {
                let Phase::Echoing(echo) = self.take_phase() else { return };
                let message = echo.finish(&mut self.scratch);
                self.ready.extend(self.scratch.drain(..).map(ModelEvent::Step));
                self.end(message);
            }
        }
    }

    pub(super) fn abort_echo(&mut self) {
        if let Phase::Echoing(echo) = self.take_phase() {
            self.end(echo.abort(ABORTED.to_owned()));
        }
    }
}
