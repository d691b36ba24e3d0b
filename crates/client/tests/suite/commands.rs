//! Commands over good and bad connections.

use wolli_client::{ClientError, Prompt, SessionHandle};
use wolli_protocol::dialog::DialogAnswer;

use super::fake::{FakeDaemon, Place, SESSION};

async fn open(place: &Place) -> (FakeDaemon, SessionHandle) {
    let daemon = place.daemon().await;
    let session = place.agent().session(&SESSION.into()).await.unwrap();
    (daemon, session)
}

#[tokio::test]
async fn commands_have_their_fields_and_typed_answers() {
    let place = Place::new(None);
    let (daemon, session) = open(&place).await;
    session.prompt(Prompt::from("look").image("image/png", "aGk=").or_follow_up().key("k")).await.unwrap();
    session.prompt("plain").await.unwrap();
    let aborted = session.abort().await.unwrap();
    assert_eq!((aborted.cleared_steer.len(), aborted.cleared_follow_up.len()), (1, 0));
    assert_eq!(session.messages().await.unwrap().len(), 2);
    let error = session.prompt("/refuse").await.unwrap_err();
    assert!(matches!(&error, ClientError::Command(text) if text == "Agent is already processing."));
    assert_eq!(error.to_string(), "Agent is already processing.");

    let receipts = [
        session.respond(&"open".into(), DialogAnswer { confirmed: Some(true), ..DialogAnswer::default() }).await.unwrap(),
        session.respond(&"gone".into(), DialogAnswer { cancelled: Some(true), ..DialogAnswer::default() }).await.unwrap(),
    ];
    assert_eq!(receipts.map(|receipt| receipt.applied), [Some(true), Some(false)]);

    let state = daemon.state();
    let bodies: Vec<_> = state.seen.iter().filter(|seen| seen.line.starts_with("POST")).map(|seen| seen.body.to_string()).collect();
    let first = r#"{"type":"prompt","message":"look","images":[{"data":"aGk=","mimeType":"image/png"}],"streamingBehavior":"followUp","idempotencyKey":"k"}"#;
    assert_eq!(bodies[0], first);
    assert!(bodies[1].starts_with(r#"{"type":"prompt","message":"plain","idempotencyKey":""#));
    assert_eq!(
        bodies[5..],
        [
            r#"{"type":"extension_ui_response","id":"open","confirmed":true}"#,
            r#"{"type":"extension_ui_response","id":"gone","cancelled":true}"#
        ]
    );
}

#[tokio::test]
async fn a_prompt_whose_answer_was_lost_is_given_once() {
    let place = Place::new(None);
    let (daemon, session) = open(&place).await;
    daemon.state().swallow_answers = 3;
    session.prompt("once").await.unwrap();
    assert_eq!(daemon.count("/control"), 4);
    assert_eq!(daemon.state().prompts.len(), 1);
    assert_eq!(session.messages().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_repeated_is_not() {
    let place = Place::new(None);
    let (daemon, session) = open(&place).await;
    daemon.state().swallow_answers = 1;
    let error = session.steer("left").await.unwrap_err();
    assert!(matches!(error, ClientError::Interrupted { command: "steer" }), "{error}");
    assert_eq!(daemon.count("/control"), 1);
    // Reading can.
    daemon.state().swallow_answers = 2;
    assert!(session.messages().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_prompt_to_an_old_daemon_is_not_repeated() {
    let mut place = Place::new(None);
    let daemon = place.old_daemon().await;
    let session = place.agent().session(&SESSION.into()).await.unwrap();
    daemon.state().swallow_answers = 1;
    assert!(matches!(session.prompt("x").await.unwrap_err(), ClientError::Interrupted { .. }));
    assert_eq!(daemon.count("/control"), 1);
}

#[tokio::test]
async fn commands_wait_for_a_daemon_that_restarts() {
    let place = Place::new(None);
    let (daemon, session) = open(&place).await;
    let (address, shared) = daemon.stop().await;
    let back = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        FakeDaemon::listen(address, shared).await
    };
    let (answer, daemon) = tokio::join!(session.steer("later"), back);
    answer.unwrap();
    assert_eq!(daemon.count("/control"), 1);
    // It is there and not ready: that is no answer either.
    daemon.state().refuse = Some(503);
    let ready = async {
        daemon.until(|state| state.seen.iter().filter(|seen| seen.line.contains("/control")).count() >= 3).await;
        daemon.state().refuse = None;
    };
    let (answer, ()) = tokio::join!(session.steer("again"), ready);
    answer.unwrap();
}

#[tokio::test]
async fn waiting_for_idle_goes_over_a_restart() {
    let place = Place::new(None);
    let (daemon, session) = open(&place).await;
    daemon.state().idle = false;
    let idle = session.wait_for_idle();
    let restart = async {
        daemon.until(|state| state.seen.iter().any(|seen| seen.body["type"] == "wait_for_idle")).await;
        let (address, shared) = daemon.stop().await;
        let daemon = FakeDaemon::listen(address, shared).await;
        daemon.until(|state| state.seen.iter().filter(|seen| seen.body["type"] == "wait_for_idle").count() == 2).await;
        daemon.state().idle = true;
        daemon.changed();
        daemon
    };
    let (answer, _daemon) = tokio::join!(idle, restart);
    answer.unwrap();
}

#[tokio::test]
async fn a_closed_handle_says_so() {
    let place = Place::new(None);
    let (_daemon, session) = open(&place).await;
    session.close();
    assert!(matches!(session.prompt("x").await.unwrap_err(), ClientError::Closed));
    assert!(session.subscribe().next().await.is_none());
}
