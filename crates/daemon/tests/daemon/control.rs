//! Commands and answers, byte by byte where clients depend on it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use wolli_daemon::Timing;

use crate::support::{Events, TestHome, quick};

#[tokio::test]
async fn envelopes() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let unknown_session = "No session \\\"nope\\\" for agent \\\"scribe\\\"";
    for (session, body, expected) in [
        (id.as_str(), "", r#"{"type":"response","command":"unknown","success":false,"error":"Malformed JSON body."}"#.to_owned()),
        ("nope", "{", r#"{"type":"response","command":"unknown","success":false,"error":"Malformed JSON body."}"#.into()),
        (&id, "[1]", r#"{"type":"response","success":false,"error":"Unknown command: undefined"}"#.into()),
        (&id, "null", r#"{"type":"response","success":false,"error":"Unknown command: undefined"}"#.into()),
        (&id, "\"x\"", r#"{"type":"response","success":false,"error":"Unknown command: undefined"}"#.into()),
        (&id, r#"{"id":7}"#, r#"{"id":7,"type":"response","success":false,"error":"Unknown command: undefined"}"#.into()),
        (&id, r#"{"id":{"a":[null]},"type":"fork"}"#, r#"{"id":{"a":[null]},"type":"response","command":"fork","success":false,"error":"Unknown command: fork"}"#.into()),
        (&id, r#"{"id":null,"type":"prompt"}"#, r#"{"id":null,"type":"response","command":"prompt","success":false,"error":"Invalid prompt: message must be a string"}"#.into()),
        (&id, "\u{feff}{\"type\":\"get_commands\"}", r#"{"type":"response","command":"get_commands","success":true,"data":{"commands":[]}}"#.into()),
        (&id, r#"{"id":"r1","type":"get_dialogs"}"#, r#"{"id":"r1","type":"response","command":"get_dialogs","success":true,"data":{"dialogs":[]}}"#.into()),
        (&id, r#"{"type":"compact"}"#, r#"{"type":"response","command":"compact","success":false,"error":"Nothing to compact"}"#.into()),
        (&id, r#"{"type":"abort_compaction"}"#, r#"{"type":"response","command":"abort_compaction","success":true}"#.into()),
        (&id, r#"{"type":"steer","message":"x"}"#, r#"{"type":"response","command":"steer","success":false,"error":"Cannot steer while idle"}"#.into()),
        (&id, r#"{"type":"create_session"}"#, r#"{"type":"response","command":"create_session","success":false,"error":"This agent is still forming — it stays in its birth session until it deploys."}"#.into()),
        (&id, r#"{"type":"set_model","provider":"no","modelId":"such"}"#, r#"{"type":"response","command":"set_model","success":false,"error":"Model not found: no/such"}"#.into()),
        ("nope", r#"{"id":1,"type":"get_state"}"#, format!(r#"{{"id":1,"type":"response","command":"get_state","success":false,"error":"{unknown_session}"}}"#)),
        ("nope", r#"{"type":"shutdown"}"#, format!(r#"{{"type":"response","command":"shutdown","success":false,"error":"{unknown_session}"}}"#)),
        ("nope", r#"{"type":"fork"}"#, format!(r#"{{"type":"response","command":"fork","success":false,"error":"{unknown_session}"}}"#)),
    ] {
        let response = daemon.post(&format!("/sessions/{session}/control"), body).await;
        assert_eq!(response.status(), 200, "{body}");
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("content-length"), Some(expected.len().to_string().as_str()), "{body}");
        assert_eq!(response.text(), expected, "{body}");
    }
}

#[tokio::test]
async fn what_a_client_of_wolli_0_0_2_asks_on_connect_is_answered() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    for (name, key) in [
        ("get_resource_summary", "diagnostics"),
        ("get_commands", "commands"),
        ("get_messages", "messages"),
        ("get_entries", "entries"),
        ("get_tool_info", "tools"),
        ("get_integration_info", "integrations"),
        ("get_skills", "skills"),
        ("get_plugins", "plugins"),
        ("get_context_info", "contexts"),
        ("get_available_models", "models"),
    ] {
        let answer = daemon.command(&id, json!({"type": name})).await;
        assert_eq!((&answer["success"], &answer["command"]), (&json!(true), &json!(name)), "{answer}");
        assert!(answer["data"][key].is_array(), "{answer}");
    }
    let state = daemon.command(&id, json!({"type": "get_state"})).await;
    assert_eq!((&state["data"]["sessionId"], &state["data"]["isStreaming"]), (&json!(id), &json!(false)));
    let tools = daemon.command(&id, json!({"type": "get_tool_info"})).await;
    assert_eq!(tools["data"]["activeToolNames"].as_array().unwrap().len(), tools["data"]["tools"].as_array().unwrap().len());
}

#[tokio::test]
async fn prompt_wait_and_messages_always_show_the_answer() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    for n in 1..=5 {
        daemon.command(&id, json!({"type": "prompt", "message": format!("question {n}")})).await;
        daemon.command(&id, json!({"type": "wait_for_idle"})).await;
        let messages = daemon.command(&id, json!({"type": "get_messages"})).await;
        let messages = messages["data"]["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2 * n);
        assert_eq!(messages[2 * n - 1]["role"], "assistant");
    }
    let entries = daemon.command(&id, json!({"type": "get_entries"})).await;
    assert_eq!(entries["data"]["entries"].as_array().unwrap().iter().filter(|entry| entry["type"] == "message").count(), 10);
}

#[tokio::test]
async fn prompts_during_a_run_follow_their_behaviour() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 50\n!repeat 1000 x "})).await;
    let prompt = |behavior: Value| json!({"type": "prompt", "message": "more", "streamingBehavior": behavior});
    for behavior in [json!(null), json!("")] {
        let answer = daemon.command(&id, prompt(behavior)).await;
        assert_eq!(answer["error"], "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.");
    }
    for behavior in ["followUp", "steer", "anything"] {
        assert_eq!(daemon.command(&id, prompt(json!(behavior))).await["success"], true);
    }
    assert_eq!(daemon.command(&id, json!({"type": "get_state"})).await["data"]["pendingMessageCount"], 3);
    let cleared = daemon.command(&id, json!({"type": "abort"})).await;
    let count = |key: &str| cleared["data"][key].as_array().unwrap().len();
    assert_eq!((count("clearedSteer"), count("clearedFollowUp")), (2, 1), "{cleared}");
    assert_eq!(daemon.command(&id, json!({"type": "get_state"})).await["data"]["isStreaming"], false);
}

#[tokio::test]
async fn a_long_wait_is_answered_at_once_and_filled_with_white_space() {
    let timing = Timing { keepalive: Duration::from_millis(100), quick_answer: Duration::from_millis(20), ..quick() };
    let daemon = TestHome::new().start_with(timing, &[]).await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 600\n!repeat 3 x "})).await;
    let mut client = daemon.connect().await;
    client.send(&daemon.post_text(&format!("/sessions/{id}/control"), r#"{"id":1,"type":"wait_for_idle"}"#)).await;
    let head = client.head().await;
    assert!(head.contains("content-type: application/json\r\n") && head.contains("transfer-encoding: chunked\r\n"), "{head}");
    assert_eq!(client.chunk().await.unwrap(), b" ");
    assert_eq!(
        daemon.command(&id, json!({"type": "get_state"})).await["data"]["isStreaming"],
        true,
        "the answer has begun before the run ended"
    );
    daemon.command(&id, json!({"type": "abort"})).await;
    let mut text = Vec::new();
    while let Some(chunk) = client.chunk().await {
        text.extend(chunk);
    }
    let answer: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(answer, json!({"id": 1, "type": "response", "command": "wait_for_idle", "success": true}));
}

#[tokio::test]
async fn a_client_that_hangs_up_has_asked_all_the_same() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    events.event().await;
    for _ in 0..5 {
        let mut client = daemon.connect().await;
        client.send(&daemon.post_text(&format!("/sessions/{id}/control"), r#"{"type":"follow_up","message":"hello"}"#)).await;
        drop(client);
        events.until("agent_end").await;
    }
}

#[tokio::test]
async fn a_client_that_closes_its_sending_side_gets_its_answer() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 100\n!repeat 3 x "})).await;
    let mut client = daemon.connect().await;
    client.send(&daemon.post_text(&format!("/sessions/{id}/control"), r#"{"type":"wait_for_idle"}"#)).await;
    client.stream.shutdown().await.unwrap();
    assert_eq!(client.response().await.json()["success"], true);
    assert_eq!(client.rest().await, b"", "and then the connection ends");
}

#[tokio::test]
async fn answers_of_people_are_read_and_find_no_dialog() {
    let daemon = TestHome::new().start().await;
    let (id, _control) = daemon.session_at_rest().await;
    for route in ["ui-response", "login-response"] {
        for session in [id.as_str(), "nope"] {
            for body in [r#"{"type":"extension_ui_response","id":"x","value":"y"}"#, "{}", "[]", "null", "\"text\""] {
                let response = daemon.post(&format!("/sessions/{session}/{route}"), body).await;
                assert_eq!(response.text(), r#"{"success":true,"applied":false,"reason":"no open dialog has this id"}"#, "{body}");
            }
            for body in ["", "{", "x"] {
                let response = daemon.post(&format!("/sessions/{session}/{route}"), body).await;
                assert_eq!((response.status(), response.text()), (200, r#"{"success":false,"error":"Malformed JSON body."}"#), "{body}");
            }
        }
    }
    assert_eq!(daemon.get("/sessions").await.json()["sessions"][0]["live"], false, "no session was opened");
}

#[tokio::test]
async fn deploy_gives_a_fresh_session_and_shows_at_once() {
    let daemon = TestHome::new().start().await;
    let birth = daemon.session().await;
    let answer = daemon.command(&birth, json!({"type": "deploy"})).await;
    let id = answer["data"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(id, birth);
    let state = daemon.get("/sessions").await.json();
    assert!(state["config"]["deployedAt"].is_string(), "{state}");
    assert_eq!(state["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(daemon.command(&birth, json!({"type": "create_session"})).await["success"], true);
}

#[tokio::test]
async fn renaming_and_seeding() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let seeded = daemon.command(&id, json!({"type": "seed_assistant_message", "text": "What is my purpose?"})).await;
    assert_eq!(seeded["data"]["role"], "assistant");
    assert_eq!(seeded["data"]["content"], json!([{"type": "text", "text": "What is my purpose?"}]));
    let renamed = daemon.command(&id, json!({"type": "rename_session", "targetSessionId": id, "sessionName": "birth"})).await;
    assert_eq!(renamed, json!({"type": "response", "command": "rename_session", "success": true}));
    let long = json!({"type": "prompt", "message": "x", "idempotencyKey": "k".repeat(1025)});
    assert_eq!(daemon.command(&id, long).await["error"], "Invalid prompt: idempotencyKey must have at most 1024 bytes");
    // A name stands in every list.
    let long = json!({"type": "rename_session", "targetSessionId": id, "sessionName": "x".repeat(1025)});
    assert_eq!(daemon.command(&id, long).await["error"], "Invalid rename_session: sessionName must have at most 1024 bytes");
    assert_eq!(daemon.command(&id, json!({"type": "get_state"})).await["data"]["sessionName"], "birth");
}

/// A client that sends its command and hangs up before the daemon looked at it has asked all the same.
#[tokio::test]
async fn a_command_counts_although_its_client_hung_up_at_once() {
    use std::io::Write;

    let daemon = TestHome::new().start().await;
    let (id, _events) = daemon.session_at_rest().await;
    let rounds = 20;
    for round in 0..rounds {
        let body = json!({"type": "seed_assistant_message", "text": format!("{round}")}).to_string();
        let request = daemon.post_text(&format!("/sessions/{id}/control"), &body);
        // Blocking, so that the daemon, which runs on this thread, finds the bytes and the end behind them at its first look.
        let mut socket = std::net::TcpStream::connect(daemon.address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        drop(socket);
    }
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    loop {
        let count = daemon.command(&id, json!({"type": "get_state"})).await["data"]["messageCount"].as_u64().unwrap();
        if count == rounds {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{count} of {rounds} commands were carried out");
        tokio::task::yield_now().await;
    }
}
