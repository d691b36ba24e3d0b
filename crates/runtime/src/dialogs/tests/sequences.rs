//! Questions against a simple model: whatever happens in whatever order, each has one outcome, and every reader knows which are open.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use tokio::sync::oneshot;
use wolli_protocol::dialog::{DialogMethod, DialogRequest};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::DialogId;
use wolli_protocol::sse;

use super::Session;
use crate::dialogs::{NewDialog, Outcome, Rail};
use crate::hub::testing::no_messages;
use crate::hub::{Attach, Cursor, View};

#[derive(Clone, Debug)]
enum Action {
    Raise,
    /// The n-th question that was ever raised, settled or not.
    Answer(usize),
    TimeOut(usize),
    Attach(bool),
    /// Comes back with the number of the newest frame that the log had then.
    Resume,
    Leave(usize),
    Publish,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => Just(Action::Raise),
        3 => (0..20_usize).prop_map(Action::Answer),
        2 => (0..20_usize).prop_map(Action::TimeOut),
        3 => any::<bool>().prop_map(Action::Attach),
        1 => Just(Action::Resume),
        3 => (0..4_usize).prop_map(Action::Leave),
        1 => Just(Action::Publish),
    ]
}

/// A client: what it has been told is open.
struct Reader {
    cursor: Cursor,
    open: Vec<DialogId>,
}

impl Reader {
    fn attach(session: &Session, view: View, last_event_id: Option<String>) -> Self {
        let attached = session.attach_with(Attach { view, last_event_id, ..Attach::default() });
        let open: Vec<DialogId> = attached.hello.dialogs.iter().map(|dialog| dialog.id.clone()).collect();
        let again = String::from_utf8(attached.dialog_frames.to_vec()).unwrap();
        assert_eq!(again.matches("extension_ui_request").count(), if view == View::Full { open.len() } else { 0 });
        Self { cursor: attached.cursor, open }
    }

    async fn catch_up(&mut self) {
        let messages = no_messages();
        let mut decoder = sse::Decoder::new(1 << 20);
        loop {
            let batch = tokio::select! {
                biased;
                batch = self.cursor.next(&messages) => batch.unwrap(),
                () = std::future::ready(()) => return,
            };
            decoder.feed(&batch);
            for event in &mut decoder {
                match serde_json::from_str(&event.unwrap().data).unwrap() {
                    SessionEvent::ExtensionUiRequest(request) => {
                        assert!(!self.open.contains(&request.id), "a question is shown once");
                        self.open.push(request.id);
                    }
                    SessionEvent::ExtensionUiResolved(resolved) => {
                        let place = self.open.iter().position(|id| *id == resolved.id).expect("what is resolved was shown");
                        self.open.remove(place);
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What the model knows of a question.
struct Asked {
    outcome: oneshot::Receiver<Outcome>,
    expected: Option<Outcome>,
}

fn question(id: &DialogId) -> NewDialog {
    let method = DialogMethod::Input { title: "?".into(), placeholder: None, timeout: None };
    NewDialog { request: DialogRequest { id: id.clone(), method, expires_at: None }, login: None, time_limit: None }
}

async fn run(actions: Vec<Action>) {
    let session = Session::new();
    let mut readers: Vec<Reader> = Vec::new();
    let mut asked: Vec<(DialogId, Option<Asked>)> = Vec::new();
    for action in actions {
        match action {
            Action::Raise => {
                let id = DialogId::generate();
                let raised = session.hub.raise(question(&id));
                assert_eq!(raised.is_some(), !readers.is_empty(), "it needs somebody to see it");
                asked.push((id, raised.map(|outcome| Asked { outcome, expected: None })));
            }
            Action::Answer(n) => {
                let Some((id, known)) = asked.get_mut(n) else { continue };
                let receipt = session.hub.answer_dialog(Rail::Ui, &json!({"id": id.as_str(), "value": format!("answer {n}")}));
                let open = known.as_mut().filter(|known| known.expected.is_none());
                assert_eq!(receipt.applied, Some(open.is_some()));
                assert_eq!(receipt.reason.is_some(), open.is_none());
                if let Some(open) = open {
                    open.expected = Some(Outcome::Value(format!("answer {n}")));
                }
            }
            Action::TimeOut(n) => {
                let Some((id, known)) = asked.get_mut(n) else { continue };
                session.hub.settle(id, Outcome::TimedOut);
                if let Some(open) = known.as_mut().filter(|known| known.expected.is_none()) {
                    open.expected = Some(Outcome::TimedOut);
                }
            }
            Action::Attach(full) => readers.push(Reader::attach(&session, if full { View::Full } else { View::Delta }, None)),
            Action::Resume => {
                let last = session.hub.last_id().to_string();
                readers.push(Reader::attach(&session, View::Delta, Some(last)));
            }
            Action::Leave(n) if n < readers.len() => {
                readers.remove(n);
                if readers.is_empty() {
                    let open = asked.iter_mut().filter_map(|(_, known)| known.as_mut()).filter(|known| known.expected.is_none());
                    open.for_each(|known| known.expected = Some(Outcome::Unattended));
                }
            }
            Action::Leave(_) => {}
            Action::Publish => session.hub.publish(&SessionEvent::TurnStart),
        }
        let open: Vec<&DialogId> =
            asked.iter().filter(|(_, known)| known.as_ref().is_some_and(|known| known.expected.is_none())).map(|(id, _)| id).collect();
        let listed = session.hub.dialogs();
        assert_eq!(listed.iter().map(|dialog| &dialog.id).collect::<Vec<_>>(), open);
        assert_eq!(session.hub.waiting().is_some(), !open.is_empty());
        for reader in &mut readers {
            reader.catch_up().await;
            assert_eq!(reader.open.iter().collect::<Vec<_>>(), open);
        }
    }
    let mut outcomes: BTreeMap<usize, Option<Outcome>> = BTreeMap::new();
    for (n, (_, known)) in asked.into_iter().enumerate() {
        let Some(mut known) = known else { continue };
        outcomes.insert(n, known.expected);
        assert_eq!(known.outcome.try_recv().ok(), outcomes[&n], "question {n}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_reader_knows_what_is_open(actions in prop::collection::vec(action(), 1..60)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(actions));
    }

    #[test]
    fn no_answer_stops_anything(text in r#"\{("(id|value|cancelled|confirmed|type)":(null|true|0|-1\.5|"x"|"d"|\[\]|\{\}),?){0,4}\}"#) {
        let session = Session::new();
        let _reader = session.attach();
        let id = DialogId::from("d");
        let outcome = session.hub.raise(question(&id)).unwrap();
        let body: serde_json::Value = serde_json::from_str(&text).unwrap_or(serde_json::Value::Null);
        for rail in [Rail::Login, Rail::Ui] {
            let receipt = session.hub.answer_dialog(rail, &body);
            prop_assert_eq!(receipt.applied, Some(rail == Rail::Ui && body["id"] == "d"));
        }
        drop(outcome);
    }
}
