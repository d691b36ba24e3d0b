//! The decoder of event streams. The first byte says how the rest is cut.
//!
//! Promises: what comes out does not depend on the cuts; what the encoder writes of it reads the same.

use bytes::BytesMut;
use wolli_protocol::ids::FrameId;
use wolli_protocol::sse::{DecodeError, Decoder, Event, encode_frame};

/// Small, so that the limit is met.
const LIMIT: usize = 4096;

/// All that a stream gives: its events, its last id, and how it failed.
type Outcome = (Vec<Event>, String, Option<DecodeError>);

fn decode(pieces: impl Iterator<Item = Vec<u8>>) -> Outcome {
    let mut decoder = Decoder::new(LIMIT);
    let (mut events, mut error) = (Vec::new(), None);
    let mut take = |decoder: &mut Decoder| {
        for event in decoder.by_ref() {
            match event {
                Ok(event) => events.push(event),
                Err(failure) => {
                    assert!(error.replace(failure).is_none(), "a stream failed twice");
                }
            }
        }
    };
    for piece in pieces {
        decoder.feed(&piece);
        take(&mut decoder);
    }
    decoder.finish(false);
    take(&mut decoder);
    (events, decoder.last_id().to_owned(), error)
}

/// # Panics
/// For a broken promise.
pub fn run(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else { return };
    let whole = decode(std::iter::once(stream.to_vec()));
    let step = usize::from(*step).max(1);
    assert_eq!(decode(stream.chunks(step).map(<[u8]>::to_vec)), whole, "cut after every {step} bytes");

    let mut written = BytesMut::new();
    for event in &whole.0 {
        let id = event.id.as_deref().and_then(FrameId::parse);
        encode_frame(&mut written, &event.name, event.data.as_bytes(), id);
    }
    let again = decode(std::iter::once(written.to_vec()));
    let expected =
        whole.0.iter().map(|event| Event { id: event.id.as_deref().and_then(FrameId::parse).map(|id| id.to_string()), ..event.clone() });
    // Bytes that were no UTF-8 take more room when they are replaced.
    if again.2.is_none() {
        assert_eq!(again.0, expected.collect::<Vec<_>>(), "written and read again");
    } else {
        assert!(stream.len() > LIMIT / 3, "what fitted before does not fit: {again:?}");
    }
}
