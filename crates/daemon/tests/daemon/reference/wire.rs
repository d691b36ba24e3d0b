//! The document against what crosses the wire: the golden files of the protocol, and a daemon's answers and streams.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use wolli_protocol::command::Command;

use super::schemas::{Schemas, without_one_field};
use super::{committed, operations};
use crate::support::{Events, TestDaemon, TestHome, quick};

/// Golden files of types that are in the document.
const GOLDEN: &[(&str, &str)] = &[
    ("agent-state", "AgentState"),
    ("command", "Command"),
    ("control-event", "ControlEvent"),
    ("dialog-answer", "DialogAnswer"),
    ("dialog-receipt", "DialogReceipt"),
    ("dialog-request", "DialogRequest"),
    ("entry", "Entry"),
    ("event-delta", "SessionEvent"),
    ("event-full", "SessionEvent"),
    ("health", "Health"),
    ("hello", "Hello"),
    ("login-request", "LoginRequest"),
    ("message", "Message"),
    ("model", "Model"),
    ("resource", "ResourceSummary"),
    ("session-state", "SessionState"),
    ("slash-command", "SlashCommandInfo"),
    ("snapshot-frame", "SnapshotFrame"),
    ("tool-info", "ToolInfo"),
];

/// Of no schema in the document: the first stands in files, the second is the envelope of any data.
const NOT_IN_THE_DOCUMENT: &[&str] = &["session-header", "response"];

fn golden_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/tests/golden"))
}

fn golden(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(golden_folder().join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn golden_files_are_what_the_document_says() {
    let strict = Schemas::strict(&committed());
    for (name, schema) in GOLDEN {
        for line in golden(name) {
            strict.must_be(schema, &line);
        }
    }
    let files: BTreeSet<String> = std::fs::read_dir(golden_folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().to_str().unwrap().trim_end_matches(".jsonl").to_owned())
        .collect();
    let known: BTreeSet<String> =
        GOLDEN.iter().map(|(name, _)| *name).chain(NOT_IN_THE_DOCUMENT.iter().copied()).map(str::to_owned).collect();
    assert_eq!(files, known);
}

/// What the document lets a sender leave out, our own readers can do without.
#[test]
fn what_may_be_left_out_can_be_done_without() {
    let lenient = Schemas::lenient(&committed());
    let (mut checked, mut refused) = (0, 0);
    for line in golden("command") {
        for (field, changed) in without_one_field(&line) {
            // Our reader has defaults for what older clients leave out.
            let read = Command::from_json(&changed);
            if field != "/message/role" {
                assert_eq!(lenient.check("Command", &changed).is_ok(), read.is_ok(), "{field} left out of {line}");
                checked += 1;
            }
        }
        let mut wrong = line.clone();
        wrong["type"] = json!("no_such_command");
        assert!(lenient.check("Command", &wrong).is_err());
    }
    for (name, schema) in [("event-delta", "SessionEvent"), ("control-event", "ControlEvent"), ("entry", "Entry")] {
        for line in golden(name) {
            for (field, changed) in without_one_field(&line).into_iter().filter(|(field, _)| field.matches('/').count() == 1) {
                let read = match schema {
                    "SessionEvent" => serde_json::from_value::<wolli_protocol::event::SessionEvent>(changed.clone()).is_ok(),
                    "ControlEvent" => serde_json::from_value::<wolli_protocol::event::ControlEvent>(changed.clone()).is_ok(),
                    _ => serde_json::from_value::<wolli_protocol::entry::Entry>(changed.clone()).is_ok(),
                };
                // A reader takes more than is sent: an absent field where `null` is promised.
                assert!(read || lenient.check(schema, &changed).is_err(), "{field} left out of {line}");
                refused += u32::from(!read);
                checked += 1;
            }
        }
    }
    assert!(checked > 150 && refused > 100, "{checked} {refused}");
}

/// A daemon whose agent has the built-in model by choice, so that it can be made to think and to call tools.
async fn daemon() -> (TestDaemon, String) {
    let daemon = TestHome::new().start_with(quick(), &[("WOLLI_SERVICE_MANAGER", "none"), ("WOLLI_OFFLINE", "1")]).await;
    let id = daemon.session().await;
    let answer = daemon.command(&id, json!({"type": "set_model", "provider": "echo", "modelId": "demo"})).await;
    assert_eq!(answer["success"], true, "{answer}");
    (daemon, id)
}

#[tokio::test]
async fn snapshots_are_what_the_document_says() {
    let strict = Schemas::strict(&committed());
    let (daemon, id) = daemon().await;
    let mut reader = Events::new(daemon.stream(&format!("/sessions/{id}/events?view=snapshot&include=all")).await);
    strict.must_be("Hello", &reader.event().await.unwrap().1);
    let (_, first) = reader.event().await.unwrap();
    strict.must_be("UniversalSnapshot", &first["patch"]["full"]);
    daemon.command(&id, json!({"type": "prompt", "message": "!tool bash {\"command\":\"printf hi\"}"})).await;
    let mut seen = BTreeSet::new();
    loop {
        let (_, frame) = reader.event().await.unwrap();
        let kind = frame["type"].as_str().unwrap().to_owned();
        strict.must_be(if kind == "snapshot" { "SnapshotFrame" } else { "SessionEvent" }, &frame);
        seen.insert(kind);
        if frame["patch"]["set"]["phase"] == "done" {
            break;
        }
    }
    assert!(seen.contains("snapshot") && seen.contains("usage"), "{seen:?}");
}

#[tokio::test]
async fn streams_are_what_the_document_says() {
    let strict = Schemas::strict(&committed());
    let (daemon, id) = daemon().await;
    let mut agent = Events::new(daemon.stream("/events").await);
    let (_, hello) = agent.event().await.unwrap();
    strict.must_be("AgentState", &hello);
    for view in ["delta", "full"] {
        let mut reader = Events::new(daemon.stream(&format!("/sessions/{id}/events?view={view}&include=all")).await);
        let (name, hello) = reader.event().await.unwrap();
        assert_eq!(name, "hello");
        strict.must_be("Hello", &hello);
        let mut seen = BTreeSet::new();
        for prompt in
            ["one\n!think about it\ntwo", "!tool bash {\"command\":\"printf hi\"}", "!tool read {\"path\":\"no such file\"}", "!fail 400"]
        {
            daemon.command(&id, json!({"type": "prompt", "message": prompt})).await;
            loop {
                let (name, frame) = reader.event().await.unwrap();
                assert_eq!(name, "message");
                strict.must_be("SessionEvent", &frame);
                let kind = frame["type"].as_str().unwrap().to_owned();
                let ended = kind == "agent_end";
                seen.insert(frame["assistantMessageEvent"]["type"].as_str().unwrap_or(&kind).to_owned());
                if ended {
                    break;
                }
            }
        }
        daemon.command(&id, json!({"type": "set_thinking_level", "level": "off"})).await;
        strict.must_be("SessionEvent", &reader.until("thinking_level_update").await);
        for kind in ["text_delta", "thinking_end", "toolcall_end", "tool_execution_update", "tool_execution_end", "turn_end"] {
            assert!(seen.contains(kind), "no {kind} in {seen:?}");
        }
    }
    daemon.command(&id, json!({"type": "rename_session", "targetSessionId": id, "sessionName": "n"})).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 3 {
        let (_, frame) = agent.event().await.unwrap();
        strict.must_be("ControlEvent", &frame);
        seen.insert(frame["type"].as_str().unwrap().to_owned());
    }
}

#[tokio::test]
async fn answers_are_what_the_document_says() {
    let strict = Schemas::strict(&committed());
    let (daemon, id) = daemon().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!think hm\nhello"})).await;
    daemon.command(&id, json!({"type": "wait_for_idle"})).await;
    let mut succeeded = BTreeSet::new();
    for mut command in golden("command").into_iter().filter(|command| command["type"] != "shutdown") {
        command["id"] = json!({"any": ["json", 1]});
        let answer = daemon.command(&id, command.clone()).await;
        strict.must_be("CommandAnswer", &answer);
        assert_eq!((&answer["command"], &answer["id"]), (&command["type"], &command["id"]));
        if answer["success"] == true {
            succeeded.insert(answer["command"].as_str().unwrap().to_owned());
        }
        daemon.command(&id, json!({"type": "abort"})).await;
    }
    for command in
        ["prompt", "get_state", "get_messages", "get_entries", "get_tool_info", "get_context_info", "get_available_models", "deploy"]
    {
        assert!(succeeded.contains(command), "{command} is not in {succeeded:?}");
    }
    for wrong in [json!({}), json!([1]), json!("text"), json!({"type": "nope", "id": null}), json!({"type": 7})] {
        strict.must_be("CommandFailure", &daemon.command(&id, wrong).await);
    }
    strict.must_be("CommandFailure", &daemon.post(&format!("/sessions/{id}/control"), "{").await.json());
    strict.must_be("CommandFailure", &daemon.command("nobody", json!({"type": "get_state"})).await);
    strict.must_be("AgentState", &daemon.get("/sessions").await.json());
    for query in ["", "?limit=1", "?limit=10000"] {
        strict.must_be("EntriesPage", &daemon.get(&format!("/sessions/{id}/entries{query}")).await.json());
    }
    strict.must_be("Health", &daemon.get("/health?nonce=abc").await.json());
    for body in ["{\"id\":\"x\",\"cancelled\":true}", "{"] {
        strict.must_be("DialogReceipt", &daemon.post(&format!("/sessions/{id}/ui-response"), body).await.json());
    }
    for path in ["/sessions/nobody/events", "/sessions/nobody/entries", &format!("/sessions/{id}/entries?after=nothing")] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.status(), 404, "{path}");
        strict.must_be("Error", &answer.json());
    }
}

#[tokio::test]
async fn parameters_are_what_the_document_says() {
    let (daemon, id) = daemon().await;
    let status = async |query: String| {
        let mut client = daemon.connect().await;
        client.send(&format!("HEAD /sessions/{id}/{query} HTTP/1.1\r\n{}\r\n", daemon.owner())).await;
        let mut status = client.response_to("HEAD").await.status();
        if query.starts_with("events") && status == 200 {
            // `HEAD` looks at the session alone.
            client = daemon.connect().await;
            client.send(&format!("GET /sessions/{id}/{query} HTTP/1.1\r\n{}\r\n", daemon.owner())).await;
            status = client.head().await.split(' ').nth(1).unwrap().parse().unwrap();
        }
        status
    };
    for view in operations::VIEWS {
        assert_eq!(status(format!("events?view={view}")).await, 200, "{view}");
    }
    for notice in operations::NOTICES.iter().chain(&["all"]) {
        assert_eq!(status(format!("events?include={notice}")).await, 200, "{notice}");
    }
    assert_eq!(status(format!("events?include={}", operations::NOTICES.join(","))).await, 200);
    for limit in [1, operations::LARGEST_PAGE] {
        assert_eq!(status(format!("entries?limit={limit}")).await, 200, "{limit}");
    }
    let too_large = format!("entries?limit={}", operations::LARGEST_PAGE + 1);
    for wrong in ["events?view=other", "events?include=other", "entries?limit=0", "entries?limit=many", &too_large] {
        assert_eq!(status(wrong.to_owned()).await, 400, "{wrong}");
    }
}
