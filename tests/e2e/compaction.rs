//! Long histories: the summary that takes their place by itself, when it comes, and what stops it.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::home::TestHome;
use wolli_testkit::process::eventually;
use wolli_testkit::provider::{Answer, Gate, Kind, Outcome, Provider, RecordedRequest, Reply, TokenCount};

use crate::support::frames::{check_order, ended_messages, types};
use crate::support::{Reader, World, newest_session, roles, text_of, texts_of};

mod asked;
mod given_up;

const KINDS: [Kind; 2] = [Kind::Anthropic, Kind::OpenAi];

/// Notices of a compaction and of what is waited for.
const NOTICES: &str = "?include=compaction,waiting";

fn model(kind: Kind) -> &'static str {
    match kind {
        Kind::Anthropic => "scripted/scripted-1",
        Kind::OpenAi => "scripted-openai/scripted-1",
    }
}

/// The model's window has 200,000 tokens; more than `limit` is too much, and about `keep` stay.
async fn world(kind: Kind, limit: u64, keep: u64) -> World {
    let home = TestHome::new().unwrap();
    let compaction = json!({"reserveTokens": 200_000 - limit, "keepRecentTokens": keep});
    let settings = json!({"defaultModel": model(kind), "defaultThinkingLevel": "off", "compaction": compaction});
    let agent = home.agent("a", settings).unwrap();
    World::begin(home, agent).await
}

/// One whose automatic compaction never comes by itself.
async fn calm_world(kind: Kind) -> World {
    world(kind, 180_000, 20).await
}

/// Answers that took so many tokens.
fn says(text: &str, tokens: u64) -> Answer {
    Answer::says(text).usage(TokenCount { input: tokens, output: 0, cache_read: 0, cache_write: 0 })
}

fn overflow() -> Reply {
    Reply::error(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")
}

/// A text of about so many tokens.
fn long(word: &str, tokens: usize) -> String {
    let mut text = format!("{word} ");
    while text.len() < tokens * 4 {
        text.push_str("and on ");
    }
    text
}

fn is_summary(request: &RecordedRequest) -> bool {
    request.last_user_text().starts_with("<conversation>")
}

/// Tells two turns of the history.
async fn two_turns(world: &World) {
    for number in ["one", "two"] {
        world.provider.reply(says(&format!("answer {number}"), 100));
        world.prompt(&long(&format!("question {number}"), 30)).await;
        world.idle().await;
    }
}

/// Frames with a number; notices have none.
fn numbered(reader: &Reader) -> Vec<Value> {
    reader.frames.iter().filter(|(id, _)| id.is_some()).map(|(_, frame)| frame.clone()).collect()
}

fn notices(reader: &Reader, kind: &str) -> Vec<Value> {
    reader.values().into_iter().filter(|frame| frame["type"] == kind).collect()
}

async fn compaction_end(reader: &mut Reader) -> Value {
    reader.until_type("compaction_end").await
}

fn compactions(entries: &[Value]) -> Vec<&Value> {
    entries.iter().filter(|entry| entry["type"] == "compaction").collect()
}

/// What the daemon counts is what it lists.
async fn check_count(world: &World) {
    assert_eq!(world.state().await["messageCount"], world.messages().await.len());
}

#[tokio::test]
async fn a_history_over_the_threshold_is_compacted_behind_its_run() {
    for kind in KINDS {
        let mut world = world(kind, 1000, 40).await;
        let mut reader = world.reader(NOTICES).await;
        world.provider.reply(says("answer one", 100));
        world.prompt(&long("question one", 40)).await;
        world.idle().await;
        let gate = Gate::new();
        world.provider.reply(says("answer two", 1001));
        world.provider.reply(Answer::says("## Goal to be brief").hold_before(1, &gate));
        world.prompt(&long("question two", 40)).await;
        let start = reader.until_type("compaction_start").await;
        assert_eq!(start, json!({"type": "compaction_start", "reason": "threshold"}));
        gate.reached().await;
        // The run was told to have ended; the session is at work all the same.
        assert_eq!(numbered(&reader).last().unwrap()["type"], "agent_end");
        assert_eq!(world.state().await["isStreaming"], true);
        assert_eq!(world.agent_state().await["sessions"][0]["isStreaming"], true);
        let late = world.reader(NOTICES).await;
        assert_eq!((&late.hello["isStreaming"], &late.hello["waiting"]["kind"]), (&json!(true), &json!("compaction")));
        let refused = world.command(json!({"type": "compact"})).await;
        assert_eq!(refused["error"], "compact() requires idle harness");
        gate.open();
        let end = compaction_end(&mut reader).await;
        assert_eq!(world.state().await["isStreaming"], false);
        assert!(!reader.view.state.is_streaming);
        world.idle().await;

        let entries = world.entries().await;
        let compacted = compactions(&entries);
        assert_eq!(compacted.len(), 1);
        let fields: Vec<&str> = compacted[0].as_object().unwrap().keys().map(String::as_str).collect();
        let expected = ["type", "id", "parentId", "timestamp", "summary", "firstKeptEntryId", "tokensBefore", "details", "fromHook"];
        assert_eq!((fields.as_slice(), &compacted[0]["fromHook"]), (expected.as_slice(), &json!(false)));
        let result = json!({
            "summary": "## Goal to be brief", "firstKeptEntryId": compacted[0]["firstKeptEntryId"],
            "tokensBefore": compacted[0]["tokensBefore"], "details": {"readFiles": [], "modifiedFiles": []}});
        assert_eq!(end, json!({"type": "compaction_end", "reason": "threshold", "result": result, "aborted": false, "willRetry": false}));
        let messages = world.messages().await;
        assert_eq!(roles(&messages), ["compactionSummary", "user", "assistant"]);
        assert_eq!((&messages[0]["summary"], text_of(&messages[2]).as_str()), (&json!("## Goal to be brief"), "answer two"));
        check_count(&world).await;
        check_order(&numbered(&reader));
        assert!(late.hello["waiting"]["since"].is_string());
        let attached = world.reader("").await;
        assert_eq!(attached.hello.get("waiting"), None);

        let summary = world.provider.requests().into_iter().find(is_summary).unwrap();
        let asked = summary.last_user_text();
        assert!(
            asked.contains("[User]: question one") && asked.contains("[Assistant]: answer one") && !asked.contains("question two"),
            "{asked}"
        );
        assert_eq!(summary.body.get("tools").and_then(Value::as_array).map_or(0, Vec::len), 0);
        assert!(summary.raw.windows(19).any(|window| window == b"Output only the sum"), "the model is not told what it is");

        // What the model sees is the same after a restart.
        for restarted in [false, true] {
            if restarted {
                drop(std::mem::replace(&mut reader, world.reader("").await));
                world.restart().await;
            }
            world.provider.reply(says("fine", 100));
            world.prompt("go on").await;
            world.idle().await;
            let request = world.provider.requests().pop().unwrap();
            let texts: Vec<String> = request.messages().iter().filter(|message| message["role"] == "user").map(text_of).collect();
            assert!(texts[0].ends_with("\n\n<summary>\n## Goal to be brief\n</summary>") || texts[0].contains("question two"), "{texts:?}");
            assert!(!texts.concat().contains("question one"), "{texts:?}");
            check_count(&world).await;
        }
        world.provider.assert_clean();
    }
}

#[tokio::test]
async fn what_comes_while_a_summary_is_made_is_refused_or_answered_behind_it() {
    for kind in KINDS {
        let world = world(kind, 1000, 40).await;
        let mut reader = world.reader(NOTICES).await;
        let gate = Gate::new();
        world.provider.reply(says("answer one", 100));
        world.prompt(&long("question one", 40)).await;
        world.idle().await;
        world.provider.reply(says("answer two", 2000));
        world.provider.reply(Answer::says("sum").hold_before(1, &gate));
        world.provider.respond_with(|request| says(&format!("to {}", request.last_user_text()), 100));
        world.prompt(&long("question two", 40)).await;
        reader.until_type("compaction_start").await;
        gate.reached().await;
        let refused = world.command(json!({"type": "prompt", "message": "now"})).await;
        assert!(refused["error"].as_str().unwrap().starts_with("Agent is already processing."), "{refused}");
        world.succeed(json!({"type": "prompt", "message": "later", "streamingBehavior": "followUp"})).await;
        world.succeed(json!({"type": "steer", "message": "sooner"})).await;
        gate.open();
        world.idle().await;
        assert_eq!(world.state().await["isStreaming"], false);
        reader.run_end().await;
        let frames = numbered(&reader);
        check_order(&frames);
        // A pass of its own, which begins with the message and asks nothing before it.
        let messages = ended_messages(&frames);
        assert_eq!(texts_of(&messages, "user")[2..], ["sooner", "later"]);
        assert_eq!(texts_of(&messages, "assistant")[2..], ["to sooner", "to later"]);
        let starts = frames.iter().filter(|frame| frame["type"] == "agent_start").count();
        assert_eq!(starts, 3);
        let requests = world.provider.requests();
        assert_eq!(requests.len(), 5, "a request without a new message was sent");
        assert_eq!(world.state().await["pendingMessageCount"], 0);
        check_count(&world).await;
    }
}

#[tokio::test]
async fn an_overflow_is_compacted_and_tried_once_more() {
    for kind in KINDS {
        let world = calm_world(kind).await;
        two_turns(&world).await;
        let mut reader = world.reader(NOTICES).await;
        world.provider.reply(overflow());
        world.provider.reply(Answer::says("the summary"));
        world.provider.reply(says("answer three", 100));
        world.prompt("question three").await;
        world.idle().await;
        let mut end = compaction_end(&mut reader).await;
        assert!(end["result"].take()["summary"].as_str().unwrap().starts_with("the summary"));
        assert_eq!(end, json!({"type": "compaction_end", "reason": "overflow", "result": null, "aborted": false, "willRetry": true}));
        reader.run_end().await;
        let frames = numbered(&reader);
        check_order(&frames);
        let shown = types(&frames);
        let second = shown.iter().skip_while(|kind| *kind != "agent_end").skip(1).map(String::as_str).collect::<Vec<_>>();
        let run = ["agent_start", "turn_start", "message_start", "message_update", "message_end", "turn_end", "agent_end"];
        assert_eq!(second, run, "the second run has no prompt");
        let requests = world.provider.requests();
        assert_eq!(requests.len(), 5);
        assert_eq!(requests[4].last_user_text(), "question three");
        let sent = String::from_utf8(requests[4].raw.clone()).unwrap();
        assert!(sent.contains("the summary") && !sent.contains("213462") && !sent.contains("question one"), "{sent}");
        // The answer that failed stays in the file.
        let stops: Vec<Value> = world.entries().await.iter().map(|entry| entry["message"]["stopReason"].clone()).collect();
        assert!(stops.contains(&json!("error")), "{stops:?}");
        assert_eq!(text_of(world.messages().await.last().unwrap()), "answer three");
        check_count(&world).await;
    }
}

#[tokio::test]
async fn an_abort_stops_the_summary_behind_a_run() {
    for (kind, command) in [(Kind::Anthropic, "abort"), (Kind::OpenAi, "abort"), (Kind::Anthropic, "abort_compaction")] {
        let world = world(kind, 1000, 40).await;
        let mut reader = world.reader(NOTICES).await;
        let gate = Gate::new();
        world.provider.reply(says("answer one", 100));
        world.prompt(&long("question one", 40)).await;
        world.idle().await;
        world.provider.reply(says("answer two", 2000));
        world.provider.reply(Answer::says("never to be").hold_before(1, &gate));
        world.prompt(&long("question two", 40)).await;
        reader.until_type("compaction_start").await;
        gate.reached().await;
        world.succeed(json!({"type": "follow_up", "message": "later"})).await;
        if command == "abort_compaction" {
            world.provider.reply(says("to later", 100));
        }
        let answer = world.succeed(json!({"type": command})).await;
        if command == "abort" {
            // When it is answered all has ended, and the queues are empty.
            assert_eq!(world.state().await["isStreaming"], false);
            assert_eq!(answer["clearedFollowUp"][0]["content"][0]["text"], "later");
        }
        world.idle().await;
        let end = compaction_end(&mut reader).await;
        assert_eq!(end, json!({"type": "compaction_end", "reason": "threshold", "aborted": true, "willRetry": false}));
        assert_eq!(compactions(&world.entries().await).len(), 0);
        let expected = if command == "abort" { "answer two" } else { "to later" };
        assert_eq!(text_of(world.messages().await.last().unwrap()), expected);
        assert_eq!(world.provider.wait_for_outcome(2).await, Outcome::ClientClosed);
        gate.open();
        check_order(&numbered(&reader));
    }
}

#[tokio::test]
async fn a_recovery_that_is_aborted_does_not_try_again() {
    let world = calm_world(Kind::Anthropic).await;
    two_turns(&world).await;
    let mut reader = world.reader(NOTICES).await;
    let gate = Gate::new();
    world.provider.reply(overflow());
    world.provider.reply(Answer::says("never to be").hold_before(1, &gate));
    world.prompt("question three").await;
    gate.reached().await;
    world.succeed(json!({"type": "abort"})).await;
    assert_eq!(world.state().await["isStreaming"], false);
    let end = compaction_end(&mut reader).await;
    assert_eq!(end, json!({"type": "compaction_end", "reason": "overflow", "aborted": true, "willRetry": false}));
    assert_eq!(world.provider.requests().len(), 4);
    gate.open();
}

#[tokio::test]
async fn an_abort_before_anything_was_asked_ends_the_run() {
    let home = TestHome::new().unwrap();
    let agent = home.agent("a", json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off"})).unwrap();
    let provider = Provider::start();
    let mut models = provider.models_json();
    // The key comes from a command that takes its time.
    models["providers"]["scripted"]["apiKey"] = json!("!touch asked; sleep 9; echo scripted-key-000000000000");
    home.write_json("agent/models.json", &models).unwrap();
    let daemon = home.start_daemon(&agent).await.unwrap();
    let session = newest_session(&agent).await;
    let world = World { daemon, agent, home, provider, session };
    let mut reader = world.reader("").await;
    world.prompt("hello").await;
    let asked = tokio::time::Instant::now();
    world.succeed(json!({"type": "abort"})).await;
    assert!(asked.elapsed() < Duration::from_secs(5), "the abort waited for the preparation");
    assert_eq!(world.state().await["isStreaming"], false);
    let frames = reader.run_end().await;
    check_order(&frames);
    let last = ended_messages(&frames).pop().unwrap();
    assert_eq!(
        (&last["stopReason"], &last["errorMessage"], &last["content"]),
        (&json!("aborted"), &json!("Request was aborted"), &json!([]))
    );
    assert!(world.provider.requests().is_empty());
}

#[tokio::test]
async fn every_prompt_around_the_end_of_a_run_is_answered_or_refused() {
    let world = std::sync::Arc::new(world(Kind::Anthropic, 1000, 20).await);
    world.provider.respond_with(|request| {
        if is_summary(request) { Answer::says("sum") } else { says(&format!("to {}", request.last_user_text()), 2000) }
    });
    let mut accepted = 0;
    for round in 0..25 {
        let ask = |name: &str, behavior: Option<&str>, pause: u64| {
            let mut command = json!({"type": "prompt", "message": format!("{name}{round} {}", "and on ".repeat(12))});
            if let Some(behavior) = behavior {
                command["streamingBehavior"] = json!(behavior);
            }
            let world = std::sync::Arc::clone(&world);
            async move {
                tokio::time::sleep(Duration::from_micros(pause)).await;
                world.command(command).await["success"] == true
            }
        };
        let pause = 700 * (round % 10);
        let results = tokio::join!(
            ask("a", None, 0),
            ask("b", Some("followUp"), pause),
            ask("c", None, pause + 400),
            ask("d", Some("steer"), pause + 900)
        );
        accepted += [results.0, results.1, results.2, results.3].into_iter().filter(|accepted| *accepted).count();
        world.idle().await;
        assert_eq!(world.state().await["pendingMessageCount"], 0);
    }
    let entries = world.entries().await;
    let messages: Vec<Value> = entries.iter().filter(|entry| entry["type"] == "message").map(|entry| entry["message"].clone()).collect();
    assert_eq!(texts_of(&messages, "user").len(), accepted);
    assert!(!compactions(&entries).is_empty());
    // One line of entries, no two branches.
    for pair in entries.windows(2) {
        assert_eq!(pair[1]["parentId"], pair[0]["id"]);
    }
    let asked: String = world.provider.requests().iter().map(|request| String::from_utf8_lossy(&request.raw).into_owned()).collect();
    for text in texts_of(&messages, "user") {
        let name = text.split(' ').next().unwrap();
        assert!(asked.contains(&format!("{name} and on")), "{name} was never sent");
    }
    check_count(&world).await;
}

#[tokio::test]
async fn a_compaction_that_nobody_watches_is_finished_and_then_the_session_leaves() {
    let world = world(Kind::Anthropic, 1000, 40).await;
    let mut reader = world.reader(NOTICES).await;
    let gate = Gate::new();
    world.provider.reply(says("answer one", 100));
    world.prompt(&long("question one", 40)).await;
    world.idle().await;
    world.provider.reply(says("answer two", 2000));
    world.provider.reply(Answer::says("sum").hold_before(1, &gate));
    world.prompt(&long("question two", 40)).await;
    reader.until_type("compaction_start").await;
    gate.reached().await;
    let file = world.session_file().await;
    drop(reader);
    gate.open();
    let compacted = || std::fs::read_to_string(&file).unwrap().contains("\"type\":\"compaction\"").then_some(());
    eventually("the summary", Duration::from_secs(10), compacted).await.unwrap();
    // Reading the list does not load it again.
    for _ in 0..500 {
        if world.agent_state().await["sessions"][0]["live"] == false {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the session stays in memory");
}

#[tokio::test]
async fn a_daemon_that_stops_gives_a_summary_up_and_its_successor_is_idle() {
    for asked in [true, false] {
        let mut world = world(Kind::Anthropic, 1000, 40).await;
        two_turns(&world).await;
        let gate = Gate::new();
        world.provider.reply(says("answer three", if asked { 100 } else { 2000 }));
        world.provider.reply(Answer::says("never to be").hold_before(1, &gate));
        world.prompt(&long("question three", 40)).await;
        if asked {
            world.idle().await;
            let (client, session) = (world.client(), world.session.clone());
            let compact = json!({"type": "compact"});
            let stopped = async {
                gate.reached().await;
                world.restart().await;
            };
            let (answer, ()) = tokio::join!(client.command(&session, &compact), stopped);
            // The answer may not have made it out any more.
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer["error"] == "Compaction cancelled"));
        } else {
            gate.reached().await;
            world.restart().await;
        }
        assert_eq!(compactions(&world.entries().await).len(), 0);
        let reader = world.reader(NOTICES).await;
        assert_eq!((&reader.hello["isStreaming"], reader.hello.get("waiting")), (&json!(false), None));
        assert_eq!(text_of(world.messages().await.last().unwrap()), "answer three");
        gate.open();
    }
}

#[tokio::test]
async fn a_model_that_does_not_count_is_guessed_at() {
    let world = world(Kind::OpenAi, 4000, 40).await;
    for number in 0..3 {
        world.provider.reply(says("yes", 0));
        if number == 2 {
            world.provider.reply(Answer::says("sum"));
        }
        world.prompt(&long("question", 800)).await;
        world.idle().await;
    }
    assert_eq!(roles(&world.messages().await)[0], "compactionSummary");
}
