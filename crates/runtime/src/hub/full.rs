//! View `full`: the shapes of wolli 0.0.2, built from the ring for the readers that ask for them.
//!
//! Updates show the whole as it stands when the frame is built, which may be ahead of the frame's own delta but
//! never behind it. Deltas of one block that wait together become one frame with the last number.

use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use wolli_protocol::event::{AssistantMessageEvent, MessageOrReference, SessionEvent};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::Message;

use super::frame::{Body, Frame, encode, encode_text};
use super::live::{LiveMessage, lock};
use crate::session::MessageSource;

/// Bytes of `frames` in view `full`. Reads the session file for the messages that `turn_end` and `agent_end` name.
pub(super) async fn render(frames: &[Frame], messages: &MessageSource) -> Bytes {
    let mut out = BytesMut::new();
    let mut rest = frames;
    while let Some(frame) = rest.first() {
        let used = match &frame.body {
            Body::Plain => {
                out.extend_from_slice(&frame.bytes);
                1
            }
            Body::Update(message) => {
                let run = rest.iter().take_while(|other| matches!(&other.body, Body::Update(same) if Arc::ptr_eq(same, message))).count();
                match snapshot(message, messages).await {
                    Some(snapshot) => render_updates(&rest[..run], &snapshot, &mut out),
                    // Without the whole there is still what is new.
                    None => rest[..run].iter().for_each(|frame| out.extend_from_slice(&frame.bytes)),
                }
                run
            }
            Body::ToolUpdate(tool) => {
                // Only the newest of several waiting updates: each carries the whole result so far.
                let run = rest.iter().take_while(|other| matches!(&other.body, Body::ToolUpdate(same) if Arc::ptr_eq(same, tool))).count();
                let last = &rest[run - 1];
                let tool = lock(tool);
                let event = SessionEvent::ToolExecutionUpdate {
                    tool_call_id: tool.tool_call_id.clone(),
                    tool_name: tool.tool_name.clone(),
                    args: Some(tool.args.clone()),
                    partial_result: tool.partial_result(),
                    appended: None,
                    skipped: None,
                };
                out.extend_from_slice(&encode(&event, last.id()));
                run
            }
            Body::TurnEnd { message, results } => {
                let mut whole = load(messages, std::iter::once(message).chain(results.iter())).await;
                let event = SessionEvent::TurnEnd { message: whole.remove(0), tool_results: whole };
                out.extend_from_slice(&encode(&event, frame.id()));
                1
            }
            Body::AgentEnd { messages: ids } => {
                let event = SessionEvent::AgentEnd { messages: load(messages, ids.iter()).await };
                out.extend_from_slice(&encode(&event, frame.id()));
                1
            }
        };
        rest = &rest[used..];
    }
    out.freeze()
}

/// The whole message so far, or as it was stored.
async fn snapshot(message: &Mutex<LiveMessage>, messages: &MessageSource) -> Option<Message> {
    let stored = match &*lock(message) {
        LiveMessage::Growing(message) => return Some(Message::Assistant(message.message())),
        LiveMessage::Stored(entry_id) => entry_id.clone(),
    };
    messages.read(vec![stored]).await.pop().flatten()
}

/// The messages of entries; one that cannot be read stays a reference, which says at least which it was.
async fn load(messages: &MessageSource, ids: impl Iterator<Item = &EntryId>) -> Vec<MessageOrReference> {
    let ids: Vec<EntryId> = ids.cloned().collect();
    let found = messages.read(ids.clone()).await;
    ids.into_iter()
        .zip(found)
        .map(|(id, message)| message.map_or_else(|| id.into(), |message| MessageOrReference::Message(Box::new(message))))
        .collect()
}

fn render_updates(frames: &[Frame], snapshot: &Message, out: &mut BytesMut) {
    // Serialised once, spliced in twice per frame.
    let whole = serde_json::to_string(snapshot).unwrap_or_else(|_| "null".into());
    let mut pending: Option<(AssistantMessageEvent, &Frame)> = None;
    for frame in frames {
        let Some(event) = parse_update(frame.data()) else { continue };
        pending = match pending.take() {
            Some((mut joined, last)) => {
                if join_delta(&mut joined, &event) {
                    Some((joined, frame))
                } else {
                    put_update(&joined, last, &whole, out);
                    Some((event, frame))
                }
            }
            None => Some((event, frame)),
        };
    }
    if let Some((event, frame)) = pending {
        put_update(&event, frame, &whole, out);
    }
}

fn parse_update(data: &[u8]) -> Option<AssistantMessageEvent> {
    match serde_json::from_slice(data) {
        Ok(SessionEvent::MessageUpdate { assistant_message_event, .. }) => Some(assistant_message_event),
        _ => None,
    }
}

/// Adds `next` to `joined` if both are deltas of one kind and block.
fn join_delta(joined: &mut AssistantMessageEvent, next: &AssistantMessageEvent) -> bool {
    use AssistantMessageEvent::{TextDelta, ThinkingDelta, ToolcallDelta};
    match (joined, next) {
        (TextDelta { content_index, delta, .. }, TextDelta { content_index: index, delta: more, .. })
        | (ThinkingDelta { content_index, delta, .. }, ThinkingDelta { content_index: index, delta: more, .. })
        | (ToolcallDelta { content_index, delta, .. }, ToolcallDelta { content_index: index, delta: more, .. })
            if content_index == index =>
        {
            delta.push_str(more);
            true
        }
        _ => false,
    }
}

fn put_update(event: &AssistantMessageEvent, frame: &Frame, whole: &str, out: &mut BytesMut) {
    let mut event = event.clone();
    if let AssistantMessageEvent::ToolcallStart { tool_call_id, tool_name, .. } = &mut event {
        (*tool_call_id, *tool_name) = (None, None);
    }
    let mut text = serde_json::to_string(&event).unwrap_or_else(|_| "{}".into());
    text.pop();
    let json = format!(r#"{{"type":"message_update","assistantMessageEvent":{text},"partial":{whole}}},"message":{whole}}}"#);
    encode_text(&json, frame.id(), out);
}
