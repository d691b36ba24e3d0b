//! View `snapshot`, and what models used, with the real program.

use std::time::Duration;

use serde_json::{Value, json};
use wolli_protocol::ids::FrameId;
use wolli_protocol::snapshot::{Phase, SnapshotView, Taken};
use wolli_testkit::http::{Client, EventStream};
use wolli_testkit::provider::{Answer, Gate, Kind, TokenCount};
use wolli_testkit::proxy::{FaultProxy, Plan};

use crate::support::{Dice, World, count};

/// A client of view `snapshot`.
struct Follower {
    view: SnapshotView,
    stream: EventStream,
    path: String,
    /// `stream.resumed` of the last `hello`.
    resumed: bool,
    bytes: usize,
    last: u64,
}

impl Follower {
    async fn attach(client: &Client, session: &str) -> Self {
        let path = format!("/sessions/{session}/events?view=snapshot");
        let stream = client.events(&path, &[]).await.unwrap();
        let mut follower = Self { view: SnapshotView::new(), stream, path, resumed: false, bytes: 0, last: 0 };
        assert!(follower.step().await);
        follower
    }

    async fn resume(&mut self, client: &Client) -> anyhow::Result<()> {
        let last = self.view.resume_id().map(|id| id.to_string());
        let headers: Vec<_> = last.iter().map(|id| ("Last-Event-ID", id.as_str())).collect();
        self.stream = client.events(&self.path, &headers).await?;
        Ok(())
    }

    /// Takes in one frame; false when the connection is over.
    async fn step(&mut self) -> bool {
        let Ok(Some(event)) = self.stream.next_within(Duration::from_secs(20)).await else { return false };
        if event.name == "hello" {
            let hello: wolli_protocol::state::Hello = serde_json::from_str(&event.data).unwrap();
            assert!(hello.in_flight.is_none());
            self.resumed = hello.stream.unwrap().resumed;
            self.view.begin(hello.stream);
            return true;
        }
        self.bytes += event.data.len();
        assert_eq!(self.view.apply_frame(&event).unwrap(), Taken::Changed, "{}", event.data);
        let id = FrameId::parse(event.id.as_deref().unwrap()).unwrap().0;
        assert!(id >= self.last, "{id} after {}", self.last);
        self.last = id;
        true
    }

    async fn until(&mut self, wanted: impl Fn(&SnapshotView) -> bool) {
        while !wanted(&self.view) {
            assert!(self.step().await, "the stream ended at {:?}", self.view.snapshot());
        }
    }
}

fn is_done_with(view: &SnapshotView, prompt: &str) -> bool {
    view.snapshot().phase == Phase::Done && view.snapshot().prompt.as_deref() == Some(prompt)
}

#[tokio::test]
async fn a_run_is_one_snapshot() {
    let world = World::scripted(Kind::Anthropic).await;
    world.provider.respond_with(|request| {
        let called = request.messages().last().is_some_and(|message| message["content"][0]["type"] == "tool_result");
        if called {
            Answer::new().text("Two lines.")
        } else {
            Answer::new().text("Let me look.").tool_call("c1", "bash", &json!({"command": "echo one; echo two"}))
        }
    });
    let mut follower = Follower::attach(&world.client(), &world.session).await;
    world.prompt("Look.").await;
    follower.until(|view| is_done_with(view, "Look.")).await;
    let snapshot = serde_json::to_value(follower.view.snapshot()).unwrap();
    let entries = world.entries().await;
    let prompt = entries.iter().find(|entry| entry["message"]["role"] == "user").unwrap();
    for (key, value) in [
        ("taskId", prompt["id"].clone()),
        ("sessionId", json!(world.session)),
        ("agent", json!("wolli")),
        ("model", json!("scripted/scripted-1")),
        ("text", json!("Let me look.\n\nTwo lines.")),
        ("activity", json!("Run shell: echo one; echo two -> one")),
        ("incomplete", json!(false)),
        (
            "toolCalls",
            json!([{"id": "c1", "name": "bash", "summary": "Run shell: echo one; echo two", "input": "echo one; echo two",
                    "result": "one\ntwo", "status": "done"}]),
        ),
    ] {
        assert_eq!(snapshot[key], value, "{key} of {snapshot}");
    }
    assert!(snapshot["startedAt"].as_i64() <= snapshot["updatedAt"].as_i64());
    // One that comes later has the same.
    let mut late = Follower::attach(&world.client(), &world.session).await;
    late.until(|view| is_done_with(view, "Look.")).await;
    assert_eq!(late.view.snapshot(), follower.view.snapshot());
}

#[tokio::test]
async fn cuts_change_nothing() {
    let world = World::scripted(Kind::OpenAi).await;
    world.provider.respond_with(|request| {
        let words: String = (0..120).map(|word| format!("r{}w{word} ", request.number)).collect();
        let answer = Answer::new().text(&words).pace(Duration::from_millis(1));
        let called = request.messages().last().is_some_and(|message| message["role"] == "tool");
        if called { answer } else { answer.tool_call(&format!("c{}", request.number), "ls", &json!({})) }
    });
    let proxy = FaultProxy::start(world.agent.address());
    let mut client = world.client();
    client.address = proxy.address();
    let mut uncut = Follower::attach(&world.client(), &world.session).await;
    let mut cut = Follower::attach(&client, &world.session).await;
    let mut dice = Dice::new(11);
    let (mut cuts, mut resumed) = (0, 0);
    for round in 0..count(6, 200) {
        let prompt = format!("Round {round}");
        world.prompt(&prompt).await;
        while !is_done_with(&cut.view, &prompt) {
            if dice.range(0, 3) == 0 || !cut.step().await {
                cuts += 1;
                proxy.cut_all();
                proxy.plan(Plan { cut_after: Some(dice.range(600, 6_000)), ..Plan::default() });
                while cut.resume(&client).await.is_err() {
                    proxy.plan(Plan::default());
                }
                resumed += usize::from(cut.step().await && cut.resumed);
            }
        }
        uncut.until(|view| is_done_with(view, &prompt)).await;
        assert_eq!(cut.view.snapshot(), uncut.view.snapshot(), "round {round} after {cuts} cuts");
    }
    assert!(cuts > 10 && resumed > 0, "{cuts} cuts, {resumed} resumed");
}

#[tokio::test]
async fn bytes_follow_the_length_of_the_reply() {
    let world = World::scripted(Kind::Anthropic).await;
    let mut follower = Follower::attach(&world.client(), &world.session).await;
    for deltas in [500, 5_000] {
        let words: String = (0..deltas).map(|_| "token ").collect();
        world.provider.respond_with(move |_| Answer::new().text(&words));
        follower.bytes = 0;
        let prompt = format!("Say {deltas}.");
        world.prompt(&prompt).await;
        follower.until(|view| is_done_with(view, &prompt)).await;
        assert_eq!(follower.view.snapshot().text.as_ref().unwrap().len(), deltas * 6);
        // The text once, and some frames around it, however many deltas there were.
        assert!(follower.bytes < deltas * 6 * 2 + 20_000, "{} bytes for {deltas} words", follower.bytes);
    }
}

/// The sum of what the answers in the session's file used.
fn in_file(lines: &[Value], field: &str) -> u64 {
    lines.iter().filter_map(|line| line["message"]["usage"][field].as_u64()).sum()
}

#[tokio::test]
async fn what_was_used_is_counted_once_over_kills() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let gate = Gate::new();
    world.provider.respond_with({
        let gate = gate.clone();
        move |request| {
            let number = request.number as u64;
            let tokens = TokenCount { input: 100 + number, output: 1 + number, ..TokenCount::default() };
            let answer = Answer::new().text(&"yes and ".repeat(20)).usage(tokens);
            // This one is still being given when the daemon is killed.
            if request.last_user_text() == "And now?" { answer.hold_before(10, &gate) } else { answer }
        }
    });
    let mut notices = world.reader("?include=usage").await;
    assert_eq!(notices.hello["usage"]["total"]["input"], 0, "{}", notices.hello);
    for round in 0..count(3, 20) {
        for _ in 0..2 {
            world.prompt("Is it?").await;
            let notice = notices.until_type("usage").await;
            assert_eq!(notice["model"], "scripted/scripted-1");
            assert_eq!(notice["session"], notice["total"], "{notice}");
            notices.until_type("agent_end").await;
        }
        world.prompt("And now?").await;
        notices.until(|frame| frame["assistantMessageEvent"]["type"] == "text_delta").await.unwrap();
        world.daemon.kill().unwrap();
        world.start().await;
        let lines = world.lines().await;
        let used = world.succeed(json!({"type": "get_usage"})).await;
        for field in ["input", "output", "totalTokens"] {
            assert_eq!(used["total"][field], in_file(&lines, field), "round {round}: {field} of {used}");
            assert_eq!(used["session"][field], used["today"][field], "round {round}: {used}");
        }
        notices = world.reader("?include=usage").await;
        assert_eq!(notices.hello["usage"], used);
    }
    // Without the record the answers in the sessions are counted.
    let used = world.succeed(json!({"type": "get_usage"})).await;
    drop(notices);
    world.daemon.terminate().await.unwrap();
    std::fs::remove_file(world.agent.home.join("usage.jsonl")).unwrap();
    world.start().await;
    assert_eq!(world.succeed(json!({"type": "get_usage"})).await, used);
}
