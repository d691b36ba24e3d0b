//! Generated session files, as wolli 0.0.2 would have written them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use uuid::Uuid;

/// What a generated text is made of.
const PHRASE: &str = "steady the river carries a lantern past midnight ";
/// An answer with its usage needs so much without any text.
const ANSWER_BYTES: u64 = 450;
/// Milliseconds since 1970 in all messages.
const TIME: u64 = 1_767_225_600_000;

/// What is in a session.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Messages, of the user and of the assistant in turn; of the user alone if they are too small for an answer.
    pub entries: u64,
    /// Bytes of each on the average; what an entry needs without any text is the least.
    pub entry_bytes: u64,
    /// Whether a compaction in the middle replaces what is before it.
    pub compacted: bool,
}

/// Writes one; a larger `index` makes it newer. Returns its id.
pub(super) fn write(folder: &Path, workspace: &Path, index: u32, content: &Content) -> Result<String> {
    let id = Uuid::now_v7().to_string();
    let (minute, second) = (index / 60, index % 60);
    let time = format!("2026-01-{:02}T{:02}:{:02}:{second:02}.000Z", 1 + minute / 1_440, minute / 60 % 24, minute % 60);
    let file = folder.join(format!("{}_{id}.jsonl", time.replace([':', '.'], "-")));
    let mut output = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut bytes = 0;
    let mut write = |line: &Value| -> Result<u64> {
        let line = line.to_string();
        writeln!(output, "{line}")?;
        bytes += line.len() as u64 + 1;
        Ok(bytes)
    };
    let mut written = write(&json!({ "type": "session", "version": 3, "id": id, "timestamp": time, "cwd": workspace }))?;
    let head = written;
    let mut parent = Value::Null;
    for number in 0..content.entries {
        if content.compacted && number == content.entries / 2 {
            let entry = entry_id(u64::MAX);
            write(&json!({
                "type": "compaction", "id": entry, "parentId": parent, "timestamp": time, "summary": PHRASE,
                "firstKeptEntryId": parent, "tokensBefore": 100_000, "fromHook": false,
            }))?;
            parent = entry.into();
        }
        let entry = entry_id(number);
        let from_user = number.is_multiple_of(2) || content.entry_bytes < ANSWER_BYTES;
        let mut line = json!({ "type": "message", "id": entry, "parentId": parent, "timestamp": time, "message": message(from_user, "") });
        // What is missing to the average so far, so that the short messages of the user and the longer ones even out.
        let wanted = head + (number + 1) * content.entry_bytes;
        let missing = usize::try_from(wanted.saturating_sub(written + line.to_string().len() as u64 + 1))?;
        line["message"] = message(from_user, &PHRASE.repeat(missing.div_ceil(PHRASE.len()))[..missing]);
        written = write(&line)?;
        parent = entry.into();
    }
    output.flush()?;
    Ok(id)
}

/// Eight hexadecimal digits, the short form of wolli 0.0.2.
fn entry_id(number: u64) -> String {
    format!("{:08x}", number & 0xffff_ffff)
}

fn message(from_user: bool, text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text }]);
    if from_user {
        return json!({ "role": "user", "content": content, "timestamp": TIME });
    }
    json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": "bench", "model": "load",
        "usage": {
            "input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
            "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 },
        },
        "stopReason": "stop", "timestamp": TIME,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(index: u32, content: &Content) -> (String, String, Vec<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let id = write(folder.path(), Path::new("/w"), index, content).unwrap();
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (id, file.file_name().into_string().unwrap(), lines)
    }

    #[test]
    fn a_chain_of_messages_below_a_header() {
        let (id, name, lines) = lines(61, &Content { entries: 6, entry_bytes: 600, compacted: false });
        assert_eq!(name, format!("2026-01-01T00-01-01-000Z_{id}.jsonl"));
        assert_eq!((lines.len(), &lines[0]["id"], &lines[0]["version"]), (7, &Value::from(id), &Value::from(3)));
        assert!(lines[1]["parentId"].is_null());
        assert!(lines[1..].windows(2).all(|pair| pair[1]["parentId"] == pair[0]["id"]));
        let roles: Vec<&str> = lines[1..].iter().filter_map(|line| line["message"]["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
        let bytes: usize = lines[1..].iter().map(|line| line.to_string().len() + 1).sum();
        assert_eq!(bytes, 3_600);
    }

    #[test]
    fn small_entries_are_the_users_and_have_the_asked_size() {
        let (_, _, lines) = lines(0, &Content { entries: 50, entry_bytes: 220, compacted: false });
        assert!(lines[1..].iter().all(|line| line["message"]["role"] == "user" && line.to_string().len() + 1 == 220));
        assert_eq!(lines[2]["id"], "00000001");
    }

    #[test]
    fn a_compaction_in_the_middle_of_the_chain() {
        let (_, _, lines) = lines(0, &Content { entries: 4, entry_bytes: 0, compacted: true });
        let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
        assert_eq!(kinds, ["session", "message", "message", "compaction", "message", "message"]);
        assert_eq!(lines[3]["firstKeptEntryId"], lines[2]["id"]);
        assert_eq!(lines[4]["parentId"], lines[3]["id"]);
    }
}
