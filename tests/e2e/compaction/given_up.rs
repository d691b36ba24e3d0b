//! What is not tried, not tried again, or not tried for ever.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::home::TestHome;
use wolli_testkit::process::eventually;
use wolli_testkit::provider::{Answer, Kind, Provider, Reply};

use super::{
    KINDS, NOTICES, calm_world, check_count, compaction_end, is_summary, long, notices, numbered, overflow, says, two_turns, world,
};
use crate::support::frames::check_order;
use crate::support::{World, newest_session, text_of};

const SECOND_OVERFLOW: &str =
    "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching to a larger-context model.";

#[tokio::test]
async fn a_second_overflow_is_told_and_not_tried_again() {
    for kind in KINDS {
        let world = calm_world(kind).await;
        two_turns(&world).await;
        let mut reader = world.reader(NOTICES).await;
        world.provider.reply(overflow());
        world.provider.reply(Answer::says("the summary"));
        world.provider.reply(overflow());
        world.prompt("question three").await;
        world.idle().await;
        assert_eq!(compaction_end(&mut reader).await["willRetry"], true);
        let end = compaction_end(&mut reader).await;
        assert_eq!(
            end,
            json!({"type": "compaction_end", "reason": "overflow", "aborted": false, "willRetry": false, "errorMessage": SECOND_OVERFLOW})
        );
        assert_eq!(notices(&reader, "compaction_start").len(), 1, "the end has no start");
        assert_eq!(numbered(&reader).last().unwrap()["type"], "agent_end");
        assert_eq!(world.provider.requests().len(), 5);
        assert_eq!(world.state().await["isStreaming"], false);
        // A new prompt has its own try.
        world.provider.reply(overflow());
        world.provider.reply(Answer::says("another summary"));
        world.provider.reply(says("at last", 100));
        world.prompt("question four").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "at last");
        check_order(&numbered(&reader));
    }
}

#[tokio::test]
async fn a_summary_that_fails_says_why() {
    for kind in KINDS {
        let world = world(kind, 1000, 40).await;
        two_turns(&world).await;
        let before = world.entries().await.len();
        world.provider.reply(Reply::error(401, "authentication_error", "the key is worn out"));
        let answer = world.command(json!({"type": "compact"})).await;
        let text = answer["error"].as_str().unwrap();
        assert!(text.starts_with("Summarization failed: ") && text.contains("the key is worn out"), "{text}");
        assert_eq!(world.entries().await.len(), before);
        let mut reader = world.reader(NOTICES).await;
        world.provider.reply(says("answer three", 2000));
        world.provider.reply(Reply::error(401, "authentication_error", "the key is worn out"));
        world.prompt(&long("question three", 40)).await;
        world.idle().await;
        let end = compaction_end(&mut reader).await;
        let text = end["errorMessage"].as_str().unwrap();
        assert!(text.starts_with("Auto-compaction failed: Summarization failed: ") && text.contains("worn out"), "{text}");
        assert_eq!(end["aborted"], false);
        // The answer is there; the session goes on.
        world.provider.reply(says("answer four", 100));
        world.prompt("question four").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "answer four");
        check_count(&world).await;
    }
}

#[tokio::test]
async fn compaction_can_be_turned_off_while_it_runs() {
    let world = world(Kind::Anthropic, 1000, 40).await;
    two_turns(&world).await;
    let path = format!("agents/{}/agent.json", world.agent.name);
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.home.root().join(&path)).unwrap()).unwrap();
    config["settings"]["compaction"]["enabled"] = json!(false);
    world.home.write_json(&path, &config).unwrap();
    world.provider.reply(says("answer three", 100_000));
    world.prompt(&long("question three", 40)).await;
    world.idle().await;
    world.provider.reply(overflow());
    world.prompt(&long("question four", 40)).await;
    world.idle().await;
    assert_eq!(world.provider.requests().len(), 4, "a summary was asked for");
    world.provider.reply(Answer::says("sum"));
    world.succeed(json!({"type": "compact"})).await;
}

/// A model with a window of 8,192 tokens, and an agent whose prompt takes 7,000 of them.
async fn small_world() -> World {
    let home = TestHome::new().unwrap();
    let agent = home.agent("a", json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off"})).unwrap();
    std::fs::write(agent.home.join("SOUL.md"), long("You are many words", 7000)).unwrap();
    let provider = Provider::start();
    let mut models = provider.models_json();
    models["providers"]["scripted"]["models"][0]["contextWindow"] = json!(8192);
    models["providers"]["scripted"]["models"][0]["maxTokens"] = json!(1000);
    home.write_json("agent/models.json", &models).unwrap();
    let daemon = home.start_daemon(&agent).await.unwrap();
    let session = newest_session(&agent).await;
    World { daemon, agent, home, provider, session }
}

#[tokio::test]
async fn summaries_that_do_not_help_are_given_up_and_that_is_told_once() {
    let mut world = small_world().await;
    world.provider.respond_with(|request| if is_summary(request) { says("sum", 500) } else { says("yes", 7900) });
    let mut reader = world.reader(NOTICES).await;
    let mut ends = Vec::new();
    for number in 0..10 {
        if number == 2 {
            ends.extend(notices(&reader, "compaction_end"));
            drop(reader);
            world.restart().await;
            reader = world.reader(NOTICES).await;
        }
        world.prompt(&long("question", 30_000)).await;
        world.idle().await;
    }
    // One more run that is below the threshold, to read up to.
    world.provider.reply(says("below", 100));
    world.prompt("last").await;
    reader.until(|frame| frame["type"] == "message_end" && text_of(&frame["message"]) == "below").await.unwrap();
    ends.extend(notices(&reader, "compaction_end"));
    let requests = world.provider.requests();
    assert_eq!(requests.iter().filter(|request| is_summary(request)).count(), 3);
    let failed: Vec<&str> = ends.iter().filter_map(|end| end["errorMessage"].as_str()).collect();
    let [text] = failed.as_slice() else { panic!("{ends:#?}") };
    let expected = "Auto-compaction failed: 3 compactions in a row left more than 4096 tokens in the context: the system prompt and the tools take about";
    assert!(text.starts_with(expected) && text.contains("scripted/scripted-1 takes 8192"), "{text}");
    world.idle().await;
    // It helps again.
    world.prompt(&long("question", 30_000)).await;
    world.idle().await;
    assert_eq!(world.provider.requests().iter().filter(|request| is_summary(request)).count(), 4);
}

#[tokio::test]
async fn a_provider_that_takes_nothing_is_asked_for_a_bounded_number_of_summaries() {
    let mut world = small_world().await;
    for _ in 0..3 {
        world.provider.reply(says("yes", 100));
        world.prompt(&long("question", 300)).await;
        world.idle().await;
    }
    let good = world.provider.requests().len();
    world.provider.respond_with(|_| overflow());
    let mut reader = world.reader(NOTICES).await;
    for number in 0..8 {
        if number == 4 {
            drop(reader);
            world.restart().await;
            reader = world.reader(NOTICES).await;
        }
        world.prompt(&long("again", 20)).await;
        world.idle().await;
    }
    let requests = world.provider.requests();
    let summaries: Vec<_> = requests[good..].iter().filter(|request| is_summary(request)).collect();
    assert!((1..=3).contains(&summaries.len()), "{} summaries were asked for", summaries.len());
    assert_eq!(requests.len() - good - summaries.len(), 8, "a prompt was sent more than once");
    // Each try has less to read.
    let sizes: Vec<usize> = summaries.iter().map(|request| request.raw.len()).collect();
    assert!(sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    let text = reader.until(|frame| frame["type"] == "compaction_end").await.unwrap()["errorMessage"].as_str().unwrap().to_owned();
    assert!(text.starts_with("Context overflow recovery failed: 3 summaries in a row brought no answer: "), "{text}");
    assert!(text.contains("scripted/scripted-1 takes 8192"), "{text}");
    // A person may always ask, and a good answer ends the count.
    world.provider.respond_with(|_| says("a summary, or an answer", 100));
    world.succeed(json!({"type": "compact"})).await;
    world.prompt("hello").await;
    world.idle().await;
    let file = world.session_file().await.with_extension("state.json");
    let counted = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("rounds"));
    eventually("the end of the count", Duration::from_secs(10), || (!counted()).then_some(())).await.unwrap();
    world.provider.assert_clean();
}
