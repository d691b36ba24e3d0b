//! What other programs, other versions and crashes leave in session files.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::Dice;

/// Which model a damaged entry says it comes from.
pub(super) struct Origin {
    pub(super) api: &'static str,
    pub(super) provider: &'static str,
    pub(super) model: &'static str,
}

/// What was written behind a history.
pub(super) struct Damage {
    pub(super) name: &'static str,
    /// It claims to be signed by the model itself, which only the provider can tell to be wrong.
    pub(super) forged: bool,
    /// Thinking without a signature; servers that do not sign take it as it is.
    pub(super) unsigned: Option<&'static str>,
}

fn assistant(origin: &Origin, content: &Value, stop: &str) -> Value {
    json!({"role": "assistant", "content": content, "api": origin.api, "provider": origin.provider, "model": origin.model,
        "usage": {"input": 9, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 11,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
        "stopReason": stop, "timestamp": 1_782_673_802_000_u64})
}

fn user(content: &Value) -> Value {
    json!({"role": "user", "content": content, "timestamp": 1_782_673_801_000_u64})
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "bash", "arguments": {"command": "date"}})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "bash", "content": [{"type": "text", "text": text}], "isError": false,
        "timestamp": 1_782_673_803_000_u64})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Messages of one kind of damage, its name, whether it is forged, and its unsigned thinking.
type Case = (&'static str, Vec<Value>, bool, Option<&'static str>);

fn cases(origin: &Origin) -> Vec<Case> {
    let said = |content: Value, stop: &str| assistant(origin, &content, stop);
    let plain = |name, messages| (name, messages, false, None);
    let signed = origin.api == "anthropic-messages";
    let stranger = Origin { api: origin.api, provider: origin.provider, model: "a-model-of-the-past" };
    let image = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
    vec![
        plain("two calls, one result", vec![said(json!([call("d1"), call("d2")]), "toolUse"), result("d2", "Sunday")]),
        plain("two calls, no result", vec![said(json!([text("Let me see."), call("d1"), call("d2")]), "toolUse")]),
        plain("a call and a person who goes on", vec![said(json!([call("d1")]), "toolUse"), user(&json!([text("Well?")]))]),
        plain("results before their call", vec![result("d3", "early"), said(json!([call("d3")]), "toolUse")]),
        plain("results twice", vec![said(json!([call("d4")]), "toolUse"), result("d4", "one"), result("d4", "two")]),
        plain(
            "results in the wrong order",
            vec![said(json!([call("d5"), call("d6")]), "toolUse"), result("d6", "second"), result("d5", "first")],
        ),
        plain(
            "the same id twice in an answer",
            vec![said(json!([call("d7"), call("d7")]), "toolUse"), result("d7", "one"), result("d7", "two")],
        ),
        plain("a result whose call was compacted away", vec![result("long gone", "who asked?")]),
        plain("an answer whose calls are gone", vec![said(json!([text("I will look.")]), "toolUse"), result("d8", "looked")]),
        plain(
            "a result far from its call",
            vec![
                said(json!([call("d9")]), "toolUse"),
                user(&json!("And now?")),
                said(json!([text("Now this.")]), "stop"),
                result("d9", "late"),
            ],
        ),
        plain("an aborted answer with calls", vec![said(json!([call("d10")]), "aborted"), result("d10", "cut off")]),
        plain(
            "odd ids",
            vec![
                said(json!([call(""), call(&"y".repeat(300)), call("a|b"), call("\u{e9}\u{1f600}"), call("a b"), call("a.b")]), "toolUse"),
                result("a|b", "bar"),
                result("", ""),
            ],
        ),
        plain(
            "odd tools",
            vec![
                said(
                    json!([
                        {"type": "toolCall", "id": "t1", "name": "", "arguments": {}},
                        {"type": "toolCall", "id": "t2", "name": "z".repeat(200), "arguments": {"a": "\u{0}"}},
                        {"type": "toolCall", "id": "t3", "name": "caf\u{e9} crème", "arguments": {}},
                    ]),
                    "toolUse",
                ),
                result("t2", " \n "),
            ],
        ),
        plain(
            "arguments that are none",
            vec![said(
                json!([{"type": "toolCall", "id": "u1", "name": "bash", "arguments": "ls"}, {"type": "toolCall", "id": "u2", "name": "bash"},
                {"type": "toolCall", "name": "bash", "arguments": {}}]),
                "toolUse",
            )],
        ),
        plain(
            "nothing said",
            vec![user(&json!("")), user(&json!([])), said(json!([]), "stop"), user(&json!([text(" \n")])), said(json!([text("")]), "stop")],
        ),
        plain("two answers in a row", vec![said(json!([text("One.")]), "stop"), said(json!([text("Two. ")]), "stop")]),
        plain("thinking only", vec![said(json!([{"type": "thinking", "thinking": "Hm."}]), "length")]),
        (
            "thinking without a signature",
            vec![said(json!([{"type": "thinking", "thinking": "Unsigned."}, call("v1")]), "toolUse"), result("v1", "ok")],
            false,
            Some("Unsigned."),
        ),
        plain(
            "thinking of another model",
            vec![assistant(
                &stranger,
                &json!([{"type": "thinking", "thinking": "Elsewhere.", "thinkingSignature": "foreign=="}, text("So it is.")]),
                "stop",
            )],
        ),
        plain(
            "hidden thinking of another model",
            vec![assistant(
                &stranger,
                &json!([{"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "ff", "redacted": true}, call("w1")]),
                "toolUse",
            )],
        ),
        (
            "signed thinking whose text is gone",
            vec![said(json!([{"type": "thinking", "thinking": "", "thinkingSignature": "forged-empty=="}, text("Right.")]), "stop")],
            signed,
            None,
        ),
        (
            "signed thinking that was changed",
            vec![
                said(json!([{"type": "thinking", "thinking": "Changed.", "thinkingSignature": "forged-text=="}, call("x1")]), "toolUse"),
                result("x1", "ok"),
            ],
            signed,
            Some("Changed."),
        ),
        (
            "hidden thinking that nobody hid",
            vec![said(
                json!([{"type": "thinking", "thinking": "?", "thinkingSignature": "forged-data", "redacted": true}, text("So.")]),
                "stop",
            )],
            signed,
            None,
        ),
        plain(
            "images that are none",
            vec![
                user(&json!([image(""), image("AAAA"), image("not base64!"), image("iVBORw0KGgo"), text("Look.")])),
                said(json!([call("y1")]), "toolUse"),
                json!({"role": "toolResult", "toolCallId": "y1", "toolName": "read", "content": [image("PCFET0NUWVBFIGh0bWw+")], "isError": false,
                "timestamp": 1}),
            ],
        ),
        plain(
            "shapes from elsewhere",
            vec![
                json!({"role": "user"}),
                json!({"role": "user", "content": null}),
                json!({"role": "user", "content": [{"type": "audio", "data": "x"}, 7, null, {"type": "text"}]}),
                json!({"role": "narrator", "content": "Meanwhile"}),
                json!({"role": "assistant", "content": "just text"}),
                said(json!([{"type": "server_tool_use", "id": "s1"}, {"type": "text", "text": 5}]), "stop"),
                said(json!([text("Half.")]), "a reason of tomorrow"),
                json!({"role": "toolResult", "toolCallId": 9, "content": "text"}),
                json!([]),
            ],
        ),
        plain(
            "what else speaks for the person",
            vec![
                json!({"role": "bashExecution", "command": "ls", "output": "``` \n", "exitCode": 1, "cancelled": false, "truncated": false, "timestamp": 1}),
                json!({"role": "custom", "customType": "c", "content": "", "display": true, "timestamp": 1}),
                json!({"role": "branchSummary", "summary": " ", "fromId": "f", "timestamp": 1}),
            ],
        ),
    ]
}

/// Writes one kind of damage, or a few, behind what is in the file, as its newest entries.
pub(super) fn write(path: &Path, dice: &mut Dice, origin: &Origin, round: usize) -> Damage {
    let mut cases = cases(origin);
    let (name, messages, forged, unsigned) = cases.swap_remove(dice.range(0, cases.len() as u64) as usize);
    let file = std::fs::read_to_string(path).unwrap();
    let ids = file.lines().skip(1).filter_map(|line| serde_json::from_str::<Value>(line).ok()?["id"].as_str().map(str::to_owned));
    let ids: Vec<String> = ids.collect();
    let mut parent = ids.last().cloned();
    let mut lines = String::new();
    let mut add = |parent: &mut Option<String>, number: usize, mut entry: Value| {
        let id = format!("damage{round}x{number}");
        entry["id"] = json!(id);
        entry["parentId"] = json!(parent);
        entry["timestamp"] = json!("2026-06-28T19:10:01.000Z");
        *parent = Some(id);
        lines.push_str(&entry.to_string());
        lines.push('\n');
    };
    let count = messages.len();
    for (number, message) in messages.into_iter().enumerate() {
        add(&mut parent, number, json!({"type": "message", "message": message}));
    }
    match dice.range(0, 8) {
        // Compacted at a place that is no good one: in the middle of a turn, or before it.
        0 | 1 => {
            let kept = format!("damage{round}x{}", dice.range(0, count as u64));
            let compaction = json!({"type": "compaction", "summary": "They talked.", "firstKeptEntryId": kept, "tokensBefore": 9});
            add(&mut parent, count, compaction);
        }
        2 if !ids.is_empty() => {
            let kept = &ids[dice.range(0, ids.len() as u64) as usize];
            let compaction = json!({"type": "compaction", "summary": "", "firstKeptEntryId": kept, "tokensBefore": 9});
            add(&mut parent, count, compaction);
        }
        3 => add(&mut parent, count, json!({"type": "custom_message", "customType": "n", "content": "A note.", "display": true})),
        4 => add(&mut parent, count, json!({"type": "branch_summary", "summary": "The other way.", "fromId": "root"})),
        _ => {}
    }
    // Half a character, a byte of another encoding, a torn end.
    match dice.range(0, 10) {
        0 => lines = lines.replacen("\"text\":\"", "\"text\":\"\\ud83d half ", 1),
        1 => lines.push_str("{\"type\":\"message\",\"id\":\"torn"),
        2 => lines.push_str("\u{fffd}\n\0\0\n"),
        _ => {}
    }
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(lines.as_bytes()).unwrap();
    Damage { name, forged, unsigned }
}
