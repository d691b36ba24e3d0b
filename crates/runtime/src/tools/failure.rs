//! How a call fails: the texts of file system errors, as models know them from Node programs.

use std::io;
use std::path::Path;

use super::context::ToolOutput;

/// Why a call gave an error result. The text goes to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// The run was aborted.
    #[error("Operation aborted")]
    Aborted,
    #[error("{0}")]
    Text(String),
}

impl ToolFailure {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// `ENOENT: no such file or directory, access '<path>'`.
    pub(super) fn file(error: &io::Error, operation: &str, path: &Path) -> Self {
        let (code, message) = code_and_message(error);
        if code == "EISDIR" && operation == "read" {
            // Reading works on a descriptor, which has no path.
            return Self::Text(format!("{code}: {message}, {operation}"));
        }
        Self::Text(format!("{code}: {message}, {operation} '{}'", path.display()))
    }
}

impl From<ToolFailure> for ToolOutput {
    fn from(failure: ToolFailure) -> Self {
        Self::error(failure.to_string())
    }
}

/// The name of an error number.
pub(super) fn error_code(error: &io::Error) -> &'static str {
    code_and_message(error).0
}

fn code_and_message(error: &io::Error) -> (&'static str, String) {
    use io::ErrorKind;
    /// The only two that the standard library does not tell apart by kind; the first is 1 on every Unix.
    const EPERM: i32 = 1;
    const ELOOP: i32 = if cfg!(target_os = "linux") { 40 } else { 62 };

    let (code, message) = match (error.kind(), error.raw_os_error()) {
        (_, Some(EPERM)) => ("EPERM", "operation not permitted"),
        (_, Some(ELOOP)) => ("ELOOP", "too many symbolic links encountered"),
        (ErrorKind::NotFound, _) => ("ENOENT", "no such file or directory"),
        (ErrorKind::PermissionDenied, _) => ("EACCES", "permission denied"),
        (ErrorKind::IsADirectory, _) => ("EISDIR", "illegal operation on a directory"),
        (ErrorKind::NotADirectory, _) => ("ENOTDIR", "not a directory"),
        (ErrorKind::AlreadyExists, _) => ("EEXIST", "file already exists"),
        (ErrorKind::InvalidFilename, _) => ("ENAMETOOLONG", "name too long"),
        (ErrorKind::StorageFull, _) => ("ENOSPC", "no space left on device"),
        (ErrorKind::QuotaExceeded, _) => ("EDQUOT", "disk quota exceeded"),
        (ErrorKind::FileTooLarge, _) => ("EFBIG", "file too large"),
        (ErrorKind::ReadOnlyFilesystem, _) => ("EROFS", "read-only file system"),
        (ErrorKind::ResourceBusy, _) => ("EBUSY", "resource busy or locked"),
        (ErrorKind::ExecutableFileBusy, _) => ("ETXTBSY", "text file is busy"),
        (ErrorKind::InvalidInput, _) => ("EINVAL", "invalid argument"),
        _ => return ("EIO", format!("i/o error ({error})")),
    };
    (code, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let path = Path::new("/a/b");
        for (error, operation, expected) in [
            (io::Error::from_raw_os_error(2), "access", "ENOENT: no such file or directory, access '/a/b'"),
            (io::Error::from_raw_os_error(21), "read", "EISDIR: illegal operation on a directory, read"),
            (io::Error::from_raw_os_error(21), "open", "EISDIR: illegal operation on a directory, open '/a/b'"),
            (io::Error::from_raw_os_error(13), "open", "EACCES: permission denied, open '/a/b'"),
            (io::Error::from_raw_os_error(1), "open", "EPERM: operation not permitted, open '/a/b'"),
            (io::Error::from_raw_os_error(28), "write", "ENOSPC: no space left on device, write '/a/b'"),
            (io::Error::other("x"), "write", "EIO: i/o error (x), write '/a/b'"),
        ] {
            assert_eq!(ToolFailure::file(&error, operation, path).to_string(), expected);
        }
    }
}
