//! The sums over restarts, days, torn and missing files.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;
use wolli_home::environment::Environment;
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::{Cost, Usage};
use wolli_protocol::number::Number;

use super::book::Book;
use super::day::LocalDays;

/// 2026-11-30 22:30 UTC.
const EVENING: i64 = 1_796_077_800_000;
const HOUR: i64 = 3_600_000;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("usage.jsonl")
    }

    fn sessions(&self) -> PathBuf {
        self.0.path().join("sessions")
    }

    /// A process opens it; one hour east of Greenwich.
    fn open(&self) -> Book {
        Book::open(self.file(), self.sessions(), LocalDays::posix("CET-1"))
    }

    fn session(&self, id: &str, lines: &[serde_json::Value]) {
        let folder = self.sessions().join("--w--");
        fs::create_dir_all(&folder).unwrap();
        let header = json!({"type": "session", "version": 3, "id": id, "timestamp": "2026-11-01T00:00:00.000Z", "cwd": "/w"});
        let text: Vec<String> = std::iter::once(&header).chain(lines).map(|line| format!("{line}\n")).collect();
        fs::write(folder.join(format!("{id}.jsonl")), text.concat()).unwrap();
    }
}

fn usage(input: u64) -> Usage {
    let cost = Cost { input: Number(0.5), total: Number(0.5), ..Cost::default() };
    Usage { input, output: 1, total_tokens: input + 1, cost, ..Usage::default() }
}

fn id(text: &str) -> SessionId {
    text.into()
}

fn inputs(totals: &UsageTotals) -> (u64, u64, u64) {
    (totals.session.input, totals.today.input, totals.total.input)
}

fn answer(input: u64, timestamp: &str) -> serde_json::Value {
    json!({"type": "message", "id": format!("e{input}"), "parentId": null, "timestamp": timestamp,
           "message": {"role": "assistant", "content": [], "usage": usage(input)}})
}

#[test]
fn sums_are_those_of_the_session_of_the_local_day_and_in_all() {
    let home = Home::new();
    let mut book = home.open();
    book.record(&id("a"), "p/m", &usage(1), EVENING);
    book.record(&id("b"), "p/m", &usage(20), EVENING);
    assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (1, 21, 21));
    // Half an hour before midnight in UTC it is the next day here.
    book.record(&id("a"), "p/m", &usage(300), EVENING + HOUR);
    assert_eq!(inputs(&book.totals(&id("a"), EVENING + HOUR)), (301, 300, 321));
    assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (301, 21, 321));
    assert_eq!(inputs(&book.totals(&id("new"), EVENING + 48 * HOUR)), (0, 0, 321));
    let total = book.totals(&id("a"), EVENING).total;
    assert_eq!((total.output, total.total_tokens, total.cost.total), (3, 324, Number(1.5)));

    // The process is gone without a word; the next one knows all of it, once.
    drop(book);
    let mut book = home.open();
    assert_eq!(inputs(&book.totals(&id("a"), EVENING + HOUR)), (301, 300, 321));
    book.record(&id("b"), "p/m", &usage(4_000), EVENING + HOUR);
    let book = home.open();
    assert_eq!(inputs(&book.totals(&id("b"), EVENING + HOUR)), (4_020, 4_300, 4_321));
    let first = fs::read_to_string(home.file()).unwrap().lines().next().unwrap().to_owned();
    assert!(first.starts_with(r#"{"day":"2026-11-30","session":"a","model":"p/m","usage":{"input":1,"#), "{first}");
}

#[test]
fn an_answer_counts_once_wherever_the_process_was_killed() {
    let home = Home::new();
    home.session("a", &[]);
    let mut book = home.open();
    book.record(&id("a"), "p/m", &usage(1), EVENING);
    // Killed before the entry was written: it was paid for.
    assert_eq!(inputs(&home.open().totals(&id("a"), EVENING)), (1, 1, 1));
    // Killed after it: the session file does not add it again.
    home.session("a", &[answer(1, "2026-11-30T22:30:00.000Z")]);
    assert_eq!(inputs(&home.open().totals(&id("a"), EVENING)), (1, 1, 1));
    // Killed in the middle of a line of the record: that answer never had an entry.
    let whole = fs::read(home.file()).unwrap();
    for cut in 0..whole.len() {
        fs::write(home.file(), [&whole[..], &whole[..cut]].concat()).unwrap();
        let mut book = home.open();
        assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (1, 1, 1), "{cut}");
        // And what follows is not glued to the torn line.
        book.record(&id("a"), "p/m", &usage(20), EVENING);
        assert_eq!(inputs(&home.open().totals(&id("a"), EVENING)), (21, 21, 21), "{cut}");
    }
}

#[test]
fn many_short_lives_do_not_let_the_record_grow() {
    let home = Home::new();
    let mut longest = 0;
    for life in 1..=20_u64 {
        let mut book = home.open();
        for _ in 0..100 {
            book.record(&id("a"), "p/m", &usage(1), EVENING);
        }
        assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (life * 100, life * 100, life * 100));
        longest = longest.max(fs::metadata(home.file()).unwrap().len());
    }
    assert!((200 << 10..300 << 10).contains(&longest), "{longest}");
}

#[test]
fn counting_the_sessions_leaves_files_that_are_being_written() {
    let home = Home::new();
    home.session("a", &[answer(1, "2026-11-30T22:30:00.000Z")]);
    let written = home.sessions().join("--w--/.wolli-abc.tmp");
    fs::write(&written, "half").unwrap();
    assert_eq!(inputs(&home.open().totals(&id("a"), EVENING)), (1, 1, 1));
    assert!(written.exists());
}

#[test]
fn without_a_record_the_answers_in_the_sessions_count() {
    let home = Home::new();
    home.session(
        "a",
        &[
            json!({"type": "message", "id": "u", "timestamp": "2026-11-30T22:00:00.000Z", "message": {"role": "user", "content": "\"usage\""}}),
            answer(1, "2026-11-30T22:30:00.000Z"),
            json!({"type": "message", "usage": 7}),
            // The other side of midnight, here.
            answer(20, "2026-11-30T23:30:00.000Z"),
        ],
    );
    home.session("b", &[answer(300, "2026-11-30T10:00:00.000Z")]);
    let mut book = home.open();
    assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (21, 301, 321));
    // The next answer is counted before it is an entry.
    book.record(&id("b"), "p/m", &usage(4_000), EVENING);
    assert_eq!(inputs(&book.totals(&id("b"), EVENING)), (4_300, 4_301, 4_321));
    assert_eq!(inputs(&home.open().totals(&id("b"), EVENING)), (4_300, 4_301, 4_321));
    // Somebody removes it while we run: what is known is written again.
    fs::remove_file(home.file()).unwrap();
    book.record(&id("b"), "p/m", &usage(50_000), EVENING);
    assert_eq!(inputs(&home.open().totals(&id("b"), EVENING)), (54_300, 54_301, 54_321));
}

#[test]
fn lines_of_others_count_nothing_and_a_folder_stops_nothing() {
    let home = Home::new();
    let line = json!({"session": "a", "usage": usage(5)});
    fs::write(home.file(), format!("not json\n{{\"day\":7}}\n{line}\n")).unwrap();
    assert_eq!(inputs(&home.open().totals(&id("a"), EVENING)), (5, 0, 0));
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    let mut book = home.open();
    book.record(&id("a"), "p/m", &usage(9), EVENING);
    assert_eq!(inputs(&book.totals(&id("a"), EVENING)), (9, 9, 9));
}

#[test]
fn the_file_stays_small() {
    let home = Home::new();
    let session = id("01a22c21-79e4-77c8-a01f-fd45777cef19");
    let mut book = home.open();
    for _ in 0..5_000 {
        book.record(&session, "anthropic/claude-opus-4-8", &usage(1), EVENING);
    }
    let length = fs::metadata(home.file()).unwrap().len();
    assert!(length < 300 << 10, "{length}");
    assert_eq!(inputs(&home.open().totals(&session, EVENING)), (5_000, 5_000, 5_000));
}

#[test]
fn days_are_those_of_the_zone() {
    for (zone, day) in [
        ("UTC0", "2026-11-30"),
        ("Etc/GMT-3", "2026-12-01"),
        (":/usr/share/zoneinfo/Etc/GMT-3", "2026-12-01"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-11-30"),
        ("<+02>-2", "2026-12-01"),
    ] {
        // Names need the system's rules, which a bare machine may lack.
        if zone.contains("Etc") && !Path::new("/usr/share/zoneinfo/Etc/GMT-3").exists() {
            continue;
        }
        assert_eq!(LocalDays::of(&Environment::new([("TZ", zone)], "/")).day(EVENING), day, "{zone:?}");
    }
    // Nonsense is the machine's own zone, or UTC.
    let nonsense = Environment::new([("TZ", "../../../etc/passwd")], "/");
    assert_eq!(LocalDays::of(&nonsense).day(EVENING).len(), 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is recorded, with restarts in between, the sums are the sums.
    #[test]
    fn restarts_change_nothing(steps in prop::collection::vec((0..3_u8, 1..1_000_u64, any::<bool>()), 1..40)) {
        let home = Home::new();
        let mut book = home.open();
        for (session, input, restart) in &steps {
            if *restart {
                book = home.open();
            }
            book.record(&id(&session.to_string()), "p/m", &usage(*input), EVENING);
        }
        let book = home.open();
        for session in 0..3 {
            let own = steps.iter().filter(|step| step.0 == session).map(|step| step.1).sum();
            let all = steps.iter().map(|step| step.1).sum();
            prop_assert_eq!(inputs(&book.totals(&id(&session.to_string()), EVENING)), (own, all, all));
        }
    }
}
