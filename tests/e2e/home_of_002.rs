//! A home that wolli 0.0.2 wrote: it opens, lists and continues, and what we append is what wolli 0.0.2 can open again.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use wolli_testkit::home::{Agent, TestHome};
use wolli_testkit::provider::{Answer, Gate};

use crate::support::{World, strict};

/// One line after another, each the child of the one before unless it says otherwise.
struct Lines {
    lines: Vec<Value>,
    parent: Value,
}

impl Lines {
    fn begin(id: &str, created: &str) -> Self {
        let header = json!({"type": "session", "version": 3, "id": id, "timestamp": created, "cwd": "/home/ann/.wolli/agents/a/workspace"});
        Self { lines: vec![header], parent: Value::Null }
    }

    fn add(mut self, kind: &str, id: &str, rest: Value) -> Self {
        let mut line: Map<String, Value> = Map::new();
        line.insert("type".into(), kind.into());
        line.insert("id".into(), id.into());
        line.insert("parentId".into(), self.parent.clone());
        line.insert("timestamp".into(), "2026-06-28T19:10:01.000Z".into());
        line.extend(rest.as_object().unwrap().clone());
        self.parent = if kind == "leaf" { line["targetId"].clone() } else { id.into() };
        self.lines.push(Value::Object(line));
        self
    }

    fn user(self, id: &str, text: &str) -> Self {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1_782_673_801_000_u64});
        self.add("message", id, json!({"message": message}))
    }

    fn answer(self, id: &str, text: &str) -> Self {
        let usage = json!({"input": 9, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 11, "cacheWrite1h": 0,
            "cost": {"input": 0, "output": 0.00025, "cacheRead": 0, "cacheWrite": 0, "total": 0.00025}});
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": text}], "api": "anthropic-messages", "provider": "scripted",
            "model": "scripted-1", "usage": usage, "stopReason": "stop", "timestamp": 1_782_673_802_000_u64, "responseId": "r1", "later": {"kept": [1.5, null]}});
        self.add("message", id, json!({"message": message}))
    }

    fn leaf(self, id: &str, target: Option<&str>) -> Self {
        self.add("leaf", id, json!({"targetId": target}))
    }

    fn compaction(self, id: &str, first_kept: &str) -> Self {
        let details = json!({"readFiles": ["a.md"], "modifiedFiles": []});
        self.add(
            "compaction",
            id,
            json!({"summary": "so far", "firstKeptEntryId": first_kept, "tokensBefore": 151_234, "details": details, "fromHook": false}),
        )
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A session, and what the model sees of it: roles with texts.
struct Case {
    id: &'static str,
    lines: Lines,
    context: &'static [(&'static str, &'static str)],
    name: Option<&'static str>,
}

const LONG: &str = "01a22c23-819d-7ec7-91cc-c07ce4494fea";

fn cases() -> Vec<Case> {
    let begin = |id: &str, minute: u32| Lines::begin(id, &format!("2026-06-28T19:{minute:02}:00.137Z"));
    let four = |id: &str, minute| {
        begin(id, minute)
            .user("01a22c23", "one")
            .answer(LONG, "two")
            .user("01a22c99", "three")
            .answer("01a22c9a-0000-7000-8000-000000000001", "four")
    };
    let last = "01a22c9a-0000-7000-8000-000000000001";
    vec![
        Case {
            id: "plain",
            lines: begin("plain", 59)
                .user("01a22c23", "one")
                .add("model_change", LONG, json!({"provider": "scripted", "modelId": "scripted-1"}))
                .add("thinking_level_change", "l1", json!({"thinkingLevel": "off"}))
                .add("active_tools_change", "t1", json!({"activeToolNames": ["memory", "read"]}))
                .answer("a1", "two")
                .add("label", "b1", json!({"targetId": "01a22c23", "label": " start "}))
                .add("label", "b2", json!({"targetId": "01a22c23"}))
                .add("session_info", "n1", json!({"name": "old"}))
                .add("session_info", "n2", json!({"name": "minutes "}))
                .add("tags", "g1", json!({"tags": {"telegram:chat": "41", "x": "y"}}))
                .add("tags", "g2", json!({"tags": {"telegram:chat": "42"}}))
                .add("custom", "c1", json!({"customType": "state", "data": {"n": 1}}))
                .add("never_heard_of", "u1", json!({"field": [1, {"a": null}]})),
            context: &[("user", "one"), ("assistant", "two")],
            name: Some("minutes"),
        },
        Case {
            id: "compacted",
            lines: four("compacted", 50).compaction("k1", "01a22c99").user("u5", "five"),
            context: &[("compactionSummary", "so far"), ("user", "three"), ("assistant", "four"), ("user", "five")],
            name: None,
        },
        Case {
            id: "kept-is-gone",
            lines: four("kept-is-gone", 40).compaction("k1", "nowhere").user("u5", "five"),
            context: &[("compactionSummary", "so far"), ("user", "five")],
            name: None,
        },
        Case {
            id: "moved-back",
            lines: four("moved-back", 30).leaf("f1", Some(LONG)).user("u5", "another three"),
            context: &[("user", "one"), ("assistant", "two"), ("user", "another three")],
            name: None,
        },
        Case {
            id: "moved-and-left",
            lines: four("moved-and-left", 25).leaf("f1", Some(LONG)),
            context: &[("user", "one"), ("assistant", "two")],
            name: None,
        },
        Case {
            id: "moved-to-root",
            lines: four("moved-to-root", 20).leaf("f1", None).user("u5", "anew"),
            context: &[("user", "anew")],
            name: None,
        },
        Case {
            id: "summarised",
            lines: four("summarised", 10)
                .leaf("f1", Some(LONG))
                .add("branch_summary", "s1", json!({"fromId": LONG, "summary": "tried it", "fromHook": true}))
                .add("branch_summary", "s2", json!({"fromId": last, "summary": ""})),
            context: &[("user", "one"), ("assistant", "two"), ("branchSummary", "tried it")],
            name: None,
        },
        Case {
            id: "custom",
            lines: begin("custom", 5).user("01a22c23", "one").add(
                "custom_message",
                "c1",
                json!({"customType": "note", "content": "door opened", "display": true}),
            ),
            context: &[("user", "one"), ("custom", "door opened")],
            name: None,
        },
    ]
}

fn agent_json(agent: &Agent) -> Value {
    json!({"later": {"kept": true}, "schemaVersion": 2, "name": "a", "purpose": "keep minutes", "createdAt": "2026-03-01T08:00:00.000Z",
        "deployedAt": "2026-03-02T08:00:00.000Z", "port": agent.port, "token": agent.token,
        "settings": {"theme": "dark", "defaultModel": "scripted/scripted-1", "compaction": {"enabled": false, "later": 1}, "unknown": [1]}, "z": 1.5})
}

/// Writes the home as wolli 0.0.2 does: folders for everybody to read, no sidecars, no lock.
fn write(home: &TestHome, cases: &[Case]) -> (Agent, PathBuf) {
    let agent = home.agent("a", json!({})).unwrap();
    home.write_json("agents/a/agent.json", &agent_json(&agent)).unwrap();
    let workspace = agent.home.join("workspace").to_string_lossy().trim_start_matches('/').replace('/', "-");
    let folder = agent.home.join("sessions").join(format!("--{workspace}--"));
    std::fs::create_dir_all(&folder).unwrap();
    for case in cases {
        let path = folder.join(format!("2026-06-28T19-10-00-123Z_{}.jsonl", case.id));
        std::fs::write(&path, case.lines.text()).unwrap();
        // What stands here is what wolli 0.0.2 could have written.
        strict::read(&path).unwrap();
    }
    (agent, folder)
}

fn shown(messages: &[Value]) -> Vec<(String, String)> {
    let text = |message: &Value| message["summary"].as_str().map_or_else(|| crate::support::text_of(message), str::to_owned);
    messages.iter().map(|message| (message["role"].as_str().unwrap().to_owned(), text(message))).collect()
}

#[tokio::test]
async fn it_opens_lists_and_continues_and_can_be_opened_by_wolli_0_0_2_again() {
    let cases = cases();
    let home = TestHome::new().unwrap();
    let (agent, folder) = write(&home, &cases);
    let mut world = World::begin(home, agent).await;

    let state = world.agent_state().await;
    let mut config = agent_json(&world.agent);
    config["token"] = "".into();
    assert_eq!(state["config"], config);
    let sessions = state["sessions"].as_array().unwrap();
    assert_eq!(
        sessions.iter().map(|session| session["sessionId"].as_str().unwrap()).collect::<Vec<_>>(),
        cases.iter().map(|case| case.id).collect::<Vec<_>>()
    );
    for (session, case) in sessions.iter().zip(&cases) {
        assert_eq!(session["sessionName"].as_str(), case.name, "{session}");
        assert_eq!(session["createdAt"], case.lines.lines[0]["timestamp"]);
    }
    assert_eq!(sessions[0]["tags"], json!({"telegram:chat": "42", "x": "y"}));
    assert!(sessions[1].get("tags").is_none());

    for case in &cases {
        world.session = case.id.to_owned();
        assert_eq!(shown(&world.messages().await), owned(case.context), "{}", case.id);
        // All branches, in the order of the file, with everything that we do not know.
        let entries: Vec<Value> = case.lines.lines[1..].iter().filter(|line| line["type"] != "leaf").cloned().collect();
        assert_eq!(world.entries().await, entries, "{}", case.id);
        assert_eq!(world.state().await["messageCount"], case.context.len(), "{}", case.id);

        continue_it(&mut world, case).await;
        let path = folder.join(format!("2026-06-28T19-10-00-123Z_{}.jsonl", case.id));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&case.lines.text()), "{}: what stood there was changed", case.id);
        strict::check_appended(&path, case.lines.lines.len());
    }

    // One setting was set; everything else is as it was.
    let stored: Value = serde_json::from_slice(&std::fs::read(world.agent.home.join("agent.json")).unwrap()).unwrap();
    let mut expected = agent_json(&world.agent);
    expected["settings"]["defaultThinkingLevel"] = "high".into();
    assert_eq!(stored, expected);
}

fn owned(context: &[(&str, &str)]) -> Vec<(String, String)> {
    context.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// A prompt, a name, another model and level, an appended message, an abort, and a kill in the middle of an answer.
async fn continue_it(world: &mut World, case: &Case) {
    world.provider.reply(Answer::says("Continued."));
    world.prompt("and on").await;
    world.idle().await;
    let mut expected = owned(case.context);
    expected.extend(owned(&[("user", "and on"), ("assistant", "Continued.")]));
    assert_eq!(shown(&world.messages().await), expected, "{}", case.id);

    world.succeed(json!({"type": "rename_session", "targetSessionId": case.id, "sessionName": "renamed"})).await;
    world.succeed(json!({"type": "set_model", "provider": "scripted", "modelId": "scripted-1"})).await;
    world.succeed(json!({"type": "set_thinking_level", "level": "high"})).await;
    world.succeed(json!({"type": "append_message", "message": {"role": "user", "content": "by the way", "timestamp": 1}})).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("This is never said to its end.").hold_before(4, &gate));
    world.prompt("to be aborted").await;
    gate.reached().await;
    world.succeed(json!({"type": "abort"})).await;
    gate.open();
    let gate = Gate::new();
    world.provider.reply(Answer::says("Nor is this.").hold_before(4, &gate));
    world.prompt("to be killed").await;
    gate.reached().await;
    world.succeed(json!({"type": "steer", "message": "waits"})).await;
    world.daemon.kill().unwrap();
    gate.open();
    world.start().await;
    assert_eq!(world.state().await["sessionName"], "renamed");
    world.succeed(json!({"type": "clear_queue"})).await;
}
