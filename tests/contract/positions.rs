//! Where a stream begins: numbers of frames, what is replayed for which `Last-Event-ID`, and what all readers agree on.

use serde_json::{Value, json};
use wolli_testkit::provider::{Answer, Gate, Kind};

use crate::support::World;
use crate::wire::{data_of, frames, id_of, stream};

/// Reads a run to its end; gives back its frames as text, `hello` first.
async fn run(world: &World, text: &str) -> Vec<String> {
    let mut stream = stream(world, &world.events_path(""), &[]).await;
    stream.next().await.unwrap().unwrap();
    world.prompt(text).await;
    stream.until_type("agent_end").await.unwrap();
    frames(&stream)
}

/// What a reader gets at once that says it saw `last`: the position of `hello`, and the frames up to number `newest`.
async fn attach(world: &World, last: &str, newest: u64) -> (Value, Vec<String>) {
    let mut stream = stream(world, &world.events_path(""), &[("Last-Event-ID", last)]).await;
    stream.next().await.unwrap().unwrap();
    let hello = data_of(&frames(&stream)[0]);
    if hello["stream"]["resumed"] == true && last.trim().parse() != Ok(newest) {
        stream.until(|event| event.id.as_deref() == Some(newest.to_string().as_str())).await.unwrap();
    } else {
        // What is not replayed does not come; the next frame that does is a new one.
        world.succeed(json!({"type": "clear_queue"})).await;
        let event = stream.next().await.unwrap().unwrap();
        assert!(event.data.contains("queue_update"), "{last}: {event:?}");
        return (hello, Vec::new());
    }
    (hello, frames(&stream).split_off(1))
}

#[tokio::test]
async fn numbers_begin_at_1_rise_by_1_and_go_on_when_the_session_comes_back() {
    let world = World::echo().await;
    let first = run(&world, "one").await;
    let ids: Vec<Option<u64>> = first.iter().map(|frame| id_of(frame)).collect();
    let count = ids.len() as u64 - 1;
    assert_eq!(ids, std::iter::once(None).chain((1..=count).map(Some)).collect::<Vec<_>>());
    // That reader has left, and the session with it.
    let mut control = world.client().events("/events", &[]).await.unwrap();
    let hello = control.next_json().await.unwrap();
    if hello["sessions"][0]["live"] == true {
        control.until_type("session_removed").await.unwrap();
    }
    let second = run(&world, "two").await;
    assert_eq!(data_of(&second[0])["stream"], json!({"firstId": 1, "lastId": count, "resumed": false, "gap": false}));
    assert_eq!(id_of(&second[1]), Some(count + 1));
    // Nothing of the first run is gone.
    let newest = second.iter().rev().find_map(|frame| id_of(frame)).unwrap();
    let (_, replayed) = attach(&world, "0", newest).await;
    assert_eq!(replayed, [&first[1..], &second[1..]].concat());
}

#[tokio::test]
async fn another_process_has_other_numbers_and_old_ones_are_a_gap() {
    let mut world = World::echo().await;
    let first = run(&world, "one").await;
    let last = first.iter().rev().find_map(|frame| id_of(frame)).unwrap();
    world.restart().await;
    let mut stream = stream(&world, &world.events_path(""), &[("Last-Event-ID", &last.to_string())]).await;
    stream.next().await.unwrap().unwrap();
    let epoch = 1_u64 << 32;
    let position = json!({"firstId": epoch + 1, "lastId": epoch, "resumed": false, "gap": true});
    assert_eq!(data_of(&frames(&stream)[0])["stream"], position);
    drop(stream);
    let second = run(&world, "two").await;
    assert_eq!(id_of(&second[1]), Some(epoch + 1));
}

#[tokio::test]
async fn each_form_of_last_event_id_has_its_answer() {
    let world = World::echo().await;
    let all = run(&world, "one two three").await;
    let all = &all[1..];
    let newest = id_of(all.last().unwrap()).unwrap();
    // The newest number last, since looking at the others makes new frames.
    for last in ["0", "1", "5", "007"] {
        let (hello, replayed) = attach(&world, last, newest).await;
        let from = last.parse::<usize>().unwrap();
        assert_eq!(replayed, all[from..], "byte for byte behind {last}");
        assert_eq!(hello["stream"], json!({"firstId": 1, "lastId": newest, "resumed": true, "gap": false}), "{last}");
    }
    let mut newest = newest;
    let beyond = (newest + 100).to_string();
    for last in ["", "-1", "1e1", "0x9", "3.5", "x", "1 2", "99999999999999999999999", &beyond] {
        let (hello, replayed) = attach(&world, last, newest).await;
        assert_eq!(hello["stream"], json!({"firstId": 1, "lastId": newest, "resumed": false, "gap": true}), "{last:?}");
        assert_eq!(replayed, Vec::<String>::new(), "{last:?}");
        newest += 1; // the update of the queues
    }
    let (hello, replayed) = attach(&world, &newest.to_string(), newest).await;
    assert_eq!((&hello["stream"]["resumed"], replayed.len()), (&json!(true), 0));
}

#[tokio::test]
async fn the_last_256_frames_can_be_had_however_large_and_those_before_are_a_gap() {
    let world = World::echo().await;
    // Frames of five kilobytes each: 256 of them are more than a small ring holds, and fit into a large one.
    let text = "x".repeat(5_000);
    world.prompt(&format!("!repeat 300 {text} ")).await;
    world.idle().await;
    let mut stream = stream(&world, &world.events_path(""), &[]).await;
    stream.next().await.unwrap().unwrap();
    let position = data_of(&frames(&stream)[0])["stream"].clone();
    let (first, last) = (position["firstId"].as_u64().unwrap(), position["lastId"].as_u64().unwrap());
    assert!(last > 300 && first > 1, "{position}: something was forgotten");
    assert!(last - first + 1 >= 256, "{position}");
    drop(stream);
    let (hello, replayed) = attach(&world, &(first - 1).to_string(), last).await;
    assert_eq!(hello["stream"]["resumed"], true);
    let ids: Vec<u64> = replayed.iter().filter_map(|frame| id_of(frame)).collect();
    assert_eq!(ids, (first..=last).collect::<Vec<_>>());
    let (hello, _) = attach(&world, &(first - 2).to_string(), last).await;
    assert_eq!((&hello["stream"]["resumed"], &hello["stream"]["gap"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn frames_are_kept_while_nobody_listens() {
    let world = World::echo().await;
    // Nobody has attached since the start.
    world.prompt("all alone").await;
    world.idle().await;
    let mut stream = stream(&world, &world.events_path(""), &[("Last-Event-ID", "0")]).await;
    let seen = stream.until_type("agent_end").await.unwrap();
    assert_eq!(seen[0]["stream"]["resumed"], true);
    assert_eq!(
        frames(&stream).iter().filter_map(|frame| id_of(frame)).collect::<Vec<_>>(),
        (1..=seen.len() as u64 - 1).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn readers_that_attach_in_a_run_miss_nothing_and_all_see_the_same_bytes() {
    let world = World::scripted(Kind::Anthropic).await;
    let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
    let mut answer = Answer::new().text_deltas(["a ", "b ", "c ", "d ", "e ", "f "]);
    for (number, gate) in gates.iter().enumerate() {
        answer = answer.hold_before(3 + number, gate);
    }
    world.provider.reply(answer);
    let mut readers = vec![stream(&world, &world.events_path(""), &[]).await];
    world.prompt("go").await;
    for gate in &gates {
        gate.reached().await;
        readers.push(stream(&world, &world.events_path(""), &[("Last-Event-ID", "0")]).await);
        gate.open();
    }
    let mut all: Vec<Vec<String>> = Vec::new();
    for reader in &mut readers {
        reader.until_type("agent_end").await.unwrap();
        all.push(frames(reader).split_off(1));
    }
    for one in &all {
        assert_eq!(*one, all[0]);
    }
    assert_eq!(all[0].iter().filter_map(|frame| id_of(frame)).collect::<Vec<_>>(), (1..=all[0].len() as u64).collect::<Vec<_>>());
}
