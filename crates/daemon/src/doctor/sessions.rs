//! Files of sessions: their first line and their end. Read only; what is between is looked at when a session is opened.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;
use wolli_protocol::entry::SESSION_VERSION;

use super::Patient;
use super::finding::{Finding, word};

const CHECK: &str = "sessions";

/// A header has some hundred bytes.
const HEADER_MAX_BYTES: u64 = 64 * 1024;
/// A last line that is longer is not looked at whole.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;
/// Findings that are told one by one; more of the same say nothing new.
const TOLD: usize = 20;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Unreadable(String),
    Empty,
    Header,
    Version(String),
    Torn,
}

/// Looks at every file. The end of one that a daemon writes may be half a line at any moment, and is left out then.
pub(super) fn gather(patient: &Patient, is_held: bool) -> Vec<(PathBuf, Fault)> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(patient.home.sessions()).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|extension| extension == "jsonl")
                && let Some(fault) = look(&path, !is_held).unwrap_or_else(|error| Some(Fault::Unreadable(error.to_string())))
            {
                found.push((path, fault));
            }
        }
    }
    found.sort_by(|(one, _), (two, _)| one.cmp(two));
    found
}

fn look(path: &Path, with_end: bool) -> io::Result<Option<Fault>> {
    let file = match wolli_home::reading::open(path) {
        Ok(file) => file,
        // It was deleted meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Some(Fault::Empty));
    }
    let mut line = Vec::new();
    BufReader::new(&file).take(HEADER_MAX_BYTES).read_until(b'\n', &mut line)?;
    let header: Value = serde_json::from_slice(&line).unwrap_or_default();
    let has = |key: &str| header.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if header.get("type").and_then(Value::as_str) != Some("session") || !["id", "timestamp", "cwd"].into_iter().all(has) {
        return Ok(Some(Fault::Header));
    }
    let version = header.get("version").cloned().unwrap_or_default();
    if version.as_u64() != Some(SESSION_VERSION) {
        return Ok(Some(Fault::Version(version.to_string())));
    }
    Ok((with_end && is_torn(file, length)?).then_some(Fault::Torn))
}

/// Whether the last line is no whole entry. One that lacks its line break alone is completed when the session is opened.
fn is_torn(mut file: File, length: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let ends = tail.strip_suffix(b"\n");
    let whole = ends.unwrap_or(&tail);
    match whole.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => Ok(serde_json::from_slice::<serde::de::IgnoredAny>(whole.get(at + 1..).unwrap_or_default()).is_err()),
        // A line that is longer than what we look at, or the header alone.
        None => Ok(ends.is_none() && length > TAIL_BYTES),
    }
}

pub(super) fn findings(patient: &Patient, faults: &[(PathBuf, Fault)]) -> Vec<Finding> {
    let name = patient.name();
    let mut found: Vec<Finding> = faults.iter().take(TOLD).map(|(path, fault)| finding(name, path, fault)).collect();
    if faults.len() > TOLD {
        found.push(
            Finding::warning(CHECK, "more", format!("{} more files of sessions are damaged", faults.len() - TOLD))
                .means("A disk with faults, or a program that writes over them.")
                .fix(format!("wolli logs {name} --lines 100")),
        );
    }
    found
}

fn finding(name: &str, path: &Path, fault: &Fault) -> Finding {
    let (shown, path) = (path.display(), word(path));
    let aside = format!("mv {path} {path}.damaged");
    match fault {
        Fault::Unreadable(problem) => Finding::error(CHECK, "session_unreadable", format!("{shown} cannot be read: {problem}"))
            .means("The session cannot be opened.")
            .fix(format!("ls -l {path}")),
        Fault::Empty => Finding::warning(CHECK, "session_empty", format!("{shown} is empty"))
            .means("Nothing of the session is in it, after a full disk or a crash of the machine. It is not listed.")
            .fix(format!("rm {path}")),
        Fault::Header => Finding::error(CHECK, "session_header", format!("the first line of {shown} is no header of a session"))
            .means("The session cannot be opened and is not listed.")
            .fix(aside),
        Fault::Version(version) => Finding::error(CHECK, "session_version", format!("{shown} has version {version}, and this wolli reads {SESSION_VERSION}"))
            .means("The session cannot be opened. A newer wolli may have written it.")
            .fix("wolli --version"),
        Fault::Torn => Finding::warning(CHECK, "session_torn", format!("{shown} ends in the middle of an entry"))
            .means("A crash or a full disk cut it off. Opening the session moves the torn end aside and keeps it in a file of its own; all before it stays.")
            .fix(format!("wolli chat {name} --session {}", id_of(path.as_str()))),
    }
}

/// The id in `<time>_<id>.jsonl`.
fn id_of(path: &str) -> &str {
    let stem = path.trim_end_matches('\'').trim_end_matches(".jsonl");
    stem.rsplit(['_', '/']).next().unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;

    #[test]
    fn every_kind_of_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("2026_s1.jsonl");
        let entry = r#"{"type":"message","id":"a"}"#;
        let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(5 * 1024 * 1024));
        for (content, fault) in [
            (String::new(), Some(Fault::Empty)),
            (format!("{HEADER}\n"), None),
            (HEADER.to_owned(), None),
            (format!("{HEADER}\n{entry}\n"), None),
            (format!("{HEADER}\n{entry}"), None),
            (format!("{HEADER}\n{long}\n"), None),
            (format!("{HEADER}\n{entry}\n{{\"type\":\"mess"), Some(Fault::Torn)),
            (format!("{HEADER}\n{entry}\n\0\0\0"), Some(Fault::Torn)),
            (format!("{HEADER}\n{}", &long[..long.len() - 3]), Some(Fault::Torn)),
            (format!("{entry}\n"), Some(Fault::Header)),
            ("\0\0\0\0".to_owned(), Some(Fault::Header)),
            (HEADER.replace("\"cwd\"", "\"c\""), Some(Fault::Header)),
            (HEADER.replace("\"version\":3", "\"version\":4"), Some(Fault::Version("4".into()))),
        ] {
            std::fs::write(&path, &content).unwrap();
            assert_eq!(look(&path, true).unwrap(), fault, "{}", &content[..content.len().min(200)]);
        }
        std::fs::write(&path, format!("{HEADER}\n{{")).unwrap();
        assert_eq!(look(&path, false).unwrap(), None);
        assert_eq!(look(&folder.path().join("none"), true).unwrap(), None);
        assert!(look(folder.path(), true).is_err());
        assert!(finding("scribe", &path, &Fault::Torn).fix.ends_with("wolli chat scribe --session s1"));
    }
}
