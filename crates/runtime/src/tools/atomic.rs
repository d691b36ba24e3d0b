//! Replacing a file's content as a whole, for `write`, `edit` and the agent's own files.
//!
//! Invariant: whoever reads the path sees the old content or the new one, and after a failure (disk full, abort, crash) the old one, without a
//! temporary file left behind unless the process died. The exception are files that cannot be replaced by a rename (a bind mount, a folder without write
//! permission, a device): they are written in place, and written back if that fails.

use std::fs::{File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::blocking::Abort;
use super::failure::ToolFailure;
use super::path::real;

/// A file nobody else may read.
pub(super) const PRIVATE: u32 = 0o600;

/// Replaces or creates the file. Symbolic links are followed, an existing file keeps its mode (and owner, where we may give it), missing folders are made.
///
/// `new_mode` is the mode of a new file; `None`: the usual one. Blocking. The rename is the commit of `abort`.
pub(super) fn replace(path: &Path, content: &[u8], new_mode: Option<u32>, abort: &Abort) -> Result<(), ToolFailure> {
    let target = real(path);
    let parent = target.parent().unwrap_or(Path::new("/"));
    make_folders(parent, new_mode)?;
    let existing = match OpenOptions::new().read(true).write(true).custom_flags(nonblocking()).open(&target) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // A file that may be written but not read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some(OpenOptions::new().write(true).open(&target).map_err(|_| ToolFailure::file(&error, "open", path))?)
        }
        Err(error) => return Err(ToolFailure::file(&error, "open", path)),
    };
    let metadata = existing.as_ref().map(File::metadata).transpose().map_err(|error| ToolFailure::file(&error, "open", path))?;
    if let (Some(file), Some(metadata)) = (&existing, &metadata)
        && !metadata.is_file()
    {
        return write_special(file, metadata, content, abort).map_err(|error| ToolFailure::file(&error, "write", path));
    }
    abort.check()?;
    match through_temporary(&target, parent, content, new_mode, metadata.as_ref(), abort) {
        Ok(()) => Ok(()),
        Err(Failure::Aborted) => Err(ToolFailure::Aborted),
        Err(Failure::Io(error)) => match existing {
            Some(file) if needs_writing_in_place(&error) => {
                abort.commit()?;
                in_place(file, content).map_err(|error| ToolFailure::file(&error, "write", path))
            }
            _ => Err(ToolFailure::file(&error, "open", path)),
        },
    }
}

/// Opening a pipe without a reader must not wait for one.
fn nonblocking() -> i32 {
    if cfg!(target_os = "linux") { 0o4000 } else { 0x4 }
}

fn make_folders(folder: &Path, new_mode: Option<u32>) -> Result<(), ToolFailure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    if new_mode == Some(PRIVATE) {
        builder.mode(0o700);
    }
    builder.create(folder).map_err(|error| ToolFailure::file(&error, "mkdir", folder))
}

enum Failure {
    Aborted,
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Removes the file when dropped, until it has its final name.
struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _gone = std::fs::remove_file(path);
        }
    }
}

fn through_temporary(
    target: &Path,
    folder: &Path,
    content: &[u8],
    new_mode: Option<u32>,
    existing: Option<&std::fs::Metadata>,
    abort: &Abort,
) -> Result<(), Failure> {
    let random = RandomState::new().hash_one(target);
    let path = folder.join(format!(".wolli-{random:016x}.tmp"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // An existing file may be private: nobody may look into its successor before that has its mode.
    if let Some(mode) = existing.map(|_| PRIVATE).or(new_mode) {
        options.mode(mode);
    }
    let mut file = options.open(&path)?;
    let mut temporary = Temporary(Some(path.clone()));
    file.write_all(content)?;
    if let Some(metadata) = existing {
        // Only root may give files away; for everybody else the file becomes theirs, as with any editor. Before the mode: a change of owner clears bits.
        let _not_ours = std::os::unix::fs::fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    file.sync_all()?;
    abort.commit().map_err(|_| Failure::Aborted)?;
    std::fs::rename(&path, target)?;
    temporary.0 = None;
    // The new name is as durable as the content. Some file systems cannot sync folders.
    let _not_supported = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Whether the file itself may be written although it cannot be replaced.
fn needs_writing_in_place(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices)
}

fn in_place(mut file: File, content: &[u8]) -> io::Result<()> {
    let mut old = Vec::new();
    let has_old = file.read_to_end(&mut old).is_ok();
    overwrite(&mut file, content).inspect_err(|_| {
        if has_old {
            // Its blocks are still there, so that this does not need room.
            let _lost = overwrite(&mut file, &old);
        }
    })
}

fn overwrite(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

/// Devices take the bytes; pipes and sockets would make us wait for somebody.
fn write_special(mut file: &File, metadata: &std::fs::Metadata, content: &[u8], abort: &Abort) -> io::Result<()> {
    if metadata.file_type().is_char_device() && abort.commit().is_ok() {
        file.write_all(content)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{Home, names};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn the_mode_stays_and_links_stay_links() {
        let home = Home::new();
        home.write("dir/real", "old");
        std::fs::set_permissions(home.path("dir/real"), Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("dir/real", home.path("link")).unwrap();
        replace(&home.path("link"), b"new", None, &Abort::default()).unwrap();
        assert!(home.path("link").is_symlink());
        assert_eq!((home.read("dir/real").as_str(), mode(&home.path("dir/real"))), ("new", 0o750));
        assert_eq!(names(&home.path("dir")), ["real"]);
    }

    #[test]
    fn new_files_get_folders_and_the_mode_that_was_asked_for() {
        let home = Home::new();
        replace(&home.path("a/b/c"), b"x", Some(PRIVATE), &Abort::default()).unwrap();
        assert_eq!((mode(&home.path("a/b/c")), mode(&home.path("a/b"))), (0o600, 0o700));
        std::os::unix::fs::symlink("new/target", home.path("dangling")).unwrap();
        replace(&home.path("dangling"), b"y", None, &Abort::default()).unwrap();
        assert_eq!(home.read("new/target"), "y");
    }

    #[test]
    fn an_abort_leaves_the_old_file_and_nothing_else() {
        let home = Home::new();
        home.write("f", "old");
        let cancelled = tokio_util::sync::CancellationToken::new();
        let folder = home.path("");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = runtime.block_on(super::super::blocking::blocking(&cancelled, {
            let (cancelled, path) = (cancelled.clone(), home.path("f"));
            move |abort| {
                cancelled.cancel();
                while !abort.is_aborted() {
                    std::thread::yield_now();
                }
                replace(&path, b"new", None, abort)
            }
        }));
        assert_eq!(result, Err(ToolFailure::Aborted));
        drop(runtime);
        assert_eq!((home.read("f").as_str(), names(&folder)), ("old", vec!["f".to_owned()]));
    }

    #[test]
    fn what_cannot_be_replaced_is_written_in_place() {
        let home = Home::new();
        home.write("f", "a longer old text");
        let file = OpenOptions::new().read(true).write(true).open(home.path("f")).unwrap();
        in_place(file, b"new").unwrap();
        assert_eq!(home.read("f"), "new");
    }

    #[test]
    fn an_abort_while_the_successor_is_written_is_in_time() {
        let home = Home::new();
        home.write("f", "old");
        let abort = Abort::default();
        assert!(abort.abort());
        let metadata = std::fs::metadata(home.path("f")).unwrap();
        let result = through_temporary(&home.path("f"), &home.path(""), b"new", None, Some(&metadata), &abort);
        assert!(matches!(result, Err(Failure::Aborted)));
        assert_eq!((home.read("f").as_str(), names(&home.path(""))), ("old", vec!["f".to_owned()]));
    }

    #[test]
    fn a_folder_that_takes_no_new_files_is_no_obstacle() {
        let home = Home::new();
        home.write("dir/f", "a longer old text");
        std::fs::set_permissions(home.path("dir"), Permissions::from_mode(0o500)).unwrap();
        // For root every folder takes files; then this is the usual way.
        replace(&home.path("dir/f"), b"new", None, &Abort::default()).unwrap();
        assert_eq!((home.read("dir/f").as_str(), names(&home.path("dir"))), ("new", vec!["f".to_owned()]));
        std::fs::set_permissions(home.path("dir"), Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn special_files_are_not_replaced() {
        let null = Path::new("/dev/null");
        replace(null, b"x", None, &Abort::default()).unwrap();
        assert!(std::fs::metadata(null).unwrap().file_type().is_char_device());
        let full = replace(Path::new("/dev/full"), b"x", None, &Abort::default()).unwrap_err();
        assert_eq!(full.to_string(), "ENOSPC: no space left on device, write '/dev/full'");
        let home = Home::new();
        let socket = std::os::unix::net::UnixListener::bind(home.path("socket")).unwrap();
        assert!(replace(&home.path("socket"), b"x", None, &Abort::default()).is_err());
        drop(socket);
        assert!(replace(&home.path(""), b"x", None, &Abort::default()).unwrap_err().to_string().starts_with("EISDIR: "));
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
        let home = Home::new();
        let disk = home.path("disk");
        std::fs::create_dir(&disk).unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&disk).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: mounting is not permitted here");
            return;
        }
        std::fs::write(disk.join("f"), "old").unwrap();
        let result = replace(&disk.join("f"), &[b'x'; 200_000], None, &Abort::default());
        let left = (std::fs::read_to_string(disk.join("f")).unwrap(), names(&disk));
        let unmounted = std::process::Command::new("umount").arg(&disk).status().unwrap();
        assert!(result.unwrap_err().to_string().starts_with("ENOSPC: "));
        assert_eq!(left, ("old".to_owned(), vec!["f".to_owned()]));
        assert!(unmounted.success());
    }
}
