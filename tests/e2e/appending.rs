//! Messages that clients put into a conversation without a run.

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::{World, roles, texts_of};

fn append(message: &Value) -> Value {
    json!({"type": "append_message", "message": message})
}

fn ran(command: &str) -> Value {
    json!({"role": "bashExecution", "command": command, "output": "x\n", "exitCode": 0, "cancelled": false, "truncated": false, "timestamp": 1})
}

/// One of each role, odd ones among them.
fn every_role() -> Vec<Value> {
    let usage = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
    let assistant = |content: Value, reason: &str| json!({"role": "assistant", "content": content, "api": "x", "provider": "p", "model": "m", "usage": usage, "stopReason": reason, "timestamp": 1});
    vec![
        json!({"role": "user", "content": "plain", "timestamp": 1}),
        json!({"role": "user", "content": [], "timestamp": 1}),
        json!({"role": "user", "content": [{"type": "image", "data": "no base64!", "mimeType": "image/png"}], "timestamp": 1}),
        assistant(json!([]), "stop"),
        assistant(json!([{"type": "thinking", "thinking": "hm", "thinkingSignature": "foreign"}, {"type": "text", "text": ""}]), "stop"),
        assistant(json!([{"type": "toolCall", "id": "lost", "name": "nothing", "arguments": {}}]), "toolUse"),
        json!({"role": "toolResult", "toolCallId": "orphan", "toolName": "t", "content": [{"type": "text", "text": "o"}], "isError": false, "timestamp": 1}),
        ran("ls"),
        json!({"role": "custom", "customType": "note", "content": "by hand", "display": false, "timestamp": 1}),
        json!({"role": "branchSummary", "summary": "s", "fromId": "root", "timestamp": 1}),
        json!({"role": "compactionSummary", "summary": "s", "tokensBefore": 1, "timestamp": 1}),
    ]
}

#[tokio::test]
async fn whatever_is_accepted_is_read_back_and_can_be_sent_to_a_model() {
    for kind in [Kind::Anthropic, Kind::OpenAi] {
        let mut world = World::scripted(kind).await;
        let all = every_role();
        for message in &all {
            world.succeed(append(message)).await;
        }
        assert_eq!(world.state().await["messageCount"], all.len());
        assert_eq!(world.messages().await, all);
        let lines = world.lines().await;
        assert_eq!(lines.len(), 1 + all.len());
        assert!(lines[1..].iter().all(|line| line["type"] == "message"));
        // The scripted provider refuses a request that a real one would refuse.
        world.provider.reply(Answer::says("Fine."));
        world.prompt("and now?").await;
        world.idle().await;
        let messages = world.messages().await;
        assert_eq!(messages.last().unwrap()["stopReason"], "stop", "{}", messages.last().unwrap());
        world.restart().await;
        assert_eq!(world.messages().await, messages);
        let state = world.state().await;
        assert_eq!(state["messageCount"], messages.len());
    }
}

#[tokio::test]
async fn bad_messages_are_refused_and_leave_nothing_behind() {
    let world = World::echo().await;
    for (message, problem) in [
        (json!({}), "Invalid append_message: message.role must be one of user, assistant, toolResult,"),
        (json!({"role": "system", "content": "x"}), "Invalid append_message: message.role must be one of"),
        (json!({"role": "user"}), "Invalid append_message: message is no user message: missing field `content`"),
        (
            json!({"role": "user", "content": [{"type": "video"}], "timestamp": 1}),
            "Invalid append_message: message is no user message: unknown variant `video`",
        ),
        (json!("text"), "Invalid append_message: message must be an object"),
        (json!(null), "Invalid append_message: message must be an object"),
    ] {
        let refused = world.command(append(&message)).await;
        assert!(refused["error"].as_str().unwrap().starts_with(problem), "{message}: {refused}");
    }
    assert_eq!(world.lines().await.len(), 1);
    assert_eq!(world.state().await["messageCount"], 0);
}

#[tokio::test]
async fn during_a_run_they_wait_for_the_end_of_the_turn_and_survive_a_kill() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let (asked, told) = (Gate::new(), Gate::new());
    let call = Answer::new().tool_call("c1", "ls", &json!({"path": "."})).hold_before(1, &asked);
    world.provider.reply(call);
    world.provider.reply(Answer::says("Done.").hold_before(3, &told));
    world.prompt("go").await;
    asked.reached().await;
    world.succeed(append(&ran("first"))).await;
    world.succeed(json!({"type": "seed_assistant_message", "text": "seeded"})).await;
    world.succeed(json!({"type": "rename_session", "targetSessionId": world.session, "sessionName": " at once "})).await;
    let types = |lines: &[Value]| -> Vec<String> { lines[1..].iter().map(|line| line["type"].as_str().unwrap().to_owned()).collect() };
    assert_eq!(types(&world.lines().await), ["message", "session_info"], "only the name goes into the file at once");
    assert_eq!(world.state().await["messageCount"], 1);
    asked.open();
    told.reached().await;
    // Never between a call and its result.
    assert_eq!(roles(&world.messages().await), ["user", "assistant", "toolResult", "bashExecution", "assistant"]);
    assert_eq!(world.state().await["messageCount"], 5);
    world.succeed(append(&ran("second"))).await;
    assert_eq!(world.messages().await.len(), 5);

    // It was acknowledged, so it is there after a kill, once, and does not hide that the run was cut off.
    world.daemon.kill().unwrap();
    for _ in 0..2 {
        world.start().await;
        let reader = world.reader("").await;
        assert_eq!(reader.hello["sessionName"], "at once");
        drop(reader);
        let messages = world.messages().await;
        assert_eq!(roles(&messages), ["user", "assistant", "toolResult", "bashExecution", "assistant", "bashExecution"]);
        assert_eq!((&messages[3]["command"], &messages[5]["command"]), (&json!("first"), &json!("second")));
        assert_eq!(world.state().await["messageCount"], 6);
        world.daemon.kill().unwrap();
    }
    world.start().await;
    world.provider.reply(Answer::says("On we go."));
    world.prompt("again").await;
    world.idle().await;
    assert_eq!(texts_of(&world.messages().await, "assistant").last().unwrap(), "On we go.");
}

#[tokio::test]
async fn they_start_no_run_and_make_no_frame() {
    let world = World::scripted(Kind::OpenAi).await;
    let mut reader = world.reader("").await;
    world.succeed(append(&ran("ls"))).await;
    let first = world.entries().await[0]["id"].as_str().unwrap().to_owned();
    world.provider.reply(Answer::says("Yes."));
    world.prompt("hello").await;
    let frames = reader.run_end().await;
    assert_eq!(frames[0]["type"], "agent_start");
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "message_end").count(), 2);
    assert_eq!(world.provider.requests().len(), 1);
    // A reader that catches up by entry gets it.
    world.succeed(append(&ran("pwd"))).await;
    let late = world.reader(&format!("?after={first}")).await;
    let entries = late.hello["entries"].as_array().unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry["message"]["role"].as_str().unwrap()).collect::<Vec<_>>(),
        ["user", "assistant", "bashExecution"]
    );
}
