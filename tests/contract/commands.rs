//! What each command answers and tells, field by field, in the order of the fields.

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::World;
use crate::wire::{compatible, without_numbers};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn get_state_has_these_fields() {
    let world = World::scripted(Kind::Anthropic).await;
    let names = [
        "sessionId",
        "model",
        "thinkingLevel",
        "scopedModels",
        "isStreaming",
        "sessionFile",
        "messageCount",
        "pendingMessageCount",
        "confinement",
    ];
    let state = world.state().await;
    assert_eq!(keys(&state), names);
    world.succeed(json!({"type": "rename_session", "targetSessionId": world.session, "sessionName": "minutes"})).await;
    let state = world.state().await;
    assert_eq!(keys(&state), [&names[..5], &["sessionName"], &names[5..]].concat());
    let model = ["id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost", "contextWindow", "maxTokens"];
    assert_eq!(keys(&state["model"]), model);
    assert!(std::path::Path::new(state["sessionFile"].as_str().unwrap()).is_absolute());
}

#[tokio::test]
async fn get_messages_and_get_entries_show_what_was_said_and_where_it_stands() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Hello.").hold_before(4, &gate));
    world.prompt("hi").await;
    gate.reached().await;
    assert_eq!(world.messages().await.len(), 1, "what is being said is not among them");
    gate.open();
    world.idle().await;
    let messages = world.messages().await;
    assert_eq!(world.state().await["messageCount"], 2);
    assert_eq!(keys(&messages[0]), ["role", "content", "timestamp"]);
    let fields = ["role", "content", "api", "provider", "model", "usage", "stopReason", "timestamp", "responseId"];
    assert_eq!(keys(&messages[1]), fields);
    assert_eq!(keys(&messages[1]["usage"]), ["input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost"]);
    let entries = world.entries().await;
    let kinds: Vec<&Value> = entries.iter().map(|entry| &entry["type"]).collect();
    assert_eq!(kinds, ["message", "message"]);
    for (entry, message) in entries.iter().zip(&messages) {
        assert_eq!(keys(entry)[..4], ["type", "id", "parentId", "timestamp"]);
        assert_eq!(entry["message"], *message);
    }
    assert_eq!((&entries[0]["parentId"], &entries[1]["parentId"]), (&Value::Null, &entries[0]["id"]));
}

#[tokio::test]
async fn get_tool_info_lists_the_tools_in_their_order() {
    let world = World::echo().await;
    let info = world.succeed(json!({"type": "get_tool_info"})).await;
    assert_eq!(keys(&info), ["tools", "activeToolNames"]);
    let names = ["memory", "deploy", "read", "write", "edit", "ls", "grep", "find", "bash"];
    assert_eq!(info["activeToolNames"], json!(names));
    let parameters = [
        (&["file", "op"][..], &["content", "match"][..]),
        (&["purpose", "soul"], &[]),
        (&["path"], &["offset", "limit"]),
        (&["path", "content"], &[]),
        (&["path", "edits"], &[]),
        (&[], &["path", "limit"]),
        (&["pattern"], &["path", "glob", "ignoreCase", "literal", "context", "limit"]),
        (&["pattern"], &["path", "limit"]),
        (&["command"], &["timeout", "target"]),
    ];
    for ((tool, name), (required, optional)) in info["tools"].as_array().unwrap().iter().zip(names).zip(parameters) {
        let fields: Vec<&str> = keys(tool).into_iter().filter(|key| *key != "promptGuidelines").collect();
        assert_eq!(fields, ["name", "description", "parameters", "sourceInfo"]);
        assert_eq!(tool["name"], name);
        let source = json!({"path": format!("<builtin:{name}>"), "source": "builtin", "scope": "temporary", "origin": "top-level"});
        assert_eq!(tool["sourceInfo"].to_string(), source.to_string());
        let schema = &tool["parameters"];
        let stands: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(stands, required, "{name}");
        let properties = keys(&schema["properties"]);
        assert_eq!(properties, [required, optional].concat(), "{name}");
    }
    // Deployed, there is nothing to deploy.
    let session = world.succeed(json!({"type": "deploy"})).await["sessionId"].as_str().unwrap().to_owned();
    let info = world.client().succeed(&session, &json!({"type": "get_tool_info"})).await.unwrap();
    assert!(!info["activeToolNames"].as_array().unwrap().contains(&json!("deploy")), "{info}");
}

#[tokio::test]
async fn get_context_info_lists_memory_then_project_files() {
    let world = World::echo().await;
    std::fs::write(world.agent.home.join("SOUL.md"), "I 🦀").unwrap();
    std::fs::write(world.agent.home.join("CLAUDE.md"), "second choice").unwrap();
    std::fs::write(world.agent.home.join("AGENTS.md"), "rules").unwrap();
    let info = world.succeed(json!({"type": "get_context_info"})).await;
    let expected = json!({"contexts": [
        {"name": "SOUL.md", "kind": "memory", "chars": 4},
        {"name": "MEMORY.md", "kind": "memory", "chars": 0},
        {"name": "USER.md", "kind": "memory", "chars": 0},
        {"name": "AGENTS.md", "kind": "project", "chars": 5},
    ]});
    assert_eq!(info.to_string(), expected.to_string());
}

#[tokio::test]
async fn seed_assistant_message_answers_the_message_and_tells_nobody() {
    let world = World::scripted(Kind::Anthropic).await;
    let mut stream = world.stream("").await;
    stream.next_json().await.unwrap();
    let answer = world.command(json!({"type": "seed_assistant_message", "text": "What is my purpose?"})).await;
    let message = concat!(
        r#"{"role":"assistant","content":[{"type":"text","text":"What is my purpose?"}],"api":"anthropic-messages","provider":"scripted","#,
        r#""model":"scripted-1","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"#,
        r#""cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":0}"#
    );
    assert_eq!(without_numbers(&answer["data"].to_string(), "timestamp", "0"), message);
    assert_eq!(world.messages().await, [answer["data"].clone()]);
    assert_eq!(world.state().await["messageCount"], 1);
    world.succeed(json!({"type": "clear_queue"})).await;
    assert_eq!(stream.next_json().await.unwrap()["type"], "queue_update", "no other frame came before it");
}

#[tokio::test]
async fn set_model_answers_the_model_tells_it_and_saves_it() {
    let world = World::scripted(Kind::Anthropic).await;
    let mut stream = world.stream("").await;
    let before = stream.next_json().await.unwrap()["model"].clone();
    let model = world.succeed(json!({"type": "set_model", "provider": "scripted-openai", "modelId": "scripted-1"})).await;
    let frame = stream.next_json().await.unwrap();
    let expected = json!({"type": "model_update", "model": model, "previousModel": before, "source": "set"});
    assert_eq!(frame.to_string(), expected.to_string());
    assert_eq!(world.agent_state().await["config"]["settings"]["defaultModel"], "scripted-openai/scripted-1");
    // The same once more is told once more.
    world.succeed(json!({"type": "set_model", "provider": "scripted-openai", "modelId": "scripted-1"})).await;
    assert_eq!(stream.next_json().await.unwrap()["type"], "model_update");
    let entries = world.entries().await;
    let fields: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry["type"], entry["provider"])).collect();
    assert_eq!(fields, ["\"model_change\" \"scripted-openai\""; 2]);
    for (provider, id, text) in [
        ("nobody", "x", "Model not found: nobody/x"),
        ("scripted", "nothing", "Model not found: scripted/nothing"),
        ("anthropic", "claude-opus-4-8", "No configured credentials for anthropic/claude-opus-4-8."),
    ] {
        let answer = world.command(json!({"type": "set_model", "provider": provider, "modelId": id})).await;
        assert_eq!(answer["error"], text);
    }
    // A new session begins with the model that was chosen last.
    let state = world.succeed(json!({"type": "deploy"})).await;
    assert_eq!(state["model"]["provider"], "scripted-openai");
}

#[tokio::test]
async fn set_thinking_level_tells_the_level_that_the_model_has_and_saves_it() {
    let world = World::scripted(Kind::Anthropic).await;
    let mut stream = world.stream("").await;
    stream.next_json().await.unwrap();
    for (asked, level, before) in [("medium", "medium", "off"), ("medium", "medium", "medium"), ("xhigh", "high", "medium")] {
        let answer = world.command(json!({"type": "set_thinking_level", "level": asked})).await;
        assert_eq!(answer, json!({"type": "response", "command": "set_thinking_level", "success": true}));
        let expected = format!(r#"{{"type":"thinking_level_update","level":"{level}","previousLevel":"{before}"}}"#);
        assert_eq!(stream.next_json().await.unwrap().to_string(), expected);
        assert_eq!(world.state().await["thinkingLevel"], level);
    }
    assert_eq!(world.agent_state().await["config"]["settings"]["defaultThinkingLevel"], "high");
    let entries = world.entries().await;
    assert!(entries.iter().all(|entry| entry["type"] == "thinking_level_change"), "{entries:#?}");
}

#[tokio::test]
async fn clear_queue_gives_what_waited_and_tells_the_empty_queues() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Busy.").hold_before(1, &gate));
    world.prompt("go").await;
    for (kind, text) in [("steer", "s1"), ("follow_up", "f1"), ("steer", "s2")] {
        world.succeed(json!({"type": kind, "message": text})).await;
    }
    let mut stream = world.stream("").await;
    assert_eq!(stream.next_json().await.unwrap()["pendingMessageCount"], 3);
    let cleared = world.succeed(json!({"type": "clear_queue"})).await;
    let user = |text: &str| format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":T}}"#);
    let expected = format!(r#"{{"steering":[{},{}],"followUp":[{}]}}"#, user("s1"), user("s2"), user("f1"));
    assert_eq!(without_numbers(&cleared.to_string(), "timestamp", "T"), expected);
    let empty = r#"{"type":"queue_update","steer":[],"followUp":[],"nextTurn":[]}"#;
    assert_eq!(stream.next_json().await.unwrap().to_string(), empty);
    let nothing = world.succeed(json!({"type": "clear_queue"})).await;
    assert_eq!(nothing.to_string(), r#"{"steering":[],"followUp":[]}"#);
    assert_eq!(stream.next_json().await.unwrap().to_string(), empty, "told although nothing changed");
    assert_eq!(world.state().await["isStreaming"], true, "the run goes on");
    gate.open();
    world.idle().await;
}

#[tokio::test]
async fn a_follow_up_on_an_idle_session_starts_a_run() {
    let world = World::echo().await;
    let mut stream = world.stream("").await;
    stream.next_json().await.unwrap();
    let answer = world.command(json!({"type": "follow_up", "message": "/hello"})).await;
    assert_eq!(answer, json!({"type": "response", "command": "follow_up", "success": true}));
    let frames = stream.until_type("agent_end").await.unwrap();
    assert_eq!(frames[0]["type"], "agent_start");
    let messages = world.messages().await;
    assert_eq!(crate::support::text_of(&messages[0]), "/hello", "taken as it is");
}

#[tokio::test]
async fn an_acknowledged_prompt_is_running_and_its_answer_is_there_when_it_is_idle() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Hello.").hold_before(1, &gate));
    world.prompt("").await;
    assert_eq!(world.state().await["isStreaming"], true);
    let refused = world.command(json!({"type": "prompt", "message": "x", "streamingBehavior": ""})).await;
    let text = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.";
    assert_eq!(refused["error"], text);
    gate.open();
    world.idle().await;
    assert_eq!(world.state().await["isStreaming"], false);
    let messages = world.messages().await;
    assert_eq!(messages[0]["content"], json!([{"type": "text", "text": ""}]), "an empty prompt is one");
    assert_eq!(crate::support::text_of(&messages[1]), "Hello.");
}

#[tokio::test]
async fn at_the_end_of_a_run_the_session_is_idle() {
    let world = World::echo().await;
    let mut stream = world.stream("").await;
    for n in 0..20 {
        world.prompt(&format!("{n}")).await;
        stream.until_type("agent_end").await.unwrap();
        assert_eq!(world.state().await["isStreaming"], false);
    }
}

#[tokio::test]
async fn deploy_stamps_the_agent_and_gives_a_fresh_session_each_time() {
    let world = World::echo().await;
    let refused = world.command(json!({"type": "create_session"})).await;
    assert_eq!(refused["error"], "This agent is still forming — it stays in its birth session until it deploys.");
    let first = world.succeed(json!({"type": "deploy"})).await;
    assert_eq!((&first["messageCount"], &first["isStreaming"]), (&json!(0), &json!(false)));
    assert!(std::path::Path::new(first["sessionFile"].as_str().unwrap()).is_file());
    let stamp = world.agent_state().await["config"]["deployedAt"].clone();
    assert!(stamp.as_str().is_some_and(|stamp| stamp.ends_with('Z')), "{stamp}");
    let second = world.succeed(json!({"type": "deploy"})).await;
    assert_ne!(second["sessionId"], first["sessionId"]);
    assert_eq!(world.agent_state().await["config"]["deployedAt"], stamp, "the first stamp stays");
    let third = world.succeed(json!({"type": "create_session"})).await;
    let ids: std::collections::BTreeSet<&str> =
        [&first, &second, &third].iter().map(|state| state["sessionId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn what_was_used_is_told_and_can_be_asked_for() {
    let settings = json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off", "compaction": {"enabled": false}});
    let world = compatible(settings, "").await;
    let none = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
    let before = world.succeed(json!({"type": "get_usage"})).await;
    assert_eq!(before.to_string(), json!({"session": none, "today": none, "total": none}).to_string());
    let mut told = world.stream("?include=usage").await;
    let mut plain = world.stream("").await;
    let usage = |input, output| wolli_testkit::provider::TokenCount { input, output, cache_read: 0, cache_write: 0 };
    for tokens in [usage(1_000_000, 500_000), usage(2_000_000, 1_500_000)] {
        world.provider.reply(Answer::says("Hello.").usage(tokens));
        world.prompt("hi").await;
        world.idle().await;
    }
    let one = |input: u64, output: u64, cost: [u64; 3]| {
        json!({"input": input, "output": output, "cacheRead": 0, "cacheWrite": 0, "totalTokens": input + output,
            "cost": {"input": cost[0], "output": cost[1], "cacheRead": 0, "cacheWrite": 0, "total": cost[2]}})
    };
    let (last, all) = (one(2_000_000, 1_500_000, [2, 3, 5]), one(3_000_000, 2_000_000, [3, 4, 7]));
    let after = world.succeed(json!({"type": "get_usage"})).await;
    assert_eq!(after.to_string(), json!({"session": all, "today": all, "total": all}).to_string());
    told.until_type("usage").await.unwrap();
    let notice = told.until_type("usage").await.unwrap().pop().unwrap();
    let expected = json!({"type": "usage", "model": "scripted/scripted-1", "answer": last, "session": all, "today": all, "total": all});
    assert_eq!(notice.to_string(), expected.to_string());
    plain.until_type("agent_end").await.unwrap();
    let frames = plain.until_type("agent_end").await.unwrap();
    assert!(frames.iter().all(|frame| frame["type"] != "usage"), "nobody else is told");
}
