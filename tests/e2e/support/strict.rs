//! The strict reader that wolli 0.0.2 opens session files with: one bad line, and the session cannot be used.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

/// What wolli 0.0.2 says of the file; `Err` is its reason to refuse it.
pub(crate) fn read(path: &Path) -> Result<Vec<Value>, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "is no text".to_owned())?;
    let mut lines = text.split('\n').filter(|line| !line.trim().is_empty());
    let header: Value =
        serde_json::from_str(lines.next().ok_or("missing session header")?).map_err(|_| "first line is not a valid session header")?;
    if header["type"] != "session" {
        return Err("first line is not a valid session header".into());
    }
    if header["version"] != 3 {
        return Err("unsupported session version".into());
    }
    for key in ["id", "timestamp", "cwd"] {
        if header[key].as_str().is_none_or(str::is_empty) {
            return Err(format!("session header is missing {key}"));
        }
    }
    if header.get("parentSession").is_some_and(|parent| !parent.is_string()) {
        return Err("session header parentSession must be a string".into());
    }
    let mut entries = Vec::new();
    for (index, line) in lines.enumerate() {
        let entry = read_entry(line).map_err(|reason| format!("line {} {reason}", index + 2))?;
        entries.push(entry);
    }
    let leaf = entries.last().and_then(|entry| if entry["type"] == "leaf" { entry["targetId"].as_str() } else { entry["id"].as_str() });
    walk(&entries, leaf)?;
    Ok(std::iter::once(header).chain(entries).collect())
}

fn read_entry(line: &str) -> Result<Value, &'static str> {
    let entry: Value = serde_json::from_str(line).map_err(|_| "is not valid JSON")?;
    if !entry.is_object() {
        return Err("is not a valid session entry");
    }
    if !entry["type"].is_string() {
        return Err("is missing entry type");
    }
    if entry["id"].as_str().is_none_or(str::is_empty) {
        return Err("is missing entry id");
    }
    match entry.get("parentId") {
        Some(Value::Null | Value::String(_)) => {}
        _ => return Err("has invalid parentId"),
    }
    if entry["timestamp"].as_str().is_none_or(str::is_empty) {
        return Err("is missing timestamp");
    }
    if entry["type"] == "leaf" && !matches!(entry.get("targetId"), Some(Value::Null | Value::String(_))) {
        return Err("has invalid targetId");
    }
    Ok(entry)
}

/// From the leaf to the root; a parent that is not there ends it.
fn walk(entries: &[Value], leaf: Option<&str>) -> Result<(), String> {
    let mut next = leaf.filter(|id| !id.is_empty());
    while let Some(id) = next {
        let entry = entries.iter().find(|entry| entry["id"] == id).ok_or_else(|| format!("Entry {id} not found"))?;
        next = entry["parentId"].as_str().filter(|id| !id.is_empty());
    }
    Ok(())
}

/// What is asked of a foreign writer, for the lines after the first `before`: whole lines, ids that no other line has, parents that
/// stand earlier in the file.
#[track_caller]
pub(crate) fn check_appended(path: &Path, before: usize) {
    let lines = read(path).unwrap_or_else(|reason| panic!("Invalid JSONL session file {}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'), "{} has a torn end", path.display());
    let mut ids = HashSet::new();
    for (index, entry) in lines.iter().enumerate().skip(1) {
        let id = entry["id"].as_str().unwrap();
        if index >= before {
            let keys: Vec<&str> = entry.as_object().unwrap().keys().map(String::as_str).take(4).collect();
            assert_eq!(keys, ["type", "id", "parentId", "timestamp"], "{entry}");
            assert!(!ids.contains(id), "the id {id} is used twice in {}", path.display());
            if let Some(parent) = entry["parentId"].as_str() {
                assert!(ids.contains(parent), "{parent}, the parent of {id}, stands nowhere before it");
            }
        }
        // Leaf entries are never parents.
        if entry["type"] != "leaf" {
            ids.insert(id);
        }
    }
}
