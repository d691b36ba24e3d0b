//! The laws of patches, the fold against made-up sessions, and readers that are cut and resume.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::patch::{Field, every_field_is_listed};
use super::*;
use crate::dialog::{DialogMethod, DialogRequest, DialogResolved};
use crate::event::{AssistantMessageEvent as Step, SessionEvent, ToolResult};
use crate::ids::{DialogId, FrameId, SessionId};
use crate::message::{AssistantBlock, AssistantMessage, Message, StopReason, TextContent, Usage};
use crate::model::Model;
use crate::reduce::tests::script::{Recorder, actions, answer, hello, state, user};
use crate::sse;
use crate::state::{InFlight, RunningTool, StreamPosition};

fn session() -> SessionId {
    "s".into()
}

fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text(TextContent { text: text.into(), text_signature: None })
}

fn update(step: Step) -> SessionEvent {
    SessionEvent::MessageUpdate { assistant_message_event: step, message: None }
}

fn say(content_index: usize, delta: &str) -> SessionEvent {
    update(Step::TextDelta { content_index, delta: delta.into(), partial: None })
}

fn begin(message: Message, id: &str) -> SessionEvent {
    SessionEvent::MessageStart { message, entry_id: Some(id.into()) }
}

fn end(message: AssistantMessage) -> SessionEvent {
    SessionEvent::MessageEnd { message: Message::Assistant(message), entry_id: Some("a".into()) }
}

fn start_tool(id: &str, name: &str, args: Value) -> SessionEvent {
    SessionEvent::ToolExecutionStart { tool_call_id: id.into(), tool_name: name.into(), args }
}

fn end_tool(id: &str, result: &str, is_error: bool) -> SessionEvent {
    let (tool_call_id, tool_name) = (id.into(), "bash".into());
    SessionEvent::ToolExecutionEnd { tool_call_id, tool_name, result: ToolResult::text(result), is_error }
}

fn stopped(content: Vec<AssistantBlock>) -> AssistantMessage {
    answer(content, StopReason::Stop)
}

fn folded(events: &[SessionEvent]) -> SnapshotFold {
    let mut fold = SnapshotFold::new(&session());
    for (at, event) in (1..).zip(events) {
        fold.apply(event, at);
    }
    fold
}

fn run_of(events: impl IntoIterator<Item = SessionEvent>) -> Vec<SessionEvent> {
    let mut run = vec![SessionEvent::AgentStart, SessionEvent::TurnStart, begin(user("do it"), "p1")];
    run.extend(events);
    run
}

#[test]
fn the_patches_of_the_specification() {
    let snapshot = |value: Value| serde_json::from_value::<UniversalSnapshot>(value).unwrap();
    let call = json!([{"id": "t1", "name": "x", "summary": "x", "status": "running"}]);
    let before = snapshot(json!({"phase": "streaming", "text": "hello", "activity": "x", "updatedAt": 1}));
    for (after, patch) in [
        (
            json!({"phase": "streaming", "text": "hello world", "activity": "x", "toolCalls": call, "updatedAt": 2}),
            json!({"appendText": " world", "set": {"toolCalls": call, "updatedAt": 2}}),
        ),
        (json!({"phase": "done", "text": "hello", "updatedAt": 9}), json!({"set": {"phase": "done", "activity": null, "updatedAt": 9}})),
        (
            json!({"phase": "streaming", "text": "help", "reasoning": "r", "activity": "x", "updatedAt": 1}),
            json!({"appendReasoning": "r", "set": {"text": "help"}}),
        ),
        (json!({"phase": "streaming", "activity": "x", "updatedAt": 1}), json!({"set": {"text": null}})),
        (json!({"phase": "streaming", "text": "hello", "activity": "x", "updatedAt": 1}), json!({})),
    ] {
        assert_eq!(serde_json::to_value(diff(&before, &snapshot(after))).unwrap(), patch);
    }
    assert_eq!(serde_json::to_value(UniversalSnapshot::default()).unwrap(), json!({"phase": "idle", "updatedAt": 0}));
    every_field_is_listed(&before);
    assert!(Field::ALL.iter().enumerate().all(|(index, field)| *field as usize == index));
}

#[test]
fn a_patch_without_a_snapshot_starts_from_the_empty_one_and_set_wins() {
    let patch: SnapshotPatch =
        serde_json::from_value(json!({"appendText": "a", "set": {"text": "b", "error": null, "ofTomorrow": 1}})).unwrap();
    let expected = UniversalSnapshot { text: Some("b".into()), ..UniversalSnapshot::default() };
    assert_eq!(apply(None, patch).unwrap(), expected);
    let full = SnapshotPatch { append_text: Some("x".into()), ..SnapshotPatch::full(expected.clone()) };
    assert_eq!(apply(Some(folded(&run_of([])).snapshot().clone()), full).unwrap(), expected);
    let wrong: SnapshotPatch = serde_json::from_value(json!({"set": {"phase": 7}})).unwrap();
    assert_eq!(apply(None, wrong).unwrap_err().key, "phase");
}

#[test]
fn a_run_with_a_tool_is_told_as_one_snapshot() {
    let model = Model { context_window: 1_000, ..serde_json::from_value(json_model()).unwrap() };
    let usage = Usage { input: 90, output: 10, cache_read: 25, ..Usage::default() };
    let mut fold = SnapshotFold::new(&session());
    fold.settings(Some(&model), crate::model::ThinkingLevel::High);
    let called = AssistantMessage { usage, provider: "p".into(), ..stopped(vec![text("Let me look.")]) };
    for (at, event) in (100..).zip(run_of([
        begin(Message::Assistant(stopped(Vec::new())), "a1"),
        update(Step::ThinkingDelta { content_index: 0, delta: "hm".into(), partial: None }),
        say(1, "Let me "),
        say(1, "look."),
        end(called.clone()),
        start_tool("c1", "bash", json!({"command": "ls  -l\n/x"})),
    ])) {
        fold.apply(&event, at);
    }
    // The thinking was not in the answer as it ended.
    assert_eq!(
        serde_json::to_value(fold.snapshot()).unwrap(),
        json!({
            "phase": "streaming", "taskId": "p1", "sessionId": "s", "agent": "wolli", "model": "p/m", "effort": "high",
            "prompt": "do it", "text": "Let me look.", "reasoning": "", "activity": "Run shell: ls -l /x",
            "toolCalls": [{"id": "c1", "name": "bash", "summary": "Run shell: ls -l /x", "input": "ls  -l\n/x", "status": "running"}],
            "usage": {"inputTokens": 90, "outputTokens": 10, "cachedInputTokens": 25, "contextPercent": 12.5,
                      "contextUsedTokens": 125, "turnOutputTokens": 10, "providerName": "p"},
            "artifacts": [], "interactions": [], "startedAt": 100, "updatedAt": 108,
        })
    );
    for (at, event) in (200..).zip([
        end_tool("c1", "\n total 0\nmore", false),
        begin(user("and now?"), "p2"),
        begin(Message::Assistant(stopped(Vec::new())), "a2"),
        say(0, "Empty."),
        end(AssistantMessage { usage, provider: "p".into(), ..stopped(vec![text("Empty.")]) }),
        SessionEvent::AgentEnd { messages: Vec::new() },
    ]) {
        fold.apply(&event, at);
    }
    let snapshot = fold.snapshot();
    assert_eq!(snapshot.text.as_deref(), Some("Let me look.\n\nEmpty."));
    assert_eq!(snapshot.prompt.as_deref(), Some("do it\n\nand now?"));
    assert_eq!(snapshot.activity.as_deref(), Some("Run shell: ls -l /x -> total 0"));
    assert_eq!((snapshot.phase, snapshot.incomplete, snapshot.task_id.as_deref()), (Phase::Done, Some(false), Some("p1")));
    assert_eq!(snapshot.usage.as_ref().unwrap().turn_output_tokens, Some(20));
}

fn json_model() -> Value {
    json!({"id": "m", "name": "M", "api": "a", "provider": "p", "baseUrl": "", "reasoning": true, "input": ["text"],
           "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 1, "maxTokens": 1})
}

#[test]
fn an_interrupted_run_closes_what_still_runs() {
    let calls = [start_tool("c1", "bash", json!({})), start_tool("c2", "memory", json!({"query": "x"})), end_tool("c1", "", false)];
    let aborted = AssistantMessage { error_message: Some("Request was aborted".into()), ..answer(Vec::new(), StopReason::Aborted) };
    for (ending, status, activity) in [
        (vec![end(aborted)], CallStatus::Failed, "Run shell command done\nmemory: x failed"),
        // A run that was gone without a word.
        (vec![begin(Message::Assistant(stopped(Vec::new())), "a1")], CallStatus::Failed, "Run shell command done\nmemory: x failed"),
        (vec![end(stopped(Vec::new()))], CallStatus::Done, "Run shell command done\nmemory: x done"),
    ] {
        let mut fold = folded(&run_of(calls.iter().cloned().chain(ending)));
        fold.apply(&SessionEvent::AgentEnd { messages: Vec::new() }, 99);
        let snapshot = fold.snapshot();
        assert_eq!(snapshot.incomplete, Some(status == CallStatus::Failed));
        assert_eq!(snapshot.tool_calls.as_ref().unwrap()[1].status, status);
        assert_eq!(snapshot.activity.as_deref(), Some(activity));
    }
}

#[test]
fn the_next_run_has_nothing_of_the_last_one() {
    let failed = AssistantMessage { error_message: Some("no".into()), ..answer(vec![text("a")], StopReason::Error) };
    let first = run_of([start_tool("c1", "bash", json!({})), say(0, "a"), end(failed), SessionEvent::AgentEnd { messages: Vec::new() }]);
    let mut fold = folded(&first);
    assert_eq!((fold.snapshot().error.as_deref(), fold.snapshot().incomplete), (Some("no"), Some(true)));
    let mark = fold.mark();
    let shown = fold.snapshot().clone();
    fold.apply(&SessionEvent::AgentStart, 50);
    assert!(fold.is_urgent_since(mark));
    let expected = UniversalSnapshot { started_at: Some(50), updated_at: 50, ..folded(&[SessionEvent::AgentStart]).snapshot().clone() };
    assert_eq!(fold.snapshot(), &expected);
    assert_eq!(apply(Some(shown), fold.patch_since(mark).unwrap()).unwrap(), expected);
}

#[test]
fn a_delta_is_no_reason_to_hurry_and_costs_itself() {
    let mut fold = folded(&run_of([begin(Message::Assistant(stopped(Vec::new())), "a1"), say(0, &"x".repeat(9_000))]));
    let mark = fold.mark();
    assert_eq!(fold.patch_since(mark), None);
    fold.apply(&say(0, "yz"), 77);
    assert!(!fold.is_urgent_since(mark));
    let patch = serde_json::to_value(fold.patch_since(mark).unwrap()).unwrap();
    assert_eq!(patch, json!({"appendText": "yz", "set": {"updatedAt": 77}}));
}

#[test]
fn questions_are_open_until_they_are_resolved() {
    let ask = |id: &str, method| SessionEvent::ExtensionUiRequest(DialogRequest { id: id.into(), method, expires_at: None });
    let select = DialogMethod::Select { title: "Which?".into(), options: vec!["Red".into()], timeout: None };
    let mut fold = folded(&[ask("d1", select), ask("d2", DialogMethod::SetTitle { title: "x".into() })]);
    assert_eq!(
        serde_json::to_value(&fold.snapshot().interactions).unwrap(),
        json!([{"promptId": "d1", "kind": "user-input", "title": "Which?",
                "questions": [{"id": "answer", "text": "Which?", "type": "select", "choices": [{"label": "Red", "value": "Red"}]}]}])
    );
    let mark = fold.mark();
    fold.apply(&SessionEvent::ExtensionUiResolved(DialogResolved { id: DialogId::from("other") }), 5);
    assert_eq!(fold.patch_since(mark), None);
    fold.apply(&SessionEvent::ExtensionUiResolved(DialogResolved { id: DialogId::from("d1") }), 6);
    let patch = serde_json::to_value(fold.patch_since(mark).unwrap()).unwrap();
    assert_eq!(patch, json!({"set": {"interactions": [], "updatedAt": 6}}));
}

#[test]
fn summaries_are_one_short_line() {
    for (name, arguments, summary, input) in [
        ("read", json!({"path": "/a b"}), "Read /a b", Some("/a b")),
        ("write", json!({}), "Write file", None),
        ("grep", json!({"pattern": "x\ny"}), "Search text: x y", Some("x\ny")),
        ("ls", json!({"limit": 3}), "List files", Some("{\"limit\":3}")),
        ("deploy", json!(null), "deploy", None),
        ("mcp__a__b", json!({"url": "http://x", "description": "d"}), "mcp__a__b: d", Some("http://x")),
    ] {
        assert_eq!((project::summary(name, &arguments).as_str(), project::input(&arguments).as_deref()), (summary, input), "{name}");
    }
    let long = project::summary("bash", &json!({"command": "é".repeat(500)}));
    assert_eq!(long, format!("Run shell: {}…", "é".repeat(119)));
}

#[test]
fn hello_begins_a_fold_in_the_middle_of_an_answer() {
    let mut state = state();
    state.is_streaming = true;
    let message = stopped(vec![text("one"), text("tw")]);
    let tool = RunningTool { tool_call_id: "c".into(), tool_name: "ls".into(), args: json!({}), partial_result: None };
    let in_flight = InFlight { entry_id: Some("a1".into()), message: Some(message), tools: vec![tool], ..InFlight::default() };
    let mut fold = SnapshotFold::from_hello(&crate::state::Hello { in_flight: Some(in_flight), ..hello(state, None) }, 5);
    fold.apply(&say(1, "o"), 6);
    fold.apply(&end(stopped(vec![text("one"), text("two")])), 7);
    let snapshot = fold.snapshot();
    assert_eq!((snapshot.phase, snapshot.text.as_deref(), snapshot.task_id.as_deref()), (Phase::Streaming, Some("one\n\ntwo"), Some("a1")));
    assert_eq!(snapshot.activity.as_deref(), Some("List files"));
}

fn frame(id: u64, patch: SnapshotPatch) -> sse::Event {
    let data = serde_json::to_string(&SnapshotFrame::Snapshot { patch }).unwrap();
    sse::Event { name: "message".into(), data, id: Some(id.to_string()) }
}

#[test]
fn a_view_resumes_only_on_top_of_a_snapshot() {
    let resumed = StreamPosition { first_id: FrameId(1), last_id: FrameId(9), resumed: true, gap: false };
    let mut view = SnapshotView::new();
    assert_eq!(view.resume_id(), None);
    let grow = SnapshotPatch { append_text: Some("b".into()), ..SnapshotPatch::default() };
    assert!(matches!(view.apply_frame(&frame(1, grow.clone())), Err(SnapshotError::NoBase)));
    view.apply_frame(&frame(3, SnapshotPatch::full(UniversalSnapshot { text: Some("a".into()), ..Default::default() }))).unwrap();
    assert_eq!(view.resume_id(), Some(FrameId(3)));
    view.begin(Some(resumed));
    assert_eq!(view.apply_frame(&frame(4, grow.clone())).unwrap(), Taken::Changed);
    assert_eq!(view.snapshot().text.as_deref(), Some("ab"));
    let notice = sse::Event { name: "message".into(), data: r#"{"type":"waiting","waiting":null}"#.into(), id: None };
    assert_eq!(view.apply_frame(&notice).unwrap(), Taken::Other);
    assert_eq!(view.resume_id(), Some(FrameId(4)));
    view.begin(Some(StreamPosition { resumed: false, gap: true, ..resumed }));
    assert_eq!(view.resume_id(), None);
    assert!(matches!(view.apply_frame(&frame(5, grow)), Err(SnapshotError::NoBase)));
    let broken = sse::Event { name: "message".into(), data: r#"{"type":"snapshot","patch":{"full":7}}"#.into(), id: None };
    assert!(matches!(view.apply_frame(&broken), Err(SnapshotError::Malformed(_))));
}

/// Snapshots as the events of two sessions make them.
fn snapshots() -> impl Strategy<Value = Vec<UniversalSnapshot>> {
    (actions(), actions()).prop_map(|(first, second)| {
        let mut snapshots = vec![UniversalSnapshot::default()];
        for actions in [first, second] {
            let mut fold = SnapshotFold::new(&session());
            for (at, happening) in (1..).zip(Recorder::record(&actions)) {
                fold.apply(&happening.delta, at);
                snapshots.push(fold.snapshot().clone());
            }
        }
        snapshots
    })
}

fn through_json(patch: &SnapshotPatch) -> SnapshotPatch {
    serde_json::from_str(&serde_json::to_string(patch).unwrap()).unwrap()
}

/// Absent text is empty text.
fn same(mut snapshot: UniversalSnapshot) -> UniversalSnapshot {
    snapshot.text = snapshot.text.filter(|text| !text.is_empty());
    snapshot.reasoning = snapshot.reasoning.filter(|text| !text.is_empty());
    snapshot
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn applying_a_difference_gives_the_other(snapshots in snapshots(), picks in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 8)) {
        for (a, b) in picks {
            let (a, b) = (&snapshots[a.index(snapshots.len())], &snapshots[b.index(snapshots.len())]);
            let patch = diff(a, b);
            prop_assert!(patch.full.is_none());
            prop_assert_eq!(same(apply(Some(a.clone()), patch.clone()).unwrap()), same(b.clone()));
            prop_assert_eq!(same(apply(Some(a.clone()), through_json(&patch)).unwrap()), same(b.clone()));
            prop_assert!(diff(b, b).is_empty());
            let full = SnapshotPatch::full(b.clone());
            prop_assert_eq!(&apply(Some(a.clone()), through_json(&full)).unwrap(), b);
        }
    }

    /// A reader that looks now and then, and one whose place was forgotten and found again, see what one sees that never looked away.
    #[test]
    fn a_mark_is_all_that_a_reader_needs(script in actions(), looks in prop::collection::vec(any::<bool>(), 1..64)) {
        let mut fold = SnapshotFold::new(&session());
        let (mut seen, mut mark) = (fold.snapshot().clone(), fold.mark());
        for (at, happening) in (1_i64..).zip(Recorder::record(&script)) {
            let before = fold.mark();
            fold.apply(&happening.delta, at);
            let changed = fold.mark() != before;
            prop_assert_eq!(fold.patch_since(before).is_some(), changed);
            if looks[usize::try_from(at).unwrap() % looks.len()] && let Some(patch) = fold.patch_since(mark) {
                seen = apply(Some(seen), through_json(&patch)).unwrap();
                mark = fold.mark();
                prop_assert_eq!(&seen, fold.snapshot());
            }
        }
        if let Some(patch) = fold.patch_since(mark) {
            seen = apply(Some(seen), patch).unwrap();
        }
        prop_assert_eq!(&seen, fold.snapshot());
    }

    /// The text of a run is what its answers ended with.
    #[test]
    fn texts_are_those_of_the_answers(script in actions()) {
        let mut fold = SnapshotFold::new(&session());
        let mut texts: Vec<String> = Vec::new();
        for happening in Recorder::record(&script) {
            fold.apply(&happening.delta, 1);
            match &happening.delta {
                SessionEvent::AgentStart => texts.clear(),
                SessionEvent::MessageEnd { message: Message::Assistant(message), .. } => {
                    texts.extend(message.content.iter().filter_map(|block| match block {
                        AssistantBlock::Text(block) if !block.text.is_empty() => Some(block.text.clone()),
                        _ => None,
                    }));
                    let shown = fold.snapshot().text.clone().unwrap_or_default();
                    prop_assert_eq!(shown, texts.join("\n\n"));
                }
                _ => {}
            }
        }
    }
}
