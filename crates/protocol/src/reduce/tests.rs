//! The reducer against made-up sessions: both views, cuts, gaps, restarts, and streams that do not fit.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::{Applied, Attached, Queues, ReduceError, SessionView, TranscriptItem};
use crate::event::{AssistantMessageEvent as Step, SessionEvent};
use crate::ids::FrameId;
use crate::message::{AssistantBlock, JsonObject, Message, StopReason, TextContent};
use crate::sse;
use crate::state::{InFlight, StreamPosition};

pub(crate) mod script;
use script::{Action, Daemon, Happening, Part, Recorder, actions, answer, call, fresh, hello, state, user};

fn frame(id: Option<u64>, data: &serde_json::Value) -> sse::Event {
    sse::Event { name: "message".into(), data: data.to_string(), id: id.map(|id| id.to_string()) }
}

fn text(text: &str) -> AssistantBlock {
    AssistantBlock::Text(TextContent { text: text.into(), text_signature: None })
}

/// Applies frames as the wire has them, numbered from the view's position on.
fn feed(view: &mut SessionView, events: &[serde_json::Value]) {
    for event in events {
        let id = view.last_id().unwrap().0 + 1;
        view.apply_frame(&frame(Some(id), event)).unwrap();
    }
}

fn arguments(json: &serde_json::Value) -> JsonObject {
    json.as_object().unwrap().clone()
}

#[test]
fn a_prompt_with_one_tool_call_is_followed_step_by_step() {
    let mut view = fresh();
    let begun = serde_json::to_value(Message::Assistant(answer(Vec::new(), StopReason::Stop))).unwrap();
    feed(
        &mut view,
        &[
            json!({"type": "agent_start"}),
            json!({"type": "turn_start"}),
            json!({"type": "message_start", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1}, "entryId": "e1"}),
            json!({"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1}, "entryId": "e1"}),
            json!({"type": "message_start", "message": begun, "entryId": "e2"}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "text_start", "contentIndex": 0}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "Let me "}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "look."}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "text_end", "contentIndex": 0, "content": "Let me look."}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_start", "contentIndex": 1, "toolCallId": "c1", "toolName": "bash"}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_delta", "contentIndex": 1, "delta": "{\"command\":\"ls"}}),
        ],
    );
    assert!(view.state.is_streaming);
    assert_eq!(view.transcript, [TranscriptItem { entry_id: Some("e1".into()), message: user("hi") }]);
    let open = call("c1", arguments(&json!({"command": "ls"})));
    assert_eq!(
        view.in_flight_snapshot(),
        Some(InFlight {
            entry_id: Some("e2".into()),
            message: Some(answer(vec![text("Let me look."), AssistantBlock::ToolCall(open)], StopReason::Stop)),
            argument_texts: BTreeMap::from([("1".into(), "{\"command\":\"ls".into())]),
            tools: Vec::new(),
        })
    );

    let whole = call("c1", arguments(&json!({"command": "ls -l"})));
    let ended = answer(vec![text("Let me look."), AssistantBlock::ToolCall(whole.clone())], StopReason::ToolUse);
    feed(
        &mut view,
        &[
            json!({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_delta", "contentIndex": 1, "delta": " -l\"}"}}),
            json!({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_end", "contentIndex": 1, "toolCall": whole}}),
        ],
    );
    let streamed = view.in_flight.as_ref().unwrap();
    assert_eq!((streamed.message().content, streamed.argument_texts()), (ended.content.clone(), BTreeMap::new()));
    let ended = serde_json::to_value(Message::Assistant(ended)).unwrap();
    feed(
        &mut view,
        &[
            json!({"type": "message_end", "message": ended, "entryId": "e2"}),
            json!({"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "ls -l"}}),
            json!({"type": "tool_execution_update", "toolCallId": "c1", "toolName": "bash", "appended": ""}),
            json!({"type": "tool_execution_update", "toolCallId": "c1", "toolName": "bash", "appended": "a.txt\n"}),
            json!({"type": "tool_execution_update", "toolCallId": "c1", "toolName": "bash", "appended": "b.txt\n"}),
        ],
    );
    let running = json!({"tools": [{"toolCallId": "c1", "toolName": "bash", "args": {"command": "ls -l"},
        "partialResult": {"content": [{"type": "text", "text": "a.txt\nb.txt\n"}]}}]});
    assert_eq!(serde_json::to_value(view.in_flight_snapshot()).unwrap(), running);

    let result = json!({"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": [], "isError": false, "timestamp": 4});
    feed(
        &mut view,
        &[
            json!({"type": "tool_execution_end", "toolCallId": "c1", "toolName": "bash", "result": {"content": []}, "isError": false}),
            json!({"type": "message_start", "message": result, "entryId": "e3"}),
            json!({"type": "message_end", "message": result, "entryId": "e3"}),
            json!({"type": "turn_end", "message": {"entryId": "e2"}, "toolResults": [{"entryId": "e3"}]}),
            json!({"type": "agent_end", "messages": [{"entryId": "e1"}, {"entryId": "e2"}, {"entryId": "e3"}]}),
        ],
    );
    assert_eq!((view.in_flight_snapshot(), view.state.is_streaming, view.state.message_count), (None, false, 3));
    let ids: Vec<_> = view.transcript.iter().map(|item| item.entry_id.as_ref().unwrap().as_str()).collect();
    assert_eq!(ids, ["e1", "e2", "e3"]);
    assert_eq!((view.last_id(), view.resume_id()), (Some(FrameId(23)), Some(FrameId(23))));
    assert_eq!(view.after_id().unwrap().as_str(), "e3");
}

#[test]
fn numbers_are_checked() {
    let mut view = fresh();
    let start = SessionEvent::AgentStart;
    assert_eq!(view.apply(Some(FrameId(1)), &start).unwrap(), Applied::New);
    let before = view.clone();
    let end = SessionEvent::AgentEnd { messages: Vec::new() };
    assert_eq!(view.apply(Some(FrameId(1)), &end).unwrap(), Applied::Duplicate);
    assert_eq!(view.apply(Some(FrameId(0)), &end).unwrap(), Applied::Duplicate);
    for far in [3, FrameId::before_epoch(1).next().0] {
        let error = view.apply(Some(FrameId(far)), &end).unwrap_err();
        assert_eq!(error.to_string(), format!("frame {far} came where 2 was due"));
    }
    assert_eq!(view, before);
    assert_eq!(view.apply(Some(FrameId(2)), &end).unwrap(), Applied::New);
    assert!(!view.state.is_streaming);
}

#[test]
fn frames_that_are_not_understood_count_and_change_nothing() {
    let mut view = fresh();
    let before = view.clone();
    let unknown = json!({"type": "new_in_ten_years", "x": [1]});
    assert!(matches!(view.apply_frame(&frame(Some(1), &unknown)), Ok((Applied::Unknown, None))));
    assert!(matches!(view.apply_frame(&frame(Some(1), &unknown)), Ok((Applied::Duplicate, None))));
    assert!(matches!(view.apply_frame(&frame(Some(3), &unknown)), Err(ReduceError::Gap { .. })));
    let broken = json!({"type": "message_end", "message": {"role": "martian"}});
    let error = view.apply_frame(&frame(Some(2), &broken)).unwrap_err();
    assert!(matches!(&error, ReduceError::Malformed { kind, .. } if kind == "message_end"), "{error}");
    assert_eq!(view.last_id(), Some(FrameId(2)));
    assert_eq!((view.state, view.transcript), (before.state, before.transcript));
}

#[test]
fn state_frames_keep_the_state_as_the_daemon_says_it() {
    let mut view = fresh();
    let model = json!({"id": "m", "name": "M", "api": "a", "provider": "p", "baseUrl": "", "reasoning": false, "input": [],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 1, "maxTokens": 1});
    let message = json!({"role": "user", "content": "q", "timestamp": 1});
    feed(
        &mut view,
        &[
            json!({"type": "queue_update", "steer": [{"content": "q", "timestamp": 1}], "followUp": [], "nextTurn": [message]}),
            json!({"type": "model_update", "model": model, "source": "set"}),
            json!({"type": "thinking_level_update", "level": "high", "previousLevel": "medium"}),
            json!({"type": "scoped_models_update", "scopedModels": [{"model": model}]}),
        ],
    );
    assert_eq!(view.state.pending_message_count, 2);
    assert_eq!(view.state.model.as_ref().unwrap().reference(), "p/m");
    assert_eq!(view.state.thinking_level.as_str(), "high");
    assert_eq!(view.state.scoped_models.len(), 1);
    assert_eq!(view.queues.as_ref().unwrap().steer.len(), 1);
    view.rename("called");
    assert_eq!(view.state.session_name.as_deref(), Some("called"));
    view.rename("");
    assert_eq!(view.state.session_name, None);
}

#[test]
fn dialogs_and_notices_have_no_number_and_stay_until_they_are_settled() {
    let mut view = fresh();
    let confirm = json!({"type": "extension_ui_request", "id": "d1", "method": "confirm", "title": "Sure?", "message": "m"});
    let note = json!({"type": "extension_ui_request", "id": "d2", "method": "notify", "message": "n"});
    for event in [&confirm, &confirm, &note, &json!({"type": "waiting", "waiting": {"kind": "dialog", "since": "t"}})] {
        view.apply_frame(&frame(None, event)).unwrap();
    }
    assert_eq!(view.dialogs.iter().map(|dialog| dialog.id.as_str()).collect::<Vec<_>>(), ["d1"]);
    assert!(view.waiting.is_some());
    view.apply_frame(&frame(None, &json!({"type": "extension_ui_resolved", "id": "d1"}))).unwrap();
    view.apply_frame(&frame(None, &json!({"type": "waiting", "waiting": null}))).unwrap();
    assert_eq!(view, fresh());
}

#[test]
fn the_question_of_a_login_is_a_dialog_whichever_frame_brought_it() {
    let mut view = fresh();
    let prompt = json!({"type": "login_ui_request", "id": "d1", "method": "prompt", "message": "Enter API key for Groq"});
    let progress = json!({"type": "login_ui_request", "id": "d2", "method": "progress", "message": "m"});
    for event in [&prompt, &prompt, &progress] {
        view.apply_frame(&frame(None, event)).unwrap();
    }
    assert_eq!(serde_json::to_value(&view.dialogs).unwrap(), json!([{"id": "d1", "method": "input", "title": "Enter API key for Groq"}]));
    view.apply_frame(&frame(None, &json!({"type": "extension_ui_resolved", "id": "d1"}))).unwrap();
    assert_eq!(view, fresh());
}

#[test]
fn a_daemon_of_the_origin_is_followed_without_positions() {
    let mut view = SessionView::attach(
        serde_json::from_value(json!({"sessionId": "s", "thinkingLevel": "off", "scopedModels": [],
        "isStreaming": false, "messageCount": 4, "pendingMessageCount": 1}))
        .unwrap(),
    );
    assert_eq!((view.last_id(), view.resume_id(), view.queues.clone()), (None, None, None));
    let parts =
        [Part::Text(vec!["a".into(), "b".into()]), Part::Call { argument: "x".into(), cuts: vec![3], output: vec![("o".into(), 0)] }];
    let log = Recorder::record(&[Action::Run { prompt: "p".into(), parts: parts.to_vec(), aborted: false }]);
    for (index, happening) in log.iter().enumerate() {
        let mut event = serde_json::to_value(&happening.full).unwrap();
        event.as_object_mut().unwrap().remove("entryId");
        view.apply_frame(&frame(Some(100 + index as u64), &event)).unwrap();
    }
    assert_eq!((view.transcript.len(), view.state.message_count, view.after_id()), (3, 7, None));
    assert!(view.transcript.iter().all(|item| item.entry_id.is_none()));
    let missing = view.apply_frame(&frame(Some(900), &json!({"type": "turn_start"})));
    assert!(matches!(missing, Err(ReduceError::Gap { .. })));

    let again = hello(state(), None);
    assert_eq!(view.apply_hello(again).unwrap(), Attached::Rebuilt { transcript_kept: false, entries_truncated: false });
    assert_eq!((view.transcript.len(), view.last_id()), (0, None));
}

#[test]
fn a_stream_that_resumes_elsewhere_is_refused() {
    let mut view = fresh();
    view.apply(Some(FrameId(1)), &SessionEvent::AgentStart).unwrap();
    let before = view.clone();
    for (first_id, last_id) in [(3, 9), (1, 0)] {
        let stream = StreamPosition { first_id: FrameId(first_id), last_id: FrameId(last_id), resumed: true, gap: false };
        assert!(matches!(view.apply_hello(hello(state(), Some(stream))), Err(ReduceError::NotResumable)));
        assert_eq!(view, before);
    }
}

#[test]
fn changes_that_no_frame_told_are_taken_over_when_the_replay_is_done() {
    let mut view = fresh();
    view.apply(Some(FrameId(1)), &SessionEvent::TurnStart).unwrap();
    let mut appended = state();
    appended.message_count = 8;
    appended.session_name = Some("name".into());
    let stream = StreamPosition { first_id: FrameId(1), last_id: FrameId(2), resumed: true, gap: false };
    assert_eq!(view.apply_hello(hello(appended.clone(), Some(stream))).unwrap(), Attached::Resumed);
    assert_eq!((view.state.message_count, view.state.session_name.as_deref()), (0, Some("name")));
    view.apply(Some(FrameId(2)), &SessionEvent::MessageEnd { message: user("x"), entry_id: None }).unwrap();
    assert_eq!(view.state, appended);
    view.apply(Some(FrameId(3)), &SessionEvent::MessageEnd { message: user("y"), entry_id: None }).unwrap();
    assert_eq!(view.state.message_count, 9);
}

#[test]
fn a_replayed_end_of_a_run_does_not_undo_what_the_session_waits_for_now() {
    let mut view = fresh();
    let stream = StreamPosition { first_id: FrameId(1), last_id: FrameId(3), resumed: true, gap: false };
    let mut resumed = hello(state(), Some(stream));
    resumed.state.is_streaming = true;
    resumed.waiting = serde_json::from_value(json!({"kind": "approval", "since": "t"})).unwrap();
    let waiting = resumed.waiting.clone();
    view.apply_hello(resumed).unwrap();
    feed(&mut view, &[json!({"type": "agent_start"}), json!({"type": "agent_end", "messages": []}), json!({"type": "agent_start"})]);
    assert_eq!((view.waiting.clone(), view.state.is_streaming), (waiting, true));
    feed(&mut view, &[json!({"type": "agent_end", "messages": []})]);
    assert_eq!((view.waiting, view.state.is_streaming), (None, false));
}

#[test]
fn a_late_reader_that_was_not_told_the_argument_text_shows_the_snapshot_until_the_call_is_whole() {
    let snapshot = answer(vec![AssistantBlock::ToolCall(call("c1", arguments(&json!({"command": "l"}))))], StopReason::Stop);
    let mut start = hello(state(), Some(StreamPosition { first_id: FrameId(1), last_id: FrameId(7), resumed: false, gap: false }));
    start.in_flight = Some(InFlight { message: Some(snapshot.clone()), ..InFlight::default() });
    let mut view = SessionView::attach(start);
    let step = Step::ToolcallDelta { content_index: 0, delta: "s -l\"}".into(), partial: None };
    view.apply(Some(FrameId(8)), &SessionEvent::MessageUpdate { assistant_message_event: step, message: None }).unwrap();
    assert_eq!(view.in_flight.as_ref().unwrap().message(), snapshot);
    let whole = call("c1", arguments(&json!({"command": "ls -l"})));
    let step = Step::ToolcallEnd { content_index: 0, tool_call: whole.clone(), partial: None };
    view.apply(Some(FrameId(9)), &SessionEvent::MessageUpdate { assistant_message_event: step, message: None }).unwrap();
    assert_eq!(view.in_flight.unwrap().message().content, [AssistantBlock::ToolCall(whole)]);
}

#[test]
fn entries_that_come_before_their_frames_stand_in_the_transcript_once() {
    let log = Recorder::record(&[Action::Run { prompt: "p".into(), parts: vec![Part::Text(vec!["a".into()])], aborted: false }]);
    let mut view = fresh();
    let entries: Vec<_> = log.iter().filter_map(|happening| happening.entry.clone()).collect();
    view.extend_with_entries(&entries);
    let transcript = view.transcript.clone();
    for (index, happening) in log.iter().enumerate() {
        view.apply(Some(FrameId(1 + index as u64)), &happening.delta).unwrap();
        assert_eq!(view.in_flight, None);
    }
    assert_eq!((view.transcript.len(), view.state.message_count), (2, 2));
    assert_eq!(view.transcript, transcript);
}

#[test]
fn history_stands_before_what_was_seen() {
    let actions = vec![Action::Run { prompt: "p".into(), parts: vec![Part::Text(vec!["a".into()])], aborted: false }; 3];
    let log = Recorder::record(&actions);
    let entries: Vec<_> = log.iter().filter_map(|happening| happening.entry.clone()).collect();
    for seen_from in [0, 2, 4, 6] {
        let mut view = fresh();
        // Of the second half of what it saw, the frames come after the history was read.
        let (before, after) = entries[seen_from..].split_at((entries.len() - seen_from) / 2);
        view.extend_with_entries(before);
        view.prepend_history(&entries);
        for entry in after {
            let crate::entry::EntryBody::Message { message, .. } = &entry.body else { unreachable!() };
            let id = view.last_id().unwrap().next();
            view.apply(Some(id), &SessionEvent::MessageEnd { message: message.clone(), entry_id: Some(entry.id.clone()) }).unwrap();
        }
        let ids: Vec<_> = view.transcript.iter().map(|item| item.entry_id.clone().unwrap()).collect();
        assert_eq!(ids, entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn senseless_indexes_take_no_memory() {
    let mut view = fresh();
    let begun = SessionEvent::MessageStart { message: Message::Assistant(answer(Vec::new(), StopReason::Stop)), entry_id: None };
    view.apply(Some(FrameId(1)), &begun).unwrap();
    for (id, index) in [(2, usize::MAX), (3, 1 << 40)] {
        let step = Step::TextDelta { content_index: index, delta: "x".into(), partial: None };
        view.apply(Some(FrameId(id)), &SessionEvent::MessageUpdate { assistant_message_event: step, message: None }).unwrap();
    }
    assert!(view.in_flight.unwrap().blocks.len() <= 10_001);
}

#[test]
fn a_delta_costs_its_own_length() {
    let mut view = fresh();
    let begun = SessionEvent::MessageStart { message: Message::Assistant(answer(Vec::new(), StopReason::Stop)), entry_id: None };
    view.apply(Some(FrameId(1)), &begun).unwrap();
    let started = std::time::Instant::now();
    let deltas = 400_000;
    for number in 0..deltas {
        let step = Step::ToolcallDelta { content_index: 0, delta: "\"some words of an argument\",".into(), partial: None };
        view.apply(Some(FrameId(2 + number)), &SessionEvent::MessageUpdate { assistant_message_event: step, message: None }).unwrap();
    }
    // 11 MB of arguments; a reader that parses or copies them with each fragment needs hours.
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Joins deltas of one block that follow each other, as view `full` may for a reader that is behind.
fn joined(log: &[Happening]) -> Vec<(u64, SessionEvent)> {
    let mut frames: Vec<(u64, SessionEvent)> = Vec::new();
    for (index, happening) in log.iter().enumerate() {
        let id = 1 + index as u64;
        let event = happening.full.clone();
        if let (
            Some((
                last,
                SessionEvent::MessageUpdate { assistant_message_event: Step::TextDelta { delta: before, content_index: open, .. }, .. },
            )),
            SessionEvent::MessageUpdate { assistant_message_event: Step::TextDelta { delta, content_index, partial }, message },
        ) = (frames.last_mut(), &event)
            && open == content_index
        {
            *last = id;
            let delta = format!("{before}{delta}");
            let step = Step::TextDelta { content_index: *content_index, delta, partial: partial.clone() };
            frames.last_mut().unwrap().1 = SessionEvent::MessageUpdate { assistant_message_event: step, message: message.clone() };
        } else {
            frames.push((id, event));
        }
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn both_views_tell_the_same(actions in actions()) {
        let log = Recorder::record(&actions);
        let (mut delta, mut full, mut behind) = (fresh(), fresh(), fresh());
        for (index, happening) in log.iter().enumerate() {
            let id = Some(FrameId(1 + index as u64));
            delta.apply(id, &happening.delta).unwrap();
            full.apply(id, &happening.full).unwrap();
            prop_assert_eq!(&delta, &full, "after {:?}", happening);
        }
        for (id, event) in joined(&log) {
            behind.apply(Some(FrameId(id)), &event).unwrap();
        }
        prop_assert_eq!(delta, behind);
    }

    #[test]
    fn a_reader_with_any_cuts_ends_like_one_without(
        actions in actions(), ring in 0_usize..12, cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..12),
        restarts in prop::collection::vec(any::<prop::sample::Index>(), 0..2),
    ) {
        let log = Recorder::record(&actions);
        let mut daemon = Daemon::new(ring);
        let mut reader = fresh();
        let mut connected = true;
        let mut toggles: Vec<_> = cuts.iter().map(|(index, _)| index.index(log.len())).collect();
        toggles.sort_unstable();
        let restarts: Vec<_> = restarts.iter().map(|index| index.index(log.len())).collect();
        let attach = |reader: &mut SessionView, daemon: &Daemon| {
            let (hello, replay) = daemon.attach(reader.resume_id(), reader.after_id());
            let attached = reader.apply_hello(hello).unwrap();
            for (id, happening) in replay {
                assert_eq!(reader.apply(Some(id), &happening.delta).unwrap(), Applied::New);
            }
            if reader.queues.is_none() {
                // A `hello` does not tell them; everything else is compared.
                reader.queues = daemon.uncut.queues.clone();
            }
            if attached == (Attached::Rebuilt { transcript_kept: false, entries_truncated: false }) {
                // What a client does that has no transcript yet.
                reader.extend_with_entries(&daemon.entries());
            }
        };
        for (index, happening) in log.iter().enumerate() {
            for _ in toggles.iter().filter(|at| **at == index) {
                connected = !connected;
                if connected {
                    attach(&mut reader, &daemon);
                    prop_assert_eq!(&reader, &daemon.uncut);
                }
            }
            if restarts.contains(&index) && !daemon.uncut.state.is_streaming {
                daemon.restart();
                connected = false;
            }
            daemon.send(happening);
            if connected {
                let id = daemon.uncut.last_id();
                prop_assert_eq!(reader.apply(id, &happening.delta).unwrap(), Applied::New);
                prop_assert_eq!(reader.apply(id, &happening.delta).unwrap(), Applied::Duplicate);
            }
        }
        attach(&mut reader, &daemon);
        prop_assert_eq!(&reader, &daemon.uncut);
        prop_assert_eq!(reader.queues.is_some(), true);
    }

    #[test]
    fn no_frame_stops_a_reader(data in "\\PC{0,60}", id in any::<Option<u64>>()) {
        let mut view = fresh();
        let _ = view.apply_frame(&sse::Event { name: "message".into(), data, id: id.map(|id| id.to_string()) });
        prop_assert_eq!(view.queues, Some(Queues::default()));
    }
}
