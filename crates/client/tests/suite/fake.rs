//! A daemon that does what the wire contract asks, with one session of its own making, and faults on demand.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wolli_client::{Agent, DaemonProgram, Trust, Wolli};
use wolli_home::environment::Environment;
use wolli_home::token::proof;
use wolli_protocol::entry::Entry;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{EntryId, FrameId};
use wolli_protocol::reduce::SessionView;
use wolli_protocol::snapshot::{Mark, SnapshotFold, SnapshotPatch};
use wolli_protocol::state::{Hello, StreamPosition};
use wolli_testkit::home::TestHome;
use wolli_testkit::http::{Connection, Head};

pub(crate) const SESSION: &str = "01a22c21-79e4-77c8-a01f-fd45777cef19";

/// One request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) head: Head,
    pub(crate) body: Value,
}

/// What the daemon is like; tests change it while it runs.
pub(crate) struct State {
    pub(crate) token: String,
    pub(crate) name: String,
    /// The process that `/health` names.
    pub(crate) pid: u32,
    /// The answer of `/health` has no proof, as that of wolli 0.0.2.
    pub(crate) without_proof: bool,
    /// Another token under which it proves itself.
    pub(crate) proof_token: Option<String>,
    /// `hello` has no position, and sessions are unknown by an error frame.
    pub(crate) old: bool,
    pub(crate) seen: Vec<Seen>,
    pub(crate) open_streams: usize,
    /// Frames with their entries; those before `ring_start` cannot be replayed.
    pub(crate) frames: Vec<(FrameId, Value, Option<Entry>)>,
    pub(crate) ring_start: usize,
    /// Frames of the control stream.
    announced: Vec<Value>,
    /// At most so many entries go into `hello`.
    pub(crate) hello_entries: usize,
    pub(crate) page: usize,
    /// Says of so many pages that there are none.
    pub(crate) refuse_pages: usize,
    /// So many messages end between `hello` and a page.
    pub(crate) late_messages: usize,
    pub(crate) last_id: FrameId,
    /// The session as a reader knows it that misses nothing.
    pub(crate) uncut: SessionView,
    /// Status for every request but `/health`.
    pub(crate) refuse: Option<u16>,
    /// Takes so many commands in and closes the connection instead of answering.
    pub(crate) swallow_answers: usize,
    /// Leaves a frame out of so many streams.
    pub(crate) skip_frames: usize,
    pub(crate) prompts: HashMap<String, Value>,
    pub(crate) idle: bool,
}

#[derive(Clone)]
pub(crate) struct Shared {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn changed(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits until the state is as the test wants it.
    pub(crate) async fn until(&self, wanted: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        let waited = tokio::time::timeout(wolli_testkit::DEADLINE, async {
            loop {
                changed.borrow_and_update();
                if wanted(&self.state()) {
                    return;
                }
                changed.changed().await.unwrap();
            }
        });
        assert!(waited.await.is_ok(), "the daemon saw {:?}", self.state().seen.iter().map(|seen| &seen.line).collect::<Vec<_>>());
    }

    /// Requests whose first line has that part.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.state().seen.iter().filter(|seen| seen.line.contains(part)).count()
    }

    /// Sends a frame.
    pub(crate) fn send(&self, event: Value) {
        let mut state = self.state();
        state.last_id = state.last_id.next();
        let id = state.last_id;
        let parsed: SessionEvent = serde_json::from_value(event.clone()).unwrap();
        state.uncut.apply(Some(id), &parsed).unwrap();
        let entry = (event["type"] == "message_end").then(|| {
            serde_json::from_value(json!({"type": "message", "id": event["entryId"], "parentId": null,
                "timestamp": "2026-03-01T09:00:00.000Z", "message": event["message"]}))
            .unwrap()
        });
        state.frames.push((id, event, entry));
        drop(state);
        self.changed();
    }

    /// Sends a frame of the control stream.
    pub(crate) fn announce(&self, event: Value) {
        self.state().announced.push(event);
        self.changed();
    }

    /// A whole user message; gives its entry id.
    pub(crate) fn say(&self, text: &str) -> String {
        let entry = format!("e{}", self.state().last_id.0);
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1});
        self.send(json!({"type": "message_start", "message": message, "entryId": entry}));
        self.send(json!({"type": "message_end", "message": message, "entryId": entry}));
        entry
    }

    /// Frames up to here cannot be replayed any more.
    pub(crate) fn forget_frames(&self) {
        let mut state = self.state();
        state.ring_start = state.frames.len();
    }

    /// Another process opens the session.
    pub(crate) fn next_epoch(&self) {
        self.forget_frames();
        let mut state = self.state();
        let epoch = u32::try_from(state.last_id.0 >> 32).unwrap() + 1;
        state.last_id = FrameId::before_epoch(epoch);
        let (last_id, view) = (state.last_id, state.uncut.state.clone());
        let stream = StreamPosition { first_id: last_id.next(), last_id, resumed: false, gap: true };
        let hello = json!({"stream": stream, "entries": []});
        let hello = merge(serde_json::to_value(view).unwrap(), hello);
        state.uncut.apply_hello(serde_json::from_value(hello).unwrap()).unwrap();
    }
}

fn merge(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// The daemon while it listens.
pub(crate) struct FakeDaemon {
    pub(crate) shared: Shared,
    pub(crate) address: SocketAddr,
    tasks: JoinSet<()>,
}

impl std::ops::Deref for FakeDaemon {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl FakeDaemon {
    /// Listens at that address (port 0: anywhere).
    pub(crate) async fn listen(address: SocketAddr, shared: Shared) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let server = shared.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(Connection::of(stream), server.clone()));
            }
        });
        Self { shared, address, tasks }
    }
}

impl FakeDaemon {
    /// Ends it as a killed process ends; gives back its address and what it knows.
    pub(crate) async fn stop(mut self) -> (SocketAddr, Shared) {
        self.tasks.shutdown().await;
        (self.address, self.shared)
    }
}

pub(crate) fn shared(name: &str, token: &str) -> Shared {
    let hello = json!({"sessionId": SESSION, "thinkingLevel": "off", "scopedModels": [], "isStreaming": false, "messageCount": 0,
        "pendingMessageCount": 0, "stream": {"firstId": 1, "lastId": 0, "resumed": false, "gap": false}});
    let state = State {
        token: token.into(),
        name: name.into(),
        pid: 1,
        without_proof: false,
        proof_token: None,
        old: false,
        seen: Vec::new(),
        open_streams: 0,
        frames: Vec::new(),
        announced: Vec::new(),
        ring_start: 0,
        hello_entries: usize::MAX,
        page: 500,
        refuse_pages: 0,
        late_messages: 0,
        last_id: FrameId(0),
        uncut: SessionView::attach(serde_json::from_value(hello).unwrap()),
        refuse: None,
        swallow_answers: 0,
        skip_frames: 0,
        prompts: HashMap::new(),
        idle: true,
    };
    Shared { state: Arc::new(Mutex::new(state)), changed: watch::Sender::new(0) }
}

async fn serve(mut connection: Connection, shared: Shared) {
    while let Ok((head, _)) = connection.read_head().await {
        let Ok(body) = connection.read_body(head.body_kind(true).unwrap()).await else { return };
        let line = head.start_line.trim_end_matches(" HTTP/1.1").to_owned();
        let seen = Seen { line: line.clone(), head: head.clone(), body: serde_json::from_slice(&body).unwrap_or_default() };
        shared.state().seen.push(seen.clone());
        shared.changed();
        if !respond(&mut connection, &seen, &shared).await {
            return;
        }
    }
}

async fn json_answer(connection: &mut Connection, status: u16, body: &Value) -> bool {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.send(format!("{head}{body}")).await.is_ok()
}

/// False when the connection is over.
async fn respond(connection: &mut Connection, seen: &Seen, shared: &Shared) -> bool {
    let (path, query) = seen.line.split_once(' ').unwrap().1.split_once('?').unwrap_or((seen.line.split_once(' ').unwrap().1, ""));
    let query = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).map(str::to_owned);
    let session = format!("/sessions/{SESSION}");
    if path == "/health" {
        let answer = {
            let state = shared.state();
            let mut answer = json!({"status": "ok", "agent": state.name, "pid": state.pid, "startedAt": "t"});
            if let Some(nonce) = query("nonce").filter(|_| !state.without_proof) {
                answer["proof"] = json!(proof(state.proof_token.as_ref().unwrap_or(&state.token), &nonce));
            }
            answer
        };
        return json_answer(connection, 200, &answer).await;
    }
    let (authorized, refuse) = {
        let state = shared.state();
        (seen.head.header("authorization") == Some(&format!("Bearer {}", state.token)), state.refuse)
    };
    match (authorized, refuse) {
        (false, _) => return json_answer(connection, 401, &json!("Unauthorized")).await,
        (_, Some(status)) => return json_answer(connection, status, &json!("no")).await,
        _ => {}
    }
    match path {
        "/sessions" => {
            let answer = agent_state(shared);
            json_answer(connection, 200, &answer).await
        }
        "/events" => {
            let hello = agent_state(shared);
            stream(connection, shared, &hello, None, None).await;
            false
        }
        _ if path == format!("{session}/events") => {
            let last_event_id = seen.head.header("last-event-id").and_then(FrameId::parse);
            let (hello, cursor) = attach(&shared.state(), last_event_id, query("after"));
            let follower = seen.line.contains("view=snapshot").then(|| Follower::attach(&shared.state(), &hello, cursor));
            stream(connection, shared, &hello, Some(cursor), follower).await;
            false
        }
        _ if path == format!("{session}/entries") && shared.state().refuse_pages > 0 => {
            shared.state().refuse_pages -= 1;
            json_answer(connection, 404, &json!({})).await
        }
        _ if path == format!("{session}/entries") => {
            let late = std::mem::take(&mut shared.state().late_messages);
            for _ in 0..late {
                shared.say("late");
            }
            let answer = page(&shared.state(), query("after"));
            json_answer(connection, 200, &answer).await
        }
        _ if path == format!("{session}/control") => control(connection, seen, shared).await,
        _ if path == format!("{session}/ui-response") => {
            json_answer(connection, 200, &json!({"success": true, "applied": seen.body["id"] == "open"})).await
        }
        _ if shared.state().old && path.ends_with("/events") => {
            let _ =
                connection.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: error\ndata: No session \"x\"\n\n").await;
            false
        }
        _ => json_answer(connection, 404, &json!({"error": "unknown"})).await,
    }
}

fn agent_state(shared: &Shared) -> Value {
    let name = shared.state().name.clone();
    json!({"config": {"name": name}, "cwd": "/", "sessions": [{"sessionId": SESSION, "isStreaming": false, "live": true, "tags": {"chat": "42", "kind": "private"}}]})
}

fn entries_after(state: &State, after: Option<String>) -> Vec<Entry> {
    let entries = state.frames.iter().filter_map(|(_, _, entry)| entry.clone());
    match after.map(EntryId::from) {
        None => entries.collect(),
        Some(after) => entries.skip_while(|entry| entry.id != after).skip(1).collect(),
    }
}

fn page(state: &State, after: Option<String>) -> Value {
    let mut entries = entries_after(state, after);
    let more = entries.len() > state.page;
    entries.truncate(state.page);
    let mut page = json!({"entries": entries});
    if more {
        page["next"] = json!(entries.last().unwrap().id);
    }
    page
}

/// `hello`, and where in the frames the stream begins.
fn attach(state: &State, last_event_id: Option<FrameId>, after: Option<String>) -> (Value, usize) {
    let view = serde_json::to_value(&state.uncut.state).unwrap();
    if state.old {
        return (view, state.frames.len());
    }
    let ring = &state.frames[state.ring_start..];
    let first_id = ring.first().map_or(state.last_id.next(), |(id, _, _)| *id);
    let resumed = last_event_id.filter(|id| first_id <= id.next() && *id <= state.last_id);
    let stream =
        StreamPosition { first_id, last_id: state.last_id, resumed: resumed.is_some(), gap: last_event_id.is_some() && resumed.is_none() };
    let mut hello: Hello = serde_json::from_value(merge(view, json!({"stream": stream}))).unwrap();
    if let Some(id) = resumed {
        let cursor = state.frames.iter().position(|(frame, _, _)| *frame > id).unwrap_or(state.frames.len());
        return (serde_json::to_value(hello).unwrap(), cursor);
    }
    hello.in_flight = state.uncut.in_flight_snapshot();
    if after.is_some() {
        let mut entries = entries_after(state, after);
        hello.entries_truncated = (entries.len() > state.hello_entries).then_some(true);
        entries.truncate(state.hello_entries);
        hello.entries = Some(entries);
    }
    (serde_json::to_value(hello).unwrap(), state.frames.len())
}

/// A reader of view `snapshot`.
pub(crate) struct Follower {
    pub(crate) fold: SnapshotFold,
    mark: Option<Mark>,
}

impl Follower {
    /// Every frame up to `cursor` is folded; one that resumes has them already.
    pub(crate) fn attach(state: &State, hello: &Value, cursor: usize) -> Self {
        let mut fold = SnapshotFold::new(&SESSION.into());
        for (at, (_, event, _)) in (1..).zip(&state.frames[..cursor]) {
            fold.apply(&serde_json::from_value(event.clone()).unwrap(), at);
        }
        let mark = (hello["stream"]["resumed"] == true).then(|| fold.mark());
        Self { fold, mark }
    }

    fn patch(&mut self) -> Option<SnapshotPatch> {
        let patch = match self.mark {
            None => Some(SnapshotPatch::full(self.fold.snapshot().clone())),
            Some(mark) => self.fold.patch_since(mark),
        };
        self.mark = Some(self.fold.mark());
        patch
    }
}

/// Sends `hello` and the frames from the cursor on, until either side ends it.
async fn stream(connection: &mut Connection, shared: &Shared, hello: &Value, cursor: Option<usize>, mut follower: Option<Follower>) {
    struct Open(Shared);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.state().open_streams -= 1;
            self.0.changed();
        }
    }
    shared.state().open_streams += 1;
    let _open = Open(shared.clone());
    let mut changed = shared.changed.subscribe();
    shared.changed();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |text: String| format!("{:x}\r\n{text}\r\n", text.len());
    if connection.send(format!("{head}{}", chunk(format!("event: hello\ndata: {hello}\n\n")))).await.is_err() {
        return;
    }
    let mut cursor = cursor;
    let mut heard = shared.state().announced.len();
    loop {
        changed.borrow_and_update();
        if cursor.is_none() {
            let news = shared.state().announced[heard..].to_vec();
            heard += news.len();
            for event in news {
                if connection.send(chunk(format!("event: message\ndata: {event}\n\n"))).await.is_err() {
                    return;
                }
            }
        }
        if let Some(cursor) = &mut cursor {
            let mut text = String::new();
            {
                let mut state = shared.state();
                while let Some((id, event, _)) = state.frames.get(*cursor).cloned() {
                    *cursor += 1;
                    if state.skip_frames > 0 {
                        state.skip_frames -= 1;
                        continue;
                    }
                    if let Some(follower) = &mut follower {
                        follower.fold.apply(&serde_json::from_value(event).unwrap(), i64::try_from(*cursor).unwrap());
                    } else {
                        text = format!("{text}event: message\ndata: {event}\nid: {id}\n\n");
                    }
                }
            }
            if let Some(patch) = follower.as_mut().and_then(Follower::patch) {
                let frame = json!({"type": "snapshot", "patch": patch});
                text = format!("event: message\ndata: {frame}\nid: {}\n\n", shared.state().last_id);
            }
            if !text.is_empty() && connection.send(chunk(text)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            biased;
            () = connection.closed() => return,
            _ = changed.changed() => {}
        }
    }
}

async fn control(connection: &mut Connection, seen: &Seen, shared: &Shared) -> bool {
    let body = &seen.body;
    let answer = match body["type"].as_str().unwrap_or_default() {
        "prompt" if body["message"] == "/refuse" => Err("Agent is already processing."),
        "prompt" => {
            let key = body["idempotencyKey"].as_str().unwrap_or_default().to_owned();
            let known = !key.is_empty() && shared.state().prompts.contains_key(&key);
            if !known {
                shared.state().prompts.insert(key, body.clone());
                shared.say(body["message"].as_str().unwrap());
            }
            Ok(None)
        }
        "wait_for_idle" => {
            shared.until(|state| state.idle).await;
            Ok(None)
        }
        "get_messages" => {
            let messages: Vec<_> = shared.state().uncut.transcript.iter().map(|item| item.message.clone()).collect();
            Ok(Some(json!({"messages": messages})))
        }
        "abort" => Ok(Some(json!({"clearedSteer": [{"role": "user", "content": "x", "timestamp": 1}], "clearedFollowUp": []}))),
        _ => Ok(None),
    };
    {
        let mut state = shared.state();
        if state.swallow_answers > 0 {
            state.swallow_answers -= 1;
            return false;
        }
    }
    let mut response = json!({"type": "response", "command": body["type"], "success": answer.is_ok()});
    match answer {
        Ok(Some(data)) => response["data"] = data,
        Ok(None) => {}
        Err(error) => response["error"] = json!(error),
    }
    json_answer(connection, 200, &response).await
}

/// A home with the agent `scribe`, and the client's view of it.
pub(crate) struct Place {
    pub(crate) home: TestHome,
    pub(crate) file: wolli_testkit::home::Agent,
    pub(crate) wolli: Wolli,
}

impl Place {
    pub(crate) fn new(program: Option<&str>) -> Self {
        let home = TestHome::with_binary("/bin/false").unwrap();
        let file = home.agent("scribe", json!({})).unwrap();
        let variables = [
            ("HOME", home.folder().join("h")),
            ("WOLLI_HOME", home.root()),
            ("XDG_RUNTIME_DIR", home.folder().join("run")),
            ("PATH", "/usr/bin:/bin".into()),
        ];
        let environment = Environment::new(variables, home.folder());
        let program = program.map(|script| {
            use std::os::unix::fs::PermissionsExt;
            let path = home.folder().join("program");
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            DaemonProgram::new(path)
        });
        let wolli = Wolli::with_program(environment, program).unwrap();
        Self { home, file, wolli }
    }

    pub(crate) fn agent(&self) -> Agent {
        self.wolli.get("scribe").unwrap().unwrap()
    }

    /// Changes `agent.json` as another program would.
    pub(crate) fn change(&self, key: &str, value: Value) {
        let path = self.file.home.join("agent.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        config[key] = value;
        self.home.write_json(path, &config).unwrap();
    }

    /// A daemon where `agent.json` says.
    pub(crate) async fn daemon(&self) -> FakeDaemon {
        FakeDaemon::listen(self.file.address(), shared("scribe", &self.file.token)).await
    }

    /// A daemon of wolli 0.0.2.
    pub(crate) async fn old_daemon(&mut self) -> FakeDaemon {
        self.wolli = self.wolli.clone().with_trust(Trust::Name);
        let shared = shared("scribe", &self.file.token);
        shared.state().old = true;
        shared.state().without_proof = true;
        FakeDaemon::listen(self.file.address(), shared).await
    }
}
