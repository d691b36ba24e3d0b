//! Session files under damage: whatever happens to the end of a file, nothing before it and nothing after it is lost.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use wolli_protocol::entry::EntryBody;
use wolli_protocol::ids::{EntryId, SessionId};
use wolli_protocol::message::{Message, UserMessage};
use wolli_protocol::model::ThinkingLevel;

use super::file::{RestoredModel, SessionFile};
use super::sidecar::Sidecar;
use super::{Listing, NewEntry, read_entries, read_messages, read_page};

fn user(text: &str) -> Message {
    Message::User(UserMessage::new(text, Vec::new(), 1))
}

fn entry(id: &str, text: &str) -> NewEntry {
    NewEntry {
        id: id.into(),
        timestamp: "2026-01-01T00:00:00.000Z".into(),
        body: EntryBody::Message { message: user(text), idempotency_key: None },
    }
}

/// A session with entries `e0`..; returns its path.
fn session(folder: &Path, entries: usize) -> PathBuf {
    let (mut file, _) = SessionFile::create(folder, &SessionId::generate(), "2026-01-01T00:00:00.000Z", "/w").unwrap();
    for index in 0..entries {
        file.append(&[entry(&format!("e{index}"), &format!("text {index} é"))], true).unwrap();
    }
    file.path().to_owned()
}

fn ids(path: &Path) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: String,
    }
    read_entries(path).unwrap().iter().map(|line| serde_json::from_str::<Id>(line.get()).unwrap().id).collect()
}

#[test]
fn what_a_sidecar_may_have_lost_is_on_disk_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, sidecar) = SessionFile::create(folder.path(), &SessionId::generate(), "2026-01-01T00:00:00.000Z", "/w").unwrap();
    assert!(!file.unsynced);
    // A message that was queued is delivered, and the queues are written without it before the turn ends.
    file.append(&[entry("e0", "queued")], false).unwrap();
    assert!(file.unsynced);
    file.store_sidecar(&sidecar).unwrap();
    assert!(!file.unsynced);
    file.append(&[entry("e1", "prompt")], true).unwrap();
    assert!(!file.unsynced);
    // The daemon is killed, and its successor cannot know what was synced.
    let (mut file, restored) = SessionFile::open(file.path()).unwrap();
    assert!(file.unsynced);
    file.store_sidecar(&restored.sidecar).unwrap();
    assert!(!file.unsynced);
}

#[test]
fn a_new_file_has_its_name_header_and_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let id = SessionId::generate();
    let (file, _) = SessionFile::create(folder.path(), &id, "2026-06-28T19:10:00.123Z", "/home/u/workspace").unwrap();
    assert_eq!(file.path().file_name().unwrap().to_str().unwrap(), format!("2026-06-28T19-10-00-123Z_{id}.jsonl"));
    assert_eq!(
        std::fs::read_to_string(file.path()).unwrap(),
        format!(
            "{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-06-28T19:10:00.123Z\",\"cwd\":\"/home/u/workspace\"}}\n"
        )
    );
    assert_eq!(file.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_append_that_fails_at_any_byte_leaves_whole_lines_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 2);
    let mut file = SessionFile::open(&path).unwrap().0;
    let mut expected = ids(&path);
    let length: usize = [entry("a0", "good \u{e9}"), entry("b0", "bad")].iter().map(|entry| entry.line(Some("e1")).unwrap().len()).sum();
    for room in 0..length {
        let before = std::fs::read(&path).unwrap();
        file.room = Some(room);
        let pair = [entry(&format!("a{room}"), "good \u{e9}"), entry(&format!("b{room}"), "bad")];
        file.append(&pair, true).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), before, "room for {room} bytes");
        assert_eq!(file.context().unwrap().len(), expected.len(), "room for {room} bytes");
        file.room = None;
        file.append(&pair[..1], true).unwrap();
        expected.push(format!("a{room}"));
    }
    assert_eq!(ids(&path), expected);
    let (_, restored) = SessionFile::open(&path).unwrap();
    assert_eq!((restored.message_count, restored.diagnostics), (expected.len() as u64, Vec::<String>::new()));
}

#[test]
fn a_file_cut_at_any_byte_opens_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let original = session(folder.path(), 3);
    let bytes = std::fs::read(&original).unwrap();
    let header_end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in header_end..=bytes.len() {
        let path = folder.path().join(format!("cut-{cut}.jsonl"));
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let whole = bytes[..cut].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
        // An entry that lacks only its line break is whole, too.
        let completed = bytes.get(cut) == Some(&b'\n') && cut > header_end;
        let (mut file, restored) = SessionFile::open(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        file.append(&[entry("new", "after the crash")], true).unwrap();
        let mut expected: Vec<String> = (0..whole + usize::from(completed)).map(|index| format!("e{index}")).collect();
        expected.push("new".into());
        assert_eq!(ids(&path), expected, "cut at {cut}");
        let clean = bytes[..cut].ends_with(b"\n");
        assert_eq!(restored.diagnostics.is_empty(), clean, "cut at {cut}: {:?}", restored.diagnostics);
        let torn = folder.path().join(format!("cut-{cut}.jsonl.torn-1"));
        assert_eq!(torn.exists(), !clean && !completed && cut > header_end, "cut at {cut}");
        assert_eq!(SessionFile::open(&path).unwrap().1.diagnostics, Vec::<String>::new(), "the second opening finds nothing wrong");
    }
}

#[test]
fn a_tail_of_zeros_is_moved_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 2);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(std::iter::repeat_n(0, 5000));
    std::fs::write(&path, &bytes).unwrap();
    let (mut file, restored) = SessionFile::open(&path).unwrap();
    assert_eq!(restored.diagnostics.len(), 1);
    file.append(&[entry("new", "x")], true).unwrap();
    assert_eq!(ids(&path), ["e0", "e1", "new"]);
}

#[test]
fn bad_lines_in_the_middle_hide_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 3);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "{\"type\":\"message\",\"id\":\"e1\",";
    lines.insert(1, "");
    lines.insert(2, "[]");
    std::fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
    let (mut file, restored) = SessionFile::open(&path).unwrap();
    assert_eq!(
        restored.diagnostics,
        [
            "line 2 is not a valid session entry and was skipped",
            "line 4 is not valid JSON and was skipped",
            "line 5 names an entry that is not there; the nearest earlier one took its place",
        ]
    );
    assert_eq!(restored.message_count, 2);
    file.append(&[entry("new", "x")], true).unwrap();
    assert_eq!(read_messages(&path).unwrap().len(), 3);
    assert_eq!(file.context().unwrap().len(), 3);
}

#[test]
fn a_choice_that_waited_for_the_end_of_a_turn_counts_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 0);
    let choice = |model: &str, level| {
        let model = EntryBody::ModelChange { provider: "p".into(), model_id: model.into() };
        [NewEntry::new(model), NewEntry::new(EntryBody::ThinkingLevelChange { thinking_level: level })]
    };
    let (mut file, _) = SessionFile::open(&path).unwrap();
    file.append(&choice("written", ThinkingLevel::Low), true).unwrap();
    let waiting = [choice("first", ThinkingLevel::Off), choice("last", ThinkingLevel::High)].concat();
    Sidecar::first().with_deferred(waiting.clone()).store(&path).unwrap();
    let restored = SessionFile::open(&path).unwrap().1;
    let model = RestoredModel { provider: "p".into(), id: "last".into(), chosen: true };
    assert_eq!((restored.model, restored.level), (Some(model), Some(ThinkingLevel::High)));
    // In the file and, since nobody took it out, beside it: what came later counts.
    file.append(&waiting, true).unwrap();
    file.append(&choice("later", ThinkingLevel::Medium), true).unwrap();
    let restored = SessionFile::open(&path).unwrap().1;
    assert_eq!((restored.model.unwrap().id.as_str(), restored.level), ("later", Some(ThinkingLevel::Medium)));
}

#[test]
fn headers_that_are_none_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (content, reason) in [
        (&b""[..], "missing session header"),
        (b"\0\0\0\0", "missing session header"),
        (b"hello\n", "first line is not a valid session header"),
        (b"{\"type\":\"session\",\"version\":9,\"id\":\"s\",\"timestamp\":\"t\",\"cwd\":\"/\"}\n", "unsupported session version"),
    ] {
        let path = folder.path().join("bad.jsonl");
        std::fs::write(&path, content).unwrap();
        let error = SessionFile::open(&path).unwrap_err().to_string();
        assert_eq!(error, format!("Invalid JSONL session file {}: {reason}", path.display()));
        assert_eq!(Listing::new(folder.path().to_owned()).refresh().unwrap(), [].into());
    }
}

#[test]
fn unknown_entries_and_keys_are_kept_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 0);
    let later = r#"{"type":"later_kind","id":"k1","parentId":null,"timestamp":"t","payload":{"b":1,"a":[1.50,2]}}"#;
    let message = r#"{"type":"message","id":"m1","parentId":"k1","timestamp":"t","message":{"role":"user","content":"hi","timestamp":1,"extra":{"z":0.10}}}"#;
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.extend([later, "\n", message, "\n"]);
    std::fs::write(&path, &text).unwrap();
    let (mut file, _) = SessionFile::open(&path).unwrap();
    file.append(&[entry("new", "x")], true).unwrap();
    let entries = read_entries(&path).unwrap();
    assert_eq!((entries[0].get(), entries[1].get()), (later, message));
    assert_eq!(read_messages(&path).unwrap()[0].get(), r#"{"role":"user","content":"hi","timestamp":1,"extra":{"z":0.10}}"#);
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&text));
}

#[test]
fn nothing_is_written_to_a_file_that_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, _) = SessionFile::open(&session(folder.path(), 1)).unwrap();
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(file.append(&[entry("new", "lost")], true).unwrap_err().to_string(), "the session file was deleted");
}

#[test]
fn half_a_character_hides_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 3);
    let text = std::fs::read_to_string(&path).unwrap().replace("text 1 é", r"text 1 \ud83d");
    std::fs::write(&path, &text).unwrap();
    let (mut file, _) = SessionFile::open(&path).unwrap();
    assert_eq!(file.context().unwrap().len(), 3, "what the model sees");
    let messages = read_messages(&path).unwrap();
    assert_eq!(messages.len(), 3);
    for line in read_entries(&path).unwrap().iter().chain(&messages) {
        serde_json::from_str::<serde_json::Value>(line.get()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the file stays as it is");
}

#[test]
fn a_pipe_among_the_sessions_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let real = session(folder.path(), 1);
    let pipe = folder.path().join("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let listed: Vec<PathBuf> =
        Listing::new(folder.path().to_owned()).refresh().unwrap().iter().map(|session| session.path.clone()).collect();
    assert_eq!(listed, std::slice::from_ref(&real));
    assert!(read_entries(&pipe).is_err());
    assert!(SessionFile::open(&pipe).is_err());
    std::fs::remove_file(real.with_extension("state.json")).unwrap();
    std::fs::rename(&pipe, real.with_extension("state.json")).unwrap();
    assert!(SessionFile::open(&real).is_ok(), "a sidecar that is a pipe");
}

#[test]
fn pages_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = session(folder.path(), 7);
    let mut seen = 0;
    let mut after: Option<EntryId> = None;
    loop {
        let page = read_page(&path, after.as_ref().map(EntryId::as_str), None, 3, usize::MAX).unwrap();
        seen += page.entries.len();
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, 7);
    assert_eq!(read_page(&path, Some("e1"), Some("e4"), 100, usize::MAX).unwrap().entries.len(), 3);
    assert_eq!(read_page(&path, None, None, 100, 1).unwrap().entries.len(), 1, "a page is never empty while there is more");
    assert!(read_page(&path, Some("nope"), None, 1, 1).unwrap_err().to_string().contains("nope"));
}

#[test]
fn listing_finds_sessions_of_a_moved_home() {
    let folder = tempfile::tempdir().unwrap();
    let old = session(&folder.path().join("--old-place--"), 1);
    let new = session(&folder.path().join("--new-place--"), 1);
    std::fs::write(folder.path().join("--new-place--/notes.jsonl"), "not a session\n").unwrap();
    let mut listing = Listing::new(folder.path().to_owned());
    let found: Vec<PathBuf> = listing.refresh().unwrap().iter().map(|session| session.path.clone()).collect();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&old) && found.contains(&new));
    std::fs::remove_file(&old).unwrap();
    assert_eq!(listing.refresh().unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Appends and crashes at random places against a list of the entries that must be there.
    #[test]
    fn random_crashes_lose_only_what_was_torn(steps in prop::collection::vec((0_u8..4, 0_usize..400, "[a-z\u{e9}\u{1f600}\"\\\\\n]{0,40}"), 1..25)) {
        let folder = tempfile::tempdir().unwrap();
        let path = session(folder.path(), 0);
        let mut expected: Vec<String> = Vec::new();
        let mut file = SessionFile::open(&path).unwrap().0;
        for (index, (kind, amount, text)) in steps.into_iter().enumerate() {
            match kind {
                0..=2 => {
                    let id = format!("n{index}");
                    file.append(&[entry(&id, &text)], false).unwrap();
                    expected.push(id);
                }
                _ => {
                    // The process dies in the middle of one more append: some of its bytes are in the file.
                    drop(file);
                    let mut bytes = std::fs::read(&path).unwrap();
                    let line = entry("torn", &text).line(None).unwrap();
                    bytes.extend_from_slice(&line[..amount.min(line.len() - 2)]);
                    std::fs::write(&path, bytes).unwrap();
                    file = SessionFile::open(&path).unwrap().0;
                }
            }
        }
        prop_assert_eq!(ids(&path), expected.clone());
        prop_assert_eq!(SessionFile::open(&path).unwrap().1.message_count, expected.len() as u64);
    }
}
