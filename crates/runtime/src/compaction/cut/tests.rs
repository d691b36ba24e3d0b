//! Cuts through branches that are written as one letter per entry.

use proptest::prelude::*;
use serde_json::{Value, json};
use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::message::Message;

use super::{Cut, Reach, find};

/// Entries from words: a letter for the kind, and the tokens of a message. `u` user, `a` answer, `r` tool result, `b` command of a
/// person, `c` custom message, `s` summary of a branch, `m` model change, `k` compaction.
fn entries(words: &str) -> Vec<Entry> {
    words
        .split_whitespace()
        .enumerate()
        .map(|(index, word)| {
            let (kind, tokens) = word.split_at(1);
            let text = "x".repeat(4 * tokens.parse::<usize>().unwrap_or(0));
            let message = |message: Value| json!({"type": "message", "message": message});
            let content = json!([{"type": "text", "text": text}]);
            let mut entry = match kind {
                "u" => message(json!({"role": "user", "content": content, "timestamp": 1})),
                "a" => message(json!({"role": "assistant", "content": content, "api": "x", "provider": "p", "model": "m",
                    "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
                    "stopReason": "stop", "timestamp": 1})),
                "r" => message(json!({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": content, "isError": false, "timestamp": 1})),
                "b" => message(json!({"role": "bashExecution", "command": text, "output": "", "cancelled": false, "truncated": false, "timestamp": 1})),
                "c" => json!({"type": "custom_message", "customType": "note", "content": text, "display": true}),
                "s" => json!({"type": "branch_summary", "fromId": "root", "summary": text}),
                "m" => json!({"type": "model_change", "provider": "p", "modelId": "m"}),
                "k" => json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "e0", "tokensBefore": 1, "fromHook": false}),
                other => panic!("no entry is written {other}"),
            };
            let object = entry.as_object_mut().unwrap();
            object.insert("id".into(), format!("e{index}").into());
            object.insert("parentId".into(), Value::Null);
            object.insert("timestamp".into(), "2026-01-01T00:00:00.000Z".into());
            serde_json::from_value(entry).unwrap()
        })
        .collect()
}

/// The cut as text: summarised turns `|` beginning of a turn `|` kept.
fn shown(words: &str, cut: Option<Cut>) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let Some(cut) = cut else { return "nothing".into() };
    assert_eq!(cut.history.start, 0);
    assert_eq!((cut.history.end, cut.prefix.end), (cut.prefix.start, cut.kept));
    assert_eq!(cut.first_kept.as_str(), format!("e{}", cut.kept));
    [&words[cut.history], &words[cut.prefix], &words[cut.kept..]].map(|part| part.join(" ")).join(" | ")
}

#[test]
fn cuts() {
    for (words, keep, expected) in [
        ("", 10, "nothing"),
        ("m", 10, "nothing"),
        ("u5 a5", 10, "nothing"),
        ("u5 a5", 11, "nothing"),
        // The sum reaches the tokens to keep exactly at a message of the person.
        ("u5 a5 u5 a5", 10, "u5 a5 |  | u5 a5"),
        // In the middle of a turn.
        ("u5 a5 u5 a5", 5, "u5 a5 | u5 | a5"),
        ("u5 a50", 20, " | u5 | a50"),
        // Tool results are no beginning: the next answer is.
        ("u1 a1 u9 a1 r9 a1 r9 a1", 12, "u1 a1 | u9 a1 r9 | a1 r9 a1"),
        ("u1 a1 u9 a1 r9 a5", 10, "u1 a1 | u9 a1 r9 | a5"),
        // At the end there is none, so they stay with their answer.
        ("u1 a1 u9 a1 r9", 5, "u1 a1 | u9 | a1 r9"),
        // What stands before the cut and is no message is kept, and does not make a turn of it.
        ("u5 a5 m u5 a5", 10, "u5 a5 |  | m u5 a5"),
        ("u5 a5 c3 m u5 a5", 10, "u5 a5 |  | c3 m u5 a5"),
    ] {
        assert_eq!(shown(words, find(&entries(words), keep, Reach::Spare, None)), expected, "{words} keeping {keep}");
    }
}

#[test]
fn turns_begin_with_more_than_prompts() {
    for (words, keep, expected) in [
        ("u5 a5 m a5 r1 a4", 10, " | u5 a5 | m a5 r1 a4"),
        ("u5 a5 b2 a3 a5", 5, "u5 a5 | b2 a3 | a5"),
        ("u5 a5 c2 a3 a5", 5, "u5 a5 | c2 a3 | a5"),
        ("u5 a5 s2 a3 a5", 5, "u5 a5 | s2 a3 | a5"),
        // An answer that nothing of a person stands before.
        ("a5 a5 a5", 5, "a5 a5 |  | a5"),
        // A compaction is not crossed by the entries before the cut, and is nothing to summarise.
        ("m k u5 a5", 10, "nothing"),
        ("u1 k m u5 a5", 10, "u1 k |  | m u5 a5"),
    ] {
        assert_eq!(shown(words, find(&entries(words), keep, Reach::Spare, None)), expected, "{words} keeping {keep}");
    }
}

#[test]
fn force_keeps_less_until_something_is_cut() {
    for (words, failed, expected) in [
        ("u5 a5", None, " | u5 | a5"),
        ("u5", None, "nothing"),
        ("a5", None, "nothing"),
        ("u5 a5 u5", None, " | u5 | a5 u5"),
        ("u5 a5 u9 a0", Some("e3"), " | u5 | a5 u9 a0"),
        ("u5 a5 u99 a0", Some("e3"), "u5 a5 |  | u99 a0"),
        // The person's words alone do not fit: no summary can help.
        ("u9 a0", Some("e1"), "nothing"),
        // What tools gave can be left to a summary altogether.
        ("u5 a1 r9 a0", Some("e3"), " | u5 | a1 r9 a0"),
        ("u5 a1 r99 a0", Some("e3"), " | u5 a1 r99 | a0"),
        ("m m", None, "nothing"),
    ] {
        let failed = failed.map(wolli_protocol::ids::EntryId::from);
        assert_eq!(shown(words, find(&entries(words), 20, Reach::Force, failed.as_ref())), expected, "{words}");
    }
}

fn is_result(entry: &Entry) -> bool {
    matches!(&entry.body, EntryBody::Message { message: Message::ToolResult(_), .. })
}

fn branch() -> impl Strategy<Value = String> {
    let word = (prop::sample::select(vec!["u", "a", "a", "r", "b", "c", "s", "m", "k"]), 0_usize..30)
        .prop_map(|(kind, tokens)| format!("{kind}{tokens}"));
    prop::collection::vec(word, 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn every_cut_keeps_what_it_must(words in branch(), keep in 0_u64..100, force in any::<bool>()) {
        let entries = entries(&words);
        let reach = if force { Reach::Force } else { Reach::Spare };
        let Some(cut) = find(&entries, keep, reach, None) else {
            if force {
                // Then at most one place could begin what is kept, or nothing stands before the last.
                let speaks = |entry: &Entry| matches!(entry.body, EntryBody::Message { .. });
                let talks = entries.iter().filter(|entry| speaks(entry)).count();
                let only_results = entries.iter().filter(|entry| speaks(entry)).skip(1).all(is_result);
                prop_assert!(talks <= 1 || only_results, "{}", words);
            }
            return Ok(());
        };
        prop_assert!(cut.kept < entries.len());
        let first = entries[cut.kept..].iter().find(|entry| !matches!(entry.body, EntryBody::ModelChange { .. }));
        prop_assert!(!first.is_some_and(is_result), "{}", words);
        shown(&words, Some(cut));
    }
}
