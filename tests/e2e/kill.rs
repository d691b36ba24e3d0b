//! `kill -9` in the middle of turns: what was acknowledged is there once, nothing runs on, and the session says that it was cut off.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::process::{eventually, running_with};
use wolli_testkit::provider::{Answer, Gate, Kind, RecordedRequest};

use crate::support::{Dice, World, count, texts_of};

/// What one life of the daemon promised before it was killed.
#[derive(Default)]
struct Promised {
    /// Texts of prompts and of queued messages that were acknowledged.
    texts: Vec<String>,
    /// Commands with a key.
    keyed: Vec<Value>,
    /// Queued messages of it, and those that waited before.
    queued: Vec<String>,
    /// Entries whose `message_end` was seen, with the message.
    ended: Vec<(String, Value)>,
}

fn words(number: u64) -> String {
    (0..12).map(|word| format!("n{number}w{word} ")).collect()
}

/// Talks, then runs tools that never end by themselves; or talks for ever.
fn endless(marker: String, gate: Gate) -> impl Fn(&RecordedRequest) -> Answer + Send + Sync + 'static {
    move |request| {
        let answer = Answer::new().text(&words(request.number as u64)).pace(Duration::from_millis(1));
        let command =
            format!("sleep {marker} & nohup sh -c 'trap \"\" TERM HUP; sleep {marker}' & while :; do echo tick; sleep 0.02; done");
        match request.number % 3 {
            _ if only_talks(request.number) => answer.text("and so on").hold_before(16, &gate),
            1 => answer.tool_call("c1", "bash", &json!({"command": command})),
            _ => answer.tool_call("c1", "bash", &json!({"command": "echo quick"})).tool_call("c2", "bash", &json!({"command": command})),
        }
    }
}

fn only_talks(request: usize) -> bool {
    request.is_multiple_of(3)
}

fn is_once(texts: &[String], wanted: &str) -> bool {
    texts.iter().filter(|text| *text == wanted).count() == 1
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_once() {
    for (kind, seed) in [(Kind::Anthropic, 5), (Kind::OpenAi, 6)] {
        kills(kind, seed, count(25, 100)).await;
    }
}

async fn kills(kind: Kind, seed: u64, rounds: usize) {
    let mut world = World::scripted(kind).await;
    let mut dice = Dice::new(seed);
    let marker = format!("41{}.{seed}", std::process::id());
    let gate = Gate::new();
    world.provider.respond_with(endless(marker.clone(), gate.clone()));
    let mut all = Promised::default();
    for round in 0..rounds {
        let promised = one_life(&mut world, &mut dice, round).await;
        let requests = world.provider.requests().len();
        world.start().await;
        eventually("the end of the tools", Duration::from_secs(10), || running_with(&marker).is_empty().then_some(())).await.unwrap();

        // The session is idle, and says why.
        let reader = world.reader("").await;
        assert_eq!(reader.hello["isStreaming"], false, "round {round}");
        assert_eq!(reader.hello["waiting"]["kind"], "resume", "round {round}: {}", reader.hello);
        let stored = texts_of(&world.messages().await, "user");
        let queued: Vec<String> = promised.queued.into_iter().filter(|text| !stored.contains(text)).collect();
        assert_eq!(reader.hello["pendingMessageCount"], queued.len(), "round {round}: {queued:?} should wait");
        drop(reader);

        // A repeat of what was acknowledged is answered and starts nothing.
        for command in promised.keyed {
            world.succeed(command).await;
        }
        let state = world.state().await;
        assert_eq!(state["isStreaming"], false, "round {round}: a repeat started a run");
        assert_eq!(state["pendingMessageCount"], queued.len(), "round {round}: a repeat was queued again");
        assert_eq!(world.provider.requests().len(), requests, "round {round}: the repeat asked the provider");

        all.texts.extend(promised.texts);
        all.ended.extend(promised.ended);
        if dice.one_in(2) {
            let data = world.succeed(json!({"type": "clear_queue"})).await;
            let mut cleared: Vec<Value> = serde_json::from_value(data["steering"].clone()).unwrap();
            cleared.extend(serde_json::from_value::<Vec<Value>>(data["followUp"].clone()).unwrap());
            let mut cleared = texts_of(&cleared, "user");
            cleared.sort();
            let mut queued = queued;
            queued.sort();
            assert_eq!(cleared, queued, "round {round}: the queues lost something");
            all.texts.retain(|text| !queued.contains(text));
        }
        check(&world, &all, round).await;
    }
}

/// A prompt, messages for its queues, and a kill at some frame.
async fn one_life(world: &mut World, dice: &mut Dice, round: usize) -> Promised {
    let mut promised = Promised::default();
    let mut reader = world.reader("").await;
    let waiting = queued_texts(world).await;
    let talks = only_talks(world.provider.requests().len());
    let prompt = format!("prompt {round}");
    let command = json!({"type": "prompt", "message": prompt, "idempotencyKey": prompt});
    world.succeed(command.clone()).await;
    promised.keyed.push(command);
    promised.texts.push(prompt);
    for number in 0..dice.range(0, 3) {
        let text = format!("queued {round}.{number}");
        let command = match dice.range(0, 3) {
            0 => json!({"type": "steer", "message": text}),
            1 => json!({"type": "follow_up", "message": text}),
            _ => json!({"type": "prompt", "message": text, "streamingBehavior": "followUp", "idempotencyKey": text}),
        };
        world.succeed(command.clone()).await;
        promised.keyed.extend(command.get("idempotencyKey").is_some().then_some(command));
        promised.texts.push(text);
    }
    if !talks {
        while !promised.see(&reader.step().await.unwrap().unwrap()) {}
    }
    for _ in 0..dice.range(1, 40) {
        // A run that stands still shows nothing more.
        let Ok(Some(frame)) = reader.step_within(Duration::from_millis(100)).await else { break };
        promised.see(&frame);
    }
    world.daemon.kill().unwrap();
    // What the killed daemon sent before it died counts as well.
    while let Ok(Some(frame)) = reader.step_within(Duration::from_secs(5)).await {
        promised.see(&frame);
    }
    promised.queued = waiting.into_iter().chain(promised.texts[1..].iter().cloned()).collect();
    promised
}

impl Promised {
    /// Remembers what the frame promises; true if a tool that does not end is at work.
    fn see(&mut self, frame: &Value) -> bool {
        if frame["type"] == "message_end" {
            self.ended.push((frame["entryId"].as_str().unwrap().to_owned(), frame["message"].clone()));
        }
        frame["appended"].as_str().is_some_and(|text| text.contains("tick"))
    }
}

/// Texts that wait in the queues, read from where they are kept.
async fn queued_texts(world: &World) -> Vec<String> {
    let path = world.session_file().await.with_extension("state.json");
    let sidecar: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let messages = ["steer", "followUp"].iter().flat_map(|queue| sidecar[queue].as_array().cloned().unwrap_or_default());
    let messages: Vec<Value> = messages.map(|queued| queued["message"].clone()).collect();
    messages.iter().map(crate::support::text_of).collect()
}

async fn check(world: &World, all: &Promised, round: usize) {
    let entries = world.entries().await;
    let messages: Vec<Value> = entries.iter().filter(|entry| entry["type"] == "message").map(|entry| entry["message"].clone()).collect();
    let mut texts = texts_of(&messages, "user");
    texts.extend(queued_texts(world).await);
    for text in &all.texts {
        assert!(is_once(&texts, text), "round {round}: {text:?} was acknowledged, and is not there once: {texts:?}");
    }
    for (id, message) in &all.ended {
        let found: Vec<_> = entries.iter().filter(|entry| entry["id"] == **id).collect();
        assert_eq!(found.len(), 1, "round {round}: entry {id} is there {} times", found.len());
        assert_eq!(&found[0]["message"], message, "round {round}");
    }
}

#[tokio::test]
async fn a_tool_that_has_only_just_started_does_not_survive_kill_9() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let mut dice = Dice::new(7);
    let marker = format!("42{}.7", std::process::id());
    let command = format!("sleep {marker} & sleep {marker} & sleep {marker}");
    world.provider.respond_with(move |_| Answer::new().tool_call("c1", "bash", &json!({"command": command})));
    for round in 0..count(20, 500) {
        let mut reader = world.reader("").await;
        world.prompt(&format!("prompt {round}")).await;
        reader.until_type("tool_execution_start").await;
        for _ in 0..dice.range(0, 400) {
            tokio::task::yield_now().await;
        }
        world.daemon.kill().unwrap();
        world.start().await;
        let ended = eventually("the end of the tools", Duration::from_secs(5), || running_with(&marker).is_empty().then_some(())).await;
        assert!(ended.is_ok(), "round {round}: {:?} survived", running_with(&marker));
    }
}

#[tokio::test]
async fn a_program_that_left_its_session_does_not_survive_kill_9() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let marker = format!("43{}.8", std::process::id());
    let command = format!("setsid -f sleep {marker}; echo started; sleep {marker}");
    world.provider.respond_with(move |_| Answer::new().tool_call("c1", "bash", &json!({"command": command})));
    let mut reader = world.reader("").await;
    world.prompt("go").await;
    reader.until(|frame| frame["appended"].as_str().is_some_and(|text| text.contains("started"))).await.unwrap();
    world.daemon.kill().unwrap();
    world.start().await;
    let ended = eventually("its end", Duration::from_secs(5), || running_with(&marker).is_empty().then_some(())).await;
    let left = running_with(&marker);
    for pid in &left {
        // Nothing stays behind even when this test fails.
        let _ = std::process::Command::new("kill").env_clear().env("PATH", "/usr/bin:/bin").args(["-9", &pid.to_string()]).status();
    }
    assert!(ended.is_ok(), "{left:?} survived");
}
