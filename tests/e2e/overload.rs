//! A provider that is too busy, in every form: it is asked again when it said so, never too often, and nothing happens twice.

use std::time::{Duration, Instant, SystemTime};

use httpdate::fmt_http_date;
use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate, Kind, Reply};

use crate::support::frames::{check_order, types};
use crate::support::{World, roles, text_of};

const KINDS: [Kind; 2] = [Kind::Anthropic, Kind::OpenAi];

fn overloaded(answer: Answer, after: usize) -> Answer {
    answer.fail_after(after, "overloaded_error", "Overloaded")
}

/// Frames without the notices of retries.
fn numbered(frames: Vec<Value>) -> Vec<Value> {
    frames.into_iter().filter(|frame| !matches!(frame["type"].as_str(), Some("retry" | "waiting"))).collect()
}

#[tokio::test]
async fn what_was_begun_is_not_begun_again() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        let call = |id: &str, file: &str| Answer::new().tool_call(id, "bash", &json!({"command": format!("echo ran >> {file}")}));
        // Everything of the call has come when the error comes.
        let events = if kind == Kind::Anthropic { 7 } else { 5 };
        world.provider.reply(overloaded(call("c1", "one.txt"), events));
        let mut reader = world.reader("?include=retry").await;
        world.prompt("go").await;
        world.idle().await;
        let frames = reader.run_end().await;
        check_order(&numbered(frames.clone()));
        assert!(!types(&frames).contains(&"retry".to_owned()), "what was told already is not asked again: {:?}", types(&frames));
        let messages = world.messages().await;
        assert_eq!(roles(&messages), ["user", "assistant"]);
        assert_eq!(messages[1]["stopReason"], "error");
        assert_eq!(messages[1]["content"][0]["name"], "bash", "what had come is kept: {}", messages[1]);
        assert!(!world.agent.home.join("one.txt").exists(), "a call of a failed answer ran");

        // The answer after a tool is overloaded before its first word: asked again, and the tool has run once.
        world.provider.reply(call("c2", "two.txt"));
        world.provider.reply(overloaded(Answer::new(), 0));
        world.provider.reply(Answer::says("It ran."));
        world.prompt("go on").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "It ran.");
        assert_eq!(std::fs::read_to_string(world.agent.home.join("two.txt")).unwrap(), "ran\n");
        assert!(!world.agent.home.join("one.txt").exists());
        // The failed answer was not sent along.
        let asked = json!(world.provider.requests()[1].messages()).to_string();
        assert!(!asked.contains("one.txt"), "{asked}");
    }
}

#[tokio::test]
async fn it_is_asked_again_when_it_said_so() {
    let world = World::scripted(Kind::Anthropic).await;
    for (status, wish, least, kind) in [
        (429, "1", 1.0, "rateLimit"),
        (529, "0", 0.0, "retry"),
        (529, "", 0.0, "retry"),
        (429, "in two seconds", 0.5, "rateLimit"),
        (503, "an hour ago", 0.0, "retry"),
        (429, "soon", 0.0, "rateLimit"),
    ] {
        // A date has no fractions of seconds.
        let header = match wish {
            "in two seconds" => fmt_http_date(SystemTime::now() + Duration::from_secs(2)),
            "an hour ago" => fmt_http_date(SystemTime::now() - Duration::from_secs(3600)),
            other => other.to_owned(),
        };
        let reply = Reply::error(status, "overloaded_error", "Overloaded");
        world.provider.reply(if header.is_empty() { reply } else { reply.header("retry-after", &header) });
        world.provider.reply(Answer::says("Now."));
        let mut reader = world.reader("?include=retry,waiting").await;
        let started = Instant::now();
        world.prompt("go").await;
        let waiting = reader.until(|frame| frame["type"] == "waiting").await.unwrap();
        assert_eq!(
            (&waiting["waiting"]["kind"], &waiting["waiting"]["attempt"], &waiting["waiting"]["max"]),
            (&json!(kind), &json!(1), &json!(4))
        );
        assert!(waiting["waiting"]["until"].is_string());
        world.idle().await;
        let took = started.elapsed().as_secs_f64();
        assert!(took >= least && took < least + 6.0, "{status} {wish:?}: {took} s");
        let frames = reader.run_end().await;
        assert_eq!(frames.iter().filter(|frame| frame["type"] == "retry").count(), 1);
        // Who comes now is told of no wait.
        assert_eq!(world.reader("").await.hello["waiting"], Value::Null);
        assert_eq!(text_of(world.messages().await.last().unwrap()), "Now.");
    }
    assert_eq!(world.provider.requests().len(), 12);
}

#[tokio::test]
async fn a_wish_to_wait_for_an_hour_ends_the_run_with_a_reason() {
    let world = World::scripted(Kind::OpenAi).await;
    world.provider.reply(Reply::error(429, "rate_limit_exceeded", "Come back tomorrow").header("retry-after", "3600"));
    world.prompt("go").await;
    world.idle().await;
    let last = world.messages().await.pop().unwrap();
    let error = last["errorMessage"].as_str().unwrap();
    assert!(error.contains("Come back tomorrow") && error.contains("3600 s"), "{error}");
    world.provider.reply(Answer::says("Today."));
    world.prompt("go").await;
    world.idle().await;
    assert_eq!(text_of(world.messages().await.last().unwrap()), "Today.");
}

#[tokio::test]
async fn an_abort_ends_the_wait() {
    for kind in KINDS {
        let world = World::scripted(kind).await;
        world.provider.reply(Reply::error(429, "rate_limit_error", "Slow down").header("retry-after", "60"));
        let mut reader = world.reader("?include=waiting").await;
        world.prompt("go").await;
        reader.until(|frame| frame["type"] == "waiting").await.unwrap();
        // It waits for a minute, and says so to who comes.
        let hello = world.reader("").await.hello;
        assert_eq!((&hello["waiting"]["kind"], &hello["isStreaming"]), (&json!("rateLimit"), &json!(true)));
        world.succeed(json!({"type": "follow_up", "message": "later"})).await;
        let started = Instant::now();
        let cleared = world.succeed(json!({"type": "abort"})).await;
        assert!(started.elapsed() < Duration::from_secs(5), "the abort took {:?}", started.elapsed());
        assert_eq!(text_of(&cleared["clearedFollowUp"][0]), "later");
        check_order(&numbered(reader.run_end().await));
        let state = world.state().await;
        assert_eq!((&state["isStreaming"], &state["pendingMessageCount"]), (&json!(false), &json!(0)));
        assert_eq!(world.messages().await.last().unwrap()["stopReason"], "aborted");
        assert_eq!(world.provider.requests().len(), 1);
        // And the next prompt does not wait for the minute.
        world.provider.reply(Answer::says("Here."));
        world.prompt("go").await;
        world.idle().await;
        assert_eq!(text_of(world.messages().await.last().unwrap()), "Here.");
    }
}

#[tokio::test]
async fn a_kill_in_the_wait_loses_nothing() {
    let mut world = World::scripted(Kind::Anthropic).await;
    world.provider.reply(Reply::error(529, "overloaded_error", "Overloaded").header("retry-after", "60"));
    let mut reader = world.reader("?include=waiting").await;
    world.prompt("first").await;
    reader.until(|frame| frame["type"] == "waiting").await.unwrap();
    world.daemon.kill().unwrap();
    world.start().await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Both.").hold_before(2, &gate));
    assert_eq!(world.reader("").await.hello["waiting"]["kind"], "resume");
    world.prompt("second").await;
    gate.reached().await;
    assert_eq!(world.reader("").await.hello["waiting"], Value::Null);
    gate.open();
    world.idle().await;
    let asked = world.provider.requests().pop().unwrap();
    assert_eq!(asked.last_user_text(), "firstsecond");
    assert_eq!(roles(&world.messages().await), ["user", "user", "assistant"]);
}
