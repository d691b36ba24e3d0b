//! Readers of snapshots: what they are told first, when, how much, and that cuts change nothing.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use wolli_protocol::dialog::{DialogMethod, DialogRequest, DialogResolved};
use wolli_protocol::event::{AssistantMessageEvent, SessionEvent, ToolResult};
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, TextContent, UserMessage};
use wolli_protocol::model::{Model, ThinkingLevel};
use wolli_protocol::snapshot::{SnapshotView, UniversalSnapshot};
use wolli_protocol::sse;

use super::super::testing::{hub, no_messages};
use super::super::{Attach, Attached, Cursor, CursorEnd, Hub, Include, View};
use crate::limits::SNAPSHOT_PAUSE;

fn attach(hub: &Arc<Hub>, last_event_id: Option<String>) -> Attached {
    hub.attach(&Attach { view: View::Snapshot, include: Include::WAITING, last_event_id })
}

async fn next(cursor: &mut Cursor) -> Result<Vec<sse::Event>, CursorEnd> {
    let batch = cursor.next(&no_messages()).await?;
    let mut decoder = sse::Decoder::new(64 << 20);
    decoder.feed(&batch);
    Ok((&mut decoder).map(Result::unwrap).collect())
}

/// The one frame that comes.
async fn frame(cursor: &mut Cursor) -> (Option<String>, Value) {
    let mut events = next(cursor).await.unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    let event = events.remove(0);
    (event.id, serde_json::from_str(&event.data).unwrap())
}

fn begin_answer(hub: &Hub) {
    let message = AssistantMessage::begin(&Model::placeholder(), 1);
    hub.publish(&SessionEvent::MessageStart { message: Message::Assistant(message), entry_id: Some("a1".into()) });
}

fn say(hub: &Hub, delta: &str) {
    hub.publish(&SessionEvent::MessageUpdate {
        assistant_message_event: AssistantMessageEvent::TextDelta { content_index: 0, delta: delta.into(), partial: None },
        message: None,
    });
}

fn start_tool(hub: &Hub, id: &str) {
    let (tool_call_id, tool_name) = (id.into(), "ls".into());
    hub.publish(&SessionEvent::ToolExecutionStart { tool_call_id, tool_name, args: json!({"path": id}) });
}

fn ask(hub: &Hub, id: &str) {
    let method = DialogMethod::Confirm { title: "?".into(), message: id.into(), timeout: None };
    hub.publish(&SessionEvent::ExtensionUiRequest(DialogRequest { id: id.into(), method, expires_at: None }));
}

#[tokio::test]
async fn the_whole_comes_first_and_then_what_changes() {
    let hub = hub();
    hub.publish(&SessionEvent::AgentStart);
    begin_answer(&hub);
    say(&hub, "Hello");
    let Attached { hello, mut cursor, .. } = attach(&hub, None);
    assert!(hello.in_flight.is_none());
    let (id, first) = frame(&mut cursor).await;
    assert_eq!(id.as_deref(), Some("3"));
    let full = &first["patch"]["full"];
    assert_eq!(
        (&first["type"], &full["text"], &full["phase"], &full["taskId"]),
        (&json!("snapshot"), &json!("Hello"), &json!("streaming"), &json!("a1"))
    );

    say(&hub, " world");
    start_tool(&hub, "c1");
    let (id, patch) = frame(&mut cursor).await;
    assert_eq!(id.as_deref(), Some("5"));
    let calls = json!([{"id": "c1", "name": "ls", "summary": "List files: c1", "input": "c1", "status": "running"}]);
    let set = json!({"activity": "List files: c1", "toolCalls": calls, "updatedAt": patch["patch"]["set"]["updatedAt"]});
    assert_eq!(patch, json!({"type": "snapshot", "patch": {"appendText": " world", "set": set}}));
}

#[tokio::test(start_paused = true)]
async fn growing_text_is_gathered_and_all_else_comes_at_once() {
    let hub = hub();
    let mut cursor = attach(&hub, None).cursor;
    frame(&mut cursor).await;
    hub.publish(&SessionEvent::AgentStart);
    begin_answer(&hub);
    let begin = Instant::now();
    frame(&mut cursor).await;
    assert_eq!(begin.elapsed(), Duration::ZERO);

    for delta in ["a", "b", "c"] {
        say(&hub, delta);
    }
    // What is not waited for to the end is still there.
    assert!(timeout(SNAPSHOT_PAUSE / 2, cursor.next(&no_messages())).await.is_err());
    say(&hub, "d");
    let (_, patch) = frame(&mut cursor).await;
    assert_eq!(patch["patch"]["appendText"], "abcd");
    assert!(begin.elapsed() >= SNAPSHOT_PAUSE && begin.elapsed() < SNAPSHOT_PAUSE * 2, "{:?}", begin.elapsed());

    let begin = Instant::now();
    let tell = async {
        say(&hub, "e");
        tokio::task::yield_now().await;
        ask(&hub, "d1");
    };
    let (events, ()) = tokio::join!(next(&mut cursor), tell);
    let events = events.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    // The question itself, for readers that know dialogs, and then the snapshot with it.
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].id, None);
    let patch: Value = serde_json::from_str(&events[1].data).unwrap();
    assert_eq!(patch["patch"]["appendText"], "e");
    assert_eq!(patch["patch"]["set"]["interactions"][0]["promptId"], "d1");

    // After a rest the first piece does not wait.
    tokio::time::sleep(SNAPSHOT_PAUSE).await;
    let begin = Instant::now();
    say(&hub, "f");
    frame(&mut cursor).await;
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_slow_reader_is_not_cut_off_and_gets_all_at_the_end() {
    let hub = hub();
    let mut cursor = attach(&hub, None).cursor;
    frame(&mut cursor).await;
    hub.publish(&SessionEvent::AgentStart);
    begin_answer(&hub);
    for _ in 0..20_000 {
        say(&hub, "0123456789");
    }
    hub.close();
    let (id, patch) = frame(&mut cursor).await;
    assert_eq!(id.as_deref(), Some("20002"));
    // The text was reset by the new run, so it is set and not appended.
    assert_eq!(patch["patch"]["set"]["text"].as_str().or(patch["patch"]["appendText"].as_str()).unwrap().len(), 200_000);
    assert_eq!(next(&mut cursor).await.unwrap_err(), CursorEnd::Closed);
}

#[tokio::test(start_paused = true)]
async fn bytes_follow_the_length_of_the_reply() {
    let mut totals = Vec::new();
    for deltas in [1_000, 10_000] {
        let hub = hub();
        let mut cursor = attach(&hub, None).cursor;
        hub.publish(&SessionEvent::AgentStart);
        begin_answer(&hub);
        let mut bytes = 0;
        for _ in 0..deltas {
            say(&hub, "token ");
            // A reply of 200 tokens a second.
            tokio::time::advance(Duration::from_millis(5)).await;
            if let Ok(batch) = timeout(Duration::ZERO, cursor.next(&no_messages())).await {
                bytes += batch.unwrap().len();
            }
        }
        totals.push(bytes);
        assert!(bytes < deltas * 6 * 5, "{bytes} bytes for {}", deltas * 6);
    }
    assert!(totals[1] * 10 <= totals[0] * 105, "{totals:?}");
}

#[tokio::test]
async fn what_is_forgotten_is_told_as_such() {
    let hub = hub();
    hub.publish(&SessionEvent::AgentStart);
    begin_answer(&hub);
    say(&hub, "Hello");
    assert!(hub.kept_bytes() > 5);
    let mut cursor = attach(&hub, None).cursor;
    frame(&mut cursor).await;
    hub.clear_ring();
    assert_eq!(hub.kept_bytes(), 0);
    hub.publish(&SessionEvent::TurnStart);
    let (_, patch) = frame(&mut cursor).await;
    assert_eq!((&patch["patch"]["set"]["text"], &patch["patch"]["set"]["phase"]), (&json!(""), &json!("idle")));
    // Its frame is gone, so the next attach gets the whole.
    let resumed = attach(&hub, Some("3".into())).hello.stream.unwrap();
    assert_eq!((resumed.resumed, resumed.gap), (false, true));
}

#[derive(Clone, Debug)]
enum Step {
    Run,
    Prompt(String),
    Answer,
    Say(String),
    End(bool),
    StartTool(u8),
    EndTool(u8),
    Ask(u8),
    Resolve(u8),
    RunEnd,
    Level(ThinkingLevel),
    Silent(ThinkingLevel),
    Waiting,
    Read,
    Cut,
    LoseRing,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::Run),
        1 => "[a-z]{1,5}".prop_map(Step::Prompt),
        2 => Just(Step::Answer),
        8 => "[a-zé😀\n]{0,9}".prop_map(Step::Say),
        1 => any::<bool>().prop_map(Step::End),
        2 => (0..4_u8).prop_map(Step::StartTool),
        2 => (0..4_u8).prop_map(Step::EndTool),
        1 => (0..4_u8).prop_map(Step::Ask),
        1 => (0..4_u8).prop_map(Step::Resolve),
        1 => Just(Step::RunEnd),
        1 => prop::sample::select(ThinkingLevel::ALL.to_vec()).prop_map(Step::Level),
        1 => prop::sample::select(ThinkingLevel::ALL.to_vec()).prop_map(Step::Silent),
        1 => Just(Step::Waiting),
        6 => Just(Step::Read),
        4 => Just(Step::Cut),
        1 => Just(Step::LoseRing),
    ];
    prop::collection::vec(step, 1..120)
}

fn perform(hub: &Hub, step: &Step, said: &mut String) {
    match step {
        Step::Run => hub.publish(&SessionEvent::AgentStart),
        Step::Prompt(text) => {
            let message = Message::User(UserMessage::new(text.clone(), Vec::new(), 1));
            hub.publish(&SessionEvent::MessageStart { message, entry_id: Some("p".into()) });
        }
        Step::Answer => {
            said.clear();
            begin_answer(hub);
        }
        Step::Say(delta) => {
            said.push_str(delta);
            say(hub, delta);
        }
        Step::End(other) => {
            let text = if *other { "something else".to_owned() } else { std::mem::take(said) };
            let content = vec![AssistantBlock::Text(TextContent { text, text_signature: None })];
            let stop_reason = if *other { StopReason::Error } else { StopReason::Stop };
            let message = AssistantMessage { content, stop_reason, ..AssistantMessage::begin(&Model::placeholder(), 1) };
            hub.publish(&SessionEvent::MessageEnd { message: Message::Assistant(message), entry_id: Some("a1".into()) });
        }
        Step::StartTool(id) => start_tool(hub, &id.to_string()),
        Step::EndTool(id) => {
            let (tool_call_id, tool_name) = (id.to_string(), "ls".into());
            hub.publish(&SessionEvent::ToolExecutionEnd { tool_call_id, tool_name, result: ToolResult::text("r"), is_error: false });
        }
        Step::Ask(id) => ask(hub, &id.to_string()),
        Step::Resolve(id) => hub.publish(&SessionEvent::ExtensionUiResolved(DialogResolved { id: id.to_string().as_str().into() })),
        Step::RunEnd => hub.publish(&SessionEvent::AgentEnd { messages: Vec::new() }),
        Step::Level(level) => {
            hub.publish(&SessionEvent::ThinkingLevelUpdate { level: *level, previous_level: ThinkingLevel::Off });
        }
        Step::Silent(level) => hub.update(|state| state.thinking_level = *level),
        Step::Waiting => hub.publish(&SessionEvent::Waiting { waiting: None }),
        Step::LoseRing => hub.clear_ring(),
        Step::Read | Step::Cut => {}
    }
}

/// A client of the stream.
struct Client {
    view: SnapshotView,
    cursor: Cursor,
    last: u64,
}

impl Client {
    fn new(hub: &Arc<Hub>) -> Self {
        Self { view: SnapshotView::new(), cursor: attach(hub, None).cursor, last: 0 }
    }

    /// Reads until nothing comes for longer than a pause.
    async fn read(&mut self) {
        while let Ok(events) = timeout(SNAPSHOT_PAUSE * 2, next(&mut self.cursor)).await {
            for event in events.unwrap() {
                if let Some(id) = &event.id {
                    let id = id.parse().unwrap();
                    assert!(id >= self.last, "{id} after {}", self.last);
                    self.last = id;
                }
                self.view.apply_frame(&event).unwrap();
            }
        }
    }

    /// The connection breaks, and the client comes back.
    fn cut(&mut self, hub: &Arc<Hub>) {
        let attached = attach(hub, self.view.resume_id().map(|id| id.to_string()));
        self.view.begin(attached.hello.stream);
        self.cursor = attached.cursor;
    }

    fn snapshot(&self) -> &UniversalSnapshot {
        self.view.snapshot()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn cuts_and_pauses_change_nothing(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let hub = hub();
            let (mut uncut, mut cut, mut lazy) = (Client::new(&hub), Client::new(&hub), Client::new(&hub));
            let mut said = String::new();
            for step in &steps {
                perform(&hub, step, &mut said);
                uncut.read().await;
                match step {
                    Step::Read => cut.read().await,
                    Step::Cut => cut.cut(&hub),
                    _ => {}
                }
            }
            // A change without an event is told with the next one.
            hub.publish(&SessionEvent::TurnStart);
            uncut.read().await;
            cut.read().await;
            lazy.read().await;
            let now = attach(&hub, None);
            let mut fresh = Client { view: SnapshotView::new(), cursor: now.cursor, last: 0 };
            fresh.read().await;
            assert_eq!(uncut.snapshot(), fresh.snapshot());
            assert_eq!(cut.snapshot(), uncut.snapshot());
            assert_eq!(lazy.snapshot(), uncut.snapshot());
        });
    }
}
