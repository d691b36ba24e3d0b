//! Removing a session's files so that a kill at any moment leaves the whole session, or none that is listed.
//!
//! The session file is renamed to `<file>.deleted` first, which is the moment at which the session is gone. What stands beside it goes
//! next, the renamed file last: as long as that is there, the removal is to be finished. Blocking.

use std::io;
use std::path::{Path, PathBuf};

use super::sidecar::sidecar_path;

/// What a session file's name gets when its removal has begun.
const DELETED: &str = "deleted";

/// Removes a session file and what stands beside it. On return the session is gone for good.
///
/// # Errors
/// The session is whole and listed then; that there is no such file is no error.
pub(super) fn remove_session(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(DELETED);
    let condemned = PathBuf::from(name);
    match std::fs::rename(path, &condemned) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if let Some(Err(error)) = path.parent().map(wolli_home::atomic::sync_folder) {
        // Nobody knows whether it would be gone after a loss of power; so it is not gone now either.
        std::fs::rename(&condemned, path)?;
        return Err(error);
    }
    if let Err(error) = finish_removal(&condemned) {
        tracing::warn!(path = %condemned.display(), %error, "what is left of a deleted session is removed later");
    }
    Ok(())
}

/// True for a file whose removal has begun.
pub(super) fn is_condemned(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == DELETED)
        && path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some_and(|extension| extension == "jsonl"))
}

/// Removes what a removal that was cut short left.
pub(super) fn finish_removal(condemned: &Path) -> io::Result<()> {
    let session = condemned.with_extension("");
    // A session that has its place again (somebody copied it back) keeps what is beside it.
    if !session.exists() {
        remove_if_there(&sidecar_path(&session))?;
        for aside in torn_tails(&session)? {
            remove_if_there(&aside)?;
        }
    }
    remove_if_there(condemned)
}

/// The ends that were cut off the session's file.
fn torn_tails(session: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (session.parent(), session.file_name().and_then(|name| name.to_str())) else { return Ok(Vec::new()) };
    let prefix = format!("{name}.torn-");
    let files = std::fs::read_dir(folder)?.flatten();
    Ok(files.filter(|file| file.file_name().to_str().is_some_and(|name| name.starts_with(&prefix))).map(|file| file.path()).collect())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{finish_removal, is_condemned, remove_session};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn fill(folder: &Path) {
        for name in ["a.jsonl", "a.state.json", "a.jsonl.torn-1", "a.jsonl.torn-2", "ab.jsonl", "ab.state.json", "ab.jsonl.torn-1"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
    }

    #[test]
    fn a_session_goes_with_all_that_is_beside_it_and_no_other_does() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        remove_session(&folder.path().join("a.jsonl")).unwrap();
        assert_eq!(names(folder.path()), ["ab.jsonl", "ab.jsonl.torn-1", "ab.state.json"]);
        remove_session(&folder.path().join("a.jsonl")).unwrap();
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        let condemned = folder.path().join("a.jsonl.deleted");
        std::fs::rename(folder.path().join("a.jsonl"), &condemned).unwrap();
        assert!(is_condemned(&condemned));
        finish_removal(&condemned).unwrap();
        assert_eq!(names(folder.path()), ["ab.jsonl", "ab.jsonl.torn-1", "ab.state.json"]);
        for other in ["a.jsonl", "a.deleted", "deleted", ".deleted", "a.jsonl.deleted.x", "a.state.json"] {
            assert!(!is_condemned(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_session_that_was_put_back_keeps_its_queues() {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        std::fs::write(folder.path().join("a.jsonl.deleted"), "old").unwrap();
        finish_removal(&folder.path().join("a.jsonl.deleted")).unwrap();
        assert!(names(folder.path()).starts_with(&[
            "a.jsonl".into(),
            "a.jsonl.torn-1".into(),
            "a.jsonl.torn-2".into(),
            "a.state.json".into()
        ]));
        assert!(!folder.path().join("a.jsonl.deleted").exists());
    }
}
