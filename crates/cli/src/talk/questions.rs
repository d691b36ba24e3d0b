//! Questions that a run asks while nobody is at the keyboard. Pure.
//!
//! Invariant: only questions of runs are meant; those of a login are somebody's who waits for them.

use wolli_protocol::dialog::{DialogMethod, DialogRequest};
use wolli_protocol::reduce::SessionView;
use wolli_protocol::state::WaitingKind;

/// What is done about a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Questions {
    /// It is answered as cancelled at once, and the run goes on.
    Cancel,
    /// It is left to somebody else, and this program ends.
    Leave,
}

/// The question that the session waits for, unless it is a login's. The daemon says so right after the question itself.
pub(crate) fn asked(view: &SessionView) -> Option<&DialogRequest> {
    let kind = view.waiting.as_ref().map(|waiting| waiting.kind)?;
    let ours = matches!(kind, WaitingKind::Dialog | WaitingKind::Approval);
    view.dialogs.iter().find(|dialog| ours && dialog.method.waits())
}

/// The question in one line.
pub(crate) fn title(method: &DialogMethod) -> String {
    let text = match method {
        DialogMethod::Confirm { title, message, .. } if title.trim().is_empty() => message,
        DialogMethod::Select { title, .. }
        | DialogMethod::Confirm { title, .. }
        | DialogMethod::Input { title, .. }
        | DialogMethod::Editor { title, .. }
        | DialogMethod::SetTitle { title } => title,
        DialogMethod::Notify { message, .. } => message,
        DialogMethod::SetStatus { .. } | DialogMethod::SetWidget { .. } | DialogMethod::SetEditorText { .. } => return String::new(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "")
}

/// What stderr says when a question is answered as cancelled.
pub(crate) fn cancelled(method: &DialogMethod) -> String {
    format!("The agent asked: {}\nNobody is here to answer, so the question was cancelled.", title(method))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view(waiting: &Value) -> SessionView {
        let hello = json!({"sessionId": "s", "thinkingLevel": "off", "scopedModels": [], "isStreaming": true, "messageCount": 1,
            "pendingMessageCount": 0, "waiting": waiting, "dialogs": [
                {"id": "n", "method": "notify", "message": "hello"},
                {"id": "q", "method": "confirm", "title": "Delete\n a.txt?\u{7}", "message": "For good."}]});
        SessionView::attach(serde_json::from_value(hello).unwrap())
    }

    #[test]
    fn questions_of_runs_are_told_from_those_of_logins() {
        for (kind, found) in [("dialog", true), ("approval", true), ("login", false), ("tool", false), ("retry", false)] {
            let view = view(&json!({"kind": kind, "since": "2026-03-01T09:00:00.000Z"}));
            let asked = asked(&view).map(|dialog| (dialog.id.as_str().to_owned(), title(&dialog.method)));
            assert_eq!(asked, found.then(|| ("q".to_owned(), "Delete a.txt?".to_owned())), "{kind}");
        }
        assert_eq!(asked(&view(&Value::Null)), None);
    }
}
