//! The command envelope: what is echoed, in which order its keys stand, and which requests are refused before anything happens.

use serde_json::{Value, json};
use wolli_testkit::provider::Kind;

use crate::support::World;
use crate::wire::control;

/// The text of the answer to that body.
async fn answer(world: &World, body: &str) -> String {
    let path = format!("/sessions/{}/control", world.session);
    let response = world.client().send("POST", &path, &[("content-type", "application/json")], Some(body.as_bytes())).await.unwrap();
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{body}");
    assert_eq!(response.header("content-length"), Some(response.body.len().to_string().as_str()), "{body}");
    response.text()
}

#[tokio::test]
async fn the_id_is_echoed_whatever_json_it_is() {
    let world = World::echo().await;
    for id in ["1", "-0.5", "1e3", "\"\"", "\"é🦀\"", "null", "true", "[]", "[1,[2]]", "{\"b\":1,\"a\":{}}"] {
        let echoed = if id == "1e3" { "1000.0" } else { id };
        let tail = r#","type":"response","command":"#;
        for (request, rest) in [
            (format!(r#"{{"type":"get_commands","id":{id}}}"#), r#""get_commands","success":true,"data":{"commands":[]}}"#),
            (format!(r#"{{"id":{id},"type":"wait_for_idle"}}"#), r#""wait_for_idle","success":true}"#),
            (format!(r#"{{"id":{id},"type":"steer","message":"x"}}"#), r#""steer","success":false,"error":"Cannot steer while idle"}"#),
            (format!(r#"{{"id":{id},"type":"fork"}}"#), r#""fork","success":false,"error":"Unknown command: fork"}"#),
            (
                format!(r#"{{"id":{id},"type":"prompt"}}"#),
                r#""prompt","success":false,"error":"Invalid prompt: message must be a string"}"#,
            ),
        ] {
            let expected = format!(r#"{{"id":{echoed}{tail}{rest}"#);
            assert_eq!(answer(&world, &request).await, expected, "{request}");
        }
    }
}

#[tokio::test]
async fn what_is_no_command_has_these_answers() {
    let world = World::echo().await;
    let malformed = r#"{"type":"response","command":"unknown","success":false,"error":"Malformed JSON body."}"#;
    let undefined = r#"{"type":"response","success":false,"error":"Unknown command: undefined"}"#;
    for (body, expected) in [
        ("", malformed),
        ("{", malformed),
        ("{}{}", malformed),
        ("{\"type\":\"abort\",}", malformed),
        ("NaN", malformed),
        ("{}", undefined),
        ("null", undefined),
        ("[]", undefined),
        ("17", undefined),
        ("\"abort\"", undefined),
        ("{\"type\":\"\"}", r#"{"type":"response","command":"","success":false,"error":"Unknown command: "}"#),
        ("{\"type\":\"Abort\"}", r#"{"type":"response","command":"Abort","success":false,"error":"Unknown command: Abort"}"#),
        ("{\"type\":5}", r#"{"type":"response","command":5,"success":false,"error":"Unknown command: 5"}"#),
    ] {
        assert_eq!(answer(&world, body).await, expected, "{body}");
    }
    // Words of other programs of its kind.
    for name in [
        "cycle_model",
        "cycle_thinking_level",
        "set_steering_mode",
        "set_follow_up_mode",
        "bash",
        "fork",
        "clone",
        "switch_session",
        "export_html",
        "get_session_stats",
        "set_session_name",
    ] {
        let answer = world.command(json!({"type": name})).await;
        assert_eq!(answer["error"], format!("Unknown command: {name}"));
    }
}

#[tokio::test]
async fn a_bad_field_is_named_and_nothing_has_happened() {
    let world = World::scripted(Kind::Anthropic).await;
    let before = (world.state().await, world.entries().await, std::fs::read(world.agent.home.join("agent.json")).unwrap());
    let (number, list, object) = (json!(7), json!([]), json!({}));
    for (command, field, expected, others) in [
        ("prompt", "message", "a string", json!({})),
        ("prompt", "streamingBehavior", "a string", json!({"message": "x"})),
        ("prompt", "idempotencyKey", "a string", json!({"message": "x"})),
        ("steer", "message", "a string", json!({})),
        ("follow_up", "message", "a string", json!({})),
        ("compact", "customInstructions", "a string", json!({})),
        ("seed_assistant_message", "text", "a string", json!({})),
        ("install_plugin", "source", "a string", json!({})),
        ("remove_plugin", "source", "a string", json!({})),
        ("update_plugins", "source", "a string", json!({})),
        ("onboard_plugin", "source", "a string", json!({})),
        ("set_model", "provider", "a string", json!({"modelId": "x"})),
        ("set_model", "modelId", "a string", json!({"provider": "x"})),
        ("login", "provider", "a string", json!({"authType": "api_key"})),
        ("logout", "provider", "a string", json!({})),
        ("rename_session", "targetSessionId", "a string", json!({"sessionName": "x"})),
        ("rename_session", "sessionName", "a string", json!({"targetSessionId": "x"})),
        ("delete_session", "targetSessionId", "a string", json!({})),
        ("set_scoped_models", "enabledModelIds", "an array of strings", json!({})),
        ("set_enabled_models", "enabledModels", "an array of strings", json!({})),
        ("set_thinking_level", "level", "one of off, minimal, low, medium, high, xhigh", json!({})),
        ("login", "authType", "\"oauth\" or \"api_key\"", json!({"provider": "x"})),
        ("append_message", "message", "an object", json!({})),
    ] {
        let is_list = expected == "an array of strings";
        let wrong = [&number, if is_list { &object } else { &list }, &json!(true)];
        for value in wrong {
            let mut body = others.clone();
            body["type"] = json!(command);
            body[field] = value.clone();
            let answer = world.command(body.clone()).await;
            assert_eq!(answer["error"], format!("Invalid {command}: {field} must be {expected}"), "{body}");
        }
    }
    let image = "an array of images ({\"type\":\"image\",\"data\":<base64>,\"mimeType\":<string>})";
    for command in ["prompt", "steer", "follow_up"] {
        for images in [json!("x"), json!([1]), json!([{"data": "x"}]), json!([{"mimeType": "image/png"}])] {
            let answer = world.command(json!({"type": command, "message": "x", "images": images})).await;
            assert_eq!(answer["error"], format!("Invalid {command}: images must be {image}"), "{images}");
        }
    }
    let after = (world.state().await, world.entries().await, std::fs::read(world.agent.home.join("agent.json")).unwrap());
    assert_eq!(after, before);
    assert!(world.provider.requests().is_empty());
}

#[tokio::test]
async fn neither_content_type_nor_query_nor_unknown_fields_matter() {
    let world = World::echo().await;
    let path = format!("/sessions/{}/control", world.session);
    let expected = r#"{"type":"response","command":"get_commands","success":true,"data":{"commands":[]}}"#;
    let bodies =
        ["{\"type\":\"get_commands\",\"more\":{\"x\":[1]},\"sessionId\":\"another\"}", "\u{feff} {\"type\" : \"get_commands\"}\r\n\t"];
    for content_type in [None, Some("application/json"), Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("")] {
        for body in bodies {
            let headers: Vec<(&str, &str)> = content_type.iter().map(|value| ("content-type", *value)).collect();
            for path in [path.clone(), format!("{path}?type=abort&id=1")] {
                let response = world.client().send("POST", &path, &headers, Some(body.as_bytes())).await.unwrap();
                assert_eq!(response.text(), expected, "{content_type:?} {body:?}");
            }
        }
    }
}

#[tokio::test]
async fn several_requests_of_one_session_are_answered_side_by_side() {
    let world = World::echo().await;
    world.prompt("!sleep 60000\n!repeat 2 x ").await;
    let mut waiting = wolli_testkit::http::Connection::open(world.agent.address()).await.unwrap();
    waiting.send(control(&world, r#"{"id":1,"type":"wait_for_idle"}"#)).await.unwrap();
    // It blocks, and nothing else does.
    assert_eq!(world.state().await["isStreaming"], true);
    assert_eq!(world.command(json!({"type": "abort"})).await["success"], true);
    let answer: Value = waiting.read_response().await.unwrap().json();
    assert_eq!(answer, json!({"id": 1, "type": "response", "command": "wait_for_idle", "success": true}));
}
