//! Compactions as clients see them: what the command answers, which notices come, and what the history is afterwards.

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate};

use crate::support::{World, roles, text_of};
use crate::wire::{compatible, frames, stream};

/// An agent that keeps as good as nothing of its history, with something to summarise.
async fn with_history() -> World {
    let settings = json!({
        "defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off",
        "compaction": {"enabled": false, "keepRecentTokens": 1},
    });
    let world = compatible(settings, "").await;
    for n in 1..=3 {
        world.provider.reply(Answer::says(&format!("answer {n}")));
        world.prompt(&format!("question {n}")).await;
        world.idle().await;
    }
    world
}

#[tokio::test]
async fn compact_answers_the_summary_and_the_history_begins_with_it() {
    let world = with_history().await;
    let mut told = stream(&world, &world.events_path("?include=compaction"), &[]).await;
    let mut plain = stream(&world, &world.events_path(""), &[]).await;
    told.next().await.unwrap().unwrap();
    plain.next().await.unwrap().unwrap();
    // More than one request may go into a summary.
    world.provider.respond_with(|_| Answer::says("They asked, it answered."));
    let result = world.succeed(json!({"type": "compact", "customInstructions": "be brief"})).await;
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["summary", "firstKeptEntryId", "tokensBefore", "details"]);
    assert!(result["summary"].as_str().unwrap().contains("They asked, it answered."), "{result}");
    assert_eq!(result["details"], json!({"readFiles": [], "modifiedFiles": []}));
    let messages = world.messages().await;
    assert_eq!(messages[0]["role"], "compactionSummary");
    let fields: Vec<&String> = messages[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["role", "summary", "tokensBefore", "timestamp"]);
    assert!(messages.len() < 7, "{:?}", roles(&messages));
    assert_eq!(world.state().await["messageCount"], json!(messages.len()));
    let entries = world.entries().await;
    let entry = entries.last().unwrap();
    assert_eq!((&entry["type"], &entry["firstKeptEntryId"]), (&json!("compaction"), &result["firstKeptEntryId"]));
    assert_eq!(world.command(json!({"type": "compact"})).await["error"], "Nothing to compact");

    // Notices without a number for who asked, nothing for others.
    let end = told.until_type("compaction_end").await.unwrap();
    assert_eq!(end[0].to_string(), r#"{"type":"compaction_start","reason":"manual"}"#);
    let notice: Value = end.last().unwrap().clone();
    let expected = json!({"type": "compaction_end", "reason": "manual", "result": result, "aborted": false, "willRetry": false});
    assert_eq!(notice.to_string(), expected.to_string());
    assert!(frames(&told).iter().all(|frame| !frame.contains("\nid: ")));
    world.succeed(json!({"type": "clear_queue"})).await;
    assert_eq!(plain.next_json().await.unwrap()["type"], "queue_update");
    // What the model gets next begins with the summary.
    world.provider.reply(Answer::says("Still here."));
    world.prompt("and now?").await;
    world.idle().await;
    let last = world.provider.requests().pop().unwrap();
    assert!(text_of(&last.messages()[0]).contains("They asked, it answered."), "{:#?}", last.messages());
}

#[tokio::test]
async fn a_compaction_that_is_cancelled_says_so() {
    let world = with_history().await;
    let mut told = stream(&world, &world.events_path("?include=compaction"), &[]).await;
    told.next().await.unwrap().unwrap();
    let gate = Gate::new();
    let closed = gate.clone();
    world.provider.respond_with(move |_| Answer::says("never").hold_before(1, &closed));
    let (client, session) = (world.client(), world.session.clone());
    let (command, cancel) = (json!({"type": "compact"}), json!({"type": "abort_compaction"}));
    let (compacted, ()) = tokio::join!(client.command(&session, &command), async {
        gate.reached().await;
        assert_eq!(world.state().await["isStreaming"], true);
        assert_eq!(world.command(json!({"type": "compact"})).await["error"], "compact() requires idle harness");
        assert_eq!(client.command(&session, &cancel).await.unwrap()["success"], true);
    });
    assert_eq!(compacted.unwrap()["error"], "Compaction cancelled");
    let end = told.until_type("compaction_end").await.unwrap().pop().unwrap();
    assert_eq!(end.to_string(), r#"{"type":"compaction_end","reason":"manual","aborted":true,"willRetry":false}"#);
    assert_eq!(world.command(cancel).await["success"], true, "also when there is none");
    assert_eq!(world.state().await["isStreaming"], false);
    assert_eq!(world.messages().await.len(), 6, "nothing was lost");
}
