//! The typed client over a network that cuts, stalls and goes silent, to a daemon that is killed and started again: its subscriber sees
//! every message that ends once and in order, prompts with a key are carried out once, handles stay usable, and nothing is left of them.
//!
//! Each story is one seed; `WOLLI_SEED` tells one of them again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wolli_client::{Agent, ClientError, LinkState, Notice, Prompt, SessionHandle, Subscription, Wolli};
use wolli_home::environment::Environment;
use wolli_protocol::event::SessionEvent;
use wolli_testkit::process::{eventually, holds_connection};
use wolli_testkit::provider::{Answer, Kind, RecordedRequest};
use wolli_testkit::proxy::{FaultProxy, Plan};

use crate::support::{Dice, World, count, texts_of};

/// What the client takes for a dead connection. Far below what a person's client has, so that stalls are told apart within the test.
const PATIENCE: Duration = Duration::from_millis(700);

/// How long the client may need for what is left once the network is whole: a silence, and the longest wait between two attempts.
const HEALING: Duration = Duration::from_secs(30);

/// Talks in many deltas, and every other time calls a tool that takes a moment.
fn answer(request: &RecordedRequest) -> Answer {
    let after_tool =
        request.messages().last().is_some_and(|message| message["role"] == "tool" || message["content"][0]["type"] == "tool_result");
    let words: String = (0..30 + request.number % 20).map(|word| format!("w{word} ")).collect();
    let answer = Answer::new().text(&words);
    let answer = if request.number.is_multiple_of(2) && !after_tool {
        answer.tool_call("c1", "bash", &json!({"command": "for i in 1 2 3 4; do echo line $i; sleep 0.03; done"}))
    } else {
        answer
    };
    answer.pace(Duration::from_micros(300 * (request.number as u64 % 4)))
}

/// What the subscriber saw: entries of messages that ended, with the message.
#[derive(Clone)]
struct Seen(watch::Sender<Vec<(Value, Value)>>);

impl Seen {
    /// Looks at every notice until the stream has ended for good.
    async fn watch(self, mut notices: Subscription, rebuilt: Arc<Mutex<usize>>) {
        while let Some(notice) = notices.next().await {
            match notice {
                Notice::Event { event, .. } => {
                    if let SessionEvent::MessageEnd { message, entry_id } = &*event {
                        self.0.send_modify(|seen| seen.push((json!(entry_id), json!(message))));
                    }
                }
                Notice::Rebuilt => *rebuilt.lock().unwrap() += 1,
                Notice::Missed(count) => panic!("the subscriber was told that it missed {count}"),
                Notice::Unknown { data, .. } => panic!("a frame is unknown: {data}"),
            }
        }
    }
}

/// The client's side: a root of its own, in which the agent's port is that of the proxy, and no Unix socket.
struct Client {
    agent: Agent,
    session: SessionHandle,
    seen: Seen,
    rebuilt: Arc<Mutex<usize>>,
    watching: JoinSet<()>,
}

impl Client {
    async fn open(world: &World, proxy: &FaultProxy) -> Self {
        let root = world.home.folder().join("client");
        let home = root.join("agents/a");
        std::fs::create_dir_all(&home).unwrap();
        let mut file: Value = serde_json::from_slice(&std::fs::read(world.agent.home.join("agent.json")).unwrap()).unwrap();
        file["port"] = json!(proxy.address().port());
        std::fs::write(home.join("agent.json"), file.to_string()).unwrap();
        let variables = [("HOME", world.home.folder().to_owned()), ("WOLLI_HOME", root.clone()), ("XDG_RUNTIME_DIR", root.clone())];
        let environment = Environment::new(variables, &root);
        let wolli = Wolli::with_program(environment, None).unwrap().with_silence_limit(PATIENCE);
        let agent = wolli.get("a").unwrap().unwrap();
        agent.connect().await.unwrap();
        let session = agent.session(&world.session.as_str().into()).await.unwrap();
        let (seen, rebuilt) = (Seen(watch::Sender::new(Vec::new())), Arc::default());
        let mut watching = JoinSet::new();
        watching.spawn(seen.clone().watch(session.subscribe(), Arc::clone(&rebuilt)));
        Self { agent, session, seen, rebuilt, watching }
    }

    /// Does it again until there is an answer. What is not an answer is one of the errors that a network makes.
    async fn insist<T>(&self, what: &str, call: impl AsyncFn(&SessionHandle) -> Result<T, ClientError>) -> T {
        let started = Instant::now();
        loop {
            match call(&self.session).await {
                Ok(value) => return value,
                Err(ClientError::Unreachable { .. } | ClientError::Interrupted { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            assert!(started.elapsed() < 2 * HEALING, "{what} has no answer");
        }
    }
}

/// A connection to come that goes wrong somewhere.
fn bad_connection(dice: &mut Dice) -> Plan {
    let place = match dice.range(0, 3) {
        0 => dice.range(0, 800),
        1 => dice.range(500, 3_000),
        _ => dice.range(1_000, 12_000),
    };
    let mut plan = Plan { reset: dice.one_in(3), piece: dice.one_in(4).then_some(7), ..Plan::default() };
    match dice.range(0, 5) {
        0 => plan.cut_request_after = Some(dice.range(0, 700)),
        // What is written still arrives, and nothing ever comes back.
        1 => plan.stall_after = Some(place),
        _ => plan.cut_after = Some(place),
    }
    plan
}

/// Something breaks, at some moment of the run.
async fn misfortune(world: &mut World, proxy: &FaultProxy, client: &Client, dice: &mut Dice) {
    for _ in 0..dice.range(0, 6) {
        proxy.plan(bad_connection(dice));
    }
    // Not a wait for something: any moment will do.
    tokio::time::sleep(Duration::from_millis(dice.range(0, 120))).await;
    match dice.range(0, 6) {
        0 => {
            // Nothing passes, in either direction, until the client has lost its patience.
            proxy.freeze(true);
            let mut link = client.session.watch_link();
            let lost = link.wait_for(|link| matches!(link, LinkState::Waiting { .. } | LinkState::Connecting));
            tokio::time::timeout(HEALING, lost).await.unwrap().unwrap();
            proxy.freeze(false);
        }
        1 | 2 => {
            // Nobody is there for a while, and the network breaks too.
            world.daemon.kill().unwrap();
            if dice.one_in(2) {
                proxy.cut_all();
            }
            world.start().await;
        }
        3 => world.restart().await,
        _ => {
            for _ in 0..dice.range(1, 4) {
                proxy.cut_all();
                tokio::time::sleep(Duration::from_millis(dice.range(0, 60))).await;
            }
        }
    }
}

/// Messages of the session's file, with their entries.
async fn stored(world: &World) -> Vec<(Value, Value)> {
    let lines = world.lines().await.into_iter().filter(|line| line["type"] == "message");
    lines.map(|line| (line["id"].clone(), line["message"].clone())).collect()
}

async fn story(seed: u64, rounds: usize) -> usize {
    let mut dice = Dice::new(seed);
    let mut world = World::scripted(if seed.is_multiple_of(2) { Kind::Anthropic } else { Kind::OpenAi }).await;
    world.provider.respond_with(answer);
    // Some clients come to a session that has a past. It is not told.
    if dice.one_in(2) {
        world.prompt("before anybody came").await;
        world.idle().await;
    }
    let past = stored(&world).await.len();
    let proxy = FaultProxy::start(world.agent.address());
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let client = Client::open(&world, &proxy).await;

    for round in 0..rounds {
        let text = format!("prompt {round} of story {seed}");
        let prompt = || Prompt::from(text.as_str()).or_follow_up().key(text.clone());
        let asked = client.insist("the prompt", async |session| session.prompt(prompt()).await);
        tokio::join!(asked, misfortune(&mut world, &proxy, &client, &mut dice));
        client.insist("the end of the run", async |session| session.wait_for_idle().await).await;
        if dice.one_in(3) {
            client.insist("a repeat", async |session| session.prompt(prompt()).await).await;
        }
    }

    // The network is whole again. What the client does not know yet comes by itself.
    proxy.heal();
    world.idle().await;
    let mut wanted = stored(&world).await;
    let told = wanted.split_off(past);
    let mut seen = client.seen.0.subscribe();
    let all = tokio::time::timeout(HEALING, seen.wait_for(|seen| seen.len() >= told.len())).await.is_ok();
    let seen = client.seen.0.borrow().clone();
    let order = |messages: &[(Value, Value)]| messages.iter().map(|(id, message)| format!("{id} {}", message["role"])).collect::<Vec<_>>();
    assert_eq!(order(&seen), order(&told), "story {seed} (all came: {all})");
    assert_eq!(seen, told, "story {seed}");
    assert_eq!(seen.iter().map(|(id, _)| id.to_string()).collect::<HashSet<_>>().len(), seen.len(), "story {seed}");
    let messages: Vec<Value> = told.iter().map(|(_, message)| message.clone()).collect();
    let prompts: Vec<String> = (0..rounds).map(|round| format!("prompt {round} of story {seed}")).collect();
    assert_eq!(texts_of(&messages, "user"), prompts, "story {seed}: every prompt once");
    // A gap before any message ended makes the view whole from the session's beginning on.
    let view =
        client.session.read(|view| view.transcript.iter().map(|item| (json!(item.entry_id), json!(item.message))).collect::<Vec<_>>());
    let view = view.unwrap();
    let whole = [wanted, told].concat();
    assert!(view == whole || view == whole[past..], "story {seed}: the view is {:?}", order(&view));
    assert!(!client.session.get_state().await.unwrap().is_streaming, "story {seed}");

    // Nothing is left: no task, no connection.
    let rebuilt = *client.rebuilt.lock().unwrap();
    let Client { agent, session, mut watching, .. } = client;
    drop((session, agent));
    while let Some(ended) = watching.join_next().await {
        ended.unwrap();
    }
    let handle = tokio::runtime::Handle::current();
    let gone = || {
        let open = holds_connection(std::process::id(), proxy.address()).unwrap();
        (handle.metrics().num_alive_tasks() <= tasks && !open).then_some(())
    };
    eventually("the end of the client", HEALING, gone).await.unwrap();
    eprintln!("story {seed}: {} messages, {rebuilt} rebuilt, {:?}", seen.len(), proxy.connections());
    rebuilt
}

#[tokio::test]
async fn a_subscriber_sees_every_ended_message_once_in_order() {
    let mut rebuilt = 0;
    let chosen = std::env::var("WOLLI_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = chosen.map_or(1..=count(4, 60) as u64, |seed| seed..=seed);
    for seed in seeds {
        rebuilt += story(seed, count(5, 10)).await;
    }
    assert!(rebuilt > 0, "no story had a gap");
}
