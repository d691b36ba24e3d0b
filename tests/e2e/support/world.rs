//! One agent with everything around it.

use std::path::PathBuf;

use serde_json::{Value, json};
use wolli_testkit::home::{Agent, Daemon, TestHome};
use wolli_testkit::http::{Client, EventStream};
use wolli_testkit::provider::{Kind, Provider};

use super::Reader;

/// Fields are dropped in this order: the daemon before what it uses.
pub(crate) struct World {
    pub(crate) daemon: Daemon,
    pub(crate) agent: Agent,
    pub(crate) home: TestHome,
    pub(crate) provider: Provider,
    /// The agent's first session.
    pub(crate) session: String,
}

impl World {
    /// An agent whose model is the scripted provider, which is not asked to think.
    pub(crate) async fn scripted(kind: Kind) -> Self {
        Self::with_settings(json!({"defaultModel": model(kind), "defaultThinkingLevel": "off"})).await
    }

    /// One that is asked to think; its answers that call tools have to begin with thinking.
    pub(crate) async fn thinking(kind: Kind) -> Self {
        Self::with_settings(json!({"defaultModel": model(kind), "defaultThinkingLevel": "medium"})).await
    }

    /// An agent whose model is `echo/demo`, chosen by name.
    pub(crate) async fn echo() -> Self {
        Self::with_settings(json!({"defaultModel": "echo/demo"})).await
    }

    async fn with_settings(settings: Value) -> Self {
        let home = TestHome::new().unwrap();
        let agent = home.agent("a", settings).unwrap();
        Self::begin(home, agent).await
    }

    /// Starts the daemon of an agent in a home that the test prepared.
    pub(crate) async fn begin(home: TestHome, agent: Agent) -> Self {
        let provider = Provider::start();
        home.use_provider(&provider).unwrap();
        let daemon = home.start_daemon(&agent).await.unwrap();
        let session = newest_session(&agent).await;
        Self { daemon, agent, home, provider, session }
    }

    pub(crate) fn client(&self) -> Client {
        self.agent.client()
    }

    /// Asks the daemon to end, and starts another.
    pub(crate) async fn restart(&mut self) {
        self.daemon.terminate().await.unwrap();
        self.start().await;
    }

    /// Starts a daemon after the last one has ended.
    pub(crate) async fn start(&mut self) {
        self.daemon = self.home.start_daemon(&self.agent).await.unwrap();
    }

    /// A command's whole answer.
    pub(crate) async fn command(&self, command: Value) -> Value {
        self.client().command(&self.session, &command).await.unwrap()
    }

    /// The data of a command that must succeed.
    pub(crate) async fn succeed(&self, command: Value) -> Value {
        self.client().succeed(&self.session, &command).await.unwrap()
    }

    /// Its text is acknowledged when this returns.
    pub(crate) async fn prompt(&self, text: &str) {
        self.succeed(json!({"type": "prompt", "message": text})).await;
    }

    pub(crate) async fn idle(&self) {
        self.succeed(json!({"type": "wait_for_idle"})).await;
    }

    /// Waits until nothing runs and nothing waits.
    pub(crate) async fn settled(&self) {
        loop {
            self.idle().await;
            let state = self.state().await;
            if state["isStreaming"] == false && state["pendingMessageCount"] == 0 {
                return;
            }
        }
    }

    pub(crate) async fn state(&self) -> Value {
        self.succeed(json!({"type": "get_state"})).await
    }

    pub(crate) async fn messages(&self) -> Vec<Value> {
        let mut data = self.succeed(json!({"type": "get_messages"})).await;
        serde_json::from_value(data["messages"].take()).unwrap()
    }

    pub(crate) async fn entries(&self) -> Vec<Value> {
        let mut data = self.succeed(json!({"type": "get_entries"})).await;
        serde_json::from_value(data["entries"].take()).unwrap()
    }

    /// `GET /sessions`.
    pub(crate) async fn agent_state(&self) -> Value {
        self.client().get("/sessions").await.unwrap().json()
    }

    /// Messages of what the agent says is wrong.
    pub(crate) async fn diagnostics(&self) -> Vec<Value> {
        let mut data = self.succeed(json!({"type": "get_resource_summary"})).await;
        serde_json::from_value(data["diagnostics"].take()).unwrap()
    }

    pub(crate) fn events_path(&self, query: &str) -> String {
        format!("/sessions/{}/events{query}", self.session)
    }

    /// A bare stream of the session, its `hello` unread.
    pub(crate) async fn stream(&self, query: &str) -> EventStream {
        self.client().events(&self.events_path(query), &[]).await.unwrap()
    }

    /// A reader that folds what it reads.
    pub(crate) async fn reader(&self, query: &str) -> Reader {
        Reader::attach(&self.client(), &self.session, query).await.unwrap()
    }

    /// The session's file.
    pub(crate) async fn session_file(&self) -> PathBuf {
        self.state().await["sessionFile"].as_str().unwrap().into()
    }

    /// The lines of the session's file, its header first. Every one must be whole.
    pub(crate) async fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.session_file().await).unwrap();
        assert!(text.ends_with('\n'), "the file has a torn end: {:?}", text.lines().last());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn model(kind: Kind) -> &'static str {
    match kind {
        Kind::Anthropic => "scripted/scripted-1",
        Kind::OpenAi => "scripted-openai/scripted-1",
    }
}

/// The session that stands first in the list.
pub(crate) async fn newest_session(agent: &Agent) -> String {
    let state = agent.client().get("/sessions").await.unwrap().json();
    state["sessions"][0]["sessionId"].as_str().unwrap_or_else(|| panic!("no session in {state}")).to_owned()
}
