//! Histories of all sorts of damage, and what is made of them.

use serde_json::{Value, json};

use super::{ImageLimits, ImageRule, Part, Rules, Said, Turn, turns, wire_tools};
use crate::refused::Known;
use crate::request::ToolSpec;
use crate::testing::{ANTHROPIC, PNG, history, model};

/// Turns in a short form.
fn prepared_with(messages: Value, images: ImageRule) -> Value {
    let model = model(ANTHROPIC);
    let known = Known::default();
    let rules = Rules { model: &model, images, drop_thinking: false, known: &known, call_id: |id| id.replace('|', "_"), call_id_limit: 8 };
    let history = history(messages);
    let before = history.clone();
    let turns = turns(&history, &rules);
    let parts = |parts: &[Part<'_>]| -> Vec<Value> {
        parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => json!(text),
                Part::Image { mime_type, .. } => json!({"image": mime_type}),
            })
            .collect()
    };
    let short = turns
        .iter()
        .map(|turn| match turn {
            Turn::User(it) => json!({"user": parts(it)}),
            Turn::Result { call_id, parts: it, is_error, .. } => json!({"result": call_id, "parts": parts(it), "error": is_error}),
            Turn::Assistant(said) => {
                let said: Vec<_> = said
                    .iter()
                    .map(|said| match said {
                        Said::Text(text) => json!(text),
                        Said::Thinking { text, signature } => json!({"thinking": text, "signature": signature}),
                        Said::Redacted { data } => json!({"redacted": data}),
                        Said::Call { id, name, .. } => json!({"call": id, "name": name}),
                    })
                    .collect();
                json!({"assistant": said})
            }
        })
        .collect();
    assert_eq!(history, before, "the history itself is never changed");
    short
}

fn prepared(messages: Value) -> Value {
    prepared_with(messages, ImageRule::Send(ImageLimits { max_length: 1000, ..ImageLimits::NONE }))
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<_> = ids.iter().map(|id| json!({"type": "toolCall", "id": id, "name": "read", "arguments": {}})).collect();
    json!({"role": "assistant", "content": calls, "stopReason": "toolUse"})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "content": [{"type": "text", "text": text}]})
}

fn no_result(id: &str) -> Value {
    json!({"result": id, "parts": ["No result provided"], "error": true})
}

fn good(id: &str, text: &str) -> Value {
    json!({"result": id, "parts": [text], "error": false})
}

fn called(ids: &[&str]) -> Value {
    json!({"assistant": ids.iter().map(|id| json!({"call": id, "name": "read"})).collect::<Vec<_>>()})
}

#[test]
fn calls_and_results_are_paired() {
    let u = json!({"user": ["x"]});
    for (name, messages, expected) in [
        (
            "one of two is missing",
            json!([user("x"), calls(&["a", "b"]), result("a", "1")]),
            json!([u, called(&["a", "b"]), good("a", "1"), no_result("b")]),
        ),
        (
            "both are missing",
            json!([user("x"), calls(&["a", "b"]), user("x")]),
            json!([u, called(&["a", "b"]), no_result("a"), no_result("b"), u]),
        ),
        (
            "in another order",
            json!([user("x"), calls(&["a", "b"]), result("b", "2"), result("a", "1")]),
            json!([u, called(&["a", "b"]), good("a", "1"), good("b", "2")]),
        ),
        (
            "after the next message",
            json!([user("x"), calls(&["a"]), user("x"), result("a", "1")]),
            json!([u, called(&["a"]), good("a", "1"), u]),
        ),
        ("an orphan", json!([user("x"), result("zz", "1"), user("x")]), json!([u, u])),
        (
            "a second result",
            json!([user("x"), calls(&["a"]), result("a", "1"), result("a", "2")]),
            json!([u, called(&["a"]), good("a", "1")]),
        ),
        (
            "the same id in two answers",
            json!([user("x"), calls(&["c"]), result("c", "1"), calls(&["c"]), result("c", "2"), calls(&["c"]), user("x")]),
            json!([u, called(&["c"]), good("c", "1"), called(&["c_2"]), good("c_2", "2"), called(&["c_3"]), no_result("c_3"), u]),
        ),
        (
            "the same long id twice",
            json!([user("x"), calls(&["abcdefgh"]), result("abcdefgh", "1"), calls(&["abcdefgh"]), result("abcdefgh", "2")]),
            json!([u, called(&["abcdefgh"]), good("abcdefgh", "1"), called(&["abcdef_2"]), good("abcdef_2", "2")]),
        ),
        (
            "the same id twice in an answer",
            json!([user("x"), calls(&["c", "c"]), result("c", "1"), result("c", "2"), result("c", "3")]),
            json!([u, called(&["c", "c_2"]), good("c", "1"), good("c_2", "2")]),
        ),
        (
            "ids that become equal",
            json!([user("x"), calls(&["a|b", "a_b", ""])]),
            json!([u, called(&["a_b", "a_b_2", "call"]), no_result("a_b"), no_result("a_b_2"), no_result("call")]),
        ),
    ] {
        assert_eq!(prepared(messages), expected, "{name}");
    }
}

#[test]
fn failed_answers_and_what_hangs_on_them_are_left_out() {
    let mut failed = calls(&["a"]);
    failed["stopReason"] = json!("error");
    let mut aborted = json!({"role": "assistant", "content": [{"type": "text", "text": "half"}]});
    aborted["stopReason"] = json!("aborted");
    assert_eq!(prepared(json!([user("x"), failed, result("a", "1"), user("y"), aborted])), json!([{"user": ["x"]}, {"user": ["y"]}]));
}

#[test]
fn histories_begin_and_end_with_the_person() {
    let said = json!({"role": "assistant", "content": [{"type": "text", "text": "yes"}]});
    for (messages, expected) in [
        (json!([]), json!([{"user": ["(empty message)"]}])),
        (json!([user(" \n")]), json!([{"user": ["(empty message)"]}])),
        (
            json!([user("x"), said, said]),
            json!([{"user": ["x"]}, {"assistant": ["yes"]}, {"user": ["(continue)"]}, {"assistant": ["yes"]}, {"user": ["(continue)"]}]),
        ),
        (
            json!([said]),
            json!([{"user": ["(the beginning of the conversation is not available)"]}, {"assistant": ["yes"]}, {"user": ["(continue)"]}]),
        ),
        (
            json!([result("a", "1"), calls(&["b"]), result("b", "2")]),
            json!([{"user": ["(the beginning of the conversation is not available)"]}, called(&["b"]), good("b", "2")]),
        ),
        (
            json!([user("x"), {"role": "assistant", "content": []}, {"role": "assistant", "content": [{"type": "text", "text": " "}, {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}]}]),
            json!([{"user": ["x"]}]),
        ),
        (
            json!([user("x"), calls(&["a"]), {"role": "toolResult", "toolCallId": "a", "content": [{"type": "text", "text": "\n"}]}]),
            json!([{"user": ["x"]}, called(&["a"]), good("a", "(no output)")]),
        ),
    ] {
        assert_eq!(prepared(messages.clone()), expected, "{messages}");
    }
}

#[test]
fn every_role_has_its_words() {
    let bash = |more: Value| {
        let mut message = json!({"role": "bashExecution", "command": "ls", "output": "a\nb\n", "cancelled": false, "truncated": false});
        for (key, value) in more.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    };
    for (message, expected) in [
        (bash(json!({"exitCode": 0})), "Ran `ls`\n```\na\nb\n```"),
        (bash(json!({"output": "", "exitCode": 2})), "Ran `ls`\n(no output)\n\nCommand exited with code 2"),
        (bash(json!({"output": "x", "cancelled": true, "exitCode": 1})), "Ran `ls`\n```\nx\n```\n\n(command cancelled)"),
        (
            bash(json!({"output": "x", "truncated": true, "fullOutputPath": "/t/o"})),
            "Ran `ls`\n```\nx\n```\n\n[Output truncated. Full output: /t/o]",
        ),
        (bash(json!({"output": "a ``` b"})), "Ran `ls`\n````\na ``` b\n````"),
        (json!({"role": "custom", "customType": "c", "content": "note", "display": true}), "note"),
        (
            json!({"role": "branchSummary", "summary": "s", "fromId": "f"}),
            "This is a summary of a branch of the conversation that it came back from:\n\n<summary>\ns</summary>",
        ),
        (
            json!({"role": "compactionSummary", "summary": "s", "tokensBefore": 9}),
            "The earlier history of this conversation was compacted into this summary:\n\n<summary>\ns\n</summary>",
        ),
    ] {
        assert_eq!(prepared(json!([message.clone()])), json!([{"user": [expected]}]), "{message}");
    }
    let hidden = bash(json!({"excludeFromContext": true}));
    assert_eq!(prepared(json!([hidden, user("x"), {"role": "branchSummary", "summary": " ", "fromId": "f"}])), json!([{"user": ["x"]}]));
}

#[test]
fn images_are_sent_by_their_real_kind_or_become_notes() {
    let image = |data: &str, mime: &str| json!({"type": "image", "data": data, "mimeType": mime});
    let text = |text: &str| json!({"type": "text", "text": text});
    let of = |blocks: Value, rule| prepared_with(json!([{"role": "user", "content": blocks}]), rule)[0]["user"].clone();
    let send = ImageRule::Send(ImageLimits { max_length: 1000, ..ImageLimits::NONE });
    let not_an_image = "PGh0bWw+PGJvZHk+bm90IGZvdW5kPC9ib2R5Pg==";
    assert_eq!(
        of(json!([image(PNG, "image/gif"), image(&format!("data:image/png;base64,{PNG}"), "x")]), send),
        json!([{"image": "image/png"}, {"image": "image/png"}])
    );
    for (head, kind) in
        [("/9j/4AAQSkZJRgABAQEAAAAA", "image/jpeg"), ("R0lGODlhAQABAIAAAAAAAAAA", "image/gif"), ("UklGRiQAAABXRUJQVlA4IBgA", "image/webp")]
    {
        assert_eq!(of(json!([image(head, "image/png")]), send), json!([{"image": kind}]));
    }
    for (data, note) in [
        ("", "(image omitted: it has no data)"),
        (not_an_image, "(image omitted: it is not a PNG, JPEG, GIF or WebP image)"),
        ("iVBORw0KGgo", "(image omitted: its data is not base64)"),
        ("iVBO Rw0K", "(image omitted: its data is not base64)"),
        ("====", "(image omitted: its data is not base64)"),
        ("AA==", "(image omitted: it is not a PNG, JPEG, GIF or WebP image)"),
    ] {
        assert_eq!(of(json!([image(data, "image/png")]), send), json!([note]), "{data}");
    }
    assert_eq!(of(json!([image(&PNG.repeat(11), "image/png")]), send), json!(["(image omitted: as base64 it is larger than 0 MB)"]));
    let narrow = ImageRule::Send(ImageLimits { max_side: 2000, ..ImageLimits::NONE });
    for (data, shown) in [
        ("iVBORw0KGgoAAAANSUhEUgAAB9AAAAAKCAAAAAAAAAAA", json!({"image": "image/png"})),
        ("iVBORw0KGgoAAAANSUhEUgAAB9EAAAAKCAAAAAAAAAAA", json!("(image omitted: a side has 2001 pixels, and the provider takes 2000)")),
        ("R0lGODlhAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", json!("(image omitted: it is damaged)")),
    ] {
        assert_eq!(of(json!([image(data, "image/png")]), narrow), json!([shown]), "{data}");
    }
    let omitted = "(image omitted: model does not support images)";
    let run = json!([image(PNG, "image/png"), image(PNG, "image/png"), text("t"), image(PNG, "image/png")]);
    assert_eq!(of(run.clone(), ImageRule::TextOnly), json!([omitted, "t", omitted]));
    assert_eq!(
        of(run, ImageRule::Refused),
        json!(["(image omitted: the provider refused it)", "t", "(image omitted: the provider refused it)"])
    );
    let tool = json!([user("x"), calls(&["a"]), {"role": "toolResult", "toolCallId": "a", "content": [image(PNG, "image/png")]}]);
    assert_eq!(prepared_with(tool, ImageRule::TextOnly)[2]["parts"], json!(["(tool image omitted: model does not support images)"]));
}

#[test]
fn tools_have_valid_unique_names_and_object_schemas() {
    let spec = |name: &str, parameters: Value| ToolSpec { name: name.into(), description: String::new(), parameters };
    let tools = [
        spec("mcp.read file", json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "$defs": {}})),
        spec("ls", json!(null)),
        spec("ls", json!({"type": "object"})),
        spec("", json!({"type": "string", "enum": ["a"]})),
        spec("odd", json!({"properties": {"a": {"type": "string"}}, "required": "a"})),
        spec("relaxed", json!({"type": "object", "properties": {"a": {}}})),
    ];
    let (wire, names) = wire_tools(&tools, |index, name, _| {
        assert_eq!(index == 4, name == "relaxed");
        name == "relaxed"
    });
    let empty = json!({"type": "object", "properties": {}});
    let shown: Vec<_> = wire.iter().map(|tool| (tool.name.as_str(), Value::Object(tool.schema.clone()))).collect();
    assert_eq!(
        shown,
        [
            ("mcp_read_file", tools[0].parameters.clone()),
            ("ls", empty.clone()),
            ("unnamed", empty.clone()),
            ("odd", json!({"properties": {"a": {"type": "string"}}, "type": "object"})),
            ("relaxed", empty),
        ]
    );
    assert_eq!(
        (names.original("mcp_read_file"), names.original("ls"), names.original("unnamed")),
        ("mcp.read file".into(), "ls".into(), String::new())
    );
}
