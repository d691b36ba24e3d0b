//! Whole turns over both wire kinds: real tools on real files, what readers see of it, what is kept, and what the provider gets.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::process::{eventually, running_with};
use wolli_testkit::provider::{Answer, Gate, Kind, Outcome, RecordedRequest, Reply};

use crate::support::frames::{View, check_order, check_shapes, ended_ids, ended_messages, types};
use crate::support::{Reader, World, roles, text_of, texts_of};

const KINDS: [Kind; 2] = [Kind::Anthropic, Kind::OpenAi];

/// A request's messages without what only steers the provider's cache.
fn history(request: &RecordedRequest) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Object(object) => {
                object.shift_remove("cache_control");
                object.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    let mut messages = request.messages().to_vec();
    messages.iter_mut().for_each(strip);
    messages
}

/// What a request says about tools: results with their call's id.
fn tool_results(request: &RecordedRequest) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for message in request.messages() {
        if message["role"] == "tool" {
            found.push((message["tool_call_id"].as_str().unwrap().to_owned(), text_of(message)));
        }
        for block in message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result") {
            found.push((block["tool_use_id"].as_str().unwrap().to_owned(), text_of(block)));
        }
    }
    found
}

async fn both_views(world: &World) -> [(Reader, View); 2] {
    [(world.reader("?view=delta").await, View::Delta), (world.reader("?view=full").await, View::Full)]
}

#[tokio::test]
async fn tools_change_real_files_and_everybody_is_told_the_same() {
    for kind in KINDS {
        let mut world = World::thinking(kind).await;
        let file = world.agent.home.join("a.txt");
        std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
        let provider = &world.provider;
        provider.reply(Answer::new().thinking("A file, it seems.").text("Let me look.").tool_call("c1", "read", &json!({"path": "a.txt"})));
        let edits = json!({"path": "a.txt", "edits": [{"oldText": "two", "newText": "zwei"}]});
        provider.reply(Answer::new().thinking("The second line.").tool_call("c2", "edit", &edits));
        provider.reply(Answer::new().thinking("A look at it.").text("Now the shell.").tool_call(
            "c3",
            "bash",
            &json!({"command": "cat a.txt; echo made > made.txt"}),
        ));
        provider.reply(Answer::says("All of it is done."));
        let mut readers = both_views(&world).await;
        world.prompt("What is in a.txt?").await;
        world.idle().await;

        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\nzwei\nthree\n");
        assert_eq!(std::fs::read_to_string(world.agent.home.join("made.txt")).unwrap(), "made\n");
        let messages = world.messages().await;
        let expected = ["user", "assistant", "toolResult", "assistant", "toolResult", "assistant", "toolResult", "assistant"];
        assert_eq!(roles(&messages), expected);
        let results = texts_of(&messages, "toolResult");
        assert!(results[0].contains("one\ntwo\nthree") && results[2].contains("one\nzwei\nthree"), "{results:?}");

        let mut seen = Vec::new();
        for (reader, view) in &mut readers {
            let frames = reader.run_end().await;
            check_order(&frames);
            check_shapes(&frames, *view);
            assert_eq!(ended_messages(&frames), messages, "{kind:?} {view:?}");
            assert_eq!(types(&frames[..2]), ["agent_start", "turn_start"]);
            seen.push(ended_ids(&frames));
            if *view == View::Full {
                let end = frames.last().unwrap();
                assert_eq!(end["messages"], json!(messages));
            } else {
                let named: Vec<_> =
                    frames.last().unwrap()["messages"].as_array().unwrap().iter().map(|message| message["entryId"].clone()).collect();
                assert_eq!(json!(named), json!(ended_ids(&frames)));
                let numbers: Vec<u64> = reader.frames.iter().map(|(id, _)| id.unwrap().0).collect();
                assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "numbers have holes");
            }
        }
        assert_eq!(seen[0], seen[1]);
        let stored: Vec<_> = world.lines().await.into_iter().filter(|line| line["type"] == "message").collect();
        assert_eq!(stored.iter().map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>(), seen[0]);
        assert_eq!(stored.iter().map(|line| line["message"].clone()).collect::<Vec<_>>(), messages);

        // A new process knows it all, and so does the provider.
        drop(readers);
        world.restart().await;
        world.provider.reply(Answer::says("It was a file."));
        world.prompt("And what was it?").await;
        world.idle().await;
        let requests = world.provider.requests();
        let (before, after) = (history(&requests[3]), history(&requests[4]));
        assert_eq!(after[..before.len()], before, "the history changed over the restart");
        assert_eq!(roles(&after[before.len()..]), ["assistant", "user"]);
        assert_eq!(text_of(&after[before.len()]), "All of it is done.");
        assert_eq!(requests[4].last_user_text(), "And what was it?");
        let called: Vec<String> = tool_results(&requests[4]).into_iter().map(|(id, _)| id).collect();
        assert_eq!(called, ["c1", "c2", "c3"]);
        assert_eq!(world.messages().await[..8], messages, "stored messages changed over the restart");
        world.provider.assert_clean();
    }
}

#[tokio::test]
async fn calls_run_side_by_side_and_a_bad_one_harms_no_other() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        // The first waits for what the last does: one after the other they would never end.
        let waits = "while [ ! -e go ]; do sleep 0.01; done; echo first";
        let answer = Answer::new()
            .tool_call("slow", "bash", &json!({"command": waits}))
            .tool_call("unknown", "nosuch", &json!({}))
            .tool_call("invalid", "read", &json!({"offset": 1}))
            .tool_call("quick", "bash", &json!({"command": "echo last; touch go"}));
        world.provider.reply(answer);
        world.provider.reply(Answer::says("Seen."));
        let mut readers = both_views(&world).await;
        world.prompt("go").await;
        world.idle().await;
        for (reader, view) in &mut readers {
            let frames = reader.run_end().await;
            check_order(&frames);
            check_shapes(&frames, *view);
            let position =
                |kind: &str, call: &str| frames.iter().position(|frame| frame["type"] == kind && frame["toolCallId"] == call).unwrap();
            for call in ["unknown", "invalid"] {
                assert_eq!(position("tool_execution_end", call), position("tool_execution_start", call) + 1, "{call}");
            }
            assert!(position("tool_execution_start", "quick") < position("tool_execution_end", "slow"));
            let end = |call: &str| frames[position("tool_execution_end", call)].clone();
            assert_eq!(end("unknown")["isError"], true);
            assert_eq!(text_of(&end("unknown")["result"]), "Tool nosuch not found");
            let invalid = text_of(&end("invalid")["result"]);
            assert!(invalid.starts_with("Validation failed for tool \"read\":\n  - "), "{invalid}");
            assert!(invalid.contains("\n\nReceived arguments:\n{\n  \"offset\": 1\n}"), "{invalid}");
            assert_eq!(end("slow")["isError"], false);
        }
        let ids: Vec<_> = tool_results(&world.provider.requests()[1]).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["slow", "unknown", "invalid", "quick"]);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_an_error_that_the_model_can_read() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        world.provider.reply(Answer::new().tool_call_deltas("torn", "read", ["{\"path\": \"a", ".txt"]));
        world.provider.reply(Answer::says("I see."));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        world.idle().await;
        check_order(&reader.run_end().await);
        let messages = world.messages().await;
        assert_eq!(messages.last().unwrap()["stopReason"], "stop", "{messages:#?}");
    }
}

#[tokio::test]
async fn a_failure_in_the_middle_keeps_what_was_said_and_the_session_goes_on() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        let events = if kind == Kind::Anthropic { 6 } else { 4 };
        world.provider.reply(Answer::says("one two three four five six").fail_after(events, "api_error", "the engine is on fire"));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        world.idle().await;
        let frames = reader.run_end().await;
        check_order(&frames);
        let last = ended_messages(&frames).pop().unwrap();
        assert_eq!((&last["role"], &last["stopReason"]), (&json!("assistant"), &json!("error")), "{last}");
        assert!(last["errorMessage"].as_str().unwrap().contains("the engine is on fire"), "{last}");
        assert!(text_of(&last).starts_with("one "), "{last}");
        assert_eq!(world.state().await["isStreaming"], false);

        world.provider.reply(Answer::says("Better."));
        world.prompt("again").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "Better.");
    }
}

#[tokio::test]
async fn an_error_inside_a_success_is_tried_again_without_a_trace() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        world.provider.reply(Answer::new().fail_after(0, "overloaded_error", "Overloaded"));
        world.provider.reply(Answer::says("Here I am."));
        let mut reader = world.reader("?include=retry").await;
        world.prompt("go").await;
        world.idle().await;
        let frames = reader.run_end().await;
        assert!(frames.iter().any(|frame| frame["type"] == "retry" && frame["attempt"] == 1), "{:?}", types(&frames));
        let numbered: Vec<Value> = frames.into_iter().filter(|frame| frame["type"] != "retry").collect();
        check_order(&numbered);
        assert_eq!(roles(&world.messages().await), ["user", "assistant"]);
        assert_eq!(history(&world.provider.requests()[0]), history(&world.provider.requests()[1]));
    }
}

#[tokio::test]
async fn a_refusal_of_the_provider_reaches_the_person() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        world.provider.reply(Reply::error(401, "authentication_error", "the key is worn out"));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        world.idle().await;
        let frames = reader.run_end().await;
        check_order(&frames);
        check_shapes(&frames, View::Delta);
        let last = ended_messages(&frames).pop().unwrap();
        assert_eq!(last["stopReason"], "error");
        assert!(last["errorMessage"].as_str().unwrap().contains("the key is worn out"), "{last}");
        assert_eq!(world.provider.requests().len(), 1, "a refused key was shown again");
    }
}

#[tokio::test]
async fn an_abort_in_the_text_keeps_the_text_and_closes_the_request() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        let gate = Gate::new();
        world.provider.reply(Answer::says("one two three four").hold_before(4, &gate));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        reader.until(|frame| frame["assistantMessageEvent"]["delta"] == "one ").await.unwrap();
        world.succeed(json!({"type": "follow_up", "message": "later"})).await;
        let cleared = world.succeed(json!({"type": "abort"})).await;
        assert_eq!(cleared["clearedSteer"], json!([]));
        assert_eq!(cleared["clearedFollowUp"][0]["content"], json!([{"type": "text", "text": "later"}]));
        assert_eq!(cleared["clearedFollowUp"][0]["role"], "user");
        let frames = reader.run_end().await;
        check_order(&frames);
        let last = ended_messages(&frames).pop().unwrap();
        assert_eq!((&last["stopReason"], &last["errorMessage"]), (&json!("aborted"), &json!("Request was aborted")), "{last}");
        assert!(text_of(&last).starts_with("one "), "{last}");
        let after: Vec<String> = types(&frames).into_iter().rev().take(4).collect();
        assert_eq!(after, ["agent_end", "turn_end", "message_end", "queue_update"]);
        assert_eq!(world.provider.wait_for_outcome(0).await, Outcome::ClientClosed);
        assert_eq!(world.state().await["isStreaming"], false);
        assert_eq!(world.state().await["pendingMessageCount"], 0);
        gate.open();
    }
}

#[tokio::test]
async fn an_abort_in_a_tool_leaves_no_process_and_no_dangling_call() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        let marker = format!("31{}.{}", std::process::id(), u8::from(kind == Kind::OpenAi));
        let command = format!("sleep {marker} & setsid sleep {marker} & echo started; sleep {marker}");
        world.provider.reply(Answer::new().tool_call("c1", "bash", &json!({"command": command})));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        reader.until(|frame| frame["appended"].as_str().is_some_and(|text| text.contains("started"))).await.unwrap();
        assert!(!running_with(&marker).is_empty());
        world.succeed(json!({"type": "abort"})).await;
        eventually("the end of the tool's processes", Duration::from_secs(10), || running_with(&marker).is_empty().then_some(()))
            .await
            .unwrap();
        let frames = reader.run_end().await;
        check_order(&frames);
        let end = frames.iter().find(|frame| frame["type"] == "tool_execution_end").unwrap();
        assert_eq!(end["isError"], true);
        let text = text_of(&end["result"]);
        assert!(text.starts_with("started") && text.ends_with("Command aborted"), "{text:?}");
        let last = ended_messages(&frames).pop().unwrap();
        assert_eq!((&last["role"], &last["stopReason"]), (&json!("assistant"), &json!("aborted")), "{last}");

        world.provider.reply(Answer::says("Fine."));
        world.prompt("go on").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "Fine.");
        world.provider.assert_clean();
    }
}

#[tokio::test]
async fn steering_goes_first_one_at_a_time_then_what_is_to_follow() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        let gate = Gate::new();
        world.provider.reply(Answer::new().text("Busy.").tool_call("c1", "bash", &json!({"command": "true"})).hold_before(1, &gate));
        world.provider.respond_with(|request| Answer::says(&format!("to {}", request.last_user_text())));
        let mut reader = world.reader("").await;
        world.prompt("go").await;
        for (kind, text) in [("follow_up", "f1"), ("steer", "s1"), ("follow_up", "f2"), ("steer", "s2")] {
            world.succeed(json!({"type": kind, "message": text})).await;
        }
        let refused = world.command(json!({"type": "prompt", "message": "p", "id": 7})).await;
        assert_eq!(
            refused["error"],
            "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
        );
        world.succeed(json!({"type": "prompt", "message": "f3", "streamingBehavior": "followUp"})).await;
        world.succeed(json!({"type": "prompt", "message": "s3", "streamingBehavior": "steer"})).await;
        assert_eq!(world.state().await["pendingMessageCount"], 6);
        gate.open();
        world.idle().await;
        let frames = reader.run_end().await;
        check_order(&frames);
        check_shapes(&frames, View::Delta);
        let messages = ended_messages(&frames);
        assert_eq!(texts_of(&messages, "user"), ["go", "s1", "s2", "s3", "f1", "f2", "f3"]);
        let answers = texts_of(&messages, "assistant");
        assert_eq!(answers, ["Busy.", "to s1", "to s2", "to s3", "to f1", "to f2", "to f3"]);
        let queued: Vec<usize> = frames
            .iter()
            .filter(|frame| frame["type"] == "queue_update")
            .map(|frame| frame["steer"].as_array().unwrap().len() + frame["followUp"].as_array().unwrap().len())
            .collect();
        assert_eq!(queued, [1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(messages, world.messages().await);
        let refused = world.command(json!({"type": "steer", "message": "x"})).await;
        assert_eq!(refused["error"], "Cannot steer while idle");
    }
}
