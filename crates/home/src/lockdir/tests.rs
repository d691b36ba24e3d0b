use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Map, Value, json};

use super::map_file::{MapFile, MapFileError};
use super::*;
use crate::child;
use crate::tiny_disk::TinyDisk;

const SHORT: Duration = Duration::from_millis(30);

fn age(folder: &Path, age: Duration) {
    File::open(folder).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn a_held_lock_is_a_folder_and_goes_with_its_holder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/auth.json");
    let held = LockFolder::acquire(&file, SHORT).unwrap();
    assert!(folder.path().join("deep/auth.json.lock").is_dir());
    assert!(!file.exists());
    assert!(LockFolder::acquire(&file, SHORT).is_err());
    held.check().unwrap();
    drop(held);
    assert!(!folder.path().join("deep/auth.json.lock").exists());
    drop(LockFolder::acquire(&file, SHORT).unwrap());
}

#[test]
fn the_folder_of_another_program_is_honoured_until_it_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    let theirs = folder.path().join("auth.json.lock");
    fs::create_dir(&theirs).unwrap();
    let error = LockFolder::acquire(&file, SHORT).unwrap_err().to_string();
    assert!(error.contains("auth.json.lock is locked by another process"), "{error}");
    age(&theirs, STALE_AFTER - Duration::from_secs(3));
    assert!(LockFolder::acquire(&file, SHORT).is_err());
    age(&theirs, STALE_AFTER + Duration::from_secs(1));
    LockFolder::acquire(&file, SHORT).unwrap().check().unwrap();
    assert!(!theirs.exists());
}

#[test]
fn a_lock_from_the_future_becomes_stale_by_watching() {
    let future = SystemTime::now() + Duration::from_secs(3600);
    let mut seen = None;
    assert!(!is_stale(future, &mut seen));
    assert!(!is_stale(future, &mut seen));
    let long_ago = Instant::now().checked_sub(STALE_AFTER + Duration::from_secs(1)).unwrap();
    seen = Some((future, long_ago));
    assert!(is_stale(future, &mut seen));
    // A lock that is refreshed is alive.
    seen = Some((future, long_ago));
    assert!(!is_stale(future + Duration::from_secs(5), &mut seen));
}

#[test]
fn a_held_lock_is_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let held = LockFolder::acquire(&folder.path().join("a"), SHORT).unwrap();
    age(&held.folder, Duration::from_secs(8));
    refresh(&held.folder, held.identity).unwrap();
    let changed = fs::metadata(&held.folder).unwrap().modified().unwrap();
    assert!(changed.elapsed().unwrap() < Duration::from_secs(5));
    assert!(refresh(&held.folder, (0, 0)).is_err());
}

#[test]
fn a_lost_lock_is_noticed_and_the_new_one_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = MapFile::new(folder.path().join("auth.json"));
    let mut locked = file.lock(SHORT).unwrap();
    let lock = folder.path().join("auth.json.lock");
    // Kept under another name, so that the new folder cannot get its inode.
    fs::rename(&lock, folder.path().join("old")).unwrap();
    fs::create_dir(&lock).unwrap();
    locked.map.insert("a".to_owned(), json!(1));
    assert!(matches!(locked.commit(), Err(MapFileError::Lock(LockFolderError::Lost(_)))));
    drop(locked);
    assert!(lock.is_dir());
    assert!(!file.path().exists());
}

#[test]
fn a_lock_is_on_the_file_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real/auth.json", folder.path().join("auth.json")).unwrap();
    let _held = LockFolder::acquire(&folder.path().join("auth.json"), SHORT).unwrap();
    assert!(folder.path().join("real/auth.json.lock").is_dir());
    assert!(LockFolder::acquire(&folder.path().join("real/auth.json"), SHORT).is_err());
}

#[test]
fn a_map_keeps_what_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let file = MapFile::new(folder.path().join("new/auth.json"));
    assert_eq!(file.read().unwrap(), Map::new());
    assert!(!file.path().exists());
    file.create_if_missing().unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "{}");

    fs::write(file.path(), r#"{"z":{"type":"later","x":1.5},"groq":{"type":"api_key","key":"a"},"b":[]}"#).unwrap();
    let before = file.stamp().unwrap();
    assert_eq!(file.update(|map| map.insert("groq".to_owned(), json!({"key": "b"}))).unwrap().unwrap()["key"], "a");
    assert_ne!(file.stamp(), Some(before));
    assert_eq!(
        fs::read_to_string(file.path()).unwrap(),
        "{\n  \"z\": {\n    \"type\": \"later\",\n    \"x\": 1.5\n  },\n  \"groq\": {\n    \"key\": \"b\"\n  },\n  \"b\": []\n}"
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(file.path()), mode(parent(file.path()))), (0o600, 0o700));

    let before = file.stamp();
    file.update(|_| ()).unwrap();
    assert_eq!(file.stamp(), before);
}

#[test]
fn the_initial_map_stands_for_an_absent_or_blank_file() {
    let folder = tempfile::tempdir().unwrap();
    let initial = object(json!({"schemaVersion": 1, "rules": []}));
    let file = MapFile::with_initial(folder.path().join("approvals.json"), initial.clone());
    for blank in ["", "\0\0\0", "\n"] {
        fs::write(file.path(), blank).unwrap();
        assert_eq!(file.read().unwrap(), initial);
        file.create_if_missing().unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "{\n  \"schemaVersion\": 1,\n  \"rules\": []\n}");
    }
    file.update(|map| map.insert("rules".to_owned(), json!([1]))).unwrap();
    file.create_if_missing().unwrap();
    assert_eq!(file.read().unwrap()["rules"], json!([1]));
}

#[test]
fn a_file_that_is_no_object_is_named_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = MapFile::new(folder.path().join("auth.json"));
    for content in ["{", "[]", "null", "{\"a\": 1} x", "{\"a\"\0\0\0"] {
        fs::write(file.path(), content).unwrap();
        for error in [file.read().unwrap_err(), file.update(|map| map.clear()).unwrap_err()] {
            let text = error.to_string();
            assert!(matches!(error, MapFileError::Content { .. }), "{text}");
            assert!(text.contains("auth.json is not a JSON object (") && text.ends_with("left unchanged"), "{text}");
        }
        file.create_if_missing().unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), content);
    }
    fs::remove_file(file.path()).unwrap();
    fs::create_dir(file.path()).unwrap();
    assert!(file.read().unwrap_err().to_string().starts_with("cannot read "));
}

#[test]
fn changes_of_threads_and_processes_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.json");
    let mut children: Vec<_> =
        (0..2).map(|n| child::command("lockdir::tests::changes", &format!("{n}{}", path.display())).spawn().unwrap()).collect();
    std::thread::scope(|scope| {
        for n in 2..4 {
            let path = &path;
            scope.spawn(move || change_often(path, n));
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(MapFile::new(&path).read().unwrap().len(), 4 * CHANGES);
    assert!(!beside(&path, "", ".lock").exists());
}

const CHANGES: usize = 15;

fn change_often(path: &Path, writer: usize) {
    for n in 0..CHANGES {
        MapFile::new(path).update(|map| map.insert(format!("{writer}-{n}"), json!(n))).unwrap();
    }
}

#[test]
#[ignore = "started by changes_of_threads_and_processes_are_all_kept"]
fn changes() {
    let Some(argument) = child::argument() else { return };
    let (writer, path) = argument.split_at(1);
    change_often(Path::new(path), writer.parse().unwrap());
}

#[test]
fn a_torn_or_empty_file_is_read_again_when_its_writer_is_done() {
    for half in ["", "{\"a\":"] {
        let folder = tempfile::tempdir().unwrap();
        let file = MapFile::new(folder.path().join("auth.json"));
        // wolli 0.0.2 in the middle of a write.
        let theirs = folder.path().join("auth.json.lock");
        fs::create_dir(&theirs).unwrap();
        fs::write(file.path(), half).unwrap();
        let (started, starts) = sync_channel(1);
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                started.send(()).unwrap();
                file.read()
            });
            starts.recv().unwrap();
            fs::write(file.path(), "{\"a\": 1}").unwrap();
            fs::remove_dir(&theirs).unwrap();
            reader.join().unwrap()
        });
        assert_eq!(read.unwrap(), object(json!({"a": 1})));
    }
}

#[test]
fn a_full_disk_keeps_the_old_map() {
    let Some(disk) = TinyDisk::mount() else { return };
    let file = MapFile::new(disk.path().join("auth.json"));
    file.update(|map| map.insert("a".to_owned(), json!(1))).unwrap();
    disk.fill();
    let error = file.update(|map| map.insert("b".to_owned(), json!("x".repeat(8000)))).unwrap_err();
    assert!(matches!(error, MapFileError::Write(_)), "{error}");
    assert_eq!(file.read().unwrap(), object(json!({"a": 1})));
    assert!(!beside(file.path(), "", ".lock").exists());
}
