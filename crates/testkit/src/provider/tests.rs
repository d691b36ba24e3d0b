//! The provider's own behaviour: bytes, faults, records. Its rules are tested in `rules`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Gate, Kind, MODEL, Outcome, Provider, Reply, TokenCount};
use crate::http::{Client, Connection, EventStream};

mod rules;

/// A request that breaks no rule.
fn request(kind: Kind, text: &str) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    match kind {
        Kind::Anthropic => json!({"model": MODEL, "max_tokens": 100, "stream": true, "messages": messages}),
        Kind::OpenAi => json!({"model": MODEL, "stream": true, "stream_options": {"include_usage": true}, "messages": messages}),
    }
}

const fn path(kind: Kind) -> &'static str {
    match kind {
        Kind::Anthropic => "/v1/messages",
        Kind::OpenAi => "/v1/chat/completions",
    }
}

const HEADERS: &[(&str, &str)] =
    &[("content-type", "application/json"), ("x-api-key", "k"), ("authorization", "Bearer k"), ("anthropic-version", "2023-06-01")];

async fn ask(provider: &Provider, kind: Kind, body: &Value) -> Connection {
    let mut connection = Connection::open(provider.address()).await.unwrap();
    let bytes = Client::new(provider.address(), None).request_bytes("POST", path(kind), HEADERS, Some(body.to_string().as_bytes()));
    connection.send(bytes).await.unwrap();
    connection
}

async fn stream(provider: &Provider, kind: Kind) -> EventStream {
    let mut events = EventStream::begin(ask(provider, kind, &request(kind, "hi")).await).await.unwrap();
    events.keep_bytes();
    events
}

/// The whole body of the answer, as far as it comes.
async fn body(provider: &Provider, kind: Kind) -> (String, bool) {
    let mut events = stream(provider, kind).await;
    while events.next().await.unwrap().is_some() {}
    (String::from_utf8(events.bytes().to_vec()).unwrap(), events.ended_cleanly())
}

#[tokio::test]
async fn an_answer_of_anthropics_kind_has_its_bytes() {
    let provider = Provider::start();
    let usage = TokenCount { input: 9, output: 7, cache_read: 3, cache_write: 1 };
    provider.reply(Answer::new().thinking("Hm.").text("a b").tool_call_deltas("t1", "read", ["{\"p\":", "1}"]).usage(usage));
    let expected = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_0000","type":"message","role":"assistant","model":"scripted-1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":1,"cache_read_input_tokens":3,"output_tokens":1}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig-0000-0=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

"#;
    assert_eq!(body(&provider, Kind::Anthropic).await, (expected.to_owned(), true));
}

#[tokio::test]
async fn an_answer_of_openais_kind_has_its_bytes() {
    let provider = Provider::start();
    provider.reply(Answer::new().thinking("Hm.").text("a").tool_call_deltas("t1", "read", ["{}"]).tool_call_deltas("t2", "ls", ["{}"]));
    let (text, clean) = body(&provider, Kind::OpenAi).await;
    assert!(clean && text.ends_with("data: [DONE]\n\n"));
    let chunks: Vec<Value> = text.split("\n\n").filter_map(|event| serde_json::from_str(event.strip_prefix("data: ")?).ok()).collect();
    let deltas: Vec<_> = chunks.iter().filter_map(|chunk| chunk["choices"].get(0).map(|choice| choice["delta"].clone())).collect();
    let call = |index: u32, id: &str, name: &str| json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]});
    let arguments = |index: u32| json!({"tool_calls": [{"index": index, "function": {"arguments": "{}"}}]});
    assert_eq!(
        deltas,
        [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "Hm."}),
            json!({"content": "a"}),
            call(0, "t1", "read"),
            arguments(0),
            call(1, "t2", "ls"),
            arguments(1),
            json!({}),
        ]
    );
    assert_eq!(chunks[7]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chunks[8]["usage"]["total_tokens"], 120);
    assert!(chunks[..8].iter().all(|chunk| chunk["usage"].is_null() && chunk["id"] == "chatcmpl-0000"));
}

#[tokio::test]
async fn bytes_come_as_the_script_cuts_them() {
    for kind in [Kind::Anthropic, Kind::OpenAi] {
        let provider = Provider::start();
        provider.reply(Answer::says("one two three"));
        let (whole, _) = body(&provider, kind).await;
        let whole = whole.replace("0000", "0001");

        provider.reply(Answer::says("one two three").write_size(1));
        assert_eq!(body(&provider, kind).await, (whole.clone(), true));
        for cut in [0, 1, 30, whole.len() - 1] {
            provider.reply(Answer::says("one two three").cut_at(cut));
            let number = provider.requests().len();
            let (text, clean) = body(&provider, kind).await;
            assert_eq!((text.len(), clean), (cut, false));
            assert_eq!(provider.wait_for_outcome(number).await, Outcome::Cut);
        }
    }
}

#[tokio::test]
async fn a_stalled_answer_ends_when_the_client_leaves() {
    let provider = Provider::start();
    provider.reply(Answer::says("x").stall_at(10));
    let mut events = stream(&provider, Kind::Anthropic).await;
    assert!(events.next_within(Duration::from_millis(100)).await.is_err());
    assert_eq!(events.received(), 10);
    drop(events);
    assert_eq!(provider.wait_for_outcome(0).await, Outcome::ClientClosed);
}

#[tokio::test]
async fn a_gate_holds_an_answer() {
    let provider = Provider::start();
    let gate = Gate::new();
    provider.reply(Answer::says("a b").hold_before(4, &gate));
    let mut events = stream(&provider, Kind::Anthropic).await;
    gate.reached().await;
    for _ in 0..4 {
        assert!(events.next().await.unwrap().is_some());
    }
    assert!(events.next_within(Duration::from_millis(50)).await.is_err());
    gate.open();
    let rest = events.until(|event| event.name == "message_stop").await.unwrap();
    assert_eq!(rest.len(), 4);
    assert_eq!(provider.wait_for_outcome(0).await, Outcome::Complete);
}

#[tokio::test]
async fn errors_have_the_shape_of_their_kind() {
    let provider = Provider::start();
    for (kind, shape) in [
        (Kind::Anthropic, json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}, "request_id": "req_scripted"})),
        (Kind::OpenAi, json!({"error": {"message": "slow", "type": "rate_limit_error", "param": null, "code": null}})),
    ] {
        provider.reply(Reply::error(429, "rate_limit_error", "slow").header("retry-after", "2"));
        let answer = ask(&provider, kind, &request(kind, "hi")).await.read_response().await.unwrap();
        assert_eq!((answer.status, answer.header("retry-after"), answer.json()), (429, Some("2"), shape));

        provider.reply(Answer::says("a b c").fail_after(2, "overloaded_error", "Overloaded"));
        let (text, clean) = body(&provider, kind).await;
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(clean && last.contains("Overloaded"), "{text}");
        assert_eq!(text.matches("\n\n").count(), 3);
    }
}

#[tokio::test]
async fn odd_replies_are_possible() {
    let provider = Provider::start();
    provider.reply(Reply::raw_stream("data: {broken\n\n"));
    assert_eq!(body(&provider, Kind::OpenAi).await.0, "data: {broken\n\n");
    provider.reply(Reply::HangUp);
    let mut connection = ask(&provider, Kind::OpenAi, &request(Kind::OpenAi, "x")).await;
    assert_eq!(connection.read_to_end().await.unwrap(), b"");
    provider.reply(Reply::Silence);
    let connection = ask(&provider, Kind::OpenAi, &request(Kind::OpenAi, "x")).await;
    provider.wait_for_requests(3).await;
    drop(connection);
    assert_eq!(provider.wait_for_outcome(2).await, Outcome::ClientClosed);
    provider.reply(Answer::says("x").without_end());
    assert!(!body(&provider, Kind::Anthropic).await.0.contains("message_stop"));
}

#[tokio::test]
async fn requests_are_recorded_and_a_responder_answers_them() {
    let provider = Provider::start();
    provider.respond_with(|request| Answer::says(&format!("you said {}", request.last_user_text())));
    let mut connection = Connection::open(provider.address()).await.unwrap();
    // Two requests on one connection, each in pieces.
    for text in ["one", "two"] {
        let body = request(Kind::OpenAi, text).to_string();
        let client = Client::new(provider.address(), None);
        for piece in client.request_bytes("POST", path(Kind::OpenAi), HEADERS, Some(body.as_bytes())).chunks(50) {
            connection.send(piece).await.unwrap();
        }
        let answer = connection.read_response().await.unwrap().text();
        assert!(answer.contains("said ") && answer.contains(text), "{answer}");
    }
    let requests = provider.wait_for_requests(2).await;
    assert_eq!((requests[1].number, requests[1].kind, requests[1].path.as_str()), (1, Kind::OpenAi, "/v1/chat/completions"));
    assert_eq!(requests[1].header("authorization"), Some("Bearer k"));
    assert_eq!(requests[1].messages(), [json!({"role": "user", "content": "two"})]);
    assert_eq!(requests[1].raw, request(Kind::OpenAi, "two").to_string().as_bytes());
    provider.assert_clean();
}

#[tokio::test]
async fn models_are_listed() {
    let provider = Provider::start();
    let models = Client::new(provider.address(), None).get("/v1/models").await.unwrap().json();
    assert_eq!(models["data"][0]["id"], MODEL);
    let urls = [provider.base_url(Kind::Anthropic), provider.base_url(Kind::OpenAi)];
    let json = provider.models_json();
    assert_eq!([&json["providers"]["scripted"]["baseUrl"], &json["providers"]["scripted-openai"]["baseUrl"]], [&urls[0], &urls[1]]);
}

#[tokio::test]
async fn what_no_script_expects_is_refused_and_remembered() {
    let provider = Provider::start();
    let answer = ask(&provider, Kind::OpenAi, &request(Kind::OpenAi, "x")).await.read_response().await.unwrap();
    assert_eq!(answer.status, 400);
    let client = Client::new(provider.address(), None);
    assert_eq!(client.get("/v2/else").await.unwrap().status, 404);
    let broken = client.send("POST", "/v1/messages", HEADERS, Some(br#"{"a":"\ud800"}"#)).await.unwrap();
    assert_eq!((broken.status, &broken.json()["error"]["type"]), (400, &json!("invalid_request_error")));
    let violations = provider.take_violations();
    assert_eq!(violations.len(), 3, "{violations:?}");
    assert_eq!(violations[0], "request 0: there is no reply for it");
}

#[test]
fn violations_that_nobody_took_fail_the_test() {
    let provider = Provider::start();
    provider.shared.state().violations.push("request 0: x".into());
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(provider)));
    assert!(dropped.unwrap_err().downcast_ref::<String>().unwrap().contains("request 0: x"));
}
