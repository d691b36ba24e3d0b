use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::LogFormat;
use super::collapse::{Collapser, Repeated};
use super::rotate::RotatingFile;
use super::sink::LogWriter;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Refusing;

impl Write for Refusing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn folder_size(folder: &Path) -> (usize, u64) {
    let sizes: Vec<u64> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    (sizes.len(), sizes.iter().sum())
}

#[test]
fn a_warning_100_times_a_second_for_10_minutes_is_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/daemon.log");
    let stderr = Captured::default();
    let mut writer = LogWriter::new(RotatingFile::new(path.clone(), 64 * 1024, 3), LogFormat::Text, Box::new(stderr.clone()));
    let start = Instant::now();
    for n in 0..60_000_u64 {
        writer.line(SystemTime::UNIX_EPOCH, start + Duration::from_millis(n * 10), b" WARN a: the disk is slow\n");
    }
    writer.finish(SystemTime::UNIX_EPOCH, start + Duration::from_secs(600));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, stderr.text());
    assert!((2..=10).contains(&text.lines().count()), "{text}");
    // Every one of the 60,000 is accounted for.
    let told: u64 = text
        .lines()
        .filter_map(|line| line.split_once("(this line came "))
        .map(|(_, rest)| rest.split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(told + 1, 60_000);
}

#[test]
fn lines_that_differ_stay_within_the_files_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logs/daemon.log");
    let mut writer = LogWriter::new(RotatingFile::new(path.clone(), 64 * 1024, 3), LogFormat::Text, Box::new(io::sink()));
    let start = Instant::now();
    for n in 0..60_000_u64 {
        writer.line(SystemTime::UNIX_EPOCH, start + Duration::from_millis(n * 10), format!(" WARN a: attempt {n}\n").as_bytes());
    }
    let (files, bytes) = folder_size(&folder.path().join("logs"));
    assert_eq!(files, 3);
    assert!(bytes <= 3 * 64 * 1024, "{bytes}");
    let newest = std::fs::read_to_string(&path).unwrap();
    assert!(newest.ends_with("attempt 59999\n"), "the newest line is in the first file");
    for file in std::fs::read_dir(folder.path().join("logs")).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(folder.path().join("logs").metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn several_lines_in_turn_are_collapsed_too() {
    let mut collapser = Collapser::default();
    let mut due = Vec::new();
    let start = Instant::now();
    let mut written = 0;
    for n in 0..10_000_u64 {
        let line = format!("line {}", n % 7);
        written += u64::from(collapser.admit(line.as_bytes(), start + Duration::from_millis(n), &mut due));
    }
    assert_eq!(written, 7);
    due.extend(collapser.finish());
    assert_eq!(due.iter().map(|repeated| repeated.times).sum::<u64>() + written, 10_000);
}

#[test]
fn a_line_that_comes_back_after_its_pause_is_written_again() {
    let mut collapser = Collapser::default();
    let mut due = Vec::new();
    let start = Instant::now();
    assert!(collapser.admit(b"a", start, &mut due));
    assert!(!collapser.admit(b"a", start + Duration::from_secs(4), &mut due));
    assert!(collapser.admit(b"b", start + Duration::from_secs(6), &mut due));
    assert_eq!(due, [Repeated { line: b"a".as_slice().into(), times: 1 }]);
    due.clear();
    // It was told 6 s after the start and was quiet for longer than the next pause.
    assert!(collapser.admit(b"a", start + Duration::from_secs(60), &mut due));
    assert_eq!(due, []);
}

#[test]
fn many_different_lines_do_not_pile_up() {
    let mut collapser = Collapser::default();
    let mut due = Vec::new();
    let now = Instant::now();
    for n in 0..100_000 {
        assert!(collapser.admit(format!("{n}").as_bytes(), now, &mut due));
    }
    assert_eq!(due, []);
    assert!(format!("{collapser:?}").len() < 256 * 200);
}

#[test]
fn a_line_break_in_a_value_does_not_make_a_line() {
    let stderr = Captured::default();
    let folder = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new(RotatingFile::new(folder.path().join("l"), 1024, 1), LogFormat::Text, Box::new(stderr.clone()));
    writer.line(SystemTime::UNIX_EPOCH, Instant::now(), b" WARN a: b\n2026 ERROR forged\x1b[2J\r\x00 \xc3\xa9\n");
    assert_eq!(stderr.text(), "1970-01-01T00:00:00.000Z  WARN a: b\\n2026 ERROR forged\\x1b[2J\\r\\x00 é\n");
}

#[test]
fn json_lines_stay_json() {
    let stderr = Captured::default();
    let folder = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::new(RotatingFile::new(folder.path().join("l"), 1024, 1), LogFormat::Json, Box::new(stderr.clone()));
    let line = br#"{"level":"WARN","fields":{"message":"m"},"target":"t"}"#;
    writer.line(SystemTime::UNIX_EPOCH, Instant::now(), line);
    writer.line(SystemTime::UNIX_EPOCH, Instant::now(), line);
    writer.finish(SystemTime::UNIX_EPOCH, Instant::now());
    let values: Vec<serde_json::Value> = stderr.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 2);
    assert_eq!(values[0]["timestamp"], "1970-01-01T00:00:00.000Z");
    assert_eq!(values[0]["fields"]["message"], "m");
    assert_eq!((&values[1]["repeated"], &values[1]["target"]), (&1.into(), &"t".into()));
}

#[test]
fn a_file_that_cannot_be_written_is_tried_again_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("logs");
    std::fs::write(&blocked, "a file where the folder should be").unwrap();
    let stderr = Captured::default();
    let mut writer = LogWriter::new(RotatingFile::new(blocked.join("daemon.log"), 1024, 2), LogFormat::Text, Box::new(stderr.clone()));
    let start = Instant::now();
    writer.line(SystemTime::UNIX_EPOCH, start, b"one");
    writer.line(SystemTime::UNIX_EPOCH, start + Duration::from_millis(10), b"two");
    std::fs::remove_file(&blocked).unwrap();
    writer.line(SystemTime::UNIX_EPOCH, start + Duration::from_secs(2), b"three");
    let text = std::fs::read_to_string(blocked.join("daemon.log")).unwrap();
    assert!(text.contains("three\n") && text.contains("2 lines could not be written"), "{text}");
    assert_eq!(stderr.text().lines().count(), 4, "the error output had every line");
}

#[test]
fn a_closed_error_output_does_not_keep_the_file_from_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.log");
    let mut writer = LogWriter::new(RotatingFile::new(path.clone(), 1024, 2), LogFormat::Text, Box::new(Refusing));
    writer.line(SystemTime::UNIX_EPOCH, Instant::now(), b"one");
    assert!(std::fs::read_to_string(path).unwrap().ends_with("one\n"));
}

#[test]
fn a_full_device_is_an_error_of_the_line_alone() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut file = RotatingFile::new(path, 1024, 1);
    let start = Instant::now();
    for n in 0..100 {
        assert!(file.write_line(b"x\n", start + Duration::from_secs(n)).is_err());
    }
}

#[test]
fn one_file_alone_is_emptied_when_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.log");
    let mut file = RotatingFile::new(path.clone(), 10, 1);
    for _ in 0..10 {
        file.write_line(b"123456\n", Instant::now()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "123456\n");
    assert_eq!(folder_size(folder.path()).0, 1);
}

#[test]
fn a_secret_that_got_into_a_line_is_masked() {
    let stderr = Captured::default();
    let folder = tempfile::tempdir().unwrap();
    let file = RotatingFile::new(folder.path().join("l"), 1024, 1);
    let mut writer = LogWriter::new(file, LogFormat::Text, Box::new(stderr.clone())).masking("0123456789abcdef");
    writer.line(SystemTime::UNIX_EPOCH, Instant::now(), b"a 0123456789abcdef0123456789abcdef b 0123456789abcde\n");
    assert_eq!(stderr.text(), "1970-01-01T00:00:00.000Z a [secret][secret] b 0123456789abcde\n");
}

#[test]
fn a_home_that_was_deleted_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let mut file = RotatingFile::new(home.join("logs/daemon.log"), 1024, 2);
    assert!(file.write_line(b"x\n", Instant::now()).is_err());
    assert!(!home.exists());
}
