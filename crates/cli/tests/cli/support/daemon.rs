//! A daemon in the foreground of a test, which ends with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};

use super::Home;

/// Killed when dropped.
pub(crate) struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts it and waits until it listens.
    pub(crate) fn start(home: &Home, name: &str) -> Self {
        let mut child = home.command(&["daemon", name]).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        // Read on and on, for a full pipe would stop the daemon's log.
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            drop(stderr.read_to_string(&mut text));
            text
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if !line.contains(" listening on http://") {
            drop(child.kill());
            drop(child.wait());
            panic!("the daemon did not start: {line}{}", errors.join().unwrap());
        }
        Self { child }
    }

    /// Gone at once, as after `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asked to end; gives its status.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        signal(&self.child, Signal::TERM);
        self.child.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a signal to a program that was started here.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A home with one agent that echoes, and its daemon.
pub(crate) fn serve(name: &str) -> (Home, Daemon) {
    let home = Home::new();
    home.succeed(&["new", name, "--model", "echo/demo"]);
    let daemon = Daemon::start(&home, name);
    (home, daemon)
}
