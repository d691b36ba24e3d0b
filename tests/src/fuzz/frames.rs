//! A client's whole way from the bytes of a stream to the state of a session, and the daemon's snapshot of the same events.
//!
//! Promises: nothing that a daemon sends makes a client panic; a number counts once; what the view holds can be written as JSON and
//! read again; the patches of a snapshot lead to the snapshot.

use wolli_protocol::ids::{FrameId, SessionId};
use wolli_protocol::reduce::{Applied, Reading, SessionView, read_event};
use wolli_protocol::snapshot::{SnapshotFold, UniversalSnapshot, apply};
use wolli_protocol::sse::Decoder;
use wolli_protocol::state::Hello;

const LIMIT: usize = 1 << 20;

/// # Panics
/// For a broken promise.
pub fn run(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.feed(data);
    decoder.finish(true);
    let mut view: Option<SessionView> = None;
    let mut fold = SnapshotFold::new(&SessionId::from("s"));
    let mut patched = fold.snapshot().clone();
    let mut mark = fold.mark();
    let mut last: Option<FrameId> = None;
    for event in decoder.map_while(Result::ok) {
        if event.name == "hello" {
            let Ok(hello) = serde_json::from_str::<Hello>(&event.data) else { continue };
            fold = SnapshotFold::from_hello(&hello, 1);
            (patched, mark) = (fold.snapshot().clone(), fold.mark());
            last = None;
            view = match view.take() {
                None => Some(SessionView::attach(hello)),
                Some(mut view) => view.apply_hello(hello).is_ok().then_some(view),
            };
            continue;
        }
        if let Reading::Event(frame) = read_event(&event.data) {
            fold.apply(&frame, 2);
            if let Some(patch) = fold.patch_since(mark) {
                let patch = serde_json::from_str(&serde_json::to_string(&patch).unwrap()).unwrap();
                patched = apply(Some(patched), patch).unwrap();
                mark = fold.mark();
            }
            assert_eq!(read_again(&patched), read_again(fold.snapshot()), "after {}", event.data);
        }
        let Some(view) = &mut view else { continue };
        let number = event.id.as_deref().and_then(FrameId::parse);
        if let Ok((applied, _)) = view.apply_frame(&event)
            && let (Some(number), Applied::New) = (number, applied)
        {
            assert!(last.is_none_or(|last| number > last), "{number} counted after {last:?}");
            last = Some(number);
        }
        check(view);
    }
}

fn read_again(snapshot: &UniversalSnapshot) -> serde_json::Value {
    serde_json::to_value(snapshot).unwrap()
}

fn check(view: &SessionView) {
    let state = serde_json::to_string(&view.state).unwrap();
    assert_eq!(serde_json::from_str::<wolli_protocol::state::SessionState>(&state).unwrap(), view.state);
    if let Some(in_flight) = view.in_flight_snapshot() {
        let text = serde_json::to_string(&in_flight).unwrap();
        serde_json::from_str::<wolli_protocol::state::InFlight>(&text).unwrap();
    }
}
