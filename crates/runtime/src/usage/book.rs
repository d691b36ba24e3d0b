//! The sums, and the file that they are kept in. Blocking; the caller says what time it is.
//!
//! A line counts for its `day` (and so for the total) if it has one, and for its `session` if it has one: an answer has both, a sum
//! has one of them. A line that cannot be read counts nothing. Appends are not synced: they outlive the process, and the power
//! loss of a moment may take the last answers with it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Usage;

use super::day::LocalDays;
use super::rebuild;

/// Growth beyond twice its length at which the file is rewritten as sums: well over a thousand answers.
const SPARE_BYTES: u64 = 256 << 10;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
struct Line<'a> {
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    day: Option<Cow<'a, str>>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    session: Option<Cow<'a, str>>,
    /// `provider/id`, for a person who reads the file.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    usage: Usage,
}

/// What was used.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) total: Usage,
    pub(super) days: BTreeMap<String, Usage>,
    pub(super) sessions: HashMap<SessionId, Usage>,
}

impl Sums {
    pub(super) fn add(&mut self, day: Option<&str>, session: Option<&str>, usage: &Usage) {
        if let Some(day) = day {
            add(&mut self.total, usage);
            match self.days.get_mut(day) {
                Some(sum) => add(sum, usage),
                None => drop(self.days.insert(day.to_owned(), *usage)),
            }
        }
        if let Some(session) = session {
            add(self.sessions.entry(session.into()).or_default(), usage);
        }
    }
}

fn add(sum: &mut Usage, more: &Usage) {
    for (sum, more) in [
        (&mut sum.input, more.input),
        (&mut sum.output, more.output),
        (&mut sum.cache_read, more.cache_read),
        (&mut sum.cache_write, more.cache_write),
        (&mut sum.total_tokens, more.total_tokens),
    ] {
        *sum = sum.saturating_add(more);
    }
    sum.cost.input += more.cost.input;
    sum.cost.output += more.cost.output;
    sum.cost.cache_read += more.cost.cache_read;
    sum.cost.cache_write += more.cost.cache_write;
    sum.cost.total += more.cost.total;
}

/// The sums of one agent with their file.
#[derive(Debug)]
pub(super) struct Book {
    path: PathBuf,
    days: LocalDays,
    sums: Sums,
    /// Length of the file, and the length of the sums when it was read or last written whole.
    length: u64,
    whole: u64,
    /// The file lacks something that the sums have, or is torn: it is written whole the next time.
    stale: bool,
}

impl Book {
    /// Reads the file; if there is none, counts the answers in the session files below `sessions` and makes it.
    pub(super) fn open(path: PathBuf, sessions: PathBuf, days: LocalDays) -> Self {
        let mut book = Self { path, days, sums: Sums::default(), length: 0, whole: 0, stale: false };
        match wolli_home::reading::open(&book.path) {
            Ok(file) => book.read(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                rebuild::count(sessions, &book.days, &mut book.sums);
                book.write_whole();
            }
            Err(error) => {
                tracing::warn!(path = %book.path.display(), %error, "the record of usage cannot be read; it is counted anew from the sessions");
                rebuild::count(sessions, &book.days, &mut book.sums);
                book.stale = true;
            }
        }
        book
    }

    fn read(&mut self, file: &File) {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut bad = 0;
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(read) => self.length += read as u64,
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the record of usage cannot be read to its end");
                    break;
                }
            }
            // What was cut off is no line, however much of it there is.
            self.stale = line.last() != Some(&b'\n');
            match serde_json::from_slice::<Line<'_>>(&line) {
                Ok(line) if !self.stale => self.sums.add(line.day.as_deref(), line.session.as_deref(), &line.usage),
                _ => bad += 1,
            }
        }
        // Not the length that was found: daemons that live short would let it grow for ever.
        self.whole = self.encoded().len() as u64;
        if bad > 0 {
            tracing::warn!(path = %self.path.display(), lines = bad, "lines of the record of usage cannot be read and count nothing");
        }
    }

    /// Counts an answer. The sums have it even if the disk refuses.
    pub(super) fn record(&mut self, session: &SessionId, model: &str, usage: &Usage, now: i64) {
        let day = self.days.day(now);
        self.sums.add(Some(&day), Some(session.as_str()), usage);
        if self.stale || self.length > self.whole * 2 + SPARE_BYTES {
            self.write_whole();
            return;
        }
        let line = Line { day: Some(day.into()), session: Some(session.as_str().into()), model: Some(model.into()), usage: *usage };
        match self.append(&line) {
            Ok(()) => {}
            // Somebody removed it; what is known is written again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_whole(),
            Err(error) => self.failed(&error),
        }
    }

    fn append(&mut self, line: &Line<'_>) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let mut file = wolli_home::reading::open_with(OpenOptions::new().append(true), &self.path)?;
        if let Err(error) = file.write_all(&bytes) {
            // Part of a line may be there.
            self.stale = true;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// The file as sums alone.
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let days = self.sums.days.iter().map(|(day, usage)| Line { day: Some(day.into()), session: None, model: None, usage: *usage });
        let sessions = self.sums.sessions.iter();
        let sessions = sessions.map(|(id, usage)| Line { day: None, session: Some(id.as_str().into()), model: None, usage: *usage });
        for line in days.chain(sessions) {
            match serde_json::to_writer(&mut bytes, &line) {
                Ok(()) => bytes.push(b'\n'),
                Err(error) => tracing::error!(%error, "a sum of usage did not serialise"),
            }
        }
        bytes
    }

    fn write_whole(&mut self) {
        let bytes = self.encoded();
        match wolli_home::atomic::write(&self.path, &bytes) {
            Ok(()) => {
                (self.length, self.whole, self.stale) = (bytes.len() as u64, bytes.len() as u64, false);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &dyn std::error::Error) {
        // Once, until it works again.
        if !self.stale {
            tracing::warn!(path = %self.path.display(), %error, "usage is counted, but not kept over a restart");
        }
        self.stale = true;
    }

    pub(super) fn totals(&self, session: &SessionId, now: i64) -> UsageTotals {
        let sums = &self.sums;
        UsageTotals {
            session: sums.sessions.get(session).copied().unwrap_or_default(),
            today: sums.days.get(&self.days.day(now)).copied().unwrap_or_default(),
            total: sums.total,
        }
    }
}
