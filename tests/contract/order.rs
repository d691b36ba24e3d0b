//! The order in which a run tells what happens, whole runs at a time.

use serde_json::{Value, json};
use wolli_testkit::home::TestHome;
use wolli_testkit::http::EventStream;
use wolli_testkit::provider::{Answer, Gate, Kind, Provider, Reply};

use crate::support::{World, text_of};
use crate::wire::compatible;

/// A frame in few words: what it is about, and what tells it from others of its type.
fn brief(frame: &Value) -> String {
    let kind = frame["type"].as_str().unwrap_or("?");
    let call = frame["toolCallId"].as_str().unwrap_or_default();
    let message = &frame["message"];
    let about = match kind {
        "queue_update" => {
            let texts = |key: &str| frame[key].as_array().unwrap().iter().map(text_of).collect::<Vec<_>>().join(" ");
            format!("[{}] [{}] [{}]", texts("steer"), texts("followUp"), texts("nextTurn"))
        }
        "message_start" | "message_end" => match message["role"].as_str().unwrap_or_default() {
            "user" => format!("user {}", text_of(message)),
            "toolResult" => format!("result {}", message["toolCallId"].as_str().unwrap_or_default()),
            role if kind == "message_end" => format!("{role} {}", message["stopReason"].as_str().unwrap_or_default()),
            role => role.to_owned(),
        },
        "tool_execution_end" if frame["isError"] == true => format!("{call} error"),
        "tool_execution_start" | "tool_execution_update" | "tool_execution_end" => call.to_owned(),
        "message_update" => String::new(),
        "turn_end" => {
            let results = frame["toolResults"].as_array().unwrap().iter();
            results.map(|result| result["toolCallId"].as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    };
    format!("{kind} {about}").trim_end().to_owned()
}

/// The frames up to the end of a run in few words, updates that follow each other as one.
async fn run(stream: &mut EventStream) -> (Vec<String>, Vec<Value>) {
    let mut frames = stream.until_type("agent_end").await.unwrap();
    frames.retain(|frame| frame.get("sessionId").is_none());
    let mut briefs: Vec<String> = frames.iter().map(brief).collect();
    briefs.dedup_by(|one, other| one == other && one.contains("_update") && !one.starts_with("queue"));
    (briefs, frames)
}

async fn world() -> World {
    compatible(json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off"}), "").await
}

#[tokio::test]
async fn steering_comes_before_the_next_answer_and_follow_ups_when_the_run_would_end_one_at_a_time() {
    let world = world().await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Busy.").hold_before(1, &gate));
    world.provider.respond_with(|request| Answer::says(&format!("to {}", request.last_user_text())));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    stream.until_type("message_start").await.unwrap();
    for (kind, text) in [("follow_up", "f1"), ("steer", "s1"), ("follow_up", "f2"), ("steer", "s2")] {
        world.succeed(json!({"type": kind, "message": text})).await;
    }
    let mut seen = stream.until_type("message_start").await.unwrap();
    seen.retain(|frame| frame["type"] == "queue_update");
    gate.open();
    let (briefs, _) = run(&mut stream).await;
    let queued: Vec<String> = seen.iter().map(brief).chain(briefs.iter().filter(|text| text.starts_with("queue")).cloned()).collect();
    assert_eq!(
        queued,
        [
            "queue_update [] [f1] []",
            "queue_update [s1] [f1] []",
            "queue_update [s1] [f1 f2] []",
            "queue_update [s1 s2] [f1 f2] []",
            "queue_update [s2] [f1 f2] []",
            "queue_update [] [f1 f2] []",
            "queue_update [] [f2] []",
            "queue_update [] [] []",
        ]
    );
    let from = briefs.iter().position(|text| text == "queue_update [s2] [f1 f2] []").unwrap();
    let turn = |queue: &str, text: &str| {
        [
            format!("queue_update {queue}"),
            "turn_start".into(),
            format!("message_start user {text}"),
            format!("message_end user {text}"),
            "message_start assistant".into(),
            "message_update".into(),
            "message_end assistant stop".into(),
            "turn_end".into(),
        ]
    };
    let turns = [("[s2] [f1 f2] []", "s1"), ("[] [f1 f2] []", "s2"), ("[] [f2] []", "f1"), ("[] [] []", "f2")];
    let mut expected: Vec<String> = turns.iter().flat_map(|(queue, text)| turn(queue, text)).collect();
    expected.push("agent_end".into());
    assert_eq!(briefs[from..], expected);
}

#[tokio::test]
async fn calls_side_by_side_start_in_order_end_as_they_end_and_tell_their_results_in_order() {
    let world = world().await;
    let waits = "while [ ! -e go ]; do sleep 0.01; done";
    let calls = Answer::new()
        .text("Some work.")
        .tool_call("slow", "bash", &json!({"command": waits}))
        .tool_call("unknown", "nosuch", &json!({"x": 1}))
        .tool_call("invalid", "read", &json!({"offset": 1}))
        .tool_call("quick", "bash", &json!({"command": "echo done; touch go"}));
    world.provider.reply(calls);
    world.provider.reply(Answer::says("Seen."));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let (mut briefs, frames) = run(&mut stream).await;
    // When a program talks is its own affair; that it began is told once, at its start.
    let updates: Vec<usize> = (0..briefs.len()).filter(|at| briefs[*at].starts_with("tool_execution_update")).collect();
    assert!(updates.len() >= 2, "{briefs:#?}");
    briefs.retain(|text| !text.starts_with("tool_execution_update"));
    let expected = [
        "agent_start",
        "turn_start",
        "message_start user go",
        "message_end user go",
        "message_start assistant",
        "message_update",
        "message_end assistant toolUse",
        "tool_execution_start slow",
        "tool_execution_start unknown",
        "tool_execution_end unknown error",
        "tool_execution_start invalid",
        "tool_execution_end invalid error",
        "tool_execution_start quick",
        "tool_execution_end quick",
        "tool_execution_end slow",
        "message_start result slow",
        "message_end result slow",
        "message_start result unknown",
        "message_end result unknown",
        "message_start result invalid",
        "message_end result invalid",
        "message_start result quick",
        "message_end result quick",
        "turn_end slow unknown invalid quick",
        "turn_start",
        "message_start assistant",
        "message_update",
        "message_end assistant stop",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(briefs, expected);
    let end = |call: &str| frames.iter().find(|frame| frame["type"] == "tool_execution_end" && frame["toolCallId"] == call).unwrap();
    let expected = json!({"content": [{"type": "text", "text": "Tool nosuch not found"}], "details": {}});
    assert_eq!(end("unknown")["result"], expected);
    let problem =
        "Validation failed for tool \"read\":\n  - path: must have required properties path\n\nReceived arguments:\n{\n  \"offset\": 1\n}";
    assert_eq!(end("invalid")["result"], json!({"content": [{"type": "text", "text": problem}], "details": {}}));
    assert_eq!(end("quick")["result"], json!({"content": [{"type": "text", "text": "done\n"}]}));
    let start = frames.iter().find(|frame| frame["type"] == "tool_execution_start" && frame["toolCallId"] == "unknown").unwrap();
    assert_eq!(start["args"], json!({"x": 1}), "as the model gave them");
}

#[tokio::test]
async fn a_batch_with_a_sequential_tool_runs_one_after_the_other() {
    let world = world().await;
    std::fs::write(world.agent.home.join("a.txt"), "hello\n").unwrap();
    let calls = Answer::new()
        .tool_call("first", "read", &json!({"path": "a.txt"}))
        .tool_call("note", "memory", &json!({"file": "USER", "op": "add", "content": "likes tabs"}))
        .tool_call("unknown", "nosuch", &json!({}))
        .tool_call("last", "bash", &json!({"command": "cat USER.md"}));
    world.provider.reply(calls);
    world.provider.reply(Answer::says("Noted."));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let (mut briefs, frames) = run(&mut stream).await;
    briefs.retain(|text| !text.starts_with("tool_execution_update"));
    let from = briefs.iter().position(|text| text == "message_end assistant toolUse").unwrap() + 1;
    let one = |call: &str, error: &str| {
        [
            format!("tool_execution_start {call}"),
            format!("tool_execution_end {call}{error}"),
            format!("message_start result {call}"),
            format!("message_end result {call}"),
        ]
    };
    let mut expected: Vec<String> =
        [("first", ""), ("note", ""), ("unknown", " error"), ("last", "")].iter().flat_map(|(call, error)| one(call, error)).collect();
    expected.push("turn_end first note unknown last".into());
    assert_eq!(briefs[from..from + expected.len()], expected);
    let last = frames.iter().rfind(|frame| frame["type"] == "tool_execution_end").unwrap();
    assert!(text_of(&last["result"]).contains("likes tabs"), "the note was there before the last call ran");
}

#[tokio::test]
async fn an_abort_in_the_text_ends_the_message_the_turn_and_the_run() {
    let world = world().await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("one two three").hold_before(4, &gate));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    stream.until(|event| event.data.contains("text_delta")).await.unwrap();
    world.succeed(json!({"type": "steer", "message": "go left"})).await;
    let answer = world.succeed(json!({"type": "abort"})).await;
    assert_eq!(
        crate::wire::without_numbers(&answer.to_string(), "timestamp", "1"),
        r#"{"clearedSteer":[{"role":"user","content":[{"type":"text","text":"go left"}],"timestamp":1}],"clearedFollowUp":[]}"#
    );
    let (briefs, frames) = run(&mut stream).await;
    let expected = ["queue_update [go left] [] []", "queue_update [] [] []", "message_end assistant aborted", "turn_end", "agent_end"]
        .map(str::to_owned);
    assert_eq!(briefs[briefs.len() - 5..], expected);
    let message = &frames[frames.len() - 3]["message"];
    assert_eq!((text_of(message).as_str(), &message["errorMessage"]), ("one ", &json!("Request was aborted")));
    // Nothing runs: the queues are told all the same, and the answer is empty.
    let answer = world.succeed(json!({"type": "abort"})).await;
    assert_eq!(answer, json!({"clearedSteer": [], "clearedFollowUp": []}));
    assert_eq!(brief(&stream.next_json().await.unwrap()), "queue_update [] [] []");
    gate.open();
}

#[tokio::test]
async fn an_abort_in_a_tool_ends_it_and_closes_the_run_with_an_empty_answer() {
    let world = world().await;
    let calls = Answer::new().tool_call("c1", "bash", &json!({"command": "echo began; sleep 600"})).tool_call(
        "c2",
        "bash",
        &json!({"command": "sleep 600"}),
    );
    world.provider.reply(calls);
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    stream.until(|event| event.data.contains("\"text\":\"began\\n\"")).await.unwrap();
    world.succeed(json!({"type": "abort"})).await;
    let (mut briefs, frames) = run(&mut stream).await;
    briefs.retain(|text| !text.starts_with("tool_execution_update"));
    // Which of the two ends first is open.
    let ends: Vec<String> = briefs.iter().filter(|text| text.starts_with("tool_execution_end")).cloned().collect();
    assert!(ends.contains(&"tool_execution_end c1 error".into()) && ends.contains(&"tool_execution_end c2 error".into()), "{ends:?}");
    briefs.retain(|text| !text.starts_with("tool_execution_end"));
    let expected = [
        "queue_update [] [] []",
        "message_start result c1",
        "message_end result c1",
        "message_start result c2",
        "message_end result c2",
        "turn_end c1 c2",
        "turn_start",
        "message_start assistant",
        "message_end assistant aborted",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(briefs[briefs.len() - expected.len()..], expected);
    let message = &frames.iter().rfind(|frame| frame["type"] == "message_end").unwrap()["message"];
    assert_eq!(text_of(message), "");
    let end = frames.iter().find(|frame| frame["type"] == "tool_execution_end" && frame["toolCallId"] == "c1").unwrap();
    assert_eq!(text_of(&end["result"]), "began\n\n\nCommand aborted");
}

#[tokio::test]
async fn an_abort_in_a_sequential_batch_leaves_calls_that_were_not_reached_without_a_frame() {
    let world = world().await;
    let calls = Answer::new().tool_call("c1", "bash", &json!({"command": "echo began; sleep 600"})).tool_call(
        "c2",
        "memory",
        &json!({"file": "USER", "op": "add", "content": "never"}),
    );
    world.provider.reply(calls);
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    stream.until(|event| event.data.contains("\"text\":\"began\\n\"")).await.unwrap();
    world.succeed(json!({"type": "abort"})).await;
    let (briefs, frames) = run(&mut stream).await;
    let about_second: Vec<&Value> = frames.iter().filter(|frame| frame["toolCallId"] == "c2").collect();
    assert!(about_second.is_empty(), "{about_second:#?}");
    let expected = [
        "tool_execution_end c1 error",
        "message_start result c1",
        "message_end result c1",
        "turn_end c1",
        "turn_start",
        "message_start assistant",
        "message_end assistant aborted",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(briefs[briefs.len() - expected.len()..], expected);
    assert_eq!(std::fs::read_to_string(world.agent.home.join("USER.md")).unwrap(), "");
}

#[tokio::test]
async fn a_provider_that_fails_at_once_begins_and_ends_the_failed_message() {
    let world = world().await;
    world.provider.reply(Reply::error(401, "authentication_error", "the key is worn out"));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let (briefs, frames) = run(&mut stream).await;
    let expected = ["message_start assistant", "message_end assistant error", "turn_end", "agent_end"].map(str::to_owned);
    assert_eq!(briefs[briefs.len() - 4..], expected);
    assert_eq!(frames[4]["message"], frames[5]["message"], "both frames have the final message");
    assert_eq!(frames[6]["toolResults"], json!([]));
    assert_eq!(frames[7]["messages"][1], frames[5]["message"]);
    assert!(frames[5]["message"]["errorMessage"].as_str().unwrap().contains("the key is worn out"), "{}", frames[5]);
}

#[tokio::test]
async fn a_provider_that_fails_in_the_middle_ends_the_message_with_what_was_said() {
    let world = world().await;
    world.provider.reply(Answer::says("one two three").fail_after(4, "api_error", "the engine is on fire"));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let (briefs, frames) = run(&mut stream).await;
    let expected = ["message_start assistant", "message_update", "message_end assistant error", "turn_end", "agent_end"].map(str::to_owned);
    assert_eq!(briefs[briefs.len() - 5..], expected);
    let message = &frames.iter().rfind(|frame| frame["type"] == "message_end").unwrap()["message"];
    assert!(text_of(message).starts_with("one "), "{message}");
    assert!(message["errorMessage"].as_str().unwrap().contains("the engine is on fire"), "{message}");
}

/// A run that could not ask any model; gives its frames.
async fn without_model(world: &World) -> Vec<Value> {
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let (briefs, frames) = run(&mut stream).await;
    let expected = [
        "agent_start",
        "turn_start",
        "message_start user go",
        "message_end user go",
        "message_start assistant",
        "message_end assistant error",
        "turn_end",
        "agent_end",
    ];
    assert_eq!(briefs, expected);
    let message = &frames[5]["message"];
    assert_eq!(frames[4]["message"], *message);
    assert_eq!(message["content"], json!([{"type": "text", "text": ""}]));
    let zero = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
    assert_eq!(message["usage"], zero);
    assert_eq!((&frames[6]["message"], &frames[6]["toolResults"]), (message, &json!([])));
    assert_eq!(frames[7]["messages"], json!([message]), "that message and nothing else");
    frames
}

/// Starts an agent that has no model but those of its own settings and keys.
async fn alone(home: TestHome, settings: Value) -> World {
    let agent = home.agent("a", settings).unwrap();
    home.write("agents/a/config.toml", "[events]\nview = \"full\"\n[models]\ndemo = false\n").unwrap();
    let daemon = home.start_daemon(&agent).await.unwrap();
    let state = agent.client().get("/sessions").await.unwrap().json();
    let session = state["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    World { daemon, agent, home, provider: Provider::start(), session }
}

#[tokio::test]
async fn a_provider_without_a_key_is_named_in_the_stream() {
    let home = TestHome::new().unwrap();
    home.write_json("agent/auth.json", &json!({"xai": {"type": "api_key", "key": "xai-000000000000000000"}})).unwrap();
    let world = alone(home, json!({"defaultModel": "xai/grok-4.3", "defaultThinkingLevel": "off"})).await;
    assert_eq!(world.state().await["model"]["id"], "grok-4.3");
    world.home.write_json("agent/auth.json", &json!({})).unwrap();
    let frames = without_model(&world).await;
    let text = "No API key for \"xai\". Run /login to authenticate.";
    assert_eq!(frames[5]["message"]["errorMessage"], text);
}

#[tokio::test]
async fn an_agent_without_any_model_says_so_in_the_stream_and_has_a_placeholder() {
    let world = alone(TestHome::new().unwrap(), json!({})).await;
    let state = world.state().await;
    let placeholder = json!({"id": "unknown", "name": "unknown", "api": "unknown", "provider": "unknown", "baseUrl": "", "reasoning": false,
        "input": [], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 0, "maxTokens": 0});
    assert_eq!((&state["model"], &state["thinkingLevel"]), (&placeholder, &json!("off")));
    let frames = without_model(&world).await;
    let text = "No model configured. Run /login to sign in, then /model to choose a model.";
    assert_eq!(frames[5]["message"]["errorMessage"], text);
}

#[tokio::test]
async fn a_program_tells_its_whole_output_so_far_and_is_flushed_before_its_end() {
    let world = world().await;
    let command = "until [ -e a ]; do sleep 0.01; done; echo one; until [ -e b ]; do sleep 0.01; done; echo two";
    world.provider.reply(Answer::new().tool_call("c1", "bash", &json!({"command": command})));
    world.provider.reply(Answer::says("Seen."));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    let mut results = Vec::new();
    for (shown, file) in [("\"partialResult\":{\"content\":[]}", "a"), ("\"text\":\"one\\n\"", "b"), ("\"tool_execution_end\"", "c")] {
        let events = stream.until(|event| event.data.contains(shown)).await.unwrap();
        results.extend(events.iter().filter(|event| event.data.contains("\"tool_execution_update\"")).map(|event| event.data.clone()));
        std::fs::write(world.agent.home.join(file), "").unwrap();
    }
    let update = |result: &str| {
        format!(
            r#"{{"type":"tool_execution_update","toolCallId":"c1","toolName":"bash","args":{{"command":"{command}"}},"partialResult":{result}}}"#
        )
    };
    let expected = [
        update(r#"{"content":[]}"#),
        update(r#"{"content":[{"type":"text","text":"one\n"}],"details":{}}"#),
        update(r#"{"content":[{"type":"text","text":"one\ntwo\n"}],"details":{}}"#),
    ];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn only_the_listed_types_are_on_the_wire() {
    let world = World::thinking(Kind::Anthropic).await;
    world.provider.reply(Answer::new().fail_after(0, "overloaded_error", "Overloaded"));
    let answer = Answer::new().thinking("A file.").tool_call("c1", "bash", &json!({"command": "echo x"}));
    world.provider.reply(answer);
    world.provider.reply(Answer::says("Done."));
    let mut stream = world.stream("").await;
    world.prompt("go").await;
    world.idle().await;
    world.succeed(json!({"type": "set_model", "provider": "scripted-openai", "modelId": "scripted-1"})).await;
    world.succeed(json!({"type": "set_thinking_level", "level": "high"})).await;
    let frames = stream.until_type("thinking_level_update").await.unwrap();
    const LISTED: [&str; 14] = [
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "queue_update",
        "model_update",
        "thinking_level_update",
        "scoped_models_update",
    ];
    for frame in frames.iter().filter(|frame| frame.get("type").is_some()) {
        assert!(LISTED.contains(&frame["type"].as_str().unwrap()), "{frame}");
    }
}
