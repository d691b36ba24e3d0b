//! Many at once, and at the worst moments: what was accepted is done once, what was refused is not done, nobody waits for ever.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wolli_testkit::http::{Client, Connection, EventStream};
use wolli_testkit::provider::{Answer, Gate, Kind, RecordedRequest};

use crate::support::{Dice, World, count, text_of, texts_of};

fn reply(request: &RecordedRequest) -> Answer {
    Answer::says(&format!("to {}", request.last_user_text()))
}

/// Gives others their turn that many times.
async fn let_others(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// Sends a command after a while; its text if it was accepted.
async fn post(client: Client, session: String, command: Value, after: u64) -> Option<String> {
    let_others(after).await;
    let answer = client.command(&session, &command).await.unwrap();
    let accepted = answer["success"] == true;
    assert!(accepted || answer["error"].as_str().is_some_and(|error| !error.is_empty()), "{answer}");
    accepted.then(|| command["message"].as_str().unwrap().to_owned())
}

/// Each accepted text stands there once, each with an answer to it, and nothing else does.
async fn check_once(world: &World, accepted: &[String], round: usize) {
    let messages = world.messages().await;
    let mut found: Vec<String> = texts_of(&messages, "user");
    let mut wanted: Vec<String> = accepted.to_vec();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "round {round}");
    for (number, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "user") {
        let answer = messages.get(number + 1).unwrap_or_else(|| panic!("round {round}: nobody answered {message}"));
        assert_eq!(text_of(answer), format!("to {}", text_of(message)), "round {round}");
    }
}

#[tokio::test]
async fn what_arrives_while_a_turn_ends_is_run_once_or_refused() {
    let world = World::scripted(Kind::Anthropic).await;
    world.provider.respond_with(reply);
    let mut dice = Dice::new(56);
    let mut accepted = Vec::new();
    for round in 0..count(30, 200) {
        let gate = Gate::new();
        let first = format!("r{round} first");
        // Held before the last marks of the answer.
        world.provider.reply(Answer::says(&format!("to {first}")).hold_before(6, &gate));
        world.prompt(&first).await;
        accepted.push(first);
        gate.reached().await;
        let commands = [
            json!({"type": "prompt", "message": format!("r{round} prompt a")}),
            json!({"type": "follow_up", "message": format!("r{round} follow a")}),
            json!({"type": "prompt", "message": format!("r{round} prompt b"), "streamingBehavior": "followUp"}),
            json!({"type": "follow_up", "message": format!("r{round} follow b")}),
        ];
        let mut tasks = tokio::task::JoinSet::new();
        for command in commands {
            tasks.spawn(post(world.client(), world.session.clone(), command, dice.range(0, 60)));
        }
        let_others(dice.range(0, 60)).await;
        gate.open();
        while let Some(text) = tasks.join_next().await {
            accepted.extend(text.unwrap());
        }
        world.settled().await;
        check_once(&world, &accepted, round).await;
    }
    world.provider.assert_clean();
}

#[tokio::test]
async fn ten_at_once_on_an_idle_session_start_one_run_and_lose_nothing() {
    let world = World::scripted(Kind::OpenAi).await;
    world.provider.respond_with(reply);
    let mut accepted = Vec::new();
    for round in 0..count(10, 100) {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..10 {
            let kind = if round % 2 == 0 { "prompt" } else { "follow_up" };
            let command = json!({"type": kind, "message": format!("r{round} n{number}")});
            tasks.spawn(post(world.client(), world.session.clone(), command, 0));
        }
        let mut now = 0;
        while let Some(text) = tasks.join_next().await {
            let text = text.unwrap();
            now += usize::from(text.is_some());
            accepted.extend(text);
        }
        assert!(now >= 1 && (round % 2 == 0 || now == 10), "round {round}: {now} accepted");
        world.settled().await;
        check_once(&world, &accepted, round).await;
    }
}

#[tokio::test]
async fn what_is_cleared_is_not_run_and_what_is_run_was_not_cleared() {
    let world = World::scripted(Kind::Anthropic).await;
    world.provider.respond_with(reply);
    let mut dice = Dice::new(57);
    let mut accepted = Vec::new();
    for round in 0..count(20, 200) {
        let gate = Gate::new();
        let first = format!("r{round} first");
        world.provider.reply(Answer::says(&format!("to {first}")).hold_before(6, &gate));
        world.prompt(&first).await;
        accepted.push(first);
        gate.reached().await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..3 {
            let command = json!({"type": "follow_up", "message": format!("r{round} n{number}")});
            tasks.spawn(post(world.client(), world.session.clone(), command, dice.range(0, 20)));
        }
        let_others(dice.range(0, 40)).await;
        gate.open();
        let cleared = world.succeed(json!({"type": "clear_queue"})).await;
        while let Some(text) = tasks.join_next().await {
            accepted.extend(text.unwrap());
        }
        let cleared: Vec<Value> = serde_json::from_value(cleared["followUp"].clone()).unwrap();
        let cleared = texts_of(&cleared, "user");
        accepted.retain(|text| !cleared.contains(text));
        world.settled().await;
        check_once(&world, &accepted, round).await;
    }
}

#[tokio::test]
async fn a_prompt_whose_answer_was_lost_can_be_sent_again() {
    let mut world = World::scripted(Kind::Anthropic).await;
    world.provider.respond_with(reply);
    let mut dice = Dice::new(55);
    let mut sent = Vec::new();
    for round in 0..count(20, 200) {
        let text = format!("r{round}");
        let command = json!({"type": "prompt", "message": text, "idempotencyKey": text, "id": "X"});
        let path = format!("/sessions/{}/control", world.session);
        let bytes = world.client().request_bytes("POST", &path, &[], Some(command.to_string().as_bytes()));
        let mut connection = Connection::open(world.agent.address()).await.unwrap();
        connection.send(&bytes).await.unwrap();
        if dice.one_in(2) {
            connection.reset().unwrap();
        } else {
            drop(connection);
        }
        let_others(dice.range(0, 200)).await;
        if dice.one_in(5) {
            world.daemon.kill().unwrap();
            world.start().await;
        }
        // Twice more, at the same time.
        let twice = tokio::join!(world.command(command.clone()), world.command(command.clone()));
        assert_eq!((&twice.0["success"], &twice.1["success"]), (&json!(true), &json!(true)), "round {round}: {twice:?}");
        world.settled().await;
        assert_eq!(world.command(command).await, json!({"id": "X", "type": "response", "command": "prompt", "success": true}));
        sent.push(text);
        let users = texts_of(&world.messages().await, "user");
        assert_eq!(users, sent, "round {round}");
    }
}

#[tokio::test]
async fn a_turn_goes_on_when_everybody_has_left() {
    let world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    let held = Answer::new().text("A look.").tool_call("c1", "bash", &json!({"command": "echo made > made.txt"}));
    world.provider.reply(held.hold_before(3, &gate));
    world.provider.reply(Answer::says("It is made."));
    let mut one = world.reader("").await;
    let two = world.reader("?view=full").await;
    let last = one.view.last_id();
    let command = json!({"type": "prompt", "message": "go"}).to_string();
    let path = format!("/sessions/{}/control", world.session);
    let mut connection = Connection::open(world.agent.address()).await.unwrap();
    connection.send(world.client().request_bytes("POST", &path, &[], Some(command.as_bytes()))).await.unwrap();
    drop(connection);
    gate.reached().await;
    assert_eq!(one.step().await.unwrap().unwrap()["type"], "agent_start");
    drop((one, two));
    gate.open();
    // Nobody looks until all of it is over.
    world.provider.wait_for_outcome(1).await;
    world.idle().await;
    assert_eq!(std::fs::read_to_string(world.agent.home.join("made.txt")).unwrap(), "made\n");
    assert_eq!(text_of(world.messages().await.last().unwrap()), "It is made.");
    // And who comes back is told everything.
    let id = last.unwrap().to_string();
    let mut stream = world.client().events(&world.events_path(""), &[("Last-Event-ID", &id)]).await.unwrap();
    assert_eq!(stream.next_json().await.unwrap()["stream"]["resumed"], true);
    let frames = stream.until_type("agent_end").await.unwrap();
    crate::support::frames::check_order(&frames);
}

#[tokio::test]
async fn after_prompt_and_wait_for_idle_the_answer_is_there() {
    let world = World::echo().await;
    for round in 0..count(60, 1000) {
        let text = format!("say {round}");
        world.prompt(&text).await;
        assert!(world.state().await["isStreaming"].is_boolean());
        world.idle().await;
        let messages = world.messages().await;
        assert_eq!(text_of(messages.last().unwrap()), text, "round {round}");
    }
}

#[tokio::test]
async fn an_acknowledged_prompt_counts_as_running_at_once() {
    let world = World::scripted(Kind::Anthropic).await;
    for round in 0..count(20, 200) {
        let gate = Gate::new();
        world.provider.reply(Answer::says("Yes.").hold_before(0, &gate));
        world.prompt("go").await;
        assert_eq!(world.state().await["isStreaming"], true, "round {round}");
        gate.open();
        world.idle().await;
        assert_eq!(world.state().await["isStreaming"], false, "round {round}");
    }
}

#[tokio::test]
async fn sessions_do_not_hear_each_other() {
    let world = World::echo().await;
    world.succeed(json!({"type": "deploy"})).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(world.succeed(json!({"type": "create_session"})).await["sessionId"].as_str().unwrap().to_owned());
    }
    let client = world.client();
    let mut tasks = tokio::task::JoinSet::new();
    for id in ids.clone() {
        let client = client.clone();
        tasks.spawn(async move {
            let mut reader = crate::support::Reader::attach(&client, &id, "").await.unwrap();
            for round in 0..5 {
                let text = format!("{id} {round}");
                client.succeed(&id, &json!({"type": "prompt", "message": text})).await.unwrap();
                reader.until_type("agent_end").await;
            }
            let users = texts_of(&crate::support::frames::ended_messages(&reader.values()), "user");
            (id, users)
        });
    }
    let mut seen = BTreeMap::new();
    while let Some(task) = tasks.join_next().await {
        let (id, users) = task.unwrap();
        seen.insert(id, users);
    }
    for id in ids {
        assert_eq!(seen[&id], (0..5).map(|round| format!("{id} {round}")).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_flood_of_messages_is_refused_beyond_the_bound_and_run_below_it() {
    let world = World::scripted(Kind::OpenAi).await;
    world.provider.respond_with(reply);
    let gate = Gate::new();
    world.provider.reply(Answer::says("to go").hold_before(2, &gate));
    world.prompt("go").await;
    gate.reached().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..150 {
        let command = json!({"type": "follow_up", "message": format!("n{number}")});
        tasks.spawn(post(world.client(), world.session.clone(), command, 0));
    }
    let mut accepted = vec!["go".to_owned()];
    while let Some(text) = tasks.join_next().await {
        accepted.extend(text.unwrap());
    }
    assert!((2..=65).contains(&accepted.len()), "{} were accepted", accepted.len());
    assert_eq!(world.state().await["pendingMessageCount"], accepted.len() - 1);
    gate.open();
    world.settled().await;
    check_once(&world, &accepted, 0).await;
}

#[tokio::test]
async fn aborts_at_once_are_all_answered_and_later_prompts_run() {
    let world = World::scripted(Kind::Anthropic).await;
    for round in 0..count(10, 100) {
        let gate = Gate::new();
        world.provider.reply(Answer::says("one two three").hold_before(4, &gate));
        world.prompt("go").await;
        if round % 2 == 0 {
            gate.reached().await;
        }
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let (client, session) = (world.client(), world.session.clone());
            tasks.spawn(async move { client.succeed(&session, &json!({"type": "abort"})).await.unwrap() });
        }
        while let Some(answer) = tasks.join_next().await {
            assert_eq!(answer.unwrap(), json!({"clearedSteer": [], "clearedFollowUp": []}));
        }
        assert_eq!(world.state().await["isStreaming"], false, "round {round}");
        gate.open();
        world.provider.respond_with(reply);
        // An abort that came before the request was sent leaves its reply unused.
        if world.provider.unused_replies() > 0 {
            world.prompt("what is left").await;
            world.idle().await;
        }
        let text = format!("after {round}");
        world.prompt(&text).await;
        world.idle().await;
        // What came before it had no answer, and is sent together with it.
        let said = text_of(world.messages().await.last().unwrap());
        assert!(said.starts_with("to ") && said.ends_with(&text), "round {round}: {said}");
    }
    let answer = world.succeed(json!({"type": "abort"})).await;
    assert_eq!(answer, json!({"clearedSteer": [], "clearedFollowUp": []}));
}

/// The next frame of the control stream.
async fn lifecycle(control: &mut EventStream) -> (String, String) {
    let frame = control.next_json().await.unwrap();
    let id = frame["sessionId"].as_str().or(frame["session"]["sessionId"].as_str()).unwrap();
    (frame["type"].as_str().unwrap().to_owned(), id.to_owned())
}

#[tokio::test]
async fn sessions_come_and_go_with_their_readers_but_not_in_a_turn() {
    let mut world = World::scripted(Kind::Anthropic).await;
    world.restart().await;
    let mut control = world.client().events("/events", &[]).await.unwrap();
    assert_eq!(control.next_json().await.unwrap()["sessions"][0]["live"], false);
    let (added, removed) = (("session_added".to_owned(), world.session.clone()), ("session_removed".to_owned(), world.session.clone()));
    for _ in 0..3 {
        let one = world.reader("").await;
        assert_eq!(lifecycle(&mut control).await, added);
        let two = world.reader("").await;
        drop(one);
        assert_eq!(world.agent_state().await["sessions"][0]["live"], true);
        drop(two);
        assert_eq!(lifecycle(&mut control).await, removed);
    }
    let gate = Gate::new();
    world.provider.reply(Answer::says("Done.").hold_before(3, &gate));
    let reader = world.reader("").await;
    assert_eq!(lifecycle(&mut control).await, added);
    world.prompt("go").await;
    gate.reached().await;
    drop(reader);
    assert_eq!(world.agent_state().await["sessions"][0]["isStreaming"], true);
    gate.open();
    // Only now it may go.
    assert_eq!(lifecycle(&mut control).await, removed);
    assert_eq!(text_of(world.messages().await.last().unwrap()), "Done.");
}
