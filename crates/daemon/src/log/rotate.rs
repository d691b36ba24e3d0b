//! A log file that is replaced by a new one when it is full; the last few are kept.
//!
//! Invariants: mode 0600 from the first byte; never more than the given number of files, and none longer than the given size but for
//! the one line that filled it. A failure is an error of that one line and is tried again later. Not here: what the lines are.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wolli_home::atomic::{FILE_MODE, FOLDER_MODE};

/// After a failure, such as a full disk, the file is left alone for so long.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    size_limit: u64,
    files: u32,
    open: Option<Open>,
    /// The last write may have ended in the middle of a line.
    torn: bool,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    file: File,
    size: u64,
}

impl RotatingFile {
    /// Touches nothing yet. `files` counts the one that is written.
    pub(super) fn new(path: PathBuf, size_limit: u64, files: u32) -> Self {
        Self { path, size_limit, files: files.max(1), open: None, torn: false, retry_at: None }
    }

    /// Writes one line, which brings its line break.
    pub(super) fn write_line(&mut self, line: &[u8], now: Instant) -> io::Result<()> {
        if self.retry_at.is_some_and(|at| now < at) {
            return Err(io::Error::other("the log file failed a moment ago"));
        }
        let written = self.try_write(line);
        if written.is_err() {
            self.open = None;
            self.torn = true;
            self.retry_at = Some(now + RETRY);
        } else {
            self.retry_at = None;
        }
        written
    }

    fn try_write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => open_file(&self.path)?,
        };
        if open.size > 0 && open.size + line.len() as u64 > self.size_limit {
            drop(open);
            open = self.rotate()?;
        }
        if std::mem::take(&mut self.torn) && open.size > 0 {
            open.file.write_all(b"\n")?;
            open.size += 1;
        }
        open.file.write_all(line)?;
        open.size += line.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    /// Moves every file to the next number; the oldest goes. If that is refused, the file is emptied rather than let grow.
    fn rotate(&self) -> io::Result<Open> {
        let mut moved = true;
        if self.files > 1 {
            for number in (1..self.files - 1).rev() {
                let _ = std::fs::rename(self.numbered(number), self.numbered(number + 1));
            }
            moved = std::fs::rename(&self.path, self.numbered(1)).is_ok();
        }
        let open = open_file(&self.path)?;
        if self.files == 1 || !moved {
            open.file.set_len(0)?;
            return Ok(Open { size: 0, ..open });
        }
        Ok(open)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open_file(path: &Path) -> io::Result<Open> {
    if let Some(folder) = path.parent() {
        // Not its parents: a home that was deleted meanwhile is not made again for the sake of a line.
        match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let file = OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o777 != FILE_MODE {
        file.set_permissions(std::fs::Permissions::from_mode(FILE_MODE))?;
    }
    Ok(Open { size: metadata.len(), file })
}
