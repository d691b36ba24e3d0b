//! Definitions on disk: written whole and private, and put back as they were when a later step fails.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use wolli_home::atomic;

use super::error::ServiceError;

/// A definition as it was, and how to get back there.
#[derive(Debug)]
pub(super) struct Before {
    path: PathBuf,
    content: Option<Vec<u8>>,
    /// Folders that were not there, the outermost last.
    missing: Vec<PathBuf>,
}

impl Before {
    /// Looks at `path`.
    pub(super) fn of(path: &Path) -> Result<Self, ServiceError> {
        let failed = |source| ServiceError::File { action: "read", path: path.to_owned(), source };
        let content = match fs::metadata(path) {
            // Reading a device may never end, and it is not ours to replace.
            Ok(found) if !found.is_file() => return Err(failed(io::Error::other("it is no regular file"))),
            Ok(_) => Some(fs::read(path).map_err(failed)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(failed(source)),
        };
        let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        Ok(Self { path: path.to_owned(), content, missing })
    }

    pub(super) fn existed(&self) -> bool {
        self.content.is_some()
    }

    /// Writes the new content, with the folders to it.
    pub(super) fn replace(&self, text: &str) -> Result<(), ServiceError> {
        let written = self.create_folder().and_then(|()| match atomic::write(&self.path, text.as_bytes()) {
            // It is in place, and written again at the next installation.
            Err(atomic::WriteError::Folder { .. }) => Ok(()),
            written => Ok(written?),
        });
        if written.is_err() {
            self.remove_folders();
        }
        written
    }

    /// Puts everything back.
    pub(super) fn restore(&self) -> Result<(), ServiceError> {
        match &self.content {
            Some(content) => atomic::write(&self.path, content)?,
            None => remove(&self.path)?,
        }
        self.remove_folders();
        Ok(())
    }

    fn create_folder(&self) -> Result<(), ServiceError> {
        let Some(folder) = self.path.parent() else { return Ok(()) };
        atomic::create_folder(folder).map_err(|source| ServiceError::File { action: "create", path: folder.to_owned(), source })
    }

    /// Those that we made and that nobody else uses.
    fn remove_folders(&self) {
        for folder in &self.missing {
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

/// Removes a file; one that is not there is fine.
pub(super) fn remove(path: &Path) -> Result<(), ServiceError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ServiceError::File { action: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Whether `path` could be written, folders and all. Changes nothing.
pub(super) fn check_writable(path: &Path) -> Result<(), ServiceError> {
    let folder = path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let failed = |source: io::Error| ServiceError::File { action: "write into", path: folder.to_owned(), source };
    if !folder.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/unit");
        let before = Before::of(&path).unwrap();
        assert!(!before.existed());
        check_writable(&path).unwrap();
        before.replace("new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let first = Before::of(&path).unwrap();
        first.replace("newer").unwrap();
        first.restore().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        before.restore().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_that_somebody_uses_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/unit");
        let before = Before::of(&path).unwrap();
        before.replace("new").unwrap();
        fs::write(folder.path().join("a/other"), "").unwrap();
        before.restore().unwrap();
        assert!(folder.path().join("a/other").exists() && !folder.path().join("a/b").exists());
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let path = folder.path().join("a/b/unit");
        let text = check_writable(&path).unwrap_err().to_string();
        assert!(text.contains("a: not a directory"), "{text}");
        std::os::unix::fs::symlink("/dev/null", folder.path().join("link")).unwrap();
        let text = Before::of(&folder.path().join("link")).unwrap_err().to_string();
        assert!(text.ends_with("it is no regular file"), "{text}");
        std::fs::remove_file(folder.path().join("link")).unwrap();
        assert!(Before::of(&path).and_then(|before| before.replace("x")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
