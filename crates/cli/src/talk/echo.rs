//! Whether the terminal shows what is typed: not while a key or a password is asked for.
//!
//! Invariant: the terminal is left as it was found, also when the chat ends in the middle of a question.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Shows what is typed, as the terminal does by itself.
#[derive(Debug, Default)]
pub(super) struct Echo {
    /// How the terminal was, while it is changed.
    before: Option<Termios>,
}

impl Echo {
    /// Hides what is typed, or shows it again. Line ends are shown all the same. Where stdin is no terminal, nothing happens.
    pub(super) fn hide(&mut self, hide: bool) {
        let stdin = std::io::stdin();
        if hide && self.before.is_none() {
            let Ok(before) = tcgetattr(&stdin) else { return };
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            hidden.local_modes.insert(LocalModes::ECHONL);
            if tcsetattr(&stdin, OptionalActions::Now, &hidden).is_ok() {
                self.before = Some(before);
            }
        } else if !hide && let Some(before) = self.before.take() {
            // A terminal that is gone shows nothing anyway.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &before);
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.hide(false);
    }
}
