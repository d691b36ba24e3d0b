//! Every kind of dialog through the port, with readers on the session's log as clients have them.

mod sequences;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wolli_protocol::dialog::{NotifyType, WidgetPlacement};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::login::LoginOption;
use wolli_protocol::sse;
use wolli_protocol::state::{Waiting, WaitingKind};

use super::{Dialogs, Patience, Rail};
use crate::hub::testing::{hub, no_messages};
use crate::hub::{Attach, Attached, Cursor, Hub, Include, View};
use crate::limits::OPEN_DIALOGS;
use crate::tasks::Tasks;

struct Session {
    hub: Arc<Hub>,
    dialogs: Dialogs,
    scope: CancellationToken,
    tasks: Tasks,
}

impl Session {
    fn new() -> Self {
        let hub = hub();
        let scope = CancellationToken::new();
        Self { dialogs: Dialogs::new(Arc::clone(&hub), scope.clone()), hub, scope, tasks: Tasks::new() }
    }

    fn attach(&self) -> Cursor {
        self.attach_with(Attach::default()).cursor
    }

    fn attach_with(&self, attach: Attach) -> Attached {
        self.hub.attach(&attach)
    }

    /// Asks in a task of its own, and returns once the question is open.
    async fn ask<T: Send + 'static>(&self, question: impl AsyncAsk<T>) -> JoinHandle<T> {
        let before = self.hub.dialogs().len();
        let asking = self.tasks.spawn("question", question.ask(self.dialogs.clone()));
        while self.hub.dialogs().len() == before && !asking.is_finished() {
            tokio::task::yield_now().await;
        }
        asking
    }

    fn answer(&self, body: Value) -> Value {
        serde_json::to_value(self.hub.answer_dialog(Rail::Ui, &body)).unwrap()
    }

    fn answer_login(&self, body: Value) -> Value {
        serde_json::to_value(self.hub.answer_dialog(Rail::Login, &body)).unwrap()
    }

    /// The id of the newest open question.
    fn open_id(&self) -> String {
        self.hub.dialogs().last().unwrap().id.as_str().to_owned()
    }
}

/// A closure that asks something.
trait AsyncAsk<T> {
    fn ask(self, dialogs: Dialogs) -> impl Future<Output = T> + Send + 'static;
}

impl<T, F, A> AsyncAsk<T> for F
where
    F: FnOnce(Dialogs) -> A,
    A: Future<Output = T> + Send + 'static,
{
    fn ask(self, dialogs: Dialogs) -> impl Future<Output = T> + Send + 'static {
        self(dialogs)
    }
}

fn applied() -> Value {
    json!({"success": true, "applied": true})
}

fn too_late(reason: &str) -> Value {
    json!({"success": true, "applied": false, "reason": reason})
}

/// The data of everything that can be read without waiting; none of it has a number.
async fn notices(cursor: &mut Cursor) -> Vec<Value> {
    let messages = no_messages();
    let mut decoder = sse::Decoder::new(1 << 20);
    let mut events = Vec::new();
    loop {
        let batch = tokio::select! {
            biased;
            batch = cursor.next(&messages) => batch.unwrap(),
            () = std::future::ready(()) => return events,
        };
        decoder.feed(&batch);
        for event in &mut decoder {
            let event = event.unwrap();
            assert_eq!(event.id, None, "{}", event.data);
            events.push(serde_json::from_str(&event.data).unwrap());
        }
    }
}

/// The bytes of the only frame, with the id taken out.
async fn frame_text(cursor: &mut Cursor) -> String {
    let [event] = <[Value; 1]>::try_from(notices(cursor).await).unwrap();
    event.to_string().replace(event["id"].as_str().unwrap(), "ID")
}

#[tokio::test]
async fn notices_have_the_known_fields_in_their_order() {
    let session = Session::new();
    let mut cursor = session.attach();
    type Tell = fn(&Dialogs);
    let cases: [(Tell, &str); 9] = [
        (|dialogs| dialogs.notify("Saved.", NotifyType::Info), r#""method":"notify","message":"Saved.","notifyType":"info"}"#),
        (|dialogs| dialogs.notify("No.", NotifyType::Error), r#""method":"notify","message":"No.","notifyType":"error"}"#),
        (|dialogs| dialogs.set_status("k", Some("busy".into())), r#""method":"setStatus","statusKey":"k","statusText":"busy"}"#),
        (|dialogs| dialogs.set_status("k", None), r#""method":"setStatus","statusKey":"k"}"#),
        (
            |dialogs| dialogs.set_widget("todo", Some(vec!["1 open".into()]), Some(WidgetPlacement::BelowEditor)),
            r#""method":"setWidget","widgetKey":"todo","widgetLines":["1 open"],"widgetPlacement":"belowEditor"}"#,
        ),
        (|dialogs| dialogs.set_widget("todo", None, None), r#""method":"setWidget","widgetKey":"todo"}"#),
        (|dialogs| dialogs.set_title("t"), r#""method":"setTitle","title":"t"}"#),
        (|dialogs| dialogs.set_editor_text("e"), r#""method":"setEditorText","text":"e"}"#),
        (|dialogs| dialogs.clone().of_login().progress("p"), r#""method":"notify","message":"p","notifyType":"info"}"#),
    ];
    for (tell, expected) in cases {
        tell(&session.dialogs);
        assert_eq!(frame_text(&mut cursor).await, format!(r#"{{"type":"extension_ui_request","id":"ID",{expected}"#));
    }
    assert!(session.hub.dialogs().is_empty());
}

#[tokio::test]
async fn questions_have_the_known_fields_in_their_order() {
    let session = Session::new();
    let mut cursor = session.attach();
    let ten = || Patience::within(Duration::from_secs(10));
    let expected = [
        r#""method":"select","title":"Allow?","options":["Allow","Block"],"timeout":10000}"#,
        r#""method":"confirm","title":"Sure?","message":"It is final."}"#,
        r#""method":"input","title":"Name","placeholder":"x","timeout":10000}"#,
        r#""method":"editor","title":"Text","prefill":"before"}"#,
    ];
    let select = session.ask(|it: Dialogs| async move { it.select("Allow?", vec!["Allow".into(), "Block".into()], ten()).await }).await;
    let mut shown = vec![frame_text(&mut cursor).await];
    let confirm = session.ask(|it: Dialogs| async move { it.confirm("Sure?", "It is final.", Patience::default()).await }).await;
    shown.push(frame_text(&mut cursor).await);
    let input = session.ask(|it: Dialogs| async move { it.input("Name", Some("x".into()), ten()).await }).await;
    shown.push(frame_text(&mut cursor).await);
    let editor = session.ask(|it: Dialogs| async move { it.editor("Text", Some("before".into())).await }).await;
    shown.push(frame_text(&mut cursor).await);
    for (shown, expected) in shown.iter().zip(expected) {
        assert_eq!(*shown, format!(r#"{{"type":"extension_ui_request","id":"ID",{expected}"#));
    }

    let open = session.hub.dialogs();
    let listed = serde_json::to_value(&open).unwrap();
    assert!(listed[0]["expiresAt"].is_string() && listed[2]["expiresAt"].is_string());
    assert_eq!((listed[1].get("expiresAt"), listed[3].get("expiresAt")), (None, None));
    let answers = [json!({"value": "Allow"}), json!({"confirmed": true}), json!({"value": "n"}), json!({"value": "text"})];
    for (dialog, mut answer) in open.iter().zip(answers) {
        answer["id"] = json!(dialog.id.as_str());
        assert_eq!(session.answer(answer), applied());
        assert_eq!(notices(&mut cursor).await, [json!({"type": "extension_ui_resolved", "id": dialog.id.as_str()})]);
    }
    assert_eq!(select.await.unwrap().as_deref(), Some("Allow"));
    assert!(confirm.await.unwrap());
    assert_eq!(input.await.unwrap().as_deref(), Some("n"));
    assert_eq!(editor.await.unwrap().as_deref(), Some("text"));
}

#[tokio::test]
async fn answers_are_read_as_the_origin_reads_them() {
    let session = Session::new();
    let _cursor = session.attach();
    for (answer, text, yes) in [
        (json!({"value": "Allow"}), Some("Allow"), false),
        (json!({"value": "none of them"}), Some("none of them"), false),
        (json!({"value": ""}), Some(""), false),
        (json!({"value": "x", "cancelled": false}), Some("x"), false),
        (json!({"value": "x", "cancelled": 0}), Some("x"), false),
        (json!({"value": "x", "cancelled": ""}), Some("x"), false),
        (json!({"value": "x", "cancelled": null}), Some("x"), false),
        (json!({"value": "x", "cancelled": true}), None, false),
        (json!({"value": "x", "cancelled": "no"}), None, false),
        (json!({"confirmed": true, "cancelled": 1}), None, false),
        (json!({"confirmed": true}), None, true),
        (json!({"confirmed": false}), None, false),
        (json!({"confirmed": "yes"}), None, false),
        (json!({"value": {"a": 1}}), None, false),
        (json!({"type": "whatever", "value": "x"}), Some("x"), false),
        (json!({}), None, false),
    ] {
        let select = session.ask(|it: Dialogs| async move { it.select("?", vec!["Allow".into()], Patience::default()).await }).await;
        let mut body = answer.clone();
        body["id"] = json!(session.open_id());
        assert_eq!(session.answer(body), applied(), "{answer}");
        assert_eq!(select.await.unwrap().as_deref(), text, "{answer}");
        let confirm = session.ask(|it: Dialogs| async move { it.confirm("?", "m", Patience::default()).await }).await;
        let mut body = answer.clone();
        body["id"] = json!(session.open_id());
        assert_eq!(session.answer(body), applied(), "{answer}");
        assert_eq!(confirm.await.unwrap(), yes, "{answer}");
    }
}

#[tokio::test]
async fn the_first_answer_counts_and_the_others_are_told() {
    let session = Session::new();
    let (mut one, mut two) = (session.attach(), session.attach());
    let input = session.ask(|it: Dialogs| async move { it.input("Name", None, Patience::default()).await }).await;
    let id = session.open_id();
    for body in [json!({}), json!(null), json!([]), json!("text"), json!(7), json!({"id": 7}), json!({"id": "other", "value": "x"})] {
        assert_eq!(session.answer(body), too_late("no open dialog has this id"));
    }
    assert_eq!(session.answer_login(json!({"id": id, "value": "x"})), too_late("no open dialog has this id"), "it is no login");
    assert_eq!(session.answer(json!({"id": id, "value": "first"})), applied());
    assert_eq!(session.answer(json!({"id": id, "value": "second"})), too_late("the dialog was answered already"));
    assert_eq!(input.await.unwrap().as_deref(), Some("first"));
    assert_eq!(notices(&mut one).await, notices(&mut two).await);
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_time() {
    let session = Session::new();
    let mut cursor = session.attach();
    let started = tokio::time::Instant::now();
    let confirm = session.ask(|it: Dialogs| async move { it.confirm("?", "m", Patience::within(Duration::from_secs(300))).await }).await;
    let id = session.open_id();
    assert!(!confirm.await.unwrap());
    assert_eq!(started.elapsed().as_secs(), 300);
    assert_eq!(notices(&mut cursor).await[1], json!({"type": "extension_ui_resolved", "id": id}));
    assert_eq!(session.answer(json!({"id": id, "confirmed": true})), too_late("the dialog has timed out"));

    let endless = session.ask(|it: Dialogs| async move { it.input("?", None, Patience::within(Duration::ZERO)).await }).await;
    assert!(notices(&mut cursor).await[0].get("timeout").is_none());
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert!(!endless.is_finished());
}

#[tokio::test]
async fn a_question_ends_with_what_asked_it() {
    let session = Session::new();
    let mut cursor = session.attach();
    let cancel = CancellationToken::new();
    let patience = Patience { time_limit: None, cancel: Some(cancel.clone()) };
    let input = session.ask(|it: Dialogs| async move { it.input("?", None, patience).await }).await;
    let id = session.open_id();
    cancel.cancel();
    assert_eq!(input.await.unwrap(), None);
    assert_eq!(session.answer(json!({"id": id, "value": "x"})), too_late("the dialog is not needed any more"));

    // Nobody waits any more.
    let dropped = session.ask(|it: Dialogs| async move { it.editor("?", None).await }).await;
    dropped.abort();
    assert!(dropped.await.is_err() && session.hub.dialogs().is_empty());
    assert_eq!(notices(&mut cursor).await.iter().filter(|event| event["type"] == "extension_ui_resolved").count(), 2);

    // The whole port: a run that ends takes its questions along, and raises no more.
    let editor = session.ask(|it: Dialogs| async move { it.editor("?", None).await }).await;
    session.scope.cancel();
    assert_eq!(editor.await.unwrap(), None);
    assert_eq!(notices(&mut cursor).await.len(), 2);
    assert!(!session.dialogs.confirm("?", "m", Patience::default()).await);
    let cancelled = Patience { time_limit: None, cancel: Some(cancel) };
    let fresh = Dialogs::new(Arc::clone(&session.hub), CancellationToken::new());
    assert_eq!(fresh.input("?", None, cancelled).await, None);
    assert_eq!(notices(&mut cursor).await, Vec::<Value>::new(), "no frame for a question that was over before");
}

#[tokio::test]
async fn with_nobody_there_a_question_ends_at_once() {
    let session = Session::new();
    assert!(!session.dialogs.confirm("?", "m", Patience::default()).await);
    assert_eq!(Dialogs::default().input("?", None, Patience::default()).await, None);
    session.dialogs.notify("nobody reads this", NotifyType::Info);

    let (one, two) = (session.attach(), session.attach());
    let first = session.ask(|it: Dialogs| async move { it.confirm("?", "m", Patience::default()).await }).await;
    let second = session.ask(|it: Dialogs| async move { it.select("?", Vec::new(), Patience::default()).await }).await;
    let id = session.open_id();
    drop(one);
    tokio::task::yield_now().await;
    assert_eq!(session.hub.dialogs().len(), 2, "one of two leaving changes nothing");
    drop(two);
    assert!(session.hub.dialogs().is_empty() && session.hub.waiting().is_none());
    assert!(!first.await.unwrap() && second.await.unwrap().is_none());
    assert_eq!(session.answer(json!({"id": id, "value": "x"})), too_late("the dialog ended when the last client left"));
    // One that comes later sees none of it.
    let mut attached = session.attach_with(Attach { last_event_id: Some("0".into()), include: Include::ALL, ..Attach::default() });
    assert!(attached.hello.dialogs.is_empty());
    assert_eq!(notices(&mut attached.cursor).await, Vec::<Value>::new());
}

#[tokio::test]
async fn whoever_attaches_later_gets_each_open_question_once() {
    let session = Session::new();
    let mut first = session.attach();
    session.hub.publish(&SessionEvent::TurnStart);
    let answered = session.ask(|it: Dialogs| async move { it.input("old", None, Patience::default()).await }).await;
    session.answer(json!({"id": session.open_id(), "value": "x"}));
    answered.await.unwrap();
    let limit = Duration::from_secs(3600);
    let _open = session.ask(move |it: Dialogs| async move { it.confirm("Sure?", "m", Patience::within(limit)).await }).await;
    session.hub.publish(&SessionEvent::TurnStart);
    let listed = serde_json::to_value(session.hub.dialogs()).unwrap();

    for last_event_id in [None, Some("0"), Some("1"), Some("2"), Some("9")] {
        for view in [View::Delta, View::Full] {
            let attach = Attach { view, last_event_id: last_event_id.map(str::to_owned), ..Attach::default() };
            let attached = session.attach_with(attach);
            assert_eq!(serde_json::to_value(&attached.hello.dialogs).unwrap(), listed);
            let text = String::from_utf8(attached.dialog_frames.to_vec()).unwrap();
            if view == View::Delta {
                assert_eq!(text, "");
            } else {
                let data = text.strip_prefix("event: message\ndata: ").and_then(|text| text.strip_suffix("\n\n")).unwrap();
                let mut frame: Value = serde_json::from_str(data).unwrap();
                let left = frame["timeout"].take().as_u64().unwrap();
                assert!((1..=3_600_000).contains(&left), "{left}");
                assert_eq!((&frame["type"], &frame["id"]), (&json!("extension_ui_request"), &listed[0]["id"]));
                assert_eq!(frame.get("expiresAt"), None, "as wolli 0.0.2 sends it");
            }
            // A replay has the numbered frames alone.
            let missed = 2 - last_event_id.and_then(|id| id.parse::<usize>().ok()).filter(|id| *id <= 2).unwrap_or(2);
            let mut cursor = attached.cursor;
            let messages = no_messages();
            let mut replayed = String::new();
            while let Some(Ok(batch)) = futures_util::FutureExt::now_or_never(cursor.next(&messages)) {
                replayed.push_str(std::str::from_utf8(&batch).unwrap());
            }
            assert_eq!((replayed.matches("turn_start").count(), replayed.contains("extension_ui")), (missed, false), "{replayed}");
        }
    }
    let seen = futures_util::FutureExt::now_or_never(first.next(&no_messages()));
    let seen = String::from_utf8(seen.unwrap().unwrap().to_vec()).unwrap();
    assert_eq!((seen.matches("extension_ui_request").count(), seen.matches("extension_ui_resolved").count()), (2, 1));
}

#[tokio::test]
async fn a_replay_goes_over_into_what_happens_now() {
    let session = Session::new();
    let _first = session.attach();
    session.hub.publish(&SessionEvent::TurnStart);
    session.dialogs.notify("old", NotifyType::Info);
    let mut cursor = session.attach_with(Attach { last_event_id: Some("1".into()), ..Attach::default() }).cursor;
    let mut behind = session.attach_with(Attach { last_event_id: Some("0".into()), ..Attach::default() }).cursor;
    session.dialogs.notify("new", NotifyType::Info);
    let messages: Vec<Value> = notices(&mut cursor).await.into_iter().map(|event| event["message"].clone()).collect();
    assert_eq!(messages, ["new"]);
    let source = no_messages();
    let mut text = String::new();
    while let Some(Ok(batch)) = futures_util::FutureExt::now_or_never(behind.next(&source)) {
        text.push_str(std::str::from_utf8(&batch).unwrap());
    }
    assert_eq!((text.contains("turn_start"), text.contains("old"), text.contains("new")), (true, false, true), "{text}");
}

#[tokio::test]
async fn who_waits_for_a_person_says_so() {
    let session = Session::new();
    let mut cursor = session.attach_with(Attach { include: Include::WAITING, ..Attach::default() }).cursor;
    let login = session.dialogs.clone().of_login();
    let prompt = session.ask(|_: Dialogs| async move { login.prompt("Key", None).await }).await;
    let kind = |session: &Session| serde_json::to_value(session.hub.attach(&Attach::default()).hello.waiting).unwrap()["kind"].clone();
    assert_eq!(kind(&session), "login");
    let confirm = session.ask(|it: Dialogs| async move { it.confirm("?", "m", Patience::default()).await }).await;
    assert_eq!(kind(&session), "login");
    let ids: Vec<String> = session.hub.dialogs().iter().map(|dialog| dialog.id.as_str().to_owned()).collect();
    session.answer(json!({"id": ids[0], "value": "k"}));
    assert_eq!(kind(&session), "dialog");
    session.answer(json!({"id": ids[1]}));
    assert!(session.hub.waiting().is_none());
    assert_eq!((prompt.await.unwrap().as_str(), confirm.await.unwrap()), ("k", false));
    let told: Vec<Value> = notices(&mut cursor).await.into_iter().filter(|event| event["type"] == "waiting").collect();
    let kinds: Vec<Value> = told.into_iter().map(|event| event["waiting"]["kind"].clone()).collect();
    assert_eq!(kinds, [json!("login"), json!("dialog"), json!(null)]);
}

#[tokio::test]
async fn questions_that_came_and_went_during_another_wait_are_told_when_that_is_over() {
    let session = Session::new();
    let _reader = session.attach();
    let wait = |kind: Option<WaitingKind>| {
        let waiting = kind.map(|kind| Waiting { kind, since: "t".into(), until: None, attempt: None, max: None });
        session.hub.publish(&SessionEvent::Waiting { waiting });
    };
    let kind = || session.hub.waiting().map(|waiting| waiting.kind);
    let confirm = session.ask(|it: Dialogs| async move { it.confirm("?", "m", Patience::default()).await }).await;
    let before = session.hub.waiting();
    wait(Some(WaitingKind::Compaction));
    session.answer(json!({"id": session.open_id(), "confirmed": true}));
    assert!(confirm.await.unwrap());
    assert_eq!(kind(), Some(WaitingKind::Compaction));
    // What was waited for before is told again, and is over.
    session.hub.publish(&SessionEvent::Waiting { waiting: before });
    assert_eq!(kind(), None);
    wait(Some(WaitingKind::Retry));
    let input = session.ask(|it: Dialogs| async move { it.input("?", None, Patience::default()).await }).await;
    assert_eq!(kind(), Some(WaitingKind::Retry));
    wait(None);
    assert_eq!(kind(), Some(WaitingKind::Dialog));
    session.answer(json!({"id": session.open_id()}));
    assert_eq!((input.await.unwrap(), kind()), (None, None));
}

#[tokio::test]
async fn a_login_is_seen_in_both_forms_and_answered_in_either() {
    let session = Session::new();
    let mut plain = session.attach();
    let mut rail = session.attach_with(Attach { include: Include::LOGIN_UI, ..Attach::default() }).cursor;
    let options = || vec![LoginOption { id: "b".into(), label: "Browser".into() }, LoginOption { id: "d".into(), label: "Device".into() }];
    for (login_rail, answer, chosen) in [
        (false, json!({"value": "Device"}), Some("d")),
        (false, json!({"value": "Else"}), Some("Else")),
        (false, json!({"value": "d", "cancelled": false}), Some("d")),
        (false, json!({"value": "Device", "cancelled": true}), None),
        (true, json!({"value": "b"}), Some("b")),
        (true, json!({"value": "b", "cancelled": false}), None),
        (true, json!({"value": "b", "cancelled": null}), None),
    ] {
        let login = session.dialogs.clone().of_login();
        let select = session.ask(|_: Dialogs| async move { login.select("How?", options()).await }).await;
        let id = session.open_id();
        assert_eq!(
            notices(&mut plain).await,
            [json!({"type": "extension_ui_request", "id": id, "method": "select", "title": "How?", "options": ["Browser", "Device"]})]
        );
        let labelled = json!([{"id": "b", "label": "Browser"}, {"id": "d", "label": "Device"}]);
        assert_eq!(
            notices(&mut rail).await,
            [json!({"type": "login_ui_request", "id": id, "method": "select", "message": "How?", "options": labelled})]
        );
        let again = session.attach_with(Attach { view: View::Full, include: Include::ALL, ..Attach::default() });
        assert!(again.dialog_frames.starts_with(b"event: message\ndata: {\"type\":\"login_ui_request\""));
        assert_eq!(again.hello.dialogs[0].id.as_str(), id);
        let mut body = answer.clone();
        body["id"] = json!(id);
        let receipt = if login_rail { session.answer_login(body.clone()) } else { session.answer(body.clone()) };
        assert_eq!(receipt, applied(), "{answer}");
        for late in [session.answer(body.clone()), session.answer_login(body)] {
            assert_eq!(late, too_late("the dialog was answered already"));
        }
        assert_eq!(select.await.unwrap().as_deref(), chosen, "{answer}");
        let resolved = [json!({"type": "extension_ui_resolved", "id": id})];
        assert_eq!((notices(&mut plain).await, notices(&mut rail).await), (resolved.to_vec(), resolved.to_vec()));
    }
    let login = session.dialogs.clone().of_login();
    let manual = session.ask(|_: Dialogs| async move { login.manual_input().await }).await;
    session.answer_login(json!({"id": session.open_id(), "cancelled": true}));
    assert_eq!(manual.await.unwrap(), "");
    let login = session.dialogs.clone().of_login();
    login.auth("https://a", None);
    login.device_code("A-1", "https://b");
    let methods = |events: Vec<Value>| events.into_iter().map(|event| event["method"].as_str().map(str::to_owned)).collect::<Vec<_>>();
    let shown = |methods: &[&str]| methods.iter().map(|method| Some((*method).to_owned())).collect::<Vec<_>>();
    assert_eq!(methods(notices(&mut plain).await)[2..], shown(&["notify", "notify"]));
    assert_eq!(methods(notices(&mut rail).await)[2..], shown(&["auth", "deviceCode"]));
}

#[tokio::test]
async fn there_is_a_bound_and_an_end() {
    let session = Session::new();
    let mut cursor = session.attach();
    let mut open = Vec::new();
    for _ in 0..OPEN_DIALOGS {
        open.push(session.ask(|it: Dialogs| async move { it.input("?", None, Patience::default()).await }).await);
    }
    assert_eq!(session.dialogs.input("one too many", None, Patience::default()).await, None);
    assert_eq!(notices(&mut cursor).await.len(), OPEN_DIALOGS);
    session.hub.close();
    for asking in open {
        assert_eq!(asking.await.unwrap(), None);
    }
    assert_eq!(notices_of_closed(&mut cursor).await, OPEN_DIALOGS);
    assert!(!session.dialogs.confirm("?", "m", Patience::default()).await);
}

/// How many frames a closed log still has for a reader.
async fn notices_of_closed(cursor: &mut Cursor) -> usize {
    let messages = no_messages();
    let mut frames = 0;
    while let Ok(batch) = cursor.next(&messages).await {
        frames += batch.windows(2).filter(|pair| pair == b"\n\n").count();
    }
    frames
}

#[test]
fn what_was_typed_is_not_shown() {
    let outcome = super::Outcome::Value("planted".into());
    assert!(!format!("{outcome:?}").contains("planted"));
}
