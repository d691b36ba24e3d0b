//! `wolli logs`: the daemon's log files, with or without a daemon.
//!
//! Invariant: lines come in the order in which they were written, once each, however often the files are rotated meanwhile.

mod files;
mod line;

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime};

use wolli_home::environment::Environment;
use wolli_home::paths::AgentHome;

use crate::agents;
use crate::arguments::logs::Logs;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::render::plain;
use files::Reader;
use line::{Filter, Line};

/// The newest file; older ones end in `.1`, `.2` and so on.
const FILE: &str = "daemon.log";
/// Lines before those that are followed, unless it is said how many.
const BEFORE_FOLLOWING: usize = 10;
/// How often the files are looked at. A person reads along; nothing else waits for it.
const POLL: Duration = Duration::from_millis(200);
/// Text that is gathered before it is written.
const CHUNK: usize = 64 * 1024;

pub(crate) fn run(logs: Logs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    // A damaged agent.json is a reason to read its log.
    let home = agents::home(environment, &logs.agent, Failure::UnknownAgent)?;
    if !home.path().is_dir() {
        return Err(Failure::UnknownAgent(logs.agent));
    }
    let since = logs.since.map(|since| since.millis(SystemTime::now()));
    let mut output = Output { filter: Filter::new(since, logs.session), json: logs.json, text: String::new(), console };
    let path = home.logs().join(FILE);
    let failed = |e: io::Error| Failure::File(format!("cannot read {}: {e}", path.display()));
    let mut reader = Reader::open(&path, since).map_err(failed)?;
    if reader.is_empty() && !logs.follow {
        console.complain(&format!("There is no log yet: {}", path.display()));
    }
    let whole = since.is_some() || !logs.follow;
    match logs.lines.or((!whole).then_some(BEFORE_FOLLOWING)) {
        Some(most) => {
            for line in output.last(most, &mut reader).map_err(failed)? {
                output.add(&Line::read(&line))?;
            }
        }
        None => {
            while let Some(line) = reader.next_line().map_err(failed)? {
                output.take(&line)?;
            }
        }
    }
    output.flush()?;
    if logs.follow {
        return crate::talk::runtime()?.block_on(follow(&home, reader, output));
    }
    if let Some(line) = reader.rest() {
        output.take(&line)?;
    }
    output.flush()
}

/// Goes on until the home is gone.
async fn follow(home: &AgentHome, mut reader: Reader, mut output: Output<'_>) -> Result<(), Failure> {
    loop {
        let failed = |e: io::Error| Failure::File(format!("cannot read the log: {e}"));
        while let Some(line) = reader.next_line().map_err(failed)? {
            output.take(&line)?;
        }
        output.flush()?;
        if reader.advance().map_err(failed)? {
            continue;
        }
        if !home.path().exists() {
            return Err(Failure::NoSuchAgent(home.name().to_string()));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What is shown of the lines.
struct Output<'a> {
    filter: Filter,
    json: bool,
    text: String,
    console: &'a Console,
}

impl Output<'_> {
    fn take(&mut self, line: &str) -> Result<(), Failure> {
        let line = Line::read(line);
        if self.filter.admits(&line) {
            self.add(&line)?;
        }
        Ok(())
    }

    /// The last lines of those that are wanted.
    fn last(&mut self, most: usize, reader: &mut Reader) -> io::Result<VecDeque<String>> {
        let mut kept = VecDeque::new();
        while let Some(line) = reader.next_line()? {
            if most > 0 && self.filter.admits(&Line::read(&line)) {
                if kept.len() == most {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        }
        Ok(kept)
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        self.text.push_str(&if self.json { line.to_json().to_string() } else { plain(line.whole) });
        self.text.push('\n');
        if self.text.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if !self.text.is_empty() {
            self.console.print(&std::mem::take(&mut self.text))?;
        }
        Ok(())
    }
}
