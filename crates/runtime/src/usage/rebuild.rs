//! Counts what the answers in the session files used. Blocking, and reads every file: for a home without a record of usage.
//!
//! Answers of all branches count, for they were all paid for. What left no answer (the summary of a compaction) cannot be found again.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Usage;
use wolli_protocol::time::millis_from_iso;

use super::book::Sums;
use super::day::LocalDays;
use crate::session::Listing;

/// What a line has to have to be of interest; most have not, and are not parsed.
const MARK: &[u8] = b"\"usage\"";

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    usage: Usage,
}

pub(super) fn count(sessions: PathBuf, days: &LocalDays, sums: &mut Sums) {
    match Listing::for_a_look(sessions).refresh() {
        Ok(stored) => stored.iter().for_each(|session| count_session(&session.path, &session.id, days, sums)),
        Err(error) => tracing::warn!(%error, "usage of earlier sessions cannot be counted"),
    }
}

fn count_session(path: &Path, id: &SessionId, days: &LocalDays, sums: &mut Sums) {
    let Ok(file) = wolli_home::reading::open(path) else { return };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(read) if read > 0 => {}
            _ => return,
        }
        if memchr::memmem::find(&line, MARK).is_none() {
            continue;
        }
        let Ok(Line { timestamp, message }) = serde_json::from_slice::<Line<'_>>(&line) else { continue };
        if message.role == "assistant" && message.usage != Usage::default() {
            let day = days.day(millis_from_iso(&timestamp).unwrap_or_default());
            sums.add(Some(&day), Some(id.as_str()), &message.usage);
        }
    }
}
