//! Bytes as they are on the wire, with what differs from run to run replaced by its name.

use serde_json::Value;
use wolli_testkit::home::TestHome;
use wolli_testkit::http::{Connection, EventStream};

use crate::support::World;

/// A date as HTTP has it; the length never changes.
const DATE: &str = "Mon, 30 Nov 2026 15:40:14 GMT";

/// Sends a request twice over one connection and reads exactly as much as `expected` is long, each time. `DATE` in it is the date.
/// That both answers fit says that nothing stands between them or behind.
pub(crate) async fn expect_bytes(world: &World, request: &str, expected: &str) {
    let mut connection = Connection::open(world.agent.address()).await.unwrap();
    let length = expected.replace("DATE", DATE).len();
    for _ in 0..2 {
        connection.send(request).await.unwrap();
        let bytes = connection.read_exact(length).await.unwrap_or_else(|error| panic!("{request:?}: {error:#}"));
        assert_eq!(without_date(&String::from_utf8_lossy(&bytes)), expected, "{request:?}");
    }
}

/// Puts `DATE` in the place of a header's date.
pub(crate) fn without_date(text: &str) -> String {
    match text.split_once("date: ") {
        Some((before, rest)) if rest.len() >= DATE.len() => format!("{before}date: DATE{}", &rest[DATE.len()..]),
        _ => text.to_owned(),
    }
}

/// The head of a request for that path, by the agent's owner, without its last line.
pub(crate) fn owner(world: &World, method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n", world.agent.address(), world.agent.token)
}

/// A whole request to the session's `control`.
pub(crate) fn control(world: &World, body: &str) -> String {
    let head = owner(world, "POST", &format!("/sessions/{}/control", world.session));
    format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A stream that keeps its bytes.
pub(crate) async fn stream(world: &World, path: &str, headers: &[(&str, &str)]) -> EventStream {
    let mut stream = world.client().events(path, headers).await.unwrap();
    stream.keep_bytes();
    stream
}

/// What a stream brought so far, as text, cut behind each frame and comment.
pub(crate) fn frames(stream: &EventStream) -> Vec<String> {
    let text = String::from_utf8(stream.bytes().to_vec()).unwrap();
    text.split_inclusive("\n\n").map(str::to_owned).collect()
}

/// The id of a frame's text, if it has one.
pub(crate) fn id_of(frame: &str) -> Option<u64> {
    frame.trim_end().rsplit_once("\nid: ")?.1.parse().ok()
}

/// The JSON of a frame's text.
pub(crate) fn data_of(frame: &str) -> Value {
    let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_else(|| panic!("no data in {frame:?}"));
    serde_json::from_str(data).unwrap()
}

/// Replaces the number behind each `"key":`.
pub(crate) fn without_numbers(text: &str, key: &str, name: &str) -> String {
    let mark = format!("\"{key}\":");
    let mut pieces = text.split(mark.as_str());
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        result.push_str(&mark);
        result.push_str(if digits > 0 { name } else { "" });
        result.push_str(&piece[digits..]);
    }
    result
}

/// Replaces the text behind each `"key":"`.
pub(crate) fn without_texts(text: &str, key: &str, name: &str) -> String {
    let mark = format!("\"{key}\":\"");
    let mut pieces = text.split(mark.as_str());
    let mut result = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find('"').unwrap_or(piece.len());
        result.push_str(&mark);
        result.push_str(name);
        result.push_str(&piece[end..]);
    }
    result
}

/// An agent that serves clients of wolli 0.0.2: their shapes are the default of its streams.
pub(crate) async fn compatible(settings: Value, include: &str) -> World {
    let home = TestHome::new().unwrap();
    let agent = home.agent("scribe", settings).unwrap();
    home.write("agents/scribe/config.toml", format!("[events]\nview = \"full\"\n{include}")).unwrap();
    World::begin(home, agent).await
}
