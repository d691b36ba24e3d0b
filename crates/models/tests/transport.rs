//! Requests over real sockets: cuts, stalls, retries, refusals, and cancellation in each phase.
#![expect(clippy::unwrap_used, reason = "tests")]

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{Reply, Server, anthropic_text, events};
use tokio_util::sync::CancellationToken;
use wolli_models::auth::RequestAuth;
use wolli_models::client::ModelClient;
use wolli_models::event::ModelEvent;
use wolli_models::request::{ClientConfig, ModelRequest};
use wolli_protocol::event::AssistantMessageEvent;
use wolli_protocol::message::{AssistantMessage, Message, StopReason, UserMessage};
use wolli_protocol::model::{Model, ThinkingLevel};

const KEY: &str = "sk-planted-secret-key";

fn request(base_url: String) -> ModelRequest {
    let model = Model {
        id: "claude-test".into(),
        api: "anthropic-messages".into(),
        provider: "custom".into(),
        base_url,
        input: vec!["text".into(), "image".into()],
        context_window: 1000,
        max_tokens: 100,
        ..Model::placeholder()
    };
    ModelRequest {
        model,
        system: String::new(),
        messages: vec![Arc::new(Message::User(UserMessage::new("hi", Vec::new(), 1)))],
        tools: Arc::from([]),
        thinking: ThinkingLevel::Off,
        session_id: "s".into(),
        auth: RequestAuth { key: Some(KEY.into()), headers: Vec::new() },
        max_tokens: None,
        chosen_by_name: true,
    }
}

fn fast() -> ClientConfig {
    ClientConfig {
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_millis(500),
        backoff_base: Duration::from_millis(4),
        retry_after_cap: Duration::from_secs(2),
        ..ClientConfig::default()
    }
}

/// All events of a request, with what must hold for each.
async fn collect(request: ModelRequest) -> Vec<ModelEvent> {
    let mut stream = ModelClient::new(fast()).stream(request, CancellationToken::new());
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await {
        seen.push(event);
    }
    assert!(stream.next().await.is_none());
    let place = |wanted: fn(&ModelEvent) -> bool| seen.iter().position(wanted);
    assert!(seen.iter().filter(|event| matches!(event, ModelEvent::End(_))).count() == 1);
    assert!(matches!(seen.last(), Some(ModelEvent::End(_))));
    assert!(seen.iter().filter(|event| matches!(event, ModelEvent::Start(_))).count() <= 1);
    if let Some(step) = place(|event| matches!(event, ModelEvent::Step(_))) {
        assert!(place(|event| matches!(event, ModelEvent::Start(_))).unwrap() < step);
        assert!(!seen[step..].iter().any(|event| matches!(event, ModelEvent::Retry(_))));
    }
    assert!(!format!("{seen:?}").contains(KEY), "a key was shown");
    seen
}

fn end(events: &[ModelEvent]) -> &AssistantMessage {
    match events.last() {
        Some(ModelEvent::End(message)) => message,
        other => panic!("no end: {other:?}"),
    }
}

fn text(message: &AssistantMessage) -> String {
    let content = serde_json::to_value(&message.content).unwrap();
    content.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
}

fn retries(events: &[ModelEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ModelEvent::Retry(_))).count()
}

fn error(status: u16, body: &str) -> Reply {
    Reply::status(status, &[], body)
}

#[tokio::test]
async fn an_answer_comes_as_it_is_sent_and_the_connection_is_used_again() {
    let server = Server::start(vec![Reply::stream(&anthropic_text(&["Hel", "lo"])), Reply::stream(&anthropic_text(&["again"]))]).await;
    let client = ModelClient::new(fast());
    for expected in ["Hello", "again"] {
        let mut stream = client.stream(request(server.url()), CancellationToken::new());
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event);
        }
        let Some(ModelEvent::End(message)) = last else { panic!("no end") };
        assert_eq!((text(&message).as_str(), message.stop_reason), (expected, StopReason::Stop));
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(server.connections(), 1);
    assert_eq!(requests[0].line, "POST /v1/messages HTTP/1.1");
    for (name, value) in [("x-api-key", KEY), ("anthropic-version", "2023-06-01"), ("content-type", "application/json")] {
        assert_eq!(requests[0].header(name), Some(value), "{name}");
    }
    assert_eq!(requests[0].json()["messages"][0]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn each_delta_arrives_before_the_next_is_sent() {
    let pieces = anthropic_text(&["one", "two"]);
    let (reply, gate) = Reply::gated(&pieces);
    let server = Server::start(vec![reply]).await;
    let mut stream = ModelClient::new(fast()).stream(request(server.url()), CancellationToken::new());
    // The response headers alone are the start.
    assert!(matches!(stream.next().await, Some(ModelEvent::Start(message)) if message.content.is_empty()));
    let mut deltas = Vec::new();
    for sent in 0..pieces.len() {
        gate.open();
        // message_start, block start, "one", "two", block stop, message_delta, message_stop
        if matches!(sent, 1..=4) {
            if let Some(ModelEvent::Step(AssistantMessageEvent::TextDelta { delta, .. })) = stream.next().await {
                deltas.push(delta);
            }
            assert_eq!(deltas.len(), sent.saturating_sub(1).min(2), "after piece {sent}");
        }
    }
    assert!(matches!(stream.next().await, Some(ModelEvent::End(_))));
}

#[tokio::test]
async fn passing_failures_are_retried_and_leave_no_trace() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let started = &anthropic_text(&["x"])[..1];
    let failures: Vec<(&str, Reply)> = vec![
        ("529", error(529, r#"{"error":{"type":"overloaded_error"}}"#)),
        ("429 with a wait", Reply::status(429, &[("retry-after-ms", "30")], "{}")),
        ("500", error(500, "")),
        ("408", error(408, "")),
        ("overloaded as the first event", Reply::stream(&events(std::slice::from_ref(&overloaded)))),
        ("overloaded after message_start", Reply::stream(&[started, &events(std::slice::from_ref(&overloaded))].concat())),
        ("an error as JSON with status 200", Reply::status(200, &[], &overloaded.to_string())),
        ("closed before any byte", Reply::close()),
        ("reset in the middle", Reply::cut(started)),
        ("ended too soon", Reply::stream(started)),
        ("silent before the headers", Reply::stall(None)),
        ("silent after the headers", Reply::stall(Some(started))),
    ];
    for (name, failure) in failures {
        let server = Server::start(vec![failure, Reply::stream(&anthropic_text(&["fine"]))]).await;
        let events = collect(request(server.url())).await;
        assert_eq!((text(end(&events)).as_str(), retries(&events)), ("fine", 1), "{name}: {events:?}");
        assert_eq!((server.requests().len(), end(&events).error_message.as_deref()), (2, None), "{name}");
    }
}

#[tokio::test]
async fn lasting_failures_are_not_retried() {
    for (status, body, expected) in [
        (401, r#"{"error":{"message":"bad sk-planted-secret-key"}}"#, r#"401 {"error":{"message":"bad ***"}}"#),
        (
            400,
            r#"{"type":"error","error":{"message":"max_tokens: too few"}}"#,
            r#"400 {"type":"error","error":{"message":"max_tokens: too few"}}"#,
        ),
        (429, r#"{"error":{"type":"insufficient_quota"}}"#, r#"429 {"error":{"type":"insufficient_quota"}}"#),
        (413, "", "413 status code (no body)"),
        (404, "not here", "404 not here"),
    ] {
        let server = Server::start(vec![error(status, body)]).await;
        let events = collect(request(server.url())).await;
        assert_eq!(end(&events).error_message.as_deref(), Some(expected));
        assert_eq!((end(&events).stop_reason, server.requests().len(), events.len()), (StopReason::Error, 1, 1));
    }
}

#[tokio::test]
async fn after_the_first_step_nothing_is_sent_again() {
    let said = &anthropic_text(&["a", "b", "c", "d"])[..5];
    let overloaded = events(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]);
    for (name, reply, expected) in [
        ("overloaded", Reply::stream(&[said, &overloaded].concat()), "overloaded_error"),
        ("reset", Reply::cut(said), "broke off"),
        ("ended", Reply::stream(said), "Anthropic stream ended before message_stop"),
        ("silent", Reply::stall(Some(said)), "sent nothing for 500ms"),
    ] {
        let server = Server::start(vec![reply, Reply::stream(&anthropic_text(&["again"]))]).await;
        let events = collect(request(server.url())).await;
        let message = end(&events);
        assert_eq!((text(message).as_str(), message.stop_reason, server.requests().len()), ("abc", StopReason::Error, 1), "{name}");
        assert!(message.error_message.as_deref().unwrap().contains(expected), "{name}: {:?}", message.error_message);
    }
}

#[tokio::test]
async fn retries_are_bounded_and_say_why() {
    let server = Server::start((0..9).map(|_| error(529, "busy")).collect()).await;
    let events = collect(request(server.url())).await;
    assert_eq!((retries(&events), server.requests().len()), (4, 5));
    assert_eq!(end(&events).error_message.as_deref(), Some("529 busy"));
    for (number, event) in events[..4].iter().enumerate() {
        let ModelEvent::Retry(notice) = event else { panic!("{event:?}") };
        assert!(!notice.rate_limited);
        assert_eq!((notice.attempt as usize, notice.max, notice.reason.as_str()), (number + 1, 4, "529 busy"));
    }
}

#[tokio::test]
async fn the_servers_wish_to_wait_is_honoured_up_to_a_cap() {
    let server = Server::start(vec![Reply::status(429, &[("retry-after", "1")], "slow"), Reply::stream(&anthropic_text(&["ok"]))]).await;
    let started = Instant::now();
    assert_eq!(text(end(&collect(request(server.url())).await)), "ok");
    assert!(started.elapsed() >= Duration::from_secs(1));

    let server = Server::start(vec![Reply::status(429, &[("retry-after", "3600")], "slow")]).await;
    let events = collect(request(server.url())).await;
    assert_eq!(retries(&events), 0);
    assert_eq!(end(&events).error_message.as_deref(), Some("429 slow (the provider asks to wait 3600 s; waiting is limited to 2 s)"));
}

#[tokio::test]
async fn a_refused_part_is_dropped_once() {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.1.image.source.base64: image exceeds 5 MB"}}"#;
    let with_image = |url| {
        let image = wolli_protocol::message::ImageContent { data: PNG.into(), mime_type: "image/png".into() };
        ModelRequest { messages: vec![Arc::new(Message::User(UserMessage::new("look", vec![image], 1)))], ..request(url) }
    };
    let server = Server::start(vec![error(400, refusal), Reply::stream(&anthropic_text(&["seen"]))]).await;
    let events = collect(with_image(server.url())).await;
    assert_eq!((text(end(&events)).as_str(), retries(&events)), ("seen", 0));
    let requests = server.requests();
    assert!(requests[0].json().to_string().contains(PNG) && !requests[1].json().to_string().contains(PNG));

    // Nothing to drop: the refusal is final.
    let server = Server::start(vec![error(400, refusal), error(400, refusal)]).await;
    let events = collect(request(server.url())).await;
    assert_eq!(
        (server.requests().len(), end(&events).error_message.as_deref()),
        (1, Some(&*format!("400 {}", serde_json::from_str::<Value>(refusal).unwrap())))
    );

    // A server that refuses everything is not asked for ever.
    let server = Server::start((0..9).map(|_| error(400, refusal)).collect()).await;
    let events = collect(with_image(server.url())).await;
    assert_eq!((server.requests().len(), end(&events).stop_reason), (2, StopReason::Error));
}

/// Else every prompt of a session with such a part would be refused first.
#[tokio::test]
async fn what_was_refused_once_is_left_out_of_later_requests() {
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Could not process image"}}"#;
    let image = wolli_protocol::message::ImageContent { data: PNG.into(), mime_type: "image/png".into() };
    let messages = vec![Arc::new(Message::User(UserMessage::new("look", vec![image], 1)))];
    let fine = || Reply::stream(&anthropic_text(&["seen"]));
    let client = ModelClient::new(fast());
    let ask = async |server: &Server| {
        let mut stream = client.stream(ModelRequest { messages: messages.clone(), ..request(server.url()) }, CancellationToken::new());
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            events.push(event);
        }
        end(&events).stop_reason
    };
    // Refused, and refused without it as well: nobody knows what was wrong, and it is sent again.
    let server = Server::start(vec![error(400, refusal), error(400, "{}"), error(400, refusal), fine(), fine()]).await;
    assert_eq!(ask(&server).await, StopReason::Error);
    assert_eq!(ask(&server).await, StopReason::Stop);
    assert_eq!(ask(&server).await, StopReason::Stop);
    let sent: Vec<bool> = server.requests().iter().map(|request| request.json().to_string().contains(PNG)).collect();
    assert_eq!(sent, [true, false, true, false, false]);
    // Another process, which knows nothing of it.
    let server = Server::start(vec![fine()]).await;
    collect(ModelRequest { messages: messages.clone(), ..request(server.url()) }).await;
    assert!(server.requests()[0].json().to_string().contains(PNG));
}

#[tokio::test]
async fn cancelling_ends_at_once_in_every_phase_with_what_had_arrived() {
    let pieces = anthropic_text(&["kept"]);
    for (name, reply, until, expected) in [
        ("before the headers", Reply::stall(None), 0, ""),
        ("after the headers", Reply::stall(Some(&[])), 1, ""),
        ("within the text", Reply::stall(Some(&pieces[..3])), 3, "kept"),
        ("while waiting to retry", Reply::status(429, &[("retry-after", "1")], ""), 1, ""),
        ("within an error text", Reply::stall_in_error(500), 0, ""),
    ] {
        let server = Server::start(vec![reply]).await;
        let cancel = CancellationToken::new();
        let config = ClientConfig { idle_timeout: Duration::from_secs(30), ..fast() };
        let mut stream = ModelClient::new(config).stream(request(server.url()), cancel.clone());
        for _ in 0..until {
            assert!(!matches!(stream.next().await, None | Some(ModelEvent::End(_))), "{name}");
        }
        if until == 0 {
            // Poll it until the request is there, then cancel.
            tokio::select! {
                event = stream.next() => panic!("{name}: {event:?}"),
                () = server.asked() => {}
            }
        }
        cancel.cancel();
        let started = Instant::now();
        let Some(ModelEvent::End(message)) = stream.next().await else { panic!("{name}: no end") };
        assert!(started.elapsed() < Duration::from_secs(5), "{name}");
        assert_eq!((message.stop_reason, message.error_message.as_deref()), (StopReason::Aborted, Some("Request was aborted")), "{name}");
        assert_eq!(text(&message), expected, "{name}");
        assert!(stream.next().await.is_none());
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut stream = ModelClient::new(fast()).stream(request("http://127.0.0.1:9".into()), cancel);
    assert!(matches!(stream.next().await, Some(ModelEvent::End(message)) if message.stop_reason == StopReason::Aborted));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let server = Server::start(vec![Reply::stall(Some(&anthropic_text(&["x"])[..3]))]).await;
    let mut stream = ModelClient::new(fast()).stream(request(server.url()), CancellationToken::new());
    assert!(stream.next().await.is_some());
    drop(stream);
    tokio::time::timeout(Duration::from_secs(2), server.closed()).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_sent_is_an_error_with_a_name() {
    let change = |change: &dyn Fn(&mut ModelRequest)| {
        let mut request = request("http://127.0.0.1:9".into());
        change(&mut request);
        request
    };
    for (asked, expected) in [
        (change(&|it| it.auth.key = None), "No API key for provider: custom"),
        (change(&|it| it.model.api = "smoke-signals".into()), "No API provider registered for api: smoke-signals"),
        (change(&|it| it.model.base_url = "nonsense".into()), "invalid base URL for provider custom"),
        (change(&|it| it.model.base_url = "file:///etc".into()), "the scheme file is not http or https"),
        (change(&|it| it.auth.key = Some("a\nb".into())), "the API key for provider custom has characters that cannot be sent"),
        (change(&|it| it.auth.headers.push(("bad name".into(), "x".into()))), "header \"bad name\" has a name or a value"),
        (change(&|_| {}), "Connection error: could not reach 127.0.0.1:9"),
    ] {
        let events = collect(asked).await;
        let message = end(&events).error_message.clone().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let other = Server::start(vec![Reply::stream(&anthropic_text(&["stolen"]))]).await;
    let location = format!("{}/v1/messages", other.url());
    let server = Server::start(vec![Reply::status(307, &[("location", &location)], "")]).await;
    let events = collect(request(server.url())).await;
    assert_eq!(end(&events).error_message.as_deref(), Some("307 the provider redirects to another address, which is not followed"));
    assert_eq!(other.requests().len(), 0);

    let server = Server::start(vec![Reply::status(307, &[("location", "/moved")], ""), Reply::stream(&anthropic_text(&["ok"]))]).await;
    assert_eq!(text(end(&collect(request(server.url())).await)), "ok");
    assert_eq!(server.requests()[1].header("x-api-key"), Some(KEY));
}

#[tokio::test]
async fn the_other_kind_and_the_echo_travel_the_same_way() {
    let chunk = |delta: Value, finish: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let mut pieces: Vec<String> = [chunk(json!({"content": "hey"}), Value::Null), chunk(json!({}), json!("stop"))]
        .iter()
        .map(|it| format!("data: {it}\n\n"))
        .collect();
    pieces.push("data: [DONE]".into());
    let server = Server::start(vec![Reply::stream(&pieces)]).await;
    let mut asked = request(format!("{}/v1", server.url()));
    asked.model.api = "openai-completions".into();
    assert_eq!(text(end(&collect(asked).await)), "hey");
    let requests = server.requests();
    assert_eq!(requests[0].line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {KEY}")));

    let mut asked = request(String::new());
    asked.model = wolli_models::registry::demo_model();
    asked.auth.key = None;
    asked.messages = vec![Arc::new(Message::User(UserMessage::new("!sleep 5\nall is well", Vec::new(), 1)))];
    let started = Instant::now();
    let events = collect(asked.clone()).await;
    assert_eq!(text(end(&events)), "all is well");
    assert!(started.elapsed() >= Duration::from_millis(15));
    asked.messages = vec![Arc::new(Message::User(UserMessage::new("!repeat 50000 x", Vec::new(), 1)))];
    assert_eq!(text(end(&collect(asked.clone()).await)).len(), 50_000);

    // An echo that never pauses can be cancelled too.
    let cancel = CancellationToken::new();
    asked.messages = vec![Arc::new(Message::User(UserMessage::new("!repeat 1000000 x", Vec::new(), 1)))];
    let mut stream = ModelClient::new(fast()).stream(asked, cancel.clone());
    for _ in 0..100 {
        stream.next().await.unwrap();
    }
    cancel.cancel();
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(ModelEvent::End(message)) if message.stop_reason == StopReason::Aborted && text(&message).len() < 1000));
}

#[tokio::test]
async fn a_dropped_next_loses_nothing() {
    let deltas: Vec<String> = (0..200).map(|number| format!("{number} ")).collect();
    let pieces = anthropic_text(&deltas.iter().map(String::as_str).collect::<Vec<_>>());
    let (reply, gate) = Reply::gated(&pieces);
    let server = Server::start(vec![error(500, "once"), reply]).await;
    let mut stream = ModelClient::new(fast()).stream(request(server.url()), CancellationToken::new());
    let mut said = String::new();
    let message = loop {
        // Every future of `next` is dropped at its first pause, and only then may the server go on.
        tokio::select! {
            biased;
            event = stream.next() => match event {
                Some(ModelEvent::Step(AssistantMessageEvent::TextDelta { delta, .. })) => said.push_str(&delta),
                Some(ModelEvent::End(message)) => break message,
                Some(_) => {}
                None => panic!("no end"),
            },
            () = tokio::task::yield_now() => gate.open(),
        }
    };
    assert_eq!(said, deltas.concat());
    assert_eq!(text(&message), said);
}

#[tokio::test]
async fn a_large_request_is_written_elsewhere_and_arrives_whole() {
    let server = Server::start(vec![Reply::stream(&anthropic_text(&["a"])), Reply::stream(&anthropic_text(&["b"]))]).await;
    let client = ModelClient::new(fast());
    for length in [10, 3_000_000] {
        let mut asked = request(server.url());
        asked.messages = vec![Arc::new(Message::User(UserMessage::new("x".repeat(length), Vec::new(), 1)))];
        let mut stream = client.stream(asked, CancellationToken::new());
        while stream.next().await.is_some() {}
    }
    let lengths: Vec<_> =
        server.requests().iter().map(|request| request.json()["messages"][0]["content"][0]["text"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [10, 3_000_000]);
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_a_connection_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = async {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            socket.writable().await.unwrap();
            socket.try_write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    };
    let events = tokio::select! {
        events = collect(request(format!("https://{address}"))) => events,
        () = plain => unreachable!(),
    };
    let message = end(&events).error_message.as_deref().unwrap();
    assert!(message.starts_with(&format!("Connection error: could not reach {address}: ")), "{message}");
    assert_eq!(retries(&events), 4);
}

/// A call that was complete when the stream failed is kept, in an answer whose calls are not run.
#[tokio::test]
async fn a_failure_after_a_complete_call_is_an_error_and_is_not_repeated() {
    let pieces = events(&[
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "bash", "input": {}}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"command\":\"date\"}"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ]);
    let server = Server::start(vec![Reply::stream(&pieces), Reply::stream(&anthropic_text(&["again"]))]).await;
    let events = collect(request(server.url())).await;
    let message = end(&events);
    assert_eq!((message.stop_reason, server.requests().len()), (StopReason::Error, 1));
    assert_eq!(message.tool_calls().next().unwrap().arguments["command"], "date");
}

/// A server that never stops must not fill the memory, and one that goes on after the end must not hold the answer back.
#[tokio::test]
async fn endless_answers_end() {
    let start = |index: usize| json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": "x"}});
    let blocks: Vec<Value> = (0..5000).map(start).collect();
    let server = Server::start(vec![Reply::stream(&[events(&blocks).concat()])]).await;
    let message = end(&collect(request(server.url())).await).clone();
    assert_eq!((message.content.len(), message.error_message.as_deref()), (4097, Some("the answer is too long to be kept")));

    let mut pieces = anthropic_text(&["fine"]);
    pieces.extend(std::iter::repeat_n(": more\n\n".to_owned(), 200_000));
    let server = Server::start(vec![Reply::stream(&pieces)]).await;
    let started = Instant::now();
    assert_eq!(text(end(&collect(request(server.url())).await)), "fine");
    assert!(started.elapsed() < Duration::from_secs(5));
}
