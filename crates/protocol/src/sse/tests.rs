//! The codec against the standard, against itself, and against another implementation.

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, TryStreamExt, stream};
use proptest::prelude::*;

use super::{DecodeError, Decoder, Event, PING, encode_frame, encode_json};
use crate::ids::FrameId;

const LIMIT: usize = 1 << 20;

fn event(name: &str, data: &str, id: Option<&str>) -> Event {
    Event { name: name.into(), data: data.into(), id: id.map(Into::into) }
}

/// Everything that a stream gives when it comes in these chunks, and the last id.
fn decode_chunks<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>, finish: bool) -> (Vec<Result<Event, DecodeError>>, String) {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk);
        events.extend(decoder.by_ref());
    }
    decoder.finish(finish);
    events.extend(decoder.by_ref());
    (events, decoder.last_id().to_owned())
}

fn decode(bytes: &[u8]) -> Vec<Event> {
    let (events, _) = decode_chunks(LIMIT, [bytes], false);
    events.into_iter().map(Result::unwrap).collect()
}

fn encoded(name: &str, data: &[u8], id: Option<u64>) -> String {
    let mut buffer = BytesMut::new();
    encode_frame(&mut buffer, name, data, id.map(FrameId));
    String::from_utf8(buffer.to_vec()).unwrap()
}

#[test]
fn frames_have_the_bytes_of_the_contract() {
    for (frame, bytes) in [
        (encoded("message", b"{\"type\":\"turn_start\"}", Some(2)), "event: message\ndata: {\"type\":\"turn_start\"}\nid: 2\n\n"),
        (encoded("hello", b"{}", None), "event: hello\ndata: {}\n\n"),
        (encoded("error", b"No session \"x\"", None), "event: error\ndata: No session \"x\"\n\n"),
        (encoded("message", b"a\r\nb\rc\nd", None), "event: message\ndata: a\ndata: b\ndata: c\ndata: d\n\n"),
        (encoded("message", b"a\n", None), "event: message\ndata: a\ndata: \n\n"),
        (encoded("message", b"", Some(u64::MAX)), "event: message\ndata: \nid: 18446744073709551615\n\n"),
        (encoded("bad\nid: 7", b"x", None), "event: bad\ndata: x\n\n"),
    ] {
        assert_eq!(frame, bytes);
    }
    assert_eq!(PING, b": ping\n\n");
}

#[test]
fn json_is_written_into_the_frame_and_never_breaks_it() {
    let mut buffer = BytesMut::from(&b"before"[..]);
    encode_json(&mut buffer, "message", &serde_json::json!({"text": "a\r\nb"}), Some(FrameId(7))).unwrap();
    assert_eq!(buffer, "beforeevent: message\ndata: {\"text\":\"a\\r\\nb\"}\nid: 7\n\n");

    let spread = serde_json::value::RawValue::from_string("{\r\n\"a\":\r1}".into()).unwrap();
    buffer.clear();
    encode_json(&mut buffer, "message", &spread, None).unwrap();
    assert_eq!(buffer, "event: message\ndata: {\ndata: \"a\":\ndata: 1}\n\n");
}

#[test]
fn data_without_a_json_form_leaves_the_buffer_as_it_was() {
    let mut buffer = BytesMut::from(&b"before"[..]);
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(encode_json(&mut buffer, "message", &map, None).is_err());
    assert_eq!(buffer, "before");
}

#[test]
fn streams_are_read_as_the_standard_says() {
    for (bytes, events) in [
        ("data: a\n\n", vec![event("message", "a", None)]),
        ("data:a\r\rdata: b\r\n\r\n", vec![event("message", "a", None), event("message", "b", None)]),
        ("data: a\ndata\ndata:  b\n\n", vec![event("message", "a\n\n b", None)]),
        ("event: x\ndata: a\nid: 4\n\n", vec![event("x", "a", Some("4"))]),
        ("id: 4\n\ndata: a\n\n", vec![event("message", "a", None)]),
        ("id: 4\0\ndata: a\n\n", vec![event("message", "a", None)]),
        ("id: 4\nid\ndata: a\n\n", vec![event("message", "a", Some(""))]),
        ("event: x\n\ndata: a\n\n", vec![event("message", "a", None)]),
        ("event: x\nevent:\ndata: a\n\n", vec![event("message", "a", None)]),
        (": ping\n\n: x\n:\n\n", vec![]),
        ("data\n\n", vec![event("message", "", None)]),
        ("data: a\n\ndata: lost\n", vec![event("message", "a", None)]),
        ("Data: a\n data: b\nwhat: c\nwhat\n\n", vec![]),
        ("data: a:b\n\n", vec![event("message", "a:b", None)]),
        ("\u{feff}data: a\n\n", vec![event("message", "a", None)]),
        ("\u{feff}\u{feff}data: a\n\n", vec![]),
        ("data: \u{feff}a\n\n", vec![event("message", "\u{feff}a", None)]),
        ("\n\r\n\r", vec![]),
    ] {
        assert_eq!(decode(bytes.as_bytes()), events, "{bytes:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(decode(b"data: a\xFFb\xE2\x82\nevent: \xC3\n\n"), [event("\u{fffd}", "a\u{fffd}b\u{fffd}", None)]);
    assert_eq!(decode(b"\xEF\xBBdata: a\n\n"), []);
}

#[test]
fn the_last_id_is_kept_over_events_and_known_when_an_event_is_taken() {
    let mut decoder = Decoder::new(LIMIT);
    decoder.feed(b"data: a\nid: 1\n\ndata: b\n\ndata: c\nid: 3\n\nid: 4\n\ndata: d\nid: 5\n");
    let mut seen = Vec::new();
    while let Some(Ok(event)) = Iterator::next(&mut decoder) {
        seen.push((event.data, event.id, decoder.last_id().to_owned()));
    }
    let expected = [("a", Some("1"), "1"), ("b", None, "1"), ("c", Some("3"), "3")];
    assert_eq!(seen, expected.map(|(data, id, last)| (data.to_owned(), id.map(str::to_owned), last.to_owned())));
    assert_eq!(decoder.last_id(), "4");
    assert!(decoder.is_mid_event());
    decoder.finish(true);
    assert_eq!(decoder.next(), Some(Ok(event("message", "d", Some("5")))));
    assert_eq!((decoder.next(), decoder.last_id()), (None, "5"));
}

#[test]
fn retry_is_digits_only() {
    for (bytes, retry) in [
        ("retry: 1500\n", Some(1500)),
        ("retry:7\nretry: 7s\n", Some(7)),
        ("retry\n", None),
        ("retry: -1\n", None),
        ("retry: 99999999999999999999999\n", None),
    ] {
        let mut decoder = Decoder::new(LIMIT);
        decoder.feed(bytes.as_bytes());
        assert_eq!((decoder.next(), decoder.retry()), (None, retry), "{bytes:?}");
    }
}

#[test]
fn an_unfinished_event_counts_only_if_asked() {
    for bytes in ["data: a", "data: a\n", "data: a\r"] {
        assert_eq!(decode_chunks(LIMIT, [bytes.as_bytes()], false).0, []);
        assert_eq!(decode_chunks(LIMIT, [bytes.as_bytes()], true).0, [Ok(event("message", "a", None))], "{bytes:?}");
    }
    assert_eq!(decode_chunks(LIMIT, [&b"data: a\n\n"[..]], true).0, [Ok(event("message", "a", None))]);
}

#[test]
fn an_event_above_the_limit_ends_the_stream() {
    let too_large = Err(DecodeError::TooLarge { limit: 16 });
    for (bytes, expected) in [
        (&b"data: 0123456789\n\ndata: b\n\n"[..], vec![Ok(event("message", "0123456789", None)), Ok(event("message", "b", None))]),
        (b"data: 0123456789a\n\ndata: b\n\n", vec![too_large.clone()]),
        (b"data: a\ndata: b\n\n", vec![Ok(event("message", "a\nb", None))]),
        (b"data: a\ndata: b\nid: 1\n\n", vec![too_large.clone()]),
        (b"data: b\n\n: 0123456789abcdef", vec![Ok(event("message", "b", None)), too_large.clone()]),
        (b": a\n: b\n: c\n: d\n: e\n: f\nx: y\ndata: a\n\n", vec![Ok(event("message", "a", None))]),
    ] {
        assert_eq!(decode_chunks(16, [bytes], false).0, expected);
        assert_eq!(decode_chunks(16, bytes.chunks(1), false).0, expected);
    }
}

#[test]
fn a_dead_reader_takes_in_nothing() {
    let mut decoder = Decoder::new(4);
    decoder.feed(b"data: long");
    assert!(decoder.next().unwrap().is_err());
    decoder.feed(&[b'x'; 1000]);
    assert_eq!(decoder.next(), None);
    assert!(!decoder.is_mid_event());
}

#[test]
fn one_byte_at_a_time_costs_no_more_than_a_pass() {
    let mut stream = BytesMut::new();
    encode_frame(&mut stream, "message", &vec![b'x'; 4 << 20], None);
    let mut decoder = Decoder::new(8 << 20);
    let started = std::time::Instant::now();
    let mut events = 0;
    for byte in &stream {
        decoder.feed(std::slice::from_ref(byte));
        events += decoder.by_ref().count();
    }
    assert_eq!(events, 1);
    // A reader that looks at the line again with every byte needs hours for this; the bound is far from both.
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Cuts `bytes` at the given places (modulo its length).
fn chunks<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.push(0);
    places.push(bytes.len());
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Lines that look like a stream, with every line end and some noise.
fn noisy_stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec!["data", "event", "id", "retry", ":", ": ", " ", "x", "é", "€", "\u{feff}", "\0", "17", "what"])
            .prop_map(|text| text.as_bytes().to_vec()),
        3 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// The same stream through another implementation of the standard.
fn decode_elsewhere(chunks: Vec<&[u8]>) -> Vec<Event> {
    let chunks = chunks.into_iter().map(|chunk| Ok::<_, std::convert::Infallible>(Bytes::copy_from_slice(chunk)));
    let blocks = sse_stream::SseByteStream::new(stream::iter(chunks)).try_collect::<Vec<_>>();
    let blocks = blocks.now_or_never().unwrap().unwrap();
    let with_data = blocks.into_iter().filter_map(|block| Some((block.data?, block.event, block.id)));
    with_data
        .map(|(data, name, id)| Event { name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| "message".into()), data, id })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_encoded_is_decoded_under_any_chunking(
        frames in prop::collection::vec(("[a-z_]{1,8}", ".{0,40}(\n.{0,9}){0,3}", any::<Option<u64>>()), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
        ping in any::<bool>(),
    ) {
        let mut stream = BytesMut::new();
        for (name, data, id) in &frames {
            encode_frame(&mut stream, name, data.as_bytes(), id.map(FrameId));
            if ping {
                stream.extend_from_slice(PING);
            }
        }
        let (events, last_id) = decode_chunks(LIMIT, chunks(&stream, &cuts), false);
        let expected: Vec<_> = frames.iter().map(|(name, data, id)| Ok(Event {
            name: name.clone(),
            data: data.replace("\r\n", "\n").replace('\r', "\n"),
            id: id.map(|id| id.to_string()),
        })).collect();
        prop_assert_eq!(events, expected);
        let last = frames.iter().filter_map(|(_, _, id)| *id).next_back();
        prop_assert_eq!(last_id, last.map(|id| id.to_string()).unwrap_or_default());
    }

    #[test]
    fn chunking_changes_nothing(
        stream in noisy_stream(), cuts in prop::collection::vec(any::<usize>(), 0..30), limit in 1_usize..64, finish in any::<bool>(),
    ) {
        let whole = decode_chunks(limit, [&stream[..]], finish);
        prop_assert_eq!(&decode_chunks(limit, chunks(&stream, &cuts), finish), &whole);
        prop_assert_eq!(&decode_chunks(limit, stream.chunks(1), finish), &whole);
    }
    #[test]
    fn another_implementation_reads_the_same(stream in noisy_stream(), cuts in prop::collection::vec(any::<usize>(), 0..30)) {
        let text = String::from_utf8_lossy(&stream).into_owned();
        let pieces = chunks(text.as_bytes(), &cuts);
        let (events, _) = decode_chunks(LIMIT, pieces.clone(), false);
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(events, decode_elsewhere(pieces));
    }
}
