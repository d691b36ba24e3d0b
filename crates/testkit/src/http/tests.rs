//! Chunks, heads and requests, as plain bytes.

use super::{BodyKind, ChunkDecoder, Client, Head, head_end};

#[test]
fn chunks_are_taken_off_however_they_are_cut() {
    let wire = b"5;x=1\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nrest";
    for first in 0..=wire.len() {
        for second in first..=wire.len() {
            let mut decoder = ChunkDecoder::default();
            let mut body = Vec::new();
            let mut used = 0;
            for piece in [&wire[..first], &wire[first..second], &wire[second..]] {
                used += decoder.feed(piece, &mut body).unwrap();
            }
            assert!(decoder.is_done());
            assert_eq!((body.as_slice(), used), (&b"hello 0123456789"[..], wire.len() - "rest".len()));
        }
    }
}

#[test]
fn broken_chunks_are_errors() {
    for wire in ["x\r\n", "2\r\nabc\r\n", "-1\r\n", "\r\n"] {
        assert!(ChunkDecoder::default().feed(wire.as_bytes(), &mut Vec::new()).is_err(), "{wire:?}");
    }
    let mut decoder = ChunkDecoder::default();
    decoder.feed(b"5\r\nhel", &mut Vec::new()).unwrap();
    assert!(!decoder.is_done());
}

#[test]
fn heads_are_read() {
    let bytes = b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\nX:  a : b \r\n\r\nbody";
    let end = head_end(bytes).unwrap();
    let head = Head::parse(&bytes[..end]).unwrap();
    assert_eq!((head.status().unwrap(), head.header("CONTENT-TYPE"), head.header("x")), (404, Some("text/plain"), Some("a : b")));
    assert_eq!(&bytes[end..], b"body");
    for (headers, request, kind) in [
        ("", true, Some(BodyKind::Length(0))),
        ("", false, Some(BodyKind::ToEnd)),
        ("Content-Length: 7\r\n", false, Some(BodyKind::Length(7))),
        ("Transfer-Encoding: chunked\r\n", true, Some(BodyKind::Chunked)),
        ("Content-Length: x\r\n", true, None),
        ("Content-Length: 7\r\nTransfer-Encoding: chunked\r\n", false, None),
    ] {
        let head = Head::parse(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").as_bytes()).unwrap();
        assert_eq!(head.body_kind(request).ok(), kind, "{headers:?}");
    }
}

#[test]
fn requests_are_what_they_look_like() {
    let client = Client::new(([127, 0, 0, 1], 80).into(), Some("tok"));
    let bytes = client.request_bytes("POST", "/x?y", &[("A", "b")], Some(b"{}"));
    let text = "POST /x?y HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer tok\r\nA: b\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
    let stranger = Client::new(([127, 0, 0, 1], 80).into(), None);
    assert_eq!(stranger.request_bytes("GET", "/", &[], None), b"GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
}
