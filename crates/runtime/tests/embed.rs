//! The engine in a program of one's own, through its public API alone.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wolli_models::credentials::{CredentialMap, CredentialSource, Tier};
use wolli_models::event::ModelEvent;
use wolli_models::port::{Answer, ModelPort};
use wolli_models::request::ModelRequest;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::message::{JsonObject, Message, StopReason, UserContent, UserMessage};
use wolli_protocol::model::Model;
use wolli_runtime::embed::{Engine, EngineError, Session, Tools, Update};
use wolli_runtime::hub::View;
use wolli_runtime::limits::DEFERRED_ENTRIES;

mod support;

use support::{LIMIT, ended, until};

#[expect(dead_code, reason = "its main function is for people")]
#[path = "../examples/assistant.rs"]
mod assistant;

/// A model that gives what it was given, in order; nothing left means that it stays silent. Keeps the requests.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<Vec<Piece>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

enum Piece {
    Say(&'static str),
    Call(&'static str, JsonObject),
    /// Steps of a text, then silence.
    Hang(&'static str),
    /// The stream stops without an end.
    Stop,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Vec<Piece>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), requests: Mutex::default() })
    }

    fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl ModelPort for Scripted {
    fn models(&self) -> Vec<Model> {
        let named = |id: &str| Model { id: id.into(), name: id.into(), provider: "own".into(), api: "own".into(), ..Model::placeholder() };
        vec![named("one"), named("two")]
    }

    fn answer(&self, request: ModelRequest, _cancel: CancellationToken) -> BoxStream<'static, ModelEvent> {
        self.requests.lock().unwrap().push(request.clone());
        let Some(pieces) = self.answers.lock().unwrap().pop_front() else { return futures_util::stream::pending().boxed() };
        let mut answer = Answer::to(&request);
        let (mut hangs, mut stops) = (false, false);
        for (index, piece) in pieces.into_iter().enumerate() {
            answer = match piece {
                Piece::Say(text) => answer.text(text),
                Piece::Call(name, arguments) => answer.call(format!("call_{index}"), name, arguments),
                Piece::Hang(text) => {
                    hangs = true;
                    answer.text(text)
                }
                Piece::Stop => {
                    stops = true;
                    answer
                }
            };
        }
        let events = answer.into_stream();
        let steps =
            |events: BoxStream<'static, ModelEvent>| events.filter(|event| std::future::ready(!matches!(event, ModelEvent::End(_))));
        if hangs {
            steps(events).chain(futures_util::stream::pending()).boxed()
        } else if stops {
            steps(events).boxed()
        } else {
            events
        }
    }
}

async fn open(root: &Path, model: &Arc<Scripted>) -> Engine {
    Engine::builder(root, "own").models(Arc::clone(model) as Arc<dyn ModelPort>).open().await.unwrap()
}

fn texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User(user) => match &user.content {
            UserContent::Text(text) => format!("user: {text}"),
            UserContent::Blocks(blocks) => format!("user: {}", serde_json::to_value(&blocks[0]).unwrap()["text"].as_str().unwrap()),
        },
        Message::Assistant(answer) => {
            let first = answer.content.first().map(|block| serde_json::to_value(block).unwrap());
            let stop = serde_json::to_value(answer.stop_reason).unwrap();
            let said = first.as_ref().and_then(|block| block["text"].as_str()).unwrap_or("-");
            format!("assistant: {said} ({})", stop.as_str().unwrap())
        }
        other => serde_json::to_value(other).unwrap()["role"].as_str().unwrap().to_owned(),
    };
    messages.iter().map(text).collect()
}

#[tokio::test]
async fn the_example_does_what_it_says() {
    let root = tempfile::tempdir().unwrap();
    let lines = tokio::time::timeout(LIMIT, assistant::run(root.path())).await.unwrap().unwrap();
    assert_eq!(lines, ["clerk: Let me look.", "stock: 6 apples", "clerk: There are 6 apples."]);
}

#[tokio::test]
async fn what_the_program_brings_along_is_what_the_model_gets() {
    let root = tempfile::tempdir().unwrap();
    let model = Scripted::new([vec![Piece::Say("hello")]]);
    let engine = Engine::builder(root.path(), "own")
        .models(Arc::clone(&model) as Arc<dyn ModelPort>)
        .tools(Tools::Only(Vec::new()))
        .system_prompt(|parts| format!("{} has {} tools", parts.agent, parts.tools.names().count()))
        .open()
        .await
        .unwrap();
    // The program's own models come first.
    let models: Vec<String> = engine.models().iter().map(Model::reference).collect();
    assert_eq!(models, ["own/one", "own/two", "echo/demo"]);
    let session = engine.create_session().await.unwrap();
    let mut updates = session.subscribe(View::Delta).await.unwrap();
    session.follow_up("hi").await.unwrap();
    ended(&mut updates).await;
    let requests = model.requests();
    assert_eq!((requests.len(), requests[0].system.as_str(), requests[0].tools.len()), (1, "own has 0 tools", 0));
    assert_eq!(texts(&session.messages().await.unwrap()), ["user: hi", "assistant: hello (stop)"]);
    engine.close().await;
}

#[tokio::test]
async fn the_verbs_of_a_session() {
    let root = tempfile::tempdir().unwrap();
    let read = JsonObject::from_iter([("path".into(), json!("notes.txt"))]);
    let model = Scripted::new([
        vec![Piece::Call("read", read)],
        vec![Piece::Say("read it")],
        vec![Piece::Say("and steered")],
        vec![Piece::Say("and followed")],
    ]);
    let engine = open(root.path(), &model).await;
    std::fs::write(root.path().join("agents/own/notes.txt"), "buy apples").unwrap();
    let session = engine.create_session().await.unwrap();
    let mut updates = session.subscribe(View::Delta).await.unwrap();
    assert!(matches!(updates.next().await, Some(Update::Hello(hello)) if hello.state.session_id == *session.id()));
    assert_eq!(session.steer("too early").await.unwrap_err().to_string(), "Cannot steer while idle");

    session.follow_up("go").await.unwrap();
    // Registered before it was accepted.
    session.follow_up("then this").await.unwrap();
    session.steer("turn left").await.unwrap();
    session.wait_for_idle().await.unwrap();
    ended(&mut updates).await;
    let roles = texts(&session.messages().await.unwrap());
    assert_eq!(roles.first().unwrap(), "user: go");
    assert!(roles.contains(&"user: turn left".to_owned()) && roles.contains(&"user: then this".to_owned()), "{roles:?}");

    // When the steering came decides whether it had an answer of its own.
    *model.answers.lock().unwrap() = VecDeque::from([vec![Piece::Hang("so far")]]);
    session.set_model("own", "two").await.unwrap();
    session.follow_up("hang").await.unwrap();
    until(&mut updates, |event| matches!(event, SessionEvent::MessageUpdate { .. }).then_some(())).await;
    session.abort().await.unwrap();
    let last = session.messages().await.unwrap().pop().unwrap();
    let Message::Assistant(last) = last else { panic!("{last:?}") };
    assert_eq!((last.stop_reason, last.model.as_str(), last.content.len()), (StopReason::Aborted, "two", 1));
    assert!(!session.state().await.unwrap().is_streaming);

    let note = Message::User(UserMessage::new("by the way", Vec::new(), 1));
    session.append_message(&note).await.unwrap();
    assert_eq!(texts(&session.messages().await.unwrap()).last().unwrap(), "user: by the way");
    session.abort_compaction().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn a_history_is_compacted_when_the_program_says_so() {
    let root = tempfile::tempdir().unwrap();
    // Longer than what a compaction leaves alone.
    let long = "word ".repeat(30_000);
    let model = Scripted::new([vec![Piece::Say("yes")], vec![Piece::Say("fine")], vec![Piece::Say("what was said")]]);
    let engine = open(root.path(), &model).await;
    let session = engine.create_session().await.unwrap();
    assert_eq!(session.compact(None).await.unwrap_err().to_string(), "Nothing to compact");
    for prompt in ["one", &long] {
        session.follow_up(prompt).await.unwrap();
        session.wait_for_idle().await.unwrap();
    }
    let compacted = session.compact(Some("prices")).await.unwrap();
    assert!(compacted.summary.starts_with("what was said"), "{}", compacted.summary);
    let asked = serde_json::to_string(&*model.requests()[2].messages[0]).unwrap();
    assert!(asked.contains("prices"), "the model is told what to look at");
    assert!(matches!(session.messages().await.unwrap().first(), Some(Message::CompactionSummary(_))));
    engine.close().await;
}

#[tokio::test]
async fn a_session_is_there_again_after_the_engine_was_closed() {
    let root = tempfile::tempdir().unwrap();
    let model = Scripted::new([vec![Piece::Say("first")], vec![Piece::Say("second")]]);
    let engine = open(root.path(), &model).await;
    let session = engine.create_session().await.unwrap();
    session.follow_up("one").await.unwrap();
    session.wait_for_idle().await.unwrap();
    let id = session.id().clone();

    // Its home is held.
    let other = Engine::builder(root.path(), "own").open().await.unwrap_err();
    assert!(matches!(other, EngineError::Lock(_)), "{other}");
    let mut updates = session.subscribe(View::Delta).await.unwrap();
    engine.close().await;
    // The first thing is what it started with, then the end.
    assert!(matches!(updates.next().await, Some(Update::Hello(_))));
    assert!(tokio::time::timeout(LIMIT, updates.next()).await.unwrap().is_none());

    let engine = open(root.path(), &model).await;
    assert!(engine.sessions().await.unwrap().iter().any(|known| known.session_id == id));
    let session: Session = engine.open_session(&id).await.unwrap();
    session.follow_up("two").await.unwrap();
    session.wait_for_idle().await.unwrap();
    let all = ["user: one", "assistant: first (stop)", "user: two", "assistant: second (stop)"];
    assert_eq!(texts(&session.messages().await.unwrap()), all);
    assert_eq!(model.requests()[1].messages.len(), 3, "the history goes along");
    engine.close().await;
}

#[tokio::test]
async fn an_answer_that_stops_short_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let model = Scripted::new([vec![Piece::Say("half"), Piece::Stop]]);
    let engine = open(root.path(), &model).await;
    let session = engine.create_session().await.unwrap();
    session.follow_up("go").await.unwrap();
    session.wait_for_idle().await.unwrap();
    let Some(Message::Assistant(answer)) = session.messages().await.unwrap().pop() else { panic!("no answer") };
    assert_eq!((answer.stop_reason, answer.content.len()), (StopReason::Error, 1));
    assert_eq!(answer.error_message.as_deref(), Some("the model's answer stopped without an end"));
    engine.close().await;
}

/// Credentials of the program's own.
struct Vault(Arc<CredentialMap>);

impl CredentialSource for Vault {
    fn tier(&self, tier: Tier) -> Arc<CredentialMap> {
        if tier == Tier::Shared { Arc::clone(&self.0) } else { Arc::default() }
    }
}

#[tokio::test]
async fn credentials_come_from_the_program() {
    let root = tempfile::tempdir().unwrap();
    let stored = json!({"anthropic": {"type": "api_key", "key": "sk-of-the-vault"}});
    let (map, problems) = CredentialMap::from_json(stored.as_object().unwrap(), "vault");
    assert!(problems.is_empty(), "{problems:?}");
    let engine = Engine::builder(root.path(), "own").credentials(Arc::new(Vault(Arc::new(map)))).open().await.unwrap();
    let providers: Vec<String> = engine.models().into_iter().map(|model| model.provider).collect();
    assert!(providers.iter().all(|provider| provider == "anthropic" || provider == "echo"), "{providers:?}");
    assert!(providers.len() > 1);
    engine.close().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_named() {
    let root = tempfile::tempdir().unwrap();
    for (root, name, text) in [(root.path(), "../x", "Invalid agent name"), (Path::new("relative"), "own", "not an absolute path")] {
        let error = Engine::builder(root, name).open().await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn what_waits_for_the_end_of_a_turn_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    let engine = open(root.path(), &Scripted::new([])).await;
    let session = engine.create_session().await.unwrap();
    session.follow_up("think for ever").await.unwrap();
    let note = Message::User(UserMessage::new("a note", Vec::new(), 1));
    for _ in 0..DEFERRED_ENTRIES {
        session.append_message(&note).await.unwrap();
    }
    let refused = session.append_message(&note).await.unwrap_err().to_string();
    assert_eq!(refused, "64 changes of the session wait for the end of the turn already; try again when it is over");
    session.abort().await.unwrap();
    session.append_message(&note).await.unwrap();
    let notes = session.messages().await.unwrap().into_iter().filter(|message| *message == note).count();
    assert_eq!(notes, DEFERRED_ENTRIES + 1);
    engine.close().await;
}
