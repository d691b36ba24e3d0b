//! The list against files that change under it, and the index against everything that can be wrong with it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::facts::Facts;
use super::*;
use crate::session::file::SessionFile;

fn header(id: &str, minute: usize) -> String {
    format!("{{\"type\":\"session\",\"version\":3,\"id\":\"{id}\",\"timestamp\":\"2026-01-01T00:{minute:02}:00.000Z\",\"cwd\":\"/w\"}}\n")
}

fn named(entry: usize, name: &str) -> String {
    format!(
        "{{\"type\":\"session_info\",\"id\":\"n{entry}\",\"parentId\":null,\"timestamp\":\"t\",\"name\":{}}}\n",
        serde_json::json!(name)
    )
}

fn tagged(entry: usize, tags: &serde_json::Value) -> String {
    format!("{{\"type\":\"tags\",\"id\":\"t{entry}\",\"parentId\":null,\"timestamp\":\"t\",\"tags\":{tags}}}\n")
}

fn said(entry: usize, text: &str) -> String {
    let message = serde_json::json!({"role": "user", "content": text, "timestamp": 1});
    format!("{{\"type\":\"message\",\"id\":\"m{entry}\",\"parentId\":null,\"timestamp\":\"t\",\"message\":{message}}}\n")
}

struct Home(tempfile::TempDir);

impl Home {
    /// Sessions `s0`.. with a name each, `s0` being the oldest.
    fn with(sessions: usize) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(home.folder()).unwrap();
        for index in 0..sessions {
            home.write(index, &(header(&format!("s{index}"), index) + &named(0, &format!("name {index}"))));
        }
        home
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn folder(&self) -> PathBuf {
        self.root().join("--w--")
    }

    fn file(&self, index: usize) -> PathBuf {
        self.folder().join(format!("{index:03}.jsonl"))
    }

    fn write(&self, index: usize, text: &str) {
        std::fs::write(self.file(index), text).unwrap();
    }

    fn append(&self, index: usize, text: &str) {
        std::fs::OpenOptions::new().append(true).open(self.file(index)).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn save_index(&self, listing: &mut Listing) {
        let (path, content) = listing.take_unsaved().unwrap();
        std::fs::write(path, content).unwrap();
    }
}

fn listed(list: &[StoredSession]) -> Vec<(&str, Option<&str>)> {
    list.iter().map(|session| (session.id.as_str(), session.name.as_deref())).collect()
}

#[test]
fn names_and_tags_are_found_and_kept_in_the_index() {
    let home = Home::with(3);
    home.append(1, &tagged(1, &serde_json::json!({"a": "1", "b": "2"})));
    home.append(1, &tagged(2, &serde_json::json!({"a": "3"})));
    home.append(2, &named(1, "  "));
    let mut listing = Listing::new(home.root().to_owned());
    let list = listing.refresh_names().unwrap();
    assert_eq!(listed(&list), [("s2", None), ("s1", Some("name 1")), ("s0", Some("name 0"))]);
    assert_eq!(list[1].tags, BTreeMap::from([("a".into(), "3".into()), ("b".into(), "2".into())]));
    home.save_index(&mut listing);
    assert!(listing.take_unsaved().is_none(), "nothing has changed");

    // The next process knows all of it without a search.
    let mut next = Listing::new(home.root().to_owned());
    assert_eq!(next.refresh().unwrap(), list);
    // It goes on where the last one stopped.
    home.append(0, &named(1, "later"));
    let mut next = Listing::new(home.root().to_owned());
    assert_eq!(listed(&next.refresh_names().unwrap())[2], ("s0", Some("later")));
}

#[test]
fn a_wrong_index_is_noticed() {
    let home = Home::with(2);
    let mut listing = Listing::new(home.root().to_owned());
    let right = listing.refresh_names().unwrap();
    let (path, content) = listing.take_unsaved().unwrap();
    let text = String::from_utf8(content).unwrap();
    let wrong = text.replace("name 1", "wrong").replace("\"s0\"", "\"wrong\"");
    let stale: Vec<String> = vec![
        String::new(),
        "{".into(),
        "[]".into(),
        "\0\0\0".into(),
        text[..text.len() / 2].into(),
        text.replace("\"version\":1", "\"version\":2"),
        wrong.replace("\"size\":", "\"size\":1"),
        wrong.replace("\"modified\":", "\"modified\":1"),
        wrong.replace("\"inode\":", "\"inode\":1"),
        text.replace("\"s0\"", "\"wrong\""),
        text.replace("\"s0\"", "\"s1\""),
        text.replace("--w--/000.jsonl", "../../etc/passwd.jsonl"),
        text.replace("--w--/000.jsonl", "/etc/passwd.jsonl"),
        text.replace("--w--/000.jsonl", "--w--/gone.jsonl"),
    ];
    for index in stale {
        std::fs::write(&path, &index).unwrap();
        let mut listing = Listing::new(home.root().to_owned());
        assert_eq!(listing.refresh_names().unwrap(), right, "{index}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(Listing::new(home.root().to_owned()).refresh_names().unwrap(), right);
}

#[test]
fn a_copy_beside_a_session_does_not_take_its_place() {
    let home = Home::with(0);
    let path = home.folder().join("2026-01-01T00-00-00-000Z_s0.jsonl");
    for copy in ["1.jsonl", "copy.jsonl", "zs0.jsonl"] {
        std::fs::write(home.folder().join(copy), header("s0", 0)).unwrap();
    }
    std::fs::write(&path, header("s0", 0)).unwrap();
    let list = Listing::new(home.root().to_owned()).refresh().unwrap();
    assert_eq!(list.iter().map(|session| &session.path).collect::<Vec<_>>(), [&path]);
}

#[test]
fn files_that_come_and_go_are_seen_at_once() {
    let home = Home::with(0);
    let mut listing = Listing::new(home.root().to_owned());
    for round in 0..40 {
        assert_eq!(listing.refresh_names().unwrap().len(), round % 10);
        if round % 10 == 9 {
            (0..9).for_each(|index| std::fs::remove_file(home.file(index)).unwrap());
        } else {
            home.write(round % 10, &header(&format!("s{round}"), round));
        }
    }
    assert!(listing.refresh_names().unwrap().is_empty());
    std::fs::create_dir(home.root().join("new")).unwrap();
    std::fs::rename(home.file(0), home.root().join("new/x.jsonl")).unwrap_or_default();
    home.write(5, &header("five of another length", 5));
    let found = listing.find(&"five of another length".into()).unwrap();
    assert_eq!(found.path, home.file(5));
    std::fs::remove_dir_all(home.root()).unwrap();
    assert!(listing.refresh_names().unwrap().is_empty());
    assert!(listing.find(&"five of another length".into()).is_none());
}

#[test]
fn what_another_program_does_to_a_file_is_noticed_in_turn() {
    let home = Home::with(100);
    let mut listing = Listing::new(home.root().to_owned());
    listing.refresh_names().unwrap();
    home.append(7, &named(1, "appended"));
    // Written anew, and longer than it was.
    home.write(8, &(header("s8", 8) + &said(1, "text in another place") + &named(2, "anew")));
    home.write(9, "no session any more\n");
    let calls = 100 / CHECKED_FILES + 1;
    (0..calls).for_each(|_| drop(listing.refresh_names().unwrap()));
    let list = listing.refresh_names().unwrap();
    let name = |id: &str| list.iter().find(|session| session.id.as_str() == id).map(|session| session.name.clone().unwrap());
    assert_eq!((name("s7"), name("s8"), name("s9")), (Some("appended".into()), Some("anew".into()), None));
}

#[test]
fn strange_files_hide_nobody() {
    let home = Home::with(1);
    for (index, text) in [(1, ""), (2, "\0\0"), (3, "{}\n"), (4, "\u{feff}")] {
        home.write(index, text);
    }
    std::fs::create_dir(home.file(5)).unwrap();
    std::os::unix::fs::symlink("/nowhere", home.file(6)).unwrap();
    std::os::unix::fs::symlink(home.file(0), home.folder().join("link.jsonl")).unwrap();
    home.write(7, &header("s7", 7).replace('\n', "\r\n"));
    home.append(7, &named(1, "crlf").replace('\n', "\r\n"));
    home.write(8, &(header("s8", 8) + &said(1, &"x".repeat(12 << 20)) + &named(2, "behind a large line")));
    home.write(9, &(header("s9", 9) + &named(1, "whole") + named(2, "torn").trim_end()));
    home.write(10, &(header("s10", 10) + &named(1, "mine") + &said(1, "\"session_info\" {\"type\":\"session_info\",\"name\":\"yours\"}")));
    let mut listing = Listing::new(home.root().to_owned());
    let mut list = listing.refresh_names().unwrap();
    for _ in 0..3 {
        list = listing.refresh_names().unwrap();
    }
    let expected =
        [("s10", Some("mine")), ("s9", Some("whole")), ("s8", Some("behind a large line")), ("s7", Some("crlf")), ("s0", Some("name 0"))];
    assert_eq!(listed(&list), expected);
    assert_eq!(listing.take_strangers(), [1, 2, 3, 4, 5].map(|index| home.file(index)));
    // Once it is whole, it counts.
    home.append(9, "\n");
    for _ in 0..2 {
        list = listing.refresh_names().unwrap();
    }
    assert_eq!(listed(&list)[1], ("s9", Some("torn")));
}

#[test]
fn what_a_killed_writer_left_goes_with_the_first_look_and_not_later() {
    let home = Home::with(1);
    let left = home.folder().join(".wolli-abc.tmp");
    std::fs::write(&left, "half").unwrap();
    Listing::for_a_look(home.root().to_owned()).refresh().unwrap();
    assert!(left.exists(), "it may be one that is being written");
    let mut listing = Listing::new(home.root().to_owned());
    listing.refresh().unwrap();
    assert!(!left.exists());
    std::fs::write(&left, "ours").unwrap();
    home.write(1, &header("s1", 1));
    assert_eq!(listing.refresh().unwrap().len(), 2);
    assert!(left.exists());
}

#[test]
fn a_removed_session_is_not_listed_and_a_failure_leaves_it() {
    let home = Home::with(3);
    std::fs::create_dir(home.root().join("copies")).unwrap();
    std::fs::copy(home.file(1), home.root().join("copies/1.jsonl")).unwrap();
    let mut listing = Listing::new(home.root().to_owned());
    listing.remove(&"s1".into()).unwrap();
    assert_eq!(listed(&listing.refresh_names().unwrap()), [("s2", Some("name 2")), ("s0", Some("name 0"))]);
    listing.remove(&"s1".into()).unwrap();
    // A folder in the place of the renamed file makes the rename fail.
    std::fs::create_dir(home.folder().join("002.jsonl.deleted")).unwrap();
    listing.remove(&"s2".into()).unwrap_err();
    assert_eq!(listed(&listing.refresh_names().unwrap()), [("s2", Some("name 2")), ("s0", Some("name 0"))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A search in pieces, over a file that grows, finds what opening the file finds.
    #[test]
    fn a_search_in_pieces_finds_what_opening_finds(
        steps in prop::collection::vec((0_usize..4, "[a-z\u{e9}\"\\\\]{0,30}", 300_u64..2000), 1..20),
    ) {
        let home = Home::with(1);
        let path = home.file(0);
        let mut facts = Facts::default();
        for (index, (kind, text, budget)) in steps.into_iter().enumerate() {
            let mut lines = String::new();
            match kind {
                0 => lines += &named(index + 1, &text),
                1 => lines += &said(index, &text.repeat(7)),
                2 => write!(lines, "not json \"session_info\" {text}\n\n").unwrap(),
                _ => lines += &tagged(index, &serde_json::json!({"k": text})),
            }
            home.append(0, &lines);
            let size = path.metadata().unwrap().len();
            // Not always to its end.
            facts.search(&path, size, budget);
        }
        let size = path.metadata().unwrap().len();
        while facts.searched < size {
            prop_assert!(facts.search(&path, size, 1000) > 0);
        }
        prop_assert_eq!(facts.name, SessionFile::open(&path).unwrap().1.name);
    }
}
