//! Lines of a log file that is rotated: the oldest kept one first, and then what comes.
//!
//! Invariant: a file is known by what the system calls it and not by its name, so that a rotation at any moment neither loses lines
//! that are still there nor gives any twice.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use wolli_home::reading;

/// Longest line; a longer one comes in pieces.
const LINE_BYTES: usize = 1 << 20;
/// More files than anybody keeps.
const FILES: u32 = 1_000;

/// Reads one set of files.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    /// The one that is read, then those after it, oldest first.
    files: VecDeque<BufReader<File>>,
    /// A line whose end was not there yet.
    line: Vec<u8>,
}

impl Reader {
    /// The files that there are. Those that were last written before `since` (milliseconds since 1970) are left out.
    pub(super) fn open(path: &Path, since: Option<i64>) -> io::Result<Self> {
        let mut files = newer_than(path, None)?;
        if let Some(since) = since.and_then(|since| u64::try_from(since).ok()) {
            let since = SystemTime::UNIX_EPOCH + Duration::from_millis(since);
            // The newest stays: following goes on from it.
            while files.len() > 1 && files.front().is_some_and(|file| is_older(file.get_ref(), since)) {
                files.pop_front();
            }
        }
        Ok(Self { path: path.to_owned(), files, line: Vec::new() })
    }

    /// There is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The next whole line; none at the end of what is there now.
    pub(super) fn next_line(&mut self) -> io::Result<Option<String>> {
        while let Some(file) = self.files.front_mut() {
            if let Some(line) = read_line(file, &mut self.line)? {
                return Ok(Some(line));
            }
            if self.files.len() == 1 {
                break;
            }
            self.files.pop_front();
            // A file that was left in the middle of a line gets no end of it.
            if let Some(line) = self.rest() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// A line that has no end.
    pub(super) fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// Looks for files that took the place of the one that was read to its end. True if there is more to read.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        let Some(current) = self.files.back_mut() else {
            self.files = newer_than(&self.path, None)?;
            return Ok(!self.files.is_empty());
        };
        let known = current.get_ref().metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(found) if id(&found) == id(&known) => {
                let emptied = found.len() < current.stream_position()?;
                if emptied {
                    // Where one file alone is kept, it is emptied in place of a rotation.
                    current.seek(SeekFrom::Start(0))?;
                    self.line.clear();
                }
                Ok(emptied)
            }
            Ok(_) => {
                // What was written before it was moved is read first, for it stays at the front.
                self.files.append(&mut newer_than(&self.path, Some(id(&known)))?);
                Ok(self.files.len() > 1)
            }
            // It was moved a moment ago, and the next one is not there yet.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The files after the known one, or all. They are opened newest first: one that is moved meanwhile is met again under its next name
/// and known by then; none is passed over.
fn newer_than(path: &Path, known: Option<(u64, u64)>) -> io::Result<VecDeque<BufReader<File>>> {
    let mut files = VecDeque::new();
    let mut ids = Vec::new();
    for number in 0..FILES {
        let mut name = path.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let file = match reading::open(Path::new(&name)) {
            Ok(file) => file,
            // The newest may be missing for a moment.
            Err(e) if e.kind() == io::ErrorKind::NotFound && number == 0 => continue,
            Err(e) if e.kind() == io::ErrorKind::NotFound => break,
            Err(e) => return Err(e),
        };
        let id = id(&file.metadata()?);
        if known == Some(id) {
            break;
        }
        if !ids.contains(&id) {
            ids.push(id);
            files.push_front(BufReader::new(file));
        }
    }
    Ok(files)
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_older(file: &File, since: SystemTime) -> bool {
    file.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|modified| modified < since)
}

/// The next line of one file; what has no end yet stays in `line`.
fn read_line(file: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        let available = file.fill_buf()?;
        if available.is_empty() {
            return Ok(None);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(available.len());
        line.extend_from_slice(&available[..taken]);
        file.consume(taken + usize::from(end.is_some()));
        if end.is_some() || line.len() >= LINE_BYTES {
            let whole = std::mem::take(line);
            return Ok(Some(String::from_utf8_lossy(&whole).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn lines(reader: &mut Reader) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            while let Some(line) = reader.next_line().unwrap() {
                lines.push(line);
            }
            if !reader.advance().unwrap() {
                return lines;
            }
        }
    }

    fn append(path: &Path, text: &str) {
        fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn numbered(path: &Path, number: u32) -> PathBuf {
        PathBuf::from(format!("{}.{number}", path.display()))
    }

    fn rotate(path: &Path, files: u32) {
        for number in (1..files - 1).rev() {
            drop(fs::rename(numbered(path, number), numbered(path, number + 1)));
        }
        fs::rename(path, numbered(path, 1)).unwrap();
    }

    #[test]
    fn files_are_read_in_the_order_in_which_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut reader = Reader::open(&path, None).unwrap();
        assert!(reader.is_empty() && lines(&mut reader).is_empty());
        append(&path, "1\n2\n");
        rotate(&path, 3);
        append(&path, "3\ntorn");
        rotate(&path, 3);
        append(&path, "4\n5");
        let mut reader = Reader::open(&path, None).unwrap();
        assert_eq!(lines(&mut reader), ["1", "2", "3", "torn", "4"]);
        assert_eq!((reader.rest().as_deref(), reader.rest()), (Some("5"), None));
    }

    #[test]
    fn following_outlives_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut reader = Reader::open(&path, None).unwrap();
        let mut seen = lines(&mut reader);
        let mut number = 0;
        // Up to as many rotations as files are kept between two looks.
        for rotations in [0, 1, 2, 3, 0, 2, 1, 1] {
            for rotation in 0..=rotations {
                for _ in 0..3 {
                    append(&path, &format!("{number}\n"));
                    number += 1;
                }
                if rotation < rotations {
                    rotate(&path, 5);
                }
            }
            // Half a line waits for its end.
            append(&path, "half ");
            seen.extend(lines(&mut reader));
            append(&path, "of a line\n");
        }
        seen.extend(lines(&mut reader));
        let numbers: Vec<i32> = seen.iter().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(numbers, (0..number).collect::<Vec<_>>());
        assert_eq!(seen.iter().filter(|line| *line == "half of a line").count(), 8, "{seen:?}");
        // Moved, and the next one is not there yet.
        append(&path, "before\n");
        rotate(&path, 5);
        assert_eq!(lines(&mut reader), ["before"]);
        append(&path, "after\n");
        assert_eq!(lines(&mut reader), ["after"]);
        // Emptied in place.
        fs::write(&path, "new\n").unwrap();
        assert_eq!(lines(&mut reader), ["new"]);
    }

    #[test]
    fn what_is_no_file_is_an_error_and_long_lines_come_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        fs::create_dir(&path).unwrap();
        assert!(Reader::open(&path, None).is_err());
        fs::remove_dir(&path).unwrap();
        append(&path, &"x".repeat(3 * LINE_BYTES));
        append(&path, "\nend\n\u{fffd}\n");
        let mut reader = Reader::open(&path, None).unwrap();
        let lines = lines(&mut reader);
        assert!(lines.iter().all(|line| line.len() < 2 * LINE_BYTES));
        assert_eq!(lines.concat().len(), 3 * LINE_BYTES + 3 + 3);
        // Files that ended before the time that is asked for are not read.
        rotate(&path, 3);
        append(&path, "now\n");
        let later = SystemTime::now() + Duration::from_secs(5);
        let millis = i64::try_from(later.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()).unwrap();
        assert_eq!(Reader::open(&path, Some(millis)).unwrap().files.len(), 1);
        assert_eq!(Reader::open(&path, Some(0)).unwrap().files.len(), 2);
    }
}
