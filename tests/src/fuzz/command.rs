//! The body of a command, from its bytes to the answer's envelope.
//!
//! Promises: a command that was read is written as it reads; a refusal has a text; the envelope echoes `id` and `type` whatever they are.

use serde_json::Value;
use wolli_protocol::command::{Command, Response};
use wolli_protocol::surrogates;

/// # Panics
/// For a broken promise.
pub fn run(data: &[u8]) {
    let Ok(request) = surrogates::from_json::<Value>(data) else { return };
    let response = match Command::from_json(&request) {
        Ok(command) => {
            let written = serde_json::to_value(&command).unwrap();
            assert_eq!(written["type"], request["type"]);
            assert_eq!(Command::from_json(&written).unwrap(), command, "{written}");
            Response::success(&request, None)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Response::failure(&request, error.to_string())
        }
    };
    let answer: Value = serde_json::from_str(&serde_json::to_string(&response).unwrap()).unwrap();
    assert_eq!(answer.get("id"), request.get("id"));
    assert_eq!(answer.get("command"), request.get("type"));
}
