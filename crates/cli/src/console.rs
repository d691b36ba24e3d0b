//! The three streams of the process, and what is known about them.
//!
//! Invariant: a reader of stdout that went away ends the program quietly, never with a panic.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::talk::render::plain;

/// Where a command reads and writes.
#[derive(Debug)]
pub(crate) struct Console {
    /// A person is at both ends of it: questions make sense, and so do colours.
    pub(crate) interactive: bool,
    /// stdout is a terminal, which obeys what it is sent.
    pub(crate) shown: bool,
    /// stdout is a terminal that shows colours.
    pub(crate) styled: bool,
}

impl Console {
    /// The process's own streams. `TERM=dumb` and `NO_COLOR` ask for plain text.
    pub(crate) fn new(term: Option<&str>, no_colour: bool) -> Self {
        let shown = io::stdout().is_terminal();
        Self { interactive: shown && io::stdin().is_terminal(), shown, styled: shown && !no_colour && term != Some("dumb") }
    }

    /// Writes to stdout and sees to it that it arrives.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Writes a line to stdout.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Writes a line to stderr, without what a terminal would obey: providers and files have a say in it. When nobody reads that, nobody can be told.
    pub(crate) fn complain(&self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{}", plain(text)));
    }

    /// Asks on stdout and reads a line from stdin; `None` at its end.
    pub(crate) fn ask(&self, question: &str) -> io::Result<Option<String>> {
        self.print(question)?;
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer)?;
        Ok((read > 0).then(|| answer.trim().to_owned()))
    }
}
