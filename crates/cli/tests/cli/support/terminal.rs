//! The binary at a terminal: what a person types, and what the screen shows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::daemon::signal;

/// Longer than anything that a test waits for takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A program whose three streams are a terminal. Killed when dropped.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// All that was shown, without carriage returns.
    shown: String,
    /// What has been waited for already ends here.
    seen: usize,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = || OpenOptions::new().read(true).write(true).open(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))).unwrap();
        command.stdin(theirs()).stdout(theirs()).stderr(theirs()).env("TERM", "dumb");
        let child = command.spawn().unwrap();
        // Its ends of the terminal must be closed here, so that ours ends with it.
        drop(command);
        let keyboard = File::from(ours);
        let mut screen_end = keyboard.try_clone().unwrap();
        let (sender, screen) = sync_channel(64);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of a terminal is an error on Linux.
            while let Ok(count @ 1..) = screen_end.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new(), seen: 0 }
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        self.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// What Ctrl+C does in a terminal of one's own.
    pub(crate) fn interrupt(&self) {
        signal(&self.child, Signal::INT);
    }

    /// Whether what is typed is shown.
    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.keyboard).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// Asks the program to end.
    pub(crate) fn terminate(&self) {
        signal(&self.child, Signal::TERM);
    }

    /// Waits for the end of the program alone.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until the text is on the screen, after what was waited for before.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            if let Some(place) = self.shown[self.seen..].find(text) {
                self.seen += place + text.len();
                return;
            }
            match self.screen.recv_timeout(LIMIT.saturating_sub(started.elapsed())) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8(bytes).unwrap().replace('\r', "")),
                Err(e) => panic!("{e:?}: no {text:?} after {:?} in:\n{}", &self.shown[..self.seen], self.shown),
            }
        }
    }

    /// Waits until the program ends; gives its status and all that was shown.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        loop {
            match self.screen.recv_timeout(LIMIT) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8(bytes).unwrap().replace('\r', "")),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.shown),
            }
        }
        let status = self.child.wait().unwrap().code();
        (status, std::mem::take(&mut self.shown))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
