//! Questions of a tool in a real run, through the public API alone.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wolli_protocol::dialog::{DialogAnswer, DialogMethod, DialogRequest, NotifyType};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::message::{JsonObject, Message};
use wolli_runtime::dialogs::Patience;
use wolli_runtime::embed::{Engine, Session, Subscription, Tools};
use wolli_runtime::hub::View;
use wolli_runtime::tools::{Execution, Tool, ToolContext, ToolFuture, ToolOutput, ToolSpec};

mod support;

use support::{LIMIT, ended, until};

/// A tool that asks before it does something, or panics while it asks.
struct Careful(ToolSpec);

impl Careful {
    fn tool(name: &str) -> Arc<dyn Tool> {
        Arc::new(Self(ToolSpec {
            name: name.into(),
            label: name.into(),
            description: "Asks first.".into(),
            parameters: json!({"type": "object", "properties": {}}),
            snippet: "ask first".into(),
            guidelines: Vec::new(),
            execution: Execution::Parallel,
        }))
    }
}

impl Tool for Careful {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            context.dialogs.notify("about to begin", NotifyType::Info);
            let mut question = std::pin::pin!(context.dialogs.confirm("Begin?", "It takes a while.", Patience::default()));
            if self.0.name == "clumsy" {
                let _ = tokio::time::timeout(Duration::from_millis(1), question.as_mut()).await;
                panic!("while a question was open");
            }
            Ok(ToolOutput::text(if question.await { "begun" } else { "left alone" }))
        })
    }
}

struct Agent {
    _root: tempfile::TempDir,
    engine: Engine,
    session: Session,
}

impl Agent {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let tools = Tools::Only(vec![Careful::tool("careful"), Careful::tool("clumsy")]);
        let engine = Engine::builder(root.path(), "own").model("echo/demo").tools(tools).open().await.unwrap();
        let session = engine.create_session().await.unwrap();
        Self { _root: root, engine, session }
    }

    async fn open_dialogs(&self) -> usize {
        self.engine.runtime().session(self.session.id()).await.unwrap().hub().dialogs().len()
    }

    async fn said(&self) -> String {
        match self.session.messages().await.unwrap().into_iter().rev().find(|message| matches!(message, Message::ToolResult(_))) {
            Some(result) => serde_json::to_value(result).unwrap()["content"][0]["text"].as_str().unwrap().to_owned(),
            None => String::new(),
        }
    }
}

async fn question(updates: &mut Subscription) -> DialogRequest {
    until(updates, |event| match event {
        SessionEvent::ExtensionUiRequest(request) if request.method.waits() => Some(request),
        _ => None,
    })
    .await
}

async fn resolved(updates: &mut Subscription, request: &DialogRequest) {
    until(updates, |event| matches!(event, SessionEvent::ExtensionUiResolved(resolved) if resolved.id == request.id).then_some(())).await;
}

fn yes(request: &DialogRequest) -> DialogAnswer {
    DialogAnswer { id: request.id.as_str().to_owned(), confirmed: Some(true), ..DialogAnswer::default() }
}

#[tokio::test]
async fn a_tool_goes_on_with_what_a_person_says() {
    let agent = Agent::new().await;
    let mut updates = agent.session.subscribe(View::Delta).await.unwrap();
    agent.session.follow_up("!tool careful {}").await.unwrap();
    let notice = until(&mut updates, |event| match event {
        SessionEvent::ExtensionUiRequest(request) => Some(request.method),
        _ => None,
    })
    .await;
    assert_eq!(notice, DialogMethod::Notify { message: "about to begin".into(), notify_type: Some(NotifyType::Info) });
    let request = question(&mut updates).await;
    assert_eq!(request.method, DialogMethod::Confirm { title: "Begin?".into(), message: "It takes a while.".into(), timeout: None });
    assert_eq!(agent.session.answer_dialog(&yes(&request)).applied, Some(true));
    assert_eq!(agent.session.answer_dialog(&yes(&request)).applied, Some(false));
    ended(&mut updates).await;
    assert_eq!(agent.said().await, "begun");
}

#[tokio::test]
async fn an_abort_takes_the_questions_of_the_run_along() {
    let agent = Agent::new().await;
    let mut updates = agent.session.subscribe(View::Delta).await.unwrap();
    agent.session.follow_up("!tool careful {}").await.unwrap();
    let request = question(&mut updates).await;
    agent.session.abort().await.unwrap();
    resolved(&mut updates, &request).await;
    ended(&mut updates).await;
    assert_eq!((agent.open_dialogs().await, agent.session.answer_dialog(&yes(&request)).applied), (0, Some(false)));

    // The next run asks again.
    agent.session.follow_up("!tool careful {}").await.unwrap();
    let again = question(&mut updates).await;
    assert_ne!(again.id, request.id);
    assert_eq!(agent.session.answer_dialog(&yes(&again)).applied, Some(true));
    ended(&mut updates).await;
    assert_eq!(agent.said().await, "begun");
}

#[tokio::test]
async fn a_run_without_anybody_there_does_not_wait() {
    let agent = Agent::new().await;
    agent.session.follow_up("!tool careful {}").await.unwrap();
    tokio::time::timeout(LIMIT, agent.session.wait_for_idle()).await.expect("it does not hang").unwrap();
    assert_eq!(agent.said().await, "left alone");

    // Nor does one whose last reader leaves in the middle.
    let mut updates = agent.session.subscribe(View::Delta).await.unwrap();
    agent.session.follow_up("!tool careful {}").await.unwrap();
    question(&mut updates).await;
    drop(updates);
    tokio::time::timeout(LIMIT, agent.session.wait_for_idle()).await.expect("it does not hang").unwrap();
    assert_eq!(agent.said().await, "left alone");
}

#[tokio::test]
async fn a_tool_that_panics_leaves_no_question_behind() {
    let agent = Agent::new().await;
    let mut updates = agent.session.subscribe(View::Delta).await.unwrap();
    agent.session.follow_up("!tool clumsy {}").await.unwrap();
    let request = question(&mut updates).await;
    resolved(&mut updates, &request).await;
    ended(&mut updates).await;
    assert_eq!(agent.open_dialogs().await, 0);
    assert!(agent.said().await.contains("failed inside wolli"), "{}", agent.said().await);
}

#[tokio::test]
async fn the_end_of_the_engine_ends_questions() {
    let agent = Agent::new().await;
    let mut updates = agent.session.subscribe(View::Delta).await.unwrap();
    agent.session.follow_up("!tool careful {}").await.unwrap();
    let request = question(&mut updates).await;
    let dialogs = agent.engine.runtime().session(agent.session.id()).await.unwrap().dialogs();
    let asking = tokio::join!(dialogs.editor("Still there?", None), async {
        question(&mut updates).await;
        tokio::time::timeout(LIMIT, agent.engine.close()).await.expect("it does not wait for people");
    });
    assert_eq!(asking.0, None);
    assert_eq!(agent.session.answer_dialog(&yes(&request)).applied, Some(false));
}
