use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc::sync_channel;

use super::*;
use crate::child;

fn us() -> Holder {
    Holder::this_process(Path::new("/usr/bin/wolli"), "0.1.0", SystemTime::UNIX_EPOCH)
}

fn take(path: &Path) -> Result<HomeLock, LockError> {
    HomeLock::acquire(path, us(), Duration::ZERO)
}

#[test]
fn the_record_is_golden() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let mut holder = us();
    holder.pid = 12;
    let mut lock = HomeLock::acquire(&path, holder, Duration::ZERO).unwrap();
    let common = r#"{"pid":12,"startedAt":"1970-01-01T00:00:00.000Z","executable":"/usr/bin/wolli","version":"0.1.0","draining":"#;
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{common}false}}\n"));
    lock.set_socket(Some("/run/w.sock".to_owned())).unwrap();
    lock.set_draining().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{common}true,\"socket\":\"/run/w.sock\"}}\n"));
    lock.set_socket(None).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{common}true}}\n"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_second_holder_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    assert!(holder(&path).unwrap().is_none());
    let first = take(&path).unwrap();
    assert_eq!(holder(&path).unwrap(), Some(Some(us())));
    let error = take(&path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} is held by process {} (/usr/bin/wolli, version 0.1.0, since 1970-01-01T00:00:00.000Z)",
            path.display(),
            std::process::id()
        )
    );
    drop(first);
    assert!(holder(&path).unwrap().is_none());
    assert!(take(&path).unwrap().left_behind().is_none());
}

#[test]
fn records_of_the_dead_and_of_strangers_are_taken_over_at_once() {
    let dead = {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        ended.id()
    };
    for pid in [dead, 1, std::process::id()] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let left = Holder { pid, started_at: "2020-01-01T00:00:00.000Z".to_owned(), draining: pid == 1, ..us() };
        fs::write(&path, serde_json::to_string_pretty(&left).unwrap()).unwrap();
        assert!(holder(&path).unwrap().is_none());
        let lock = take(&path).unwrap();
        assert_eq!(lock.left_behind(), Some(&left));
        assert_eq!(holder(&path).unwrap(), Some(Some(us())));
    }
}

#[test]
fn any_content_can_be_taken_over() {
    for content in [&b""[..], b"\0\0\0\0", b"{", b"null", b"[]", b"\xff\xfe", b"{\"pid\": -1}", &[b'['; 200_000]] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        fs::write(&path, content).unwrap();
        let lock = take(&path).unwrap();
        assert!(lock.left_behind().is_none());
        assert_eq!(holder(&path).unwrap(), Some(Some(us())));
    }
}

#[test]
fn a_holder_without_a_record_is_reported_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let lock = take(&path).unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(holder(&path).unwrap(), Some(None));
    assert!(take(&path).unwrap_err().to_string().ends_with("is held by a process that left no record"));
    drop(lock);
}

#[test]
fn the_lock_dies_with_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let mut child = child::command("lock::tests::holds", path.to_str().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("held")));
    let found = holder(&path).unwrap().unwrap().unwrap();
    assert_eq!(found.pid, child.id());
    assert!(matches!(take(&path), Err(LockError::Held { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    let lock = take(&path).unwrap();
    assert_eq!(lock.left_behind(), Some(&found));
}

#[test]
#[ignore = "started by the_lock_dies_with_its_holder"]
fn holds() {
    let Some(path) = child::argument() else {
        return;
    };
    let _lock = take(Path::new(&path)).unwrap();
    writeln!(std::io::stdout(), "held").unwrap();
    std::thread::park_timeout(Duration::from_secs(60));
}

#[test]
fn a_draining_holder_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let mut first = take(&path).unwrap();
    first.set_draining().unwrap();
    match HomeLock::acquire(&path, us(), Duration::from_millis(50)).unwrap_err() {
        LockError::StillDraining { holder, .. } => assert!(holder.draining),
        other => panic!("{other}"),
    }
    let (waiting, waits) = sync_channel(1);
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            waiting.send(()).unwrap();
            HomeLock::acquire(&path, us(), Duration::from_secs(30))
        });
        waits.recv().unwrap();
        drop(first);
        second.join().unwrap()
    });
    assert!(second.unwrap().left_behind().is_none());
}

#[test]
fn of_many_that_start_at_once_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| take(&path))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, LockError::Held { holder: Some(_), .. }), "{error}");
    }
}

#[test]
fn looking_does_not_make_a_start_fail() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let looked_at = filelock::open(&path).unwrap();
    looked_at.try_lock_shared().unwrap();
    let (starting, starts) = sync_channel(1);
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            starting.send(()).unwrap();
            take(&path)
        });
        starts.recv().unwrap();
        // Far longer than a look takes, and far shorter than a start waits.
        std::thread::park_timeout(Duration::from_millis(40));
        drop(looked_at);
        starter.join().unwrap().unwrap();
    });
}

#[test]
fn a_lock_on_a_home_that_was_moved_away_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.lock");
    let file = filelock::open(&path).unwrap();
    assert!(is_at(&file, &path).unwrap());
    fs::rename(&path, folder.path().join("moved")).unwrap();
    assert!(!is_at(&file, &path).unwrap());
    fs::write(&path, "").unwrap();
    assert!(!is_at(&file, &path).unwrap());
}

#[test]
fn a_home_that_is_gone_cannot_be_locked() {
    let folder = tempfile::tempdir().unwrap();
    let error = take(&folder.path().join("gone/daemon.lock")).unwrap_err().to_string();
    assert!(error.starts_with("cannot lock ") && error.contains("gone/daemon.lock"), "{error}");
}

#[test]
fn two_spellings_are_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
    let _first = take(&folder.path().join("real/daemon.lock")).unwrap();
    assert!(matches!(take(&folder.path().join("link/daemon.lock")), Err(LockError::Held { .. })));
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("daemon.lock"), folder.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    assert!(take(&path).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
