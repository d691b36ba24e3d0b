//! Readers whose connection is cut anywhere, again and again, end with what an uncut reader has; nothing is lost or told twice.
//!
//! Cuts fall on any byte of the stream. Between them the session leaves memory, the daemon is asked to end, or is killed.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use wolli_protocol::ids::FrameId;
use wolli_protocol::reduce::{Attached, SessionView};
use wolli_testkit::http::Client;
use wolli_testkit::provider::{Answer, Kind, RecordedRequest};
use wolli_testkit::proxy::{FaultProxy, Plan};

use crate::support::{Dice, Reader, World, count};

/// An answer that depends on the prompt alone: some think, some call tools that talk, all have many deltas.
fn answer(request: &RecordedRequest) -> Answer {
    let after_tool =
        request.messages().last().is_some_and(|message| message["role"] == "tool" || message["content"][0]["type"] == "tool_result");
    let text = request.last_user_text();
    let number: usize = text.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
    let words: String = (0..20 + number % 40).map(|word| format!("w{word} ")).collect();
    let mut answer = Answer::new();
    if number.is_multiple_of(3) {
        answer = answer.thinking("Let me see what this is about.");
    }
    answer = answer.text(&words);
    if number.is_multiple_of(2) && !after_tool {
        let command = "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.03; done";
        answer = answer.tool_call("c1", "bash", &json!({"command": command})).tool_call("c2", "ls", &json!({}));
    }
    answer.pace(Duration::from_micros(300 * (number as u64 % 3)))
}

/// What is compared: all that a view holds, but for what view `full` alone is told of a message in progress.
fn told(view: &SessionView, with_head: bool) -> Value {
    let in_flight = view.in_flight.as_ref().map(|streaming| {
        let message = streaming.message();
        if with_head { json!(message) } else { json!(message.content) }
    });
    let transcript: Vec<_> = view.transcript.iter().map(|item| json!([item.entry_id, item.message])).collect();
    let tools: Vec<_> =
        view.tools.iter().map(|tool| json!([tool.tool_call_id, tool.tool_name, tool.args, tool.partial_result()])).collect();
    let queues = view.queues.as_ref().map(|queues| json!([queues.steer.len(), queues.follow_up.len()]));
    let waiting = view.waiting.as_ref().map(|waiting| &waiting.kind);
    json!({
        "state": view.state, "transcript": transcript, "inFlight": in_flight, "tools": tools, "queues": queues,
        "waiting": waiting, "dialogs": view.dialogs.len(), "lastId": view.last_id(),
    })
}

/// Numbers and what they stood for: a number means one frame, for everybody and for ever.
#[derive(Default)]
struct Numbers(HashMap<FrameId, Value>);

impl Numbers {
    fn check(&mut self, reader: &Reader, from: usize) {
        for (id, value) in reader.frames.iter().skip(from) {
            let Some(id) = id else { continue };
            if let Some(known) = self.0.insert(*id, value.clone()) {
                assert_eq!(&known, value, "number {id} was used twice");
            }
        }
    }
}

struct Cutter {
    proxy: FaultProxy,
    client: Client,
    reader: Reader,
    dice: Dice,
    cuts: usize,
    resumed: usize,
    rebuilt: usize,
}

impl Cutter {
    async fn new(world: &World, query: &str, seed: u64) -> Self {
        let proxy = FaultProxy::start(world.agent.address());
        let mut client = world.client();
        client.address = proxy.address();
        let reader = Reader::attach(&client, &world.session, query).await.unwrap();
        Self { proxy, client, reader, dice: Dice::new(seed), cuts: 0, resumed: 0, rebuilt: 0 }
    }

    /// Reads, through connections that break, until `done`.
    async fn read_until(&mut self, done: impl Fn(&SessionView) -> bool) {
        loop {
            while !done(&self.reader.view) {
                match self.reader.step_within(Duration::from_secs(20)).await {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) if error.downcast_ref::<wolli_protocol::reduce::ReduceError>().is_some() => {
                        panic!("after {} cuts: {error:#}", self.cuts)
                    }
                    Err(error) => {
                        let text = format!("{error:#}");
                        assert!(!text.contains("no event in time") || text.contains("reset"), "after {} cuts: {text}", self.cuts);
                        break;
                    }
                }
            }
            if done(&self.reader.view) {
                return;
            }
            self.reconnect().await;
        }
    }

    /// Cuts the connection where it stands, and comes back.
    async fn reconnect(&mut self) {
        self.cuts += 1;
        self.proxy.cut_all();
        loop {
            // Some connections do not even get through with `hello`.
            let cut_after = match self.dice.range(0, 4) {
                0 => self.dice.range(0, 1500),
                1 => self.dice.range(1000, 3000),
                _ => self.dice.range(1500, 12_000),
            };
            let plan =
                Plan { cut_after: Some(cut_after), reset: self.dice.one_in(3), piece: self.dice.one_in(4).then_some(7), ..Plan::default() };
            self.proxy.plan(plan);
            let before = told(&self.reader.view, true);
            match self.reader.resume(&self.client).await {
                Ok(()) => break,
                // Cut before the first frame; a half of it must not have changed anything.
                Err(_) => assert_eq!(told(&self.reader.view, true), before),
            }
            self.cuts += 1;
        }
        match self.reader.attached {
            Some(Attached::Resumed) => self.resumed += 1,
            Some(Attached::Rebuilt { transcript_kept, entries_truncated }) => {
                self.rebuilt += 1;
                assert!(transcript_kept || self.reader.view.transcript.is_empty(), "a gap emptied the transcript");
                assert!(!entries_truncated);
            }
            None => {}
        }
    }
}

/// Every message of the session once, in the order of the file.
async fn check_history(world: &World, cutter: &Cutter) {
    let entries = world.entries().await;
    let stored: Vec<_> =
        entries.iter().filter(|entry| entry["type"] == "message").map(|entry| (entry["id"].clone(), entry["message"].clone())).collect();
    let seen: Vec<_> = cutter.reader.view.transcript.iter().map(|item| (json!(item.entry_id), json!(item.message))).collect();
    assert_eq!(seen, stored, "after {} cuts", cutter.cuts);
}

fn idle_after(messages: u64) -> impl Fn(&SessionView) -> bool {
    move |view: &SessionView| !view.state.is_streaming && view.state.message_count >= messages
}

async fn cuts_change_nothing(query: &'static str, seed: u64, rounds: usize) {
    let mut world = World::scripted(if (seed / 10).is_multiple_of(2) { Kind::Anthropic } else { Kind::OpenAi }).await;
    world.provider.respond_with(answer);
    let mut dice = Dice::new(seed);
    let mut cutter = Cutter::new(&world, query, seed + 1).await;
    let mut numbers = Numbers::default();
    let delta = !query.contains("full");
    for round in 0..rounds {
        // Without another reader the session leaves memory whenever its run ends while the connection is cut.
        let mut uncut = if dice.one_in(2) { Some(world.reader("").await) } else { None };
        let seen = cutter.reader.frames.len();
        let mut watcher = world.reader("").await;
        world.prompt(&format!("prompt number {}", dice.range(0, 100))).await;
        if dice.one_in(6) {
            // In the middle of the run the daemon is gone; what the reader knows must still be true afterwards.
            let frames = dice.range(1, 30);
            for _ in 0..frames {
                // A short run may end before.
                if watcher.step().await.unwrap().unwrap()["type"] == "agent_end" {
                    break;
                }
            }
            if dice.one_in(2) {
                world.daemon.kill().unwrap();
            } else {
                world.daemon.terminate().await.unwrap();
            }
            world.start().await;
            drop(uncut.take());
            // The numbers of the new process are above all that were.
            let now = world.reader("").await.view.last_id();
            cutter.read_until(|view| view.last_id() >= now).await;
            assert!(!cutter.reader.view.state.is_streaming);
        } else {
            drop(watcher);
            if let Some(uncut) = &mut uncut {
                // Somewhere in the middle both are asked the same.
                let stop = cutter.reader.view.last_id().unwrap().0 + dice.range(1, 25);
                cutter.read_until(|view| view.last_id().unwrap().0 >= stop).await;
                let reached = cutter.reader.view.last_id().unwrap();
                while uncut.view.last_id().unwrap() < reached {
                    uncut.step().await.unwrap();
                }
                assert_eq!(told(&cutter.reader.view, delta), told(&uncut.view_with_history(&world).await, delta), "round {round}");
            }
            world.idle().await;
            let messages = world.state().await["messageCount"].as_u64().unwrap();
            cutter.read_until(idle_after(messages)).await;
            if let Some(uncut) = &mut uncut {
                while !idle_after(messages)(&uncut.view) {
                    uncut.step().await.unwrap();
                }
                assert_eq!(told(&cutter.reader.view, true), told(&uncut.view_with_history(&world).await, true), "round {round}");
                if delta {
                    numbers.check(uncut, 0);
                }
            }
        }
        if delta {
            numbers.check(&cutter.reader, seen);
        }
        check_history(&world, &cutter).await;
        if dice.one_in(8) {
            world.restart().await;
        }
        if cutter.cuts < round * 4 {
            cutter.reconnect().await;
        }
    }
    eprintln!("{query}: {} cuts, {} resumed, {} rebuilt, {rounds} rounds", cutter.cuts, cutter.resumed, cutter.rebuilt);
    assert!(cutter.cuts >= rounds && cutter.resumed > 0 && cutter.rebuilt > 0);
}

impl Reader {
    /// The view with the messages from before this reader came.
    async fn view_with_history(&self, world: &World) -> SessionView {
        let mut view = self.view.clone();
        let entries: Vec<_> = world.entries().await.into_iter().map(|entry| serde_json::from_value(entry).unwrap()).collect();
        if view.transcript.is_empty() {
            // Nothing ended since: all that is stored was there before, unless it ended after this view's position.
            let count = usize::try_from(view.state.message_count).unwrap();
            let messages = entries
                .into_iter()
                .filter(|entry: &wolli_protocol::entry::Entry| matches!(entry.body, wolli_protocol::entry::EntryBody::Message { .. }));
            let before: Vec<_> = messages.take(count).collect();
            view.extend_with_entries(&before);
        } else {
            view.prepend_history(&entries);
        }
        view
    }
}

#[tokio::test]
async fn a_reader_that_is_cut_anywhere_loses_nothing() {
    for life in 0..count(1, 60) {
        cuts_change_nothing("", 11 + 10 * life as u64, 30).await;
    }
}

#[tokio::test]
async fn a_reader_of_view_full_that_is_cut_anywhere_loses_nothing() {
    for life in 0..count(1, 40) {
        cuts_change_nothing("?view=full", 22 + 10 * life as u64, 20).await;
    }
}

#[tokio::test]
async fn a_reader_that_was_away_for_ever_is_told_of_the_gap() {
    let world = World::echo().await;
    let mut reader = world.reader("").await;
    world.prompt("hello").await;
    reader.run_end().await;
    let first = reader.entry_ids()[0].clone();
    // More than any ring keeps.
    world.prompt("!repeat 20000 some words that take room in the ring").await;
    world.idle().await;
    reader.resume(&world.client()).await.unwrap();
    assert_eq!(reader.attached, Some(Attached::Rebuilt { transcript_kept: true, entries_truncated: false }));
    assert_eq!((&reader.hello["stream"]["gap"], &reader.hello["stream"]["resumed"]), (&json!(true), &json!(false)));
    let entries = world.entries().await;
    let stored: Vec<_> = entries.iter().filter(|entry| entry["type"] == "message").map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(reader.entry_ids(), stored);
    assert_eq!(first, stored[0]);
}
