//! Reading whole small files without trusting them.
//!
//! Invariant: never hangs on a pipe or device, never reads more than [`FILE_MAX_BYTES`]. Not here: what is in the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use crate::pause::Patience;

/// Far more than any configuration file needs, and too little to hurt.
pub const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Many times what writing a small file in place takes.
const SETTLING: Duration = Duration::from_millis(50);

/// Opens a file for reading.
///
/// # Errors
/// As for [`std::fs::File::open`], and [`io::ErrorKind::InvalidInput`] for what is no regular file: a pipe would wait
/// for a writer, a device may never end.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// [`open`] with options of the caller's. Only regular files are opened; the flags of `options` are replaced.
///
/// # Errors
/// As for [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without O_NONBLOCK, opening a named pipe waits for a writer. On regular files it has no effect.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// The content of a regular file; `None` if there is none.
///
/// # Errors
/// It cannot be read, is no regular file, or is larger than [`FILE_MAX_BYTES`].
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let found = file.metadata()?;
    let mut content = Vec::with_capacity(usize::try_from(found.len().min(FILE_MAX_BYTES)).unwrap_or(0));
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(Some(content))
}

/// A file that was looked at until it parsed or stood still.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled<T> {
    pub(crate) content: Vec<u8>,
    pub(crate) parsed: Result<T, String>,
}

/// The content and what `parse` makes of it. Since wolli 0.0.2 rewrites files in place, content that does not parse may be half of a
/// write: it is looked at again for a moment before it counts.
pub(crate) fn read_settled<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, String>) -> io::Result<Option<Settled<T>>> {
    let mut settling = Patience::new(SETTLING);
    loop {
        let Some(content) = read(path)? else { return Ok(None) };
        let parsed = parse(&content);
        if parsed.is_ok() || !settling.pause() {
            return Ok(Some(Settled { content, parsed }));
        }
    }
}

/// Whether nothing was ever written, or a crash left zeros: there is nothing to lose in such a file.
pub(crate) fn is_blank(content: &[u8]) -> bool {
    content.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_bounded_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert!(read(&path("absent")).unwrap().is_none());
        std::fs::write(path("some"), "abc").unwrap();
        assert_eq!(read(&path("some")).unwrap().unwrap(), b"abc");
        assert!(read(folder.path()).is_err());
        std::fs::File::create(path("huge")).unwrap().set_len(FILE_MAX_BYTES + 1).unwrap();
        assert_eq!(read(&path("huge")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(read(&path("pipe")).unwrap_err().to_string().contains("not a regular file"));
        assert!(read(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn half_of_a_write_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "half").unwrap();
        let parse = |content: &[u8]| {
            if content == b"half" {
                // The writer goes on.
                std::fs::write(&path, "whole").unwrap();
                return Err("half".to_owned());
            }
            Ok(content.len())
        };
        assert_eq!(read_settled(&path, parse).unwrap().unwrap(), Settled { content: b"whole".to_vec(), parsed: Ok(5) });
        let never = |_: &[u8]| Err::<(), _>("no".to_owned());
        assert_eq!(read_settled(&path, never).unwrap().unwrap().parsed, Err("no".to_owned()));
        assert!(read_settled(&folder.path().join("absent"), never).unwrap().is_none());
    }

    #[test]
    fn blank_content() {
        for blank in [&b""[..], b"\0\0\0", b" \n\t", b"\n\0"] {
            assert!(is_blank(blank));
        }
        assert!(!is_blank(b"{}"));
        assert!(!is_blank(b"\0{"));
    }
}
