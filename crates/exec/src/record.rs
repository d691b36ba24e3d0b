//! The record of one program, written by the program's own process before it runs.
//!
//! A record that the parent writes after the start comes too late for a parent that is killed in between: by then the program may
//! have started others. So the parent only makes the file, and the forked child writes who it is before it becomes the program.
//! Invariant: once a program runs, its record names it, unless the disk refused. Not here: what a successor does with records.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::process_table::ProcessIdentity;

/// The longest record: two numbers, a boot id of 36 characters, two inodes, and what stands between.
const RECORD_BYTES: usize = 160;

/// More than `/proc/self/stat` ever holds.
const STAT_BYTES: usize = 1024;

/// One record on disk; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    file: File,
    /// What stands behind the process: the boot, and the inodes of the pipes that the program writes to.
    rest: Arc<str>,
}

impl Drop for Record {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

impl Record {
    /// Makes the file, without a word in it yet.
    pub(crate) fn create(path: PathBuf, boot: &str, pipes: &[u64]) -> io::Result<Self> {
        // A file of that name is of an earlier process of our number.
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        let words = std::iter::once(boot.to_owned()).chain(pipes.iter().map(u64::to_string));
        Ok(Self { path, file, rest: words.collect::<Vec<_>>().join(" ").into() })
    }

    /// What the child needs to fill it in.
    pub(crate) fn for_child(&self) -> io::Result<ForChild> {
        Ok(ForChild { file: self.file.try_clone()?, rest: Arc::clone(&self.rest) })
    }

    /// Fills it in for a child that could not, as where there is no `/proc`.
    pub(crate) fn complete(&self, process: ProcessIdentity) -> io::Result<()> {
        if self.file.metadata()?.len() > 0 {
            return Ok(());
        }
        let start = process.start_time.unwrap_or_default();
        writeln!(&self.file, "{} {start} {}", process.pid, self.rest)
    }
}

/// The child's side of a record.
#[derive(Debug)]
pub(crate) struct ForChild {
    file: File,
    rest: Arc<str>,
}

impl ForChild {
    /// Writes the calling process into the record, with one write. Makes system calls and touches its own stack, nothing else: it is
    /// called between fork and exec. What fails is left to [`Record::complete`].
    pub(crate) fn write_own(&self) {
        let mut stat = [0; STAT_BYTES];
        let read = rustix::fs::open(c"/proc/self/stat", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .and_then(|file| rustix::io::read(&file, &mut stat));
        let Some(stat) = read.ok().and_then(|length| stat.get(..length)) else { return };
        let Some((pid, start)) = identity(stat) else { return };
        let mut record = [0; RECORD_BYTES];
        let mut end = 0;
        for part in [pid, b" ", start, b" ", self.rest.as_bytes(), b"\n"] {
            let Some(room) = record.get_mut(end..end + part.len()) else { return };
            room.copy_from_slice(part);
            end += part.len();
        }
        let _completed_later = record.get(..end).map(|record| rustix::io::write(&self.file, record));
    }
}

/// Number and start time in a line of `/proc/<pid>/stat`, as the digits that stand there.
fn identity(stat: &[u8]) -> Option<(&[u8], &[u8])> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = stat.split(|byte| *byte == b' ').next()?;
    // Behind the name come a blank and the fields from the third on; the start time is the twenty-second.
    let start = stat.get(end_of_name + 1..)?.split(|byte| *byte == b' ').nth(20)?;
    let digits = |field: &[u8]| !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    (digits(pid) && digits(start)).then_some((pid, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_writes_the_record_that_its_parent_would_write() {
        let folder = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let process = ProcessIdentity { pid, start_time: crate::process_table::start_time(pid) };
        let written = |fill: fn(&Record, ProcessIdentity)| {
            let path = folder.path().join("x");
            let record = Record::create(path.clone(), "the-boot", &[7, 8]).unwrap();
            fill(&record, process);
            std::fs::read_to_string(&path).unwrap()
        };
        let own = written(|record, _| record.for_child().unwrap().write_own());
        assert_eq!(own, format!("{pid} {} the-boot 7 8\n", process.start_time.unwrap()));
        assert_eq!(written(|record, process| record.complete(process).unwrap()), own);
        let both = written(|record, process| {
            record.for_child().unwrap().write_own();
            record.complete(process).unwrap();
        });
        assert_eq!(both, own);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_of_programs_may_hold_anything() {
        let tail = "S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        for name in ["sh", "a b", ") S 1 2", "((", ""] {
            let stat = format!("77 ({name}) {tail}");
            assert_eq!(identity(stat.as_bytes()), Some((&b"77"[..], &b"4711"[..])), "{name}");
        }
        for torn in ["", "77", "77 (sh", "77 (sh) S 1", "x (sh) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 4711"] {
            assert_eq!(identity(torn.as_bytes()), None, "{torn}");
        }
    }
}
