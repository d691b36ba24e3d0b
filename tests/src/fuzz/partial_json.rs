//! The reader of unfinished tool arguments.
//!
//! Promises: whole JSON gives exactly its object; the result can be written and read again; reading it again changes nothing; every
//! beginning of a text can be read.

use wolli_protocol::message::JsonObject;
use wolli_protocol::partial_json::parse;

/// Beginnings that are read of one text.
const CUTS: usize = 32;

/// # Panics
/// For a broken promise.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let object = parse(&text);
    if let Ok(whole) = serde_json::from_str::<JsonObject>(&text) {
        assert_eq!(object, whole);
    }
    let written = serde_json::to_string(&object).unwrap();
    assert_eq!(serde_json::from_str::<JsonObject>(&written).unwrap(), object, "{written}");
    assert_eq!(parse(&written), object);
    let step = (text.len() / CUTS).max(1);
    for end in (0..text.len()).step_by(step).filter(|end| text.is_char_boundary(*end)) {
        let keys = parse(&text[..end]).len();
        assert!(keys <= end, "more keys than characters");
    }
}
