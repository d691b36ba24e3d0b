//! Questions on the wire: the bytes of their frames, who gets them, and what answers are answered.

use serde_json::{Value, json};
use wolli_testkit::http::Connection;

use crate::support::World;
use crate::wire::{control, data_of, frames, stream};

#[tokio::test]
async fn a_question_has_these_bytes_in_every_view() {
    let world = World::echo().await;
    let session = &world.session;
    let mut readers = [stream(&world, &world.events_path(""), &[]).await, stream(&world, &world.events_path("?view=full"), &[]).await];
    for reader in &mut readers {
        reader.next().await.unwrap().unwrap();
    }
    let mut login = Connection::open(world.agent.address()).await.unwrap();
    login.send(control(&world, r#"{"id":1,"type":"login","provider":"groq","authType":"api_key"}"#)).await.unwrap();
    let mut id = String::new();
    for reader in &mut readers {
        let event = reader.next().await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        id = data["id"].as_str().unwrap().to_owned();
        let expected = format!(
            "event: message\ndata: {{\"type\":\"extension_ui_request\",\"id\":\"{id}\",\"method\":\"input\",\"title\":\"Enter API key for Groq\"}}\n\n"
        );
        assert_eq!(frames(reader)[1], expected, "without a number");
    }
    assert_eq!((id.len(), &id[14..15]), (36, "4"), "a UUID of version 4");

    // Who comes later: all are told in hello, readers of view full also by the frame itself.
    let mut late = stream(&world, &world.events_path("?view=full"), &[]).await;
    late.next().await.unwrap().unwrap();
    late.next().await.unwrap().unwrap();
    let seen = frames(&late);
    assert_eq!(data_of(&seen[0])["dialogs"][0]["id"], id);
    assert_eq!(seen[1], frames(&readers[0])[1]);
    let open = world.succeed(json!({"type": "get_dialogs"})).await;
    assert_eq!(open["dialogs"][0]["id"], id);

    // The first answer counts, the next one is told so.
    let path = format!("/sessions/{session}/ui-response");
    let answer = json!({"type": "extension_ui_response", "id": id, "value": "gsk-000000000000000000"});
    let receipts = [world.client().post(&path, &answer).await.unwrap(), world.client().post(&path, &answer).await.unwrap()];
    assert_eq!(receipts[0].text(), r#"{"success":true,"applied":true}"#);
    assert_eq!(receipts[1].text(), r#"{"success":true,"applied":false,"reason":"the dialog was answered already"}"#);
    let done = login.read_response().await.unwrap().text();
    assert_eq!(done.trim_start(), r#"{"id":1,"type":"response","command":"login","success":true}"#);
    for reader in &mut readers {
        reader.next().await.unwrap().unwrap();
        let resolved = format!("event: message\ndata: {{\"type\":\"extension_ui_resolved\",\"id\":\"{id}\"}}\n\n");
        assert_eq!(frames(reader)[2], resolved);
    }
}

#[tokio::test]
async fn bodies_of_answers_have_these_answers() {
    let world = World::echo().await;
    let unknown = r#"{"success":true,"applied":false,"reason":"no open dialog has this id"}"#;
    let malformed = r#"{"success":false,"error":"Malformed JSON body."}"#;
    for route in ["ui-response", "login-response"] {
        for session in [world.session.as_str(), "nobody", "a%2Fb"] {
            for (body, expected) in [
                ("{}", unknown),
                ("null", unknown),
                ("[]", unknown),
                ("\"x\"", unknown),
                (r#"{"id":7}"#, unknown),
                (r#"{"type":"anything","id":"x","cancelled":1}"#, unknown),
                ("", malformed),
                ("{", malformed),
                ("x", malformed),
            ] {
                let path = format!("/sessions/{session}/{route}");
                let response = world.client().send("POST", &path, &[], Some(body.as_bytes())).await.unwrap();
                assert_eq!((response.status, response.text().as_str()), (200, expected), "{path} {body}");
                assert_eq!(response.header("content-type"), Some("application/json"));
            }
        }
    }
}
