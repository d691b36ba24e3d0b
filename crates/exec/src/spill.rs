//! The file with everything a program printed, once that is more than is shown.
//!
//! Invariant: the file, if there is one, begins with the first byte. Trouble with it (disk full, no folder) is noted and never stops the program.
//! Files are removed by [`clean`] only.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

/// The most that is written into one file: a program that never stops must not fill the disk.
pub const MAX_SPILL_BYTES: u64 = 100 * 1024 * 1024;

/// Names that are tried before giving up; a clash of 64 random bits means that something else is wrong.
const NAME_ATTEMPTS: usize = 4;

/// When and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillSettings {
    /// The folder; made (0700) if it is missing.
    pub folder: PathBuf,
    /// Files are `<prefix>-<16 hex digits>.log`, mode 0600.
    pub prefix: String,
    /// A file is made once the text has more lines ...
    pub beyond_lines: u64,
    /// ... or bytes than this.
    pub beyond_bytes: u64,
}

/// What became of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillReport {
    /// `None` if it could not be made.
    pub path: Option<PathBuf>,
    pub written_bytes: u64,
    /// Why it is not complete; `None`: it is.
    pub incomplete: Option<String>,
}

/// Bytes on their way to the file.
#[derive(Debug)]
pub struct Spill {
    settings: SpillSettings,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Below the limits: all bytes so far.
    Waiting(Vec<u8>),
    Writing {
        file: File,
        report: SpillReport,
    },
    Stopped(SpillReport),
}

impl Spill {
    pub fn new(settings: SpillSettings) -> Self {
        Self { settings, state: State::Waiting(Vec::new()) }
    }

    /// The file, once there is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.state {
            State::Waiting(_) => None,
            State::Writing { report, .. } | State::Stopped(report) => report.path.as_deref(),
        }
    }

    /// Takes the next bytes; `lines` and `bytes` count the text with them. Not cancel-safe.
    pub async fn push(&mut self, raw: &[u8], lines: u64, bytes: u64) {
        match &mut self.state {
            State::Waiting(before) => {
                before.extend_from_slice(raw);
                if lines > self.settings.beyond_lines || bytes.max(before.len() as u64) > self.settings.beyond_bytes {
                    let before = std::mem::take(before);
                    self.start(&before).await;
                }
            }
            State::Writing { .. } => self.write(raw).await,
            State::Stopped(_) => {}
        }
    }

    async fn start(&mut self, bytes: &[u8]) {
        match create(&self.settings).await {
            Ok((file, path)) => {
                let report = SpillReport { path: Some(path), written_bytes: 0, incomplete: None };
                self.state = State::Writing { file, report };
                self.write(bytes).await;
            }
            Err(error) => {
                tracing::warn!(folder = %self.settings.folder.display(), %error, "no file for long output");
                self.state = State::Stopped(SpillReport { path: None, written_bytes: 0, incomplete: Some(error.to_string()) });
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let State::Writing { file, report } = &mut self.state else {
            return;
        };
        let room = usize::try_from(MAX_SPILL_BYTES - report.written_bytes).unwrap_or(usize::MAX);
        let fitting = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        // The write goes on in the background; its failure is told by the next one or by the flush.
        let failure = file.write_all(fitting).await.err().map(|error| error.to_string());
        report.written_bytes += fitting.len() as u64;
        let full = (fitting.len() < bytes.len()).then(|| format!("more than {} MiB", MAX_SPILL_BYTES >> 20));
        if failure.is_some() || full.is_some() {
            self.stop(failure.or(full)).await;
        }
    }

    async fn stop(&mut self, reason: Option<String>) {
        let taken = std::mem::replace(&mut self.state, State::Waiting(Vec::new()));
        let (mut file, mut report) = match taken {
            State::Writing { file, report } => (file, report),
            other @ (State::Waiting(_) | State::Stopped(_)) => {
                self.state = other;
                return;
            }
        };
        let failure = file.flush().await.err().map(|error| error.to_string());
        report.incomplete = failure.or(reason);
        if let Ok(metadata) = file.metadata().await {
            report.written_bytes = metadata.len();
        }
        if let Some(reason) = &report.incomplete {
            tracing::warn!(path = ?report.path, reason, "file for long output is not complete");
        }
        self.state = State::Stopped(report);
    }

    /// Ends the file; `None` if none was needed.
    pub async fn finish(mut self) -> Option<SpillReport> {
        self.stop(None).await;
        match self.state {
            State::Stopped(report) => Some(report),
            State::Waiting(_) | State::Writing { .. } => None,
        }
    }
}

/// Removes the files of `prefix` that are older than `max_age`, then the oldest until at most `max_bytes` are left. Blocking.
///
/// Files that cannot be removed are passed over; other files in the folder are left alone.
///
/// # Errors
/// If the folder cannot be read; a missing one is no error.
pub fn clean(folder: &Path, prefix: &str, max_age: Duration, max_bytes: u64) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let now = SystemTime::now();
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| is_spill_name(name, prefix)))
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().unwrap_or(now), metadata.len(), entry.path()))
        })
        .collect();
    files.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
    let mut kept = 0_u64;
    for (modified, length, path) in files {
        // A time in the future is the fault of a clock, not a reason to keep a file for ever; its size still counts.
        let age = now.duration_since(modified).unwrap_or_default();
        kept = kept.saturating_add(length);
        if age > max_age || kept > max_bytes {
            let _gone = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// `<prefix>-<16 hex digits>.log`
fn is_spill_name(name: &str, prefix: &str) -> bool {
    let digits = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).and_then(|rest| rest.strip_suffix(".log"));
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

async fn create(settings: &SpillSettings) -> io::Result<(File, PathBuf)> {
    let folder = settings.folder.clone();
    let made = move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    tokio::task::spawn_blocking(made).await.map_err(io::Error::other)??;
    let mut failure = io::Error::other("no free name");
    for attempt in 0..NAME_ATTEMPTS {
        // Seeded by the system for each state.
        let random = RandomState::new().hash_one((attempt, std::process::id()));
        let path = settings.folder.join(format!("{}-{random:016x}.log", settings.prefix));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).await {
            Ok(file) => return Ok((file, path)),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings(folder: &Path) -> SpillSettings {
        SpillSettings { folder: folder.join("new"), prefix: "test".to_owned(), beyond_lines: 3, beyond_bytes: 100 }
    }

    #[tokio::test]
    async fn below_the_limits_there_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(settings(folder.path()));
        spill.push(b"a\nb\nc\n", 3, 6).await;
        assert_eq!(spill.path(), None);
        assert_eq!(spill.finish().await, None);
        assert!(!folder.path().join("new").exists());
    }

    #[tokio::test]
    async fn the_file_begins_with_the_first_byte_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(settings(folder.path()));
        for (index, chunk) in [&b"a\xff\n"[..], b"b\n", b"c\n", b"d\n", b"e\n"].into_iter().enumerate() {
            spill.push(chunk, index as u64 + 1, 10).await;
        }
        let report = spill.finish().await.unwrap();
        let path = report.path.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a\xff\nb\nc\nd\ne\n");
        assert_eq!((report.written_bytes, report.incomplete), (11, None));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn a_full_disk_is_noted() {
        let mut spill = Spill::new(settings(Path::new("/nowhere")));
        let file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        let report = SpillReport { path: Some("/dev/full".into()), written_bytes: 0, incomplete: None };
        spill.state = State::Writing { file, report };
        for _ in 0..10 {
            spill.push(&[b'x'; 5000], 9, 9).await;
        }
        let reason = spill.finish().await.unwrap().incomplete.unwrap();
        assert!(reason.contains("No space left on device"), "{reason}");
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_made_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("new"), "a file").unwrap();
        let mut spill = Spill::new(settings(folder.path()));
        spill.push(&[b'x'; 500], 1, 500).await;
        spill.push(&[b'x'; 500], 1, 1000).await;
        let report = spill.finish().await.unwrap();
        assert!(report.path.is_none() && report.incomplete.is_some());
    }

    #[tokio::test]
    async fn the_file_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(settings(folder.path()));
        let chunk = vec![b'x'; 1 << 20];
        for count in 1..=102_u64 {
            spill.push(&chunk, 1, count << 20).await;
        }
        let report = spill.finish().await.unwrap();
        assert_eq!(report.written_bytes, MAX_SPILL_BYTES);
        assert_eq!(std::fs::metadata(report.path.unwrap()).unwrap().len(), MAX_SPILL_BYTES);
        assert_eq!(report.incomplete.unwrap(), "more than 100 MiB");
    }

    #[test]
    fn old_files_go_first_and_strangers_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, length: u64, age: u64| {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(length).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        let name = |digit: char| format!("bash-{}.log", digit.to_string().repeat(16));
        file(&name('a'), 1, 1000);
        file(&name('b'), 60, 30);
        file(&name('c'), 60, 20);
        file(&name('d'), 30, 10);
        file("bash-notes.log", 500, 5000);
        file("other-0123456789abcdef.log", 500, 5000);
        clean(folder.path(), "bash", Duration::from_secs(500), 100).unwrap();
        let mut left: Vec<String> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["bash-cccccccccccccccc.log", "bash-dddddddddddddddd.log", "bash-notes.log", "other-0123456789abcdef.log"]);
        clean(&folder.path().join("none"), "bash", Duration::ZERO, 0).unwrap();
    }
}
