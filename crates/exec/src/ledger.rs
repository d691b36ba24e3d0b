//! What was started, on disk: one small file for each running program, so that a successor can end what a killed daemon left behind.
//!
//! A record holds the leader's number, its start time, the boot it belongs to and the pipes it writes to. It is never trusted alone: a
//! process is ended only if the table shows it in the session, the group or the descent of exactly that leader, or at one of its pipes.
//! Whoever sweeps has to hold the lock of the owner, so that no living owner's programs are ended.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process_table::{ProcessIdentity, family, holders_of_pipe, snapshot};
use crate::record::Record;

/// How long one leftover family may take to die of SIGKILL.
const SWEEP_LIMIT: Duration = Duration::from_secs(2);

/// Between two looks at the table while sweeping.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// File names are `<number of this process>-<count>.process`.
const EXTENSION: &str = "process";

/// Records that this process has made.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// A folder of records.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: Arc<Path>,
    boot: Arc<str>,
}

impl Ledger {
    /// Opens the folder, making it (0700) if needed. Blocking.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Ok(Self { folder: folder.into(), boot: boot.trim().into() })
    }

    /// A record for a program that is about to start, and that will write to these pipes. Blocking.
    pub(crate) fn prepare(&self, pipes: &[u64]) -> io::Result<Record> {
        // Of all processes that live now only this one has this number.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        Record::create(self.folder.join(format!("{}-{number}.{EXTENSION}", std::process::id())), &self.boot, pipes)
    }

    /// Ends what the records name and removes them; gives the processes it ended. Blocking, for two seconds each at worst.
    ///
    /// # Errors
    /// If the folder cannot be read. Files that are no records are removed.
    pub fn sweep(&self) -> io::Result<Vec<ProcessIdentity>> {
        let mut ended = Vec::new();
        for file in std::fs::read_dir(&self.folder)? {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != EXTENSION) {
                continue;
            }
            let record = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some((leader, pipes)) = self.parse(&record) {
                ended.extend(end(leader, &pipes));
            }
            let _gone = std::fs::remove_file(&path);
        }
        Ok(ended)
    }

    /// `None` for torn records, and for those of another boot: their numbers mean nothing now.
    fn parse(&self, record: &str) -> Option<(ProcessIdentity, Vec<u64>)> {
        let mut words = record.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        let start: u64 = words.next()?.parse().ok()?;
        let boot = words.next()?;
        let pipes = words.map_while(|word| word.parse().ok()).collect();
        (boot == &*self.boot).then_some((ProcessIdentity { pid, start_time: (start > 0).then_some(start) }, pipes))
    }
}

/// Ends the leader's family, and whoever still holds one of its pipes: nobody but they ever had it.
fn end(leader: ProcessIdentity, pipes: &[u64]) -> Vec<ProcessIdentity> {
    let deadline = Instant::now() + SWEEP_LIMIT;
    let mut ended = Vec::new();
    loop {
        let mut members = family(&snapshot(), leader);
        members.extend(pipes.iter().flat_map(|pipe| holders_of_pipe(*pipe)));
        if members.is_empty() || Instant::now() >= deadline {
            return ended;
        }
        for member in members {
            member.signal(Signal::KILL);
            if !ended.contains(&member) {
                ended.push(member);
            }
        }
        // A blocking function at start-up; there is nothing to be woken by.
        std::thread::park_timeout(LOOK_EVERY);
    }
}
