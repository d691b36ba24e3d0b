//! Two clients that speak at the very moment when a turn ends: what was sent was accepted or refused, what was accepted was run or taken
//! back, and the file, the frames and the answers of the commands tell the same story.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use wolli_testkit::http::Client;
use wolli_testkit::provider::{Answer, Gate, Kind, RecordedRequest};

use crate::support::{Dice, Reader, World, count, text_of, texts_of};

/// How far the ends of turns and the messages lie apart.
const WINDOW_MICROS: u64 = 5000;

fn reply(request: &RecordedRequest) -> Answer {
    Answer::says(&format!("to {}", request.last_user_text()))
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Refused,
    Cleared,
}

/// All that was sent, by text.
#[derive(Default)]
struct Ledger {
    fates: BTreeMap<String, Fate>,
}

impl Ledger {
    fn with(&self, fate: Fate) -> BTreeSet<String> {
        self.fates.iter().filter(|(_, found)| **found == fate).map(|(text, _)| text.clone()).collect()
    }

    /// Messages that a command took out of the queues.
    fn cleared(&mut self, data: &Value) {
        for queue in ["steering", "followUp", "clearedSteer", "clearedFollowUp"] {
            for message in data[queue].as_array().into_iter().flatten() {
                let before = self.fates.insert(text_of(message), Fate::Cleared);
                assert_ne!(before, Some(Fate::Cleared), "{message} was taken back twice");
            }
        }
    }
}

/// Sends a message a little later; the answer's success.
async fn send(client: Client, session: String, command: Value, after: Duration) -> (String, bool) {
    // Not a wait for anything: it spreads the messages over the end of the turn.
    tokio::time::sleep(after).await;
    let answer = client.command(&session, &command).await.unwrap();
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(answer["success"] == true || !error.is_empty(), "{answer}");
    (command["message"].as_str().unwrap().to_owned(), answer["success"] == true)
}

fn some_message(dice: &mut Dice, text: &str) -> Value {
    match dice.range(0, 6) {
        0 => json!({"type": "prompt", "message": text}),
        1 => json!({"type": "prompt", "message": text, "streamingBehavior": "followUp"}),
        2 => json!({"type": "prompt", "message": text, "streamingBehavior": "steer"}),
        3 => json!({"type": "steer", "message": text}),
        _ => json!({"type": "follow_up", "message": text}),
    }
}

/// What a round does besides sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Besides {
    Nothing,
    Clear,
    Abort,
}

#[tokio::test]
async fn what_is_sent_while_a_turn_ends_is_refused_or_run_or_taken_back() {
    for (kind, seed) in [(Kind::Anthropic, 561), (Kind::OpenAi, 562)] {
        let world = World::scripted(kind).await;
        world.provider.respond_with(reply);
        let mut dice = Dice::new(seed);
        let mut ledger = Ledger::default();
        let mut reader = world.reader("").await;
        for round in 0..count(20, 200) {
            let besides = match dice.range(0, 5) {
                0 => Besides::Clear,
                1 => Besides::Abort,
                _ => Besides::Nothing,
            };
            one_round(&world, &mut dice, &mut ledger, round, besides).await;
            world.settled().await;
            check(&world, &ledger, round).await;
            // One that reads nothing for long falls off the ring.
            catch_up(&world, &mut reader).await;
        }
        let refused = ledger.with(Fate::Refused).len();
        let (sent, cleared) = (ledger.fates.len(), ledger.with(Fate::Cleared).len());
        eprintln!("{kind:?}: {sent} sent, {refused} refused, {cleared} taken back");
        check_frames(&world, &mut reader, &ledger).await;
        world.provider.assert_clean();
    }
}

async fn one_round(world: &World, dice: &mut Dice, ledger: &mut Ledger, round: usize, besides: Besides) {
    let gate = Gate::new();
    let first = format!("r{round} first");
    // Held before its last marks.
    world.provider.reply(Answer::says(&format!("to {first}")).hold_before(5, &gate));
    world.prompt(&first).await;
    ledger.fates.insert(first, Fate::Accepted);
    gate.reached().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..dice.range(2, 7) {
        let text = format!("r{round} n{number}");
        let command = some_message(dice, &text);
        let after = Duration::from_micros(dice.range(0, WINDOW_MICROS));
        tasks.spawn(send(world.client(), world.session.clone(), command, after));
    }
    tokio::time::sleep(Duration::from_micros(dice.range(0, WINDOW_MICROS))).await;
    gate.open();
    let data = match besides {
        Besides::Nothing => Value::Null,
        Besides::Clear => world.succeed(json!({"type": "clear_queue"})).await,
        Besides::Abort => world.succeed(json!({"type": "abort"})).await,
    };
    while let Some(sent) = tasks.join_next().await {
        let (text, accepted) = sent.unwrap();
        ledger.fates.insert(text, if accepted { Fate::Accepted } else { Fate::Refused });
    }
    ledger.cleared(&data);
}

/// What was accepted and not taken back is in the history once, nothing else is, and the file has one branch.
async fn check(world: &World, ledger: &Ledger, round: usize) {
    let mut found = texts_of(&world.messages().await, "user");
    found.sort();
    let wanted: Vec<String> = ledger.with(Fate::Accepted).into_iter().collect();
    assert_eq!(found, wanted, "round {round}");
    let mut parents = BTreeSet::new();
    for entry in world.lines().await.iter().skip(1) {
        let parent = entry["parentId"].as_str().map(str::to_owned);
        assert!(parents.insert(parent), "round {round}: two entries follow {}", entry["parentId"]);
    }
}

/// Reads everything that was told so far.
async fn catch_up(world: &World, reader: &mut Reader) {
    let last = world.reader("").await.hello["stream"]["lastId"].as_u64();
    while reader.frames.iter().rev().find_map(|(id, _)| *id).map(|id| id.0) < last {
        reader.step().await.unwrap().unwrap();
    }
}

/// The frames tell of every message of the history once, in its order; and a message that waited is told of as long as it waits.
async fn check_frames(world: &World, reader: &mut Reader, ledger: &Ledger) {
    catch_up(world, reader).await;
    let frames = reader.values();
    let ended = crate::support::frames::ended_messages(&frames);
    let messages = world.messages().await;
    assert_eq!(texts_of(&ended, "user"), texts_of(&messages, "user"));
    assert_eq!(ended.len(), messages.len());
    let mut waits: BTreeSet<String> = BTreeSet::new();
    let mut waited: BTreeSet<String> = BTreeSet::new();
    let mut run: BTreeSet<String> = BTreeSet::new();
    let cleared = ledger.with(Fate::Cleared);
    for frame in &frames {
        if frame["type"] == "queue_update" {
            let queues = ["steer", "followUp"].into_iter().flat_map(|queue| frame[queue].as_array().unwrap());
            let now: BTreeSet<String> = queues.map(text_of).collect();
            assert!(now.is_disjoint(&run), "a message waits that was run: {frame}");
            // What is new was not there before, what is gone is run next or was taken back.
            assert!(now.difference(&waits).all(|text| waited.insert(text.clone())), "a message waits twice: {frame}");
            waits = now;
        } else if frame["type"] == "message_end" && frame["message"]["role"] == "user" {
            let text = text_of(&frame["message"]);
            assert!(!waits.contains(&text), "{text:?} is run while it waits");
            assert!(run.insert(text));
        }
    }
    assert!(waits.is_empty(), "{waits:?} still wait");
    for text in waited {
        assert!(run.contains(&text) != cleared.contains(&text), "{text:?} waited, and was neither run nor taken back, or both");
    }
}
