//! Whole runs with the built-in `echo` model, through the public API only.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use wolli_home::agent::{self, NewAgent};
use wolli_home::config::Config;
use wolli_home::environment::Environment;
use wolli_home::paths::{Root, SharedFolder};
use wolli_protocol::ids::SessionId;
use wolli_protocol::sse;
use wolli_runtime::hub::Attach;
use wolli_runtime::runtime::{AttachedSession, Inputs, Runtime};
use wolli_runtime::session::{NewPrompt, SubmitBehavior, read_messages};

struct Agent {
    folder: tempfile::TempDir,
    runtime: Runtime,
    session: SessionId,
}

async fn open(folder: &Path) -> Runtime {
    open_with(folder, Config::default()).await
}

async fn open_with(folder: &Path, config: Config) -> Runtime {
    let root = Root::new(folder);
    let listing = agent::list(&root).unwrap();
    let (home, loaded) = match listing.agents.into_iter().next() {
        Some(found) => found,
        None => {
            let new = NewAgent { name: "demo".parse().unwrap(), model: Some("echo/demo".into()) };
            agent::create(&root, new, SystemTime::now()).unwrap()
        }
    };
    let environment = Environment::new([("HOME", folder.to_str().unwrap()), ("PATH", "/usr/bin:/bin")], folder);
    Runtime::open(Inputs {
        root,
        shared: SharedFolder::new(folder.join("shared")),
        home,
        agent: loaded,
        environment,
        config,
        config_files: Vec::new(),
        diagnostics: Vec::new(),
        ports: wolli_runtime::embed::Ports::default(),
    })
    .await
    .unwrap()
}

impl Agent {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = open(folder.path()).await;
        let session = runtime.agent_state().await.unwrap().sessions[0].session_id.clone();
        Self { folder, runtime, session }
    }

    async fn attach(&self) -> AttachedSession {
        self.runtime.attach(&self.session, &Attach::default(), None).await.unwrap()
    }

    async fn prompt(&self, text: &str) {
        self.prompt_with(NewPrompt { text: text.into(), ..NewPrompt::default() }).await;
    }

    async fn prompt_with(&self, prompt: NewPrompt) {
        self.runtime
            .with_session(&self.session, |session| {
                let prompt = prompt.clone();
                async move { session.prompt(prompt).await }
            })
            .await
            .unwrap();
    }

    async fn idle(&self) {
        self.runtime.with_session(&self.session, |session| async move { session.wait_for_idle().await }).await.unwrap();
    }

    async fn roles(&self) -> Vec<String> {
        let session = self.runtime.session(&self.session).await.unwrap();
        let messages = read_messages(session.path()).unwrap();
        messages.iter().map(|message| serde_json::from_str::<Value>(message.get()).unwrap()["role"].as_str().unwrap().to_owned()).collect()
    }
}

/// Events up to and including the `count`-th `agent_end`.
async fn events_until_end(attached: &mut AttachedSession, mut count: usize) -> Vec<Value> {
    let mut decoder = sse::Decoder::new(64 << 20);
    let mut events = Vec::new();
    let messages = attached.session.messages().clone();
    while count > 0 {
        let batch = tokio::time::timeout(Duration::from_secs(20), attached.cursor.next(&messages)).await.expect("frames come").unwrap();
        decoder.feed(&batch);
        for event in &mut decoder {
            let event: Value = serde_json::from_str(&event.unwrap().data).unwrap();
            if event["type"] == "agent_end" {
                count -= 1;
            }
            events.push(event);
        }
    }
    events
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

#[tokio::test]
async fn a_prompt_runs_to_its_end() {
    let agent = Agent::new().await;
    let mut attached = agent.attach().await;
    agent.prompt("hello there").await;
    let events = events_until_end(&mut attached, 1).await;
    assert_eq!(
        types(&events),
        [
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_update",
            "message_end",
            "turn_end",
            "agent_end"
        ]
    );
    assert_eq!(agent.roles().await, ["user", "assistant"]);
    let state = agent.runtime.session(&agent.session).await.unwrap().hub().state();
    assert_eq!((state.message_count, state.is_streaming), (2, false));
}

#[tokio::test]
async fn a_tool_call_reads_a_real_file() {
    let agent = Agent::new().await;
    let home = agent.folder.path().join("agents/demo");
    std::fs::write(home.join("a.txt"), "content of the file\n").unwrap();
    let mut attached = agent.attach().await;
    agent.prompt(r#"!tool read {"path":"a.txt"}"#).await;
    let events = events_until_end(&mut attached, 1).await;
    let end = events.iter().find(|event| event["type"] == "tool_execution_end").expect("the tool ran");
    assert_eq!(end["result"]["content"][0]["text"], "content of the file\n");
    assert_eq!(agent.roles().await, ["user", "assistant", "toolResult", "assistant"]);
}

#[tokio::test]
async fn messages_sent_during_a_run_are_delivered_in_it() {
    let agent = Agent::new().await;
    let mut attached = agent.attach().await;
    agent.prompt("!sleep 20\none two three four five six seven eight nine ten").await;
    for (text, behavior) in [("follow", SubmitBehavior::FollowUp), ("steer", SubmitBehavior::Steer)] {
        agent.prompt_with(NewPrompt { text: text.into(), behavior: Some(behavior), ..NewPrompt::default() }).await;
    }
    let refused = agent
        .runtime
        .with_session(&agent.session, |session| async move { session.prompt(NewPrompt { text: "x".into(), ..NewPrompt::default() }).await })
        .await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
    );
    let events = events_until_end(&mut attached, 1).await;
    let users: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "message_end" && event["message"]["role"] == "user")
        .map(|event| event["message"]["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(users[1..], ["steer", "follow"]);
    assert_eq!(agent.roles().await, ["user", "assistant", "user", "assistant", "user", "assistant"]);
}

#[tokio::test]
async fn an_abort_keeps_what_was_said() {
    let agent = Agent::new().await;
    let mut attached = agent.attach().await;
    agent.prompt("!sleep 10000\none two three").await;
    agent.prompt_with(NewPrompt { text: "later".into(), behavior: Some(SubmitBehavior::FollowUp), ..NewPrompt::default() }).await;
    let cleared = agent.runtime.with_session(&agent.session, |session| async move { session.abort().await }).await.unwrap();
    assert_eq!(cleared.follow_up.len(), 1);
    let events = events_until_end(&mut attached, 1).await;
    let last = events.iter().rev().find(|event| event["type"] == "message_end").unwrap();
    assert_eq!(last["message"]["stopReason"], "aborted");
    assert_eq!(last["message"]["errorMessage"], "Request was aborted");
    agent.idle().await;
}

#[tokio::test]
async fn a_repeated_key_starts_nothing_also_after_a_restart() {
    let agent = Agent::new().await;
    let keyed = NewPrompt { text: "once".into(), idempotency_key: Some("k1".into()), ..NewPrompt::default() };
    agent.prompt_with(keyed.clone()).await;
    agent.prompt_with(keyed.clone()).await;
    agent.idle().await;
    agent.prompt_with(keyed.clone()).await;
    agent.idle().await;
    assert_eq!(agent.roles().await, ["user", "assistant"]);
    agent.runtime.shutdown(Duration::from_secs(5)).await;

    let runtime = open(agent.folder.path()).await;
    let agent = Agent { runtime, ..agent };
    agent.prompt_with(keyed).await;
    agent.idle().await;
    assert_eq!(agent.roles().await, ["user", "assistant"]);
}

#[tokio::test]
async fn leaving_evicts_and_numbers_go_on() {
    let agent = Agent::new().await;
    let mut attached = agent.attach().await;
    agent.prompt("hello").await;
    let events = events_until_end(&mut attached, 1).await;
    let last = attached.session.hub().last_id();
    assert_eq!(last.0 as usize, events.len());
    let session = attached.session.clone();
    drop(attached);
    tokio::time::timeout(Duration::from_secs(5), session.ended()).await.expect("the session leaves memory");
    assert!(!agent.runtime.agent_state().await.unwrap().sessions[0].live);

    let attach = Attach { last_event_id: Some("3".into()), ..Attach::default() };
    let mut again = agent.runtime.attach(&agent.session, &attach, None).await.unwrap();
    let replayed = events_until_end(&mut again, 1).await;
    assert_eq!(replayed, events[3..]);

    agent.runtime.shutdown(Duration::from_secs(5)).await;
    let runtime = open(agent.folder.path()).await;
    let attach = Attach { last_event_id: Some(last.to_string()), ..Attach::default() };
    let attached = runtime.attach(&agent.session, &attach, None).await.unwrap();
    let hello = String::from_utf8(attached.hello.to_vec()).unwrap();
    assert!(hello.contains(r#""stream":{"firstId":4294967297,"lastId":4294967296,"resumed":false,"gap":true}"#), "{hello}");
}

#[tokio::test]
async fn a_session_that_nobody_attached_to_leaves_a_minute_after_its_last_command() {
    let agent = Agent::new().await;
    let session = agent.runtime.session(&agent.session).await.unwrap();
    tokio::time::pause();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(50)).await;
        agent.runtime.with_session(&agent.session, |session| async move { session.wait_for_idle().await }).await.unwrap();
        assert!(!session.is_closed());
    }
    let started = tokio::time::Instant::now();
    tokio::time::timeout(Duration::from_secs(600), session.ended()).await.expect("the session leaves memory");
    let waited = started.elapsed().as_secs();
    assert!((59..=61).contains(&waited), "it left after {waited} s");
    tokio::time::resume();
    assert!(!agent.runtime.agent_state().await.unwrap().sessions[0].live);
    // A command brings it back.
    agent.prompt("hello").await;
    assert!(agent.runtime.agent_state().await.unwrap().sessions[0].live);
}

#[tokio::test]
async fn an_attach_after_an_entry_brings_what_followed() {
    let agent = Agent::new().await;
    let mut attached = agent.attach().await;
    agent.prompt("hello").await;
    let events = events_until_end(&mut attached, 1).await;
    let first = events.iter().find(|event| event["type"] == "message_end").unwrap()["entryId"].as_str().unwrap().to_owned();
    let again = agent.runtime.attach(&agent.session, &Attach::default(), Some(first.as_str().into())).await.unwrap();
    let hello = String::from_utf8(again.hello.to_vec()).unwrap();
    let hello: Value = serde_json::from_str(hello.strip_prefix("event: hello\ndata: ").unwrap().trim_end()).unwrap();
    assert_eq!(hello["entries"].as_array().unwrap().len(), 1);
    assert_eq!(hello["entries"][0]["message"]["role"], "assistant");
    assert!(agent.runtime.attach(&agent.session, &Attach::default(), Some("nope".into())).await.is_err());
}

#[tokio::test]
async fn forming_agents_have_one_session_until_they_deploy() {
    let agent = Agent::new().await;
    let error = agent.runtime.create_session().await.unwrap_err().to_string();
    assert_eq!(error, "This agent is still forming — it stays in its birth session until it deploys.");
    assert!(agent.runtime.tools().iter().any(|tool| tool.name == "deploy"));
    let fresh = agent.runtime.deploy().await.unwrap();
    let state = agent.runtime.agent_state().await.unwrap();
    assert!(state.config["deployedAt"].is_string());
    assert_eq!(&state.sessions[0].session_id, fresh.id());
    assert!(!agent.runtime.tools().iter().any(|tool| tool.name == "deploy"));
    agent.runtime.create_session().await.unwrap();
    assert_eq!(agent.runtime.agent_state().await.unwrap().sessions.len(), 3);
}

#[tokio::test]
async fn many_prompts_at_once_start_one_run() {
    let agent = Arc::new(Agent::new().await);
    let attempts = (0..10).map(|index| {
        let agent = Arc::clone(&agent);
        async move {
            agent
                .runtime
                .with_session(&agent.session, |session| async move {
                    session.prompt(NewPrompt { text: format!("p{index}"), ..NewPrompt::default() }).await
                })
                .await
                .is_ok()
        }
    });
    let accepted = futures_util::future::join_all(attempts).await.into_iter().filter(|accepted| *accepted).count();
    agent.idle().await;
    let users = agent.roles().await.iter().filter(|role| *role == "user").count();
    assert_eq!(users, accepted);
    assert!(accepted >= 1);
}

#[tokio::test]
async fn a_session_that_was_cut_off_says_so_and_goes_on() {
    let agent = Agent::new().await;
    agent.prompt("hello").await;
    agent.idle().await;
    let path = agent.runtime.session(&agent.session).await.unwrap().path().clone();
    agent.runtime.shutdown(Duration::from_secs(5)).await;
    // The process died before the answer: its line is not there.
    let text = std::fs::read_to_string(&path).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&path, &text[..cut]).unwrap();

    let runtime = open(agent.folder.path()).await;
    let agent = Agent { runtime, ..agent };
    let hello = agent.attach().await.hello;
    assert!(String::from_utf8_lossy(&hello).contains(r#""waiting":{"kind":"resume""#));
    assert_eq!(agent.roles().await, ["user"]);
    agent.runtime.shutdown(Duration::from_secs(5)).await;

    let config = Config { resume: wolli_home::config::Resume { auto: true }, ..Config::default() };
    let runtime = open_with(agent.folder.path(), config).await;
    let agent = Agent { runtime, ..agent };
    // Opening it is what lets it go on, whoever comes first.
    agent.idle().await;
    assert_eq!(agent.roles().await, ["user", "assistant"]);
}

#[tokio::test]
async fn a_late_reader_is_told_what_is_queued() {
    let agent = Agent::new().await;
    agent.prompt("!sleep 10000\none two").await;
    agent.prompt_with(NewPrompt { text: "later".into(), behavior: Some(SubmitBehavior::FollowUp), ..NewPrompt::default() }).await;
    let hello = String::from_utf8(agent.attach().await.hello.to_vec()).unwrap();
    let hello: Value = serde_json::from_str(hello.strip_prefix("event: hello\ndata: ").unwrap().trim_end()).unwrap();
    assert_eq!(hello["pendingMessageCount"], 1);
    assert_eq!(hello["queues"]["followUp"][0]["role"], "user");
    assert_eq!(hello["queues"]["followUp"][0]["content"][0]["text"], "later");
    // The queue survives the process; the run that was cut off does not go on by itself.
    agent.runtime.shutdown(Duration::from_secs(5)).await;
    let runtime = open(agent.folder.path()).await;
    let agent = Agent { runtime, ..agent };
    let hello = String::from_utf8(agent.attach().await.hello.to_vec()).unwrap();
    assert!(hello.contains(r#""queues":{"steer":[],"followUp":[{"role":"user""#), "{hello}");
    assert!(hello.contains(r#""waiting":{"kind":"resume""#), "{hello}");
}
