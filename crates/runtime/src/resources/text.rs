//! Reading text files that people put into the home, without trusting them.

use std::io::{self, Read};
use std::path::Path;

use wolli_home::reading;

/// Bytes of a skill or template. They become part of a prompt; a larger one would fill the context of any model.
pub(super) const TEXT_MAX_BYTES: u64 = 1 << 20;

/// What a file begins with, up to `limit` bytes, and how large it is. Never waits for a pipe. Blocking.
pub(super) fn read_at_most(path: &Path, limit: u64) -> io::Result<(String, u64)> {
    let file = reading::open(path)?;
    let size = file.metadata()?.len();
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content)?;
    Ok((String::from_utf8_lossy(&content).into_owned(), size.max(content.len() as u64)))
}

/// A whole file. Blocking.
pub(super) fn read_whole(path: &Path) -> io::Result<String> {
    let (text, size) = read_at_most(path, TEXT_MAX_BYTES)?;
    if size > TEXT_MAX_BYTES { Err(too_large()) } else { Ok(text) }
}

pub(super) fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("the file is larger than {} MiB", TEXT_MAX_BYTES >> 20))
}
