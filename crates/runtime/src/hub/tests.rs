//! The log against a simple model: whatever readers do, they see every frame once and in order.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use wolli_protocol::event::{AssistantMessageEvent, MessageOrReference, SessionEvent};
use wolli_protocol::ids::{EntryId, FrameId};
use wolli_protocol::message::{AssistantMessage, Message, UserMessage};
use wolli_protocol::model::Model;
use wolli_protocol::sse;

use super::testing::{hub, no_messages, state};
use super::{Attach, Cursor, CursorEnd, Hub, Include, View};
use crate::limits::{KEPT_SNAPSHOT_BYTES, RING_BYTES, RING_FRAMES};
use crate::tasks::Tasks;

fn text_delta(delta: &str) -> SessionEvent {
    SessionEvent::MessageUpdate {
        assistant_message_event: AssistantMessageEvent::TextDelta { content_index: 0, delta: delta.into(), partial: None },
        message: None,
    }
}

fn begin(hub: &Hub, entry: &str) {
    let message = AssistantMessage::begin(&Model::placeholder(), 1);
    hub.publish(&SessionEvent::MessageStart { message: Message::Assistant(message), entry_id: Some(entry.into()) });
    hub.publish(&SessionEvent::MessageUpdate {
        assistant_message_event: AssistantMessageEvent::TextStart { content_index: 0, partial: None },
        message: None,
    });
}

/// Ids and data of everything that can be read without waiting.
async fn drain(cursor: &mut Cursor) -> Result<Vec<(Option<u64>, String)>, CursorEnd> {
    let messages = no_messages();
    let mut decoder = sse::Decoder::new(64 << 20);
    let mut frames = Vec::new();
    loop {
        let batch = tokio::select! {
            biased;
            batch = cursor.next(&messages) => batch?,
            () = std::future::ready(()) => return Ok(frames),
        };
        decoder.feed(&batch);
        for event in &mut decoder {
            let event = event.unwrap();
            frames.push((event.id.map(|id| id.parse().unwrap()), event.data));
        }
    }
}

#[tokio::test]
async fn a_frame_has_the_bytes_of_the_wire() {
    let hub = hub();
    let mut attached = hub.attach(&Attach::default());
    hub.publish(&SessionEvent::TurnStart);
    let bytes = attached.cursor.next(&no_messages()).await.unwrap();
    assert_eq!(&bytes[..], b"event: message\ndata: {\"type\":\"turn_start\"}\nid: 1\n\n");
}

#[tokio::test]
async fn hello_and_replay_tell_nothing_twice() {
    let hub = hub();
    hub.publish(&SessionEvent::AgentStart);
    begin(&hub, "e1");
    hub.publish(&text_delta("Hello"));

    let fresh = hub.attach(&Attach::default());
    let stream = fresh.hello.stream.unwrap();
    assert_eq!((stream.first_id, stream.last_id, stream.resumed, stream.gap), (FrameId(1), FrameId(4), false, false));
    let in_flight = serde_json::to_value(fresh.hello.in_flight.unwrap()).unwrap();
    assert_eq!(in_flight["entryId"], "e1");
    assert_eq!(in_flight["message"]["content"], json!([{"type": "text", "text": "Hello"}]));

    let mut resumed = hub.attach(&Attach { last_event_id: Some("2".into()), ..Attach::default() });
    assert!(resumed.hello.stream.unwrap().resumed);
    assert!(resumed.hello.in_flight.is_none());
    let ids: Vec<_> = drain(&mut resumed.cursor).await.unwrap().into_iter().map(|frame| frame.0).collect();
    assert_eq!(ids, [Some(3), Some(4)]);
}

#[tokio::test]
async fn only_a_number_that_is_still_there_resumes() {
    let hub = hub();
    for _ in 0..3 {
        hub.publish(&SessionEvent::TurnStart);
    }
    for (id, resumed) in [("0", true), ("1", true), ("3", true), ("4", false), ("", false), ("-1", false), ("1e1", false), ("x", false)] {
        let stream = hub.attach(&Attach { last_event_id: Some(id.into()), ..Attach::default() }).hello.stream.unwrap();
        assert_eq!((stream.resumed, stream.gap), (resumed, !resumed), "{id:?}");
    }
    let stream = hub.attach(&Attach::default()).hello.stream.unwrap();
    assert_eq!((stream.resumed, stream.gap), (false, false));

    hub.clear_ring();
    let stream = hub.attach(&Attach { last_event_id: Some("3".into()), ..Attach::default() }).hello.stream.unwrap();
    assert_eq!((stream.first_id, stream.last_id, stream.resumed), (FrameId(4), FrameId(3), true), "nothing was missed");
    assert!(hub.attach(&Attach { last_event_id: Some("2".into()), ..Attach::default() }).hello.stream.unwrap().gap);
}

#[tokio::test]
async fn numbers_of_another_process_are_a_gap() {
    let hub = Arc::new(Hub::new(state(), FrameId::before_epoch(3)));
    hub.publish(&SessionEvent::TurnStart);
    assert_eq!(hub.last_id(), FrameId((3 << 32) + 1));
    for id in ["17", "8589934600", "12884901890"] {
        assert!(hub.attach(&Attach { last_event_id: Some(id.into()), ..Attach::default() }).hello.stream.unwrap().gap, "{id}");
    }
}

#[tokio::test]
async fn notices_reach_those_who_asked_and_are_not_replayed() {
    let hub = hub();
    let mut plain = hub.attach(&Attach::default());
    let mut asked = hub.attach(&Attach { include: Include::WAITING, ..Attach::default() });
    hub.publish(&SessionEvent::TurnStart);
    hub.publish(&SessionEvent::Waiting { waiting: None });
    hub.publish(&SessionEvent::TurnStart);
    assert_eq!(drain(&mut plain.cursor).await.unwrap().len(), 2);
    let frames = drain(&mut asked.cursor).await.unwrap();
    assert_eq!(frames.iter().map(|frame| frame.0).collect::<Vec<_>>(), [Some(1), None, Some(2)]);
    let mut late = hub.attach(&Attach { include: Include::WAITING, last_event_id: Some("2".into()), ..Attach::default() });
    assert_eq!(drain(&mut late.cursor).await.unwrap(), []);
}

#[tokio::test]
async fn the_ring_keeps_256_frames_and_stays_within_its_bytes() {
    let hub = hub();
    let mut slow = hub.attach(&Attach::default());
    let large = "x".repeat(60_000);
    begin(&hub, "e1");
    for _ in 0..400 {
        hub.publish(&text_delta(&large));
    }
    assert!(hub.lock().bytes <= RING_BYTES);
    assert_eq!(drain(&mut slow.cursor).await.unwrap_err(), CursorEnd::Lagged);

    let hub = self::hub();
    for _ in 0..RING_FRAMES + 50_000 {
        hub.publish(&SessionEvent::TurnStart);
    }
    let stream = hub.attach(&Attach::default()).hello.stream.unwrap();
    let kept = stream.last_id.0 - stream.first_id.0 + 1;
    assert!(kept >= RING_FRAMES as u64, "{kept}");
    assert!(hub.lock().bytes <= 1 << 20);
}

#[tokio::test]
async fn a_frame_larger_than_the_ring_still_arrives() {
    let hub = hub();
    let mut attached = hub.attach(&Attach::default());
    let text = "y".repeat(RING_BYTES + 10);
    hub.publish(&SessionEvent::MessageStart { message: Message::User(UserMessage::new(text, Vec::new(), 1)), entry_id: None });
    assert_eq!(drain(&mut attached.cursor).await.unwrap().len(), 1);
}

#[tokio::test]
async fn view_full_has_whole_messages_and_joins_what_waits() {
    let hub = hub();
    let mut attached = hub.attach(&Attach { view: View::Full, ..Attach::default() });
    begin(&hub, "e1");
    hub.publish(&text_delta("Hel"));
    hub.publish(&text_delta("lo"));
    let frames = drain(&mut attached.cursor).await.unwrap();
    assert_eq!(frames.iter().map(|frame| frame.0).collect::<Vec<_>>(), [Some(1), Some(2), Some(4)]);
    let update: serde_json::Value = serde_json::from_str(&frames[2].1).unwrap();
    assert_eq!(update["assistantMessageEvent"]["delta"], "Hello");
    assert_eq!(update["message"]["content"], json!([{"type": "text", "text": "Hello"}]));
    assert_eq!(update["assistantMessageEvent"]["partial"], update["message"]);
}

#[test]
fn a_reader_that_gives_up_while_messages_are_read_misses_nothing() {
    // One thread for blocking work, and it is busy until we say so: messages are being read for as long as we like.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (release, busy) = std::sync::mpsc::sync_channel::<()>(1);
    runtime.block_on(async {
        let blocked = Tasks::new().spawn_blocking(move || busy.recv());
        let hub = hub();
        let mut attached = hub.attach(&Attach { view: View::Full, ..Attach::default() });
        hub.publish(&SessionEvent::TurnEnd { message: EntryId::from("e1").into(), tool_results: Vec::new() });
        let messages = no_messages();
        for _ in 0..3 {
            tokio::select! {
                biased;
                batch = attached.cursor.next(&messages) => panic!("{batch:?}"),
                () = std::future::ready(()) => {}
            }
        }
        release.send(()).unwrap();
        blocked.await.unwrap().unwrap();
        let batch = attached.cursor.next(&messages).await.unwrap();
        assert!(batch.starts_with(b"event: message\ndata: {\"type\":\"turn_end\"") && batch.ends_with(b"\nid: 1\n\n"), "{batch:?}");
    });
}

#[tokio::test]
async fn view_full_shows_the_whole_output_of_a_tool() {
    let hub = hub();
    let mut attached = hub.attach(&Attach { view: View::Full, ..Attach::default() });
    hub.publish(&SessionEvent::ToolExecutionStart { tool_call_id: "c".into(), tool_name: "bash".into(), args: json!({"command": "x"}) });
    for text in ["", "one\n", "two\n"] {
        hub.publish(&SessionEvent::ToolExecutionUpdate {
            tool_call_id: "c".into(),
            tool_name: "bash".into(),
            args: None,
            partial_result: None,
            appended: Some(text.into()),
            skipped: None,
        });
        let frames = drain(&mut attached.cursor).await.unwrap();
        let update: serde_json::Value = serde_json::from_str(&frames.last().unwrap().1).unwrap();
        assert_eq!(update["args"], json!({"command": "x"}));
        assert!(update.get("appended").is_none());
        let expected = match text {
            "" => json!({"content": []}),
            "one\n" => json!({"content": [{"type": "text", "text": "one\n"}], "details": {}}),
            _ => json!({"content": [{"type": "text", "text": "one\ntwo\n"}], "details": {}}),
        };
        assert_eq!(update["partialResult"], expected);
    }
}

#[tokio::test]
async fn closing_ends_readers_after_their_last_frame() {
    let hub = hub();
    let mut attached = hub.attach(&Attach::default());
    hub.publish(&SessionEvent::TurnStart);
    hub.close();
    assert!(attached.cursor.next(&no_messages()).await.is_ok());
    assert_eq!(attached.cursor.next(&no_messages()).await.unwrap_err(), CursorEnd::Closed);
}

#[derive(Clone, Debug)]
enum Action {
    Publish(u8),
    Notice,
    /// Reader `n` reads everything that is there.
    Read(usize),
    /// Reader `n` loses its connection and comes back with its last id.
    Cut(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => any::<u8>().prop_map(Action::Publish),
        1 => Just(Action::Notice),
        3 => (0..3_usize).prop_map(Action::Read),
        2 => (0..3_usize).prop_map(Action::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn readers_that_are_cut_see_what_an_uncut_one_sees(actions in prop::collection::vec(action(), 1..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let hub = hub();
            let mut published: Vec<(u64, String)> = Vec::new();
            let mut readers: Vec<(Cursor, Vec<(u64, String)>)> = (0..3).map(|_| (hub.attach(&Attach::default()).cursor, Vec::new())).collect();
            for action in actions {
                match action {
                    Action::Publish(kind) => {
                        let entry: EntryId = format!("e{kind}").as_str().into();
                        let event = if kind % 2 == 0 { SessionEvent::AgentEnd { messages: vec![MessageOrReference::from(entry)] } } else { text_delta(&kind.to_string()) };
                        hub.publish(&event);
                        published.push((hub.last_id().0, serde_json::to_string(&event).unwrap()));
                    }
                    Action::Notice => hub.publish(&SessionEvent::Waiting { waiting: None }),
                    Action::Read(reader) => {
                        let (cursor, seen) = &mut readers[reader];
                        seen.extend(drain(cursor).await.unwrap().into_iter().map(|(id, data)| (id.unwrap(), data)));
                    }
                    Action::Cut(reader) => {
                        let (cursor, seen) = &mut readers[reader];
                        let last = seen.last().map_or(0, |frame| frame.0);
                        let again = hub.attach(&Attach { last_event_id: Some(last.to_string()), ..Attach::default() });
                        prop_assert!(again.hello.stream.unwrap().resumed);
                        *cursor = again.cursor;
                    }
                }
            }
            for (cursor, seen) in &mut readers {
                seen.extend(drain(cursor).await.unwrap().into_iter().map(|(id, data)| (id.unwrap(), data)));
                prop_assert_eq!(&*seen, &published);
            }
            prop_assert_eq!(*hub.watch_readers().borrow(), 3);
            Ok(())
        })?;
    }
}

/// A ring with an answer, a tool and its result, all of them long.
fn long_ring(texts: &[String]) -> Arc<Hub> {
    let hub = hub();
    for (number, text) in texts.iter().enumerate() {
        let entry: EntryId = format!("e{number}").as_str().into();
        begin(&hub, entry.as_str());
        hub.publish(&SessionEvent::MessageUpdate {
            assistant_message_event: AssistantMessageEvent::TextEnd { content_index: 0, content: text.clone(), partial: None },
            message: None,
        });
        let mut message = AssistantMessage::begin(&Model::placeholder(), 1);
        message.content = serde_json::from_value(json!([{"type": "text", "text": text}, {"type": "text", "text": "short"}])).unwrap();
        hub.publish(&SessionEvent::MessageEnd { message: Message::Assistant(message), entry_id: Some(entry) });
    }
    hub
}

#[tokio::test]
async fn the_ring_of_an_evicted_session_holds_long_texts_once_and_gives_all_of_it_back() {
    let long = |seed: usize| (0..20_000).map(|word| format!("w{} \"q\" \u{e9}\n", word * seed % 977)).collect::<String>();
    for texts in [
        vec![long(3)],
        vec!["same ".repeat(40_000)],
        // A text that an earlier answer had, and one that is its beginning.
        vec![long(5), long(5), long(5)[..79_999].to_owned()],
        vec!["short".to_owned(), long(7), String::new(), "x".repeat(5000)],
        vec!["short".to_owned()],
    ] {
        let hub = long_ring(&texts);
        let fresh = hub.kept_bytes();
        // The snapshot of a long run goes when the session leaves, and does not come back with it.
        hub.shrink_ring();
        hub.restore_ring();
        let whole = hub.kept_bytes();
        let told: usize = texts.iter().map(String::len).sum();
        assert_eq!(fresh - whole > told / 2, told > KEPT_SNAPSHOT_BYTES, "{fresh} became {whole}");
        let read = |id: &str| {
            let attach = Attach { last_event_id: Some(id.to_owned()), ..Attach::default() };
            hub.attach(&attach).cursor
        };
        let before = drain(&mut read("0")).await.unwrap();
        for _ in 0..2 {
            hub.shrink_ring();
            let packed = hub.kept_bytes();
            let doubled: usize = texts.iter().map(|text| json!(text).to_string().len()).filter(|length| *length > 4200).sum();
            assert!(packed + doubled <= whole + 300, "{whole} became {packed}, {doubled} were there twice");
            hub.restore_ring();
            assert_eq!(hub.kept_bytes(), whole);
            assert_eq!(drain(&mut read("0")).await.unwrap(), before);
        }
        // What leaves while it is packed takes nothing with it that others need.
        hub.shrink_ring();
        let last = hub.last_id();
        hub.publish(&text_delta(&"y".repeat(RING_BYTES - 600_000)));
        hub.restore_ring();
        let kept = drain(&mut read(&last.to_string())).await.unwrap();
        assert_eq!(kept.len(), 1);
        hub.clear_ring();
        hub.restore_ring();
        hub.shrink_ring();
    }
}

#[tokio::test]
async fn a_reader_never_gets_packed_frames() {
    let hub = long_ring(&["w ".repeat(10_000)]);
    let whole = hub.kept_bytes();
    let attach = Attach { last_event_id: Some("0".into()), ..Attach::default() };
    let mut reader = hub.attach(&attach).cursor;
    // The session is made to leave memory, to be deleted, while somebody is behind.
    hub.shrink_ring();
    let read = drain(&mut reader).await.unwrap();
    drop(reader);
    hub.shrink_ring();
    assert!(hub.kept_bytes() < whole);
    // Somebody comes between that and the look at whether the session is still there.
    assert_eq!(drain(&mut hub.attach(&attach).cursor).await.unwrap(), read);
    for (_, data) in read {
        serde_json::from_str::<serde_json::Value>(&data).unwrap();
    }
}
