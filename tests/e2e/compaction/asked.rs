//! Compactions that a client asks for.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate, Kind, Outcome};

use super::{KINDS, NOTICES, calm_world, check_count, compaction_end, is_summary, long, numbered, says, two_turns};
use crate::support::{World, roles, text_of};

#[tokio::test]
async fn a_client_compacts_and_later_brings_the_summary_up_to_date() {
    for kind in KINDS {
        let mut world = calm_world(kind).await;
        let refused = world.command(json!({"type": "compact"})).await;
        assert_eq!(refused["error"], "Nothing to compact");
        std::fs::write(world.agent.home.join("a.txt"), "content").unwrap();
        world.provider.reply(Answer::new().text("I look.").tool_call("c1", "read", &json!({"path": "a.txt"})));
        world.provider.reply(says("answer one", 100));
        world.prompt("question one").await;
        world.idle().await;
        let before = world.messages().await;
        world.provider.reply(says("answer two", 100));
        world.prompt(&long("question two", 30)).await;
        world.idle().await;
        let mut reader = world.reader(NOTICES).await;
        world.provider.reply(Answer::says("## Goal first"));
        let result = world.succeed(json!({"type": "compact", "customInstructions": "the file names"})).await;
        let files = "\n\n<read-files>\na.txt\n</read-files>";
        assert_eq!(result["summary"], format!("## Goal first{files}"));
        assert_eq!(result["details"], json!({"readFiles": ["a.txt"], "modifiedFiles": []}));
        assert!(result["tokensBefore"].as_u64().unwrap() > 30, "{result}");
        let asked = world.provider.requests().pop().unwrap().last_user_text();
        assert!(asked.ends_with("Additional focus: the file names"), "{asked}");
        assert!(asked.contains("[Assistant tool calls]: read(path=\"a.txt\")\n\n[Tool result]: content"), "{asked}");
        let end = compaction_end(&mut reader).await;
        assert_eq!(end, json!({"type": "compaction_end", "reason": "manual", "result": result, "aborted": false, "willRetry": false}));
        assert!(numbered(&reader).is_empty(), "a compaction is told by notices alone");
        check_count(&world).await;
        assert_eq!(world.messages().await[0]["tokensBefore"], result["tokensBefore"]);
        let refused = world.command(json!({"type": "compact"})).await;
        assert_eq!(refused["error"], "Nothing to compact", "the last entry is a compaction");
        // Nothing of the history is gone.
        let stored: Vec<Value> =
            world.entries().await.into_iter().filter(|entry| entry["type"] == "message").map(|entry| entry["message"].clone()).collect();
        assert_eq!(stored[..before.len()], before);

        drop(reader);
        world.restart().await;
        world.provider.reply(says("answer three", 100));
        world.prompt(&long("question three", 30)).await;
        world.idle().await;
        world.provider.reply(Answer::says("## Goal second"));
        let updated = world.succeed(json!({"type": "compact"})).await;
        assert_eq!(updated["summary"], format!("## Goal second{files}"));
        let asked = world.provider.requests().pop().unwrap().last_user_text();
        assert!(asked.contains("<previous-summary>\n## Goal first\n</previous-summary>"), "{asked}");
        assert!(asked.contains("question two") && !asked.contains("question one"), "{asked}");
        assert!(!asked.contains("Additional focus"), "{asked}");
        assert_eq!(roles(&world.messages().await)[..2], ["compactionSummary", "user"]);
        check_count(&world).await;
        world.provider.assert_clean();
    }
}

#[tokio::test]
async fn a_turn_that_is_too_long_is_split_and_summarised_in_two_parts_at_once() {
    let world = calm_world(Kind::Anthropic).await;
    world.provider.reply(says("answer one", 100));
    world.prompt("question one").await;
    world.idle().await;
    for call in ["c1", "c2"] {
        world.provider.reply(Answer::new().text(&long("step", 30)).tool_call(call, "ls", &json!({})));
    }
    world.provider.reply(says(&long("answer two", 30), 100));
    world.prompt("question two").await;
    world.idle().await;
    let gate = Gate::new();
    let held = gate.clone();
    // Each waits until both were asked.
    world.provider.respond_with(move |request| {
        let text = if request.last_user_text().contains("## Original Request") { "the prefix" } else { "the history" };
        Answer::says(text).hold_before(1, &held)
    });
    let asked = async {
        let requests = world.provider.wait_for_requests(6).await;
        assert_eq!(requests.iter().filter(|request| is_summary(request)).count(), 2);
        gate.open();
    };
    let (result, ()) = tokio::join!(world.succeed(json!({"type": "compact"})), asked);
    assert_eq!(result["summary"], "the history\n\n---\n\n**Turn Context (split turn):**\n\nthe prefix");
    assert_eq!(roles(&world.messages().await)[..2], ["compactionSummary", "assistant"]);
    world.provider.respond_with(|_| says("fine", 100));
    world.prompt("and now").await;
    world.idle().await;
    world.provider.assert_clean();
}

#[tokio::test]
async fn only_its_own_command_stops_what_a_client_asked_for() {
    for kind in KINDS {
        let world = calm_world(kind).await;
        two_turns(&world).await;
        world.succeed(json!({"type": "abort_compaction"})).await;
        let before = world.entries().await;
        let mut reader = world.reader(NOTICES).await;
        let gate = Gate::new();
        world.provider.reply(Answer::says("never to be").hold_before(1, &gate));
        let number = world.provider.requests().len();
        let stop = async {
            gate.reached().await;
            let cleared = world.succeed(json!({"type": "abort"})).await;
            assert_eq!(cleared, json!({"clearedSteer": [], "clearedFollowUp": []}));
            let state = world.state().await;
            assert_eq!(state["isStreaming"], true, "an abort stopped it");
            let idle = world.idle();
            let mut idle = std::pin::pin!(idle);
            assert!(tokio::time::timeout(Duration::from_millis(100), idle.as_mut()).await.is_err(), "a compaction counts as idle");
            world.succeed(json!({"type": "abort_compaction"})).await;
            idle.await;
        };
        let (answer, ()) = tokio::join!(world.command(json!({"type": "compact"})), stop);
        assert_eq!(answer["error"], "Compaction cancelled");
        let end = compaction_end(&mut reader).await;
        assert_eq!(end, json!({"type": "compaction_end", "reason": "manual", "aborted": true, "willRetry": false}));
        assert_eq!(world.provider.wait_for_outcome(number).await, Outcome::ClientClosed);
        assert_eq!(world.entries().await, before);
        assert_eq!(world.state().await["isStreaming"], false);
        check_count(&world).await;
        gate.open();
    }
}

#[tokio::test]
async fn a_message_that_waits_for_a_compaction_of_a_client_is_answered_behind_it() {
    let world = calm_world(Kind::Anthropic).await;
    two_turns(&world).await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("sum").hold_before(1, &gate));
    world.provider.reply(says("to you", 100));
    let ask = async {
        gate.reached().await;
        world.succeed(json!({"type": "follow_up", "message": "are you there"})).await;
        gate.open();
    };
    let (result, ()) = tokio::join!(world.succeed(json!({"type": "compact"})), ask);
    assert!(result["summary"].as_str().unwrap().starts_with("sum"));
    world.idle().await;
    assert_eq!(text_of(world.messages().await.last().unwrap()), "to you");
    assert_eq!(world.provider.requests().pop().unwrap().last_user_text(), "are you there");
}

#[tokio::test]
async fn the_demonstration_can_be_compacted() {
    let world = World::echo().await;
    world.prompt("hello\n!fail 500").await;
    world.idle().await;
    world.prompt(&long("tell me", 200)).await;
    world.idle().await;
    let result = world.succeed(json!({"type": "compact"})).await;
    let summary = result["summary"].as_str().unwrap();
    assert!(summary.contains("[User]: hello\n!fail 500") && summary.len() < 60_000, "{summary}");
    world.prompt("and now").await;
    world.idle().await;
    assert_eq!(text_of(world.messages().await.last().unwrap()), "and now");
    check_count(&world).await;
}
