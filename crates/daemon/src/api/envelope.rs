//! The envelope of command answers, written around data that may be JSON text already. Pure.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What a command gives: no data, or JSON text.
pub(crate) type Data = Option<String>;

/// `value` as data.
pub(crate) fn data(value: &impl Serialize) -> Result<Data, String> {
    serde_json::to_string(value).map(Some).map_err(|error| format!("the answer did not serialise: {error}"))
}

/// `{"<name>": [items]}` around items that are spliced in as they are.
pub(crate) fn list(name: &str, items: &[Box<RawValue>]) -> String {
    let mut text = String::with_capacity(items.iter().map(|item| item.get().len() + 1).sum::<usize>() + name.len() + 8);
    text.push_str("{\"");
    text.push_str(name);
    text.push_str("\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(item.get());
    }
    text.push_str("]}");
    text
}

/// The answer to `request`: its `id` and `type` are echoed, whatever JSON they are.
pub(crate) fn answer(request: &Value, result: &Result<Data, String>) -> Bytes {
    let data_length = result.as_ref().ok().and_then(|data| data.as_ref()).map_or(0, String::len);
    let mut text = String::with_capacity(data_length + 128);
    text.push('{');
    if let Some(id) = request.get("id") {
        text.push_str("\"id\":");
        text.push_str(&id.to_string());
        text.push(',');
    }
    text.push_str("\"type\":\"response\"");
    if let Some(kind) = request.get("type") {
        text.push_str(",\"command\":");
        text.push_str(&kind.to_string());
    }
    match result {
        Ok(data) => {
            text.push_str(",\"success\":true");
            if let Some(data) = data {
                text.push_str(",\"data\":");
                text.push_str(data);
            }
        }
        Err(error) => {
            text.push_str(",\"success\":false,\"error\":");
            text.push_str(&Value::from(error.as_str()).to_string());
        }
    }
    text.push('}');
    text.into()
}

/// The answer to a body that is no JSON.
pub(crate) const MALFORMED: &str = r#"{"type":"response","command":"unknown","success":false,"error":"Malformed JSON body."}"#;

/// Reads a body: JSON in UTF-8, after a byte-order mark or not. Escaped halves of characters, which JavaScript can send, are replaced.
pub(crate) fn parse(body: &[u8]) -> Option<Value> {
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    wolli_protocol::surrogates::from_json(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wolli_protocol::command::Response;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_shared_type() {
        for id in [None, Some(json!(1)), Some(json!({"b": 1, "a": [null]})), Some(json!(null)), Some(json!("")), Some(json!("é\"\n"))] {
            let mut request = json!({"type": "get_state"});
            if let Some(id) = id {
                request["id"] = id;
            }
            for value in [None, Some(json!({"x": [1, 2.5, "y"]})), Some(json!(null))] {
                let text = value.as_ref().map(Value::to_string);
                let expected = serde_json::to_string(&Response::success(&request, value)).unwrap();
                assert_eq!(answer(&request, &Ok(text)), expected);
            }
            let expected = serde_json::to_string(&Response::failure(&request, "no \"x\"".into())).unwrap();
            assert_eq!(answer(&request, &Err("no \"x\"".into())), expected);
        }
        for request in [json!([1]), json!("text"), json!(null), json!({}), json!({"type": 7, "id": 1})] {
            let expected = serde_json::to_string(&Response::failure(&request, "e".into())).unwrap();
            assert_eq!(answer(&request, &Err("e".into())), expected);
        }
        assert_eq!(MALFORMED, serde_json::to_string(&Response::malformed()).unwrap());
    }

    #[test]
    fn items_are_spliced_as_they_stand() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(list("entries", &[]), r#"{"entries":[]}"#);
        assert_eq!(list("entries", &[raw(r#"{ "b":1.0}"#), raw("2")]), r#"{"entries":[{ "b":1.0},2]}"#);
    }

    #[test]
    fn bodies() {
        assert_eq!(parse(b"\xef\xbb\xbf{\"a\":1}"), Some(json!({"a": 1})));
        assert_eq!(parse(b" null "), Some(json!(null)));
        assert_eq!(parse(br#"{"a":"x\ud83d"}"#), Some(json!({"a": "x\u{fffd}"})));
        for bad in [&b""[..], b"{", b"{}x", b"\xff", b"{\"a\":\"\xff\"}", b"\xef\xbb\xbf", b"NaN", "[".repeat(100_000).as_bytes()] {
            assert_eq!(parse(bad), None);
        }
    }
}
