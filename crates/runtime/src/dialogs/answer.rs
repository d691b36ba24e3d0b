//! What an answer says, as wolli 0.0.2 reads it: leniently, and never as more than it says. Pure.

use std::fmt;

use serde_json::Value;
use wolli_protocol::dialog::DialogMethod;
use wolli_protocol::login::LoginMethod;

use super::open::OpenDialog;

/// The route by which an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rail {
    /// `/ui-response`: finds every dialog.
    Ui,
    /// `/login-response`: finds the questions of logins alone.
    Login,
}

/// What became of a question. `Debug` hides what was typed: it may be a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Value(String),
    Confirmed(bool),
    /// A person said no, or nothing that counts.
    Cancelled,
    TimedOut,
    /// It is not needed any more: what asked has ended.
    Aborted,
    /// Nobody was attached, or the last one left.
    Unattended,
}

impl Outcome {
    /// Why a later answer does not count.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Value(_) | Self::Confirmed(_) | Self::Cancelled => "the dialog was answered already",
            Self::TimedOut => "the dialog has timed out",
            Self::Aborted => "the dialog is not needed any more",
            Self::Unattended => "the dialog ended when the last client left",
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Value(_) => "Value([redacted])",
            Self::Confirmed(true) => "Confirmed(true)",
            Self::Confirmed(false) => "Confirmed(false)",
            Self::Cancelled => "Cancelled",
            Self::TimedOut => "TimedOut",
            Self::Aborted => "Aborted",
            Self::Unattended => "Unattended",
        })
    }
}

/// The id in an answer; a body that is no object has none.
pub(crate) fn answered_id(body: &Value) -> Option<&str> {
    body.get("id")?.as_str()
}

/// What `body` says to the question.
pub(super) fn read(dialog: &OpenDialog, rail: Rail, body: &Value) -> Outcome {
    let cancelled = match rail {
        Rail::Ui => body.get("cancelled").is_some_and(is_truthy),
        // Here the key alone counts, whatever its value.
        Rail::Login => body.get("cancelled").is_some(),
    };
    let confirms = matches!(dialog.request.method, DialogMethod::Confirm { .. });
    if cancelled {
        return if confirms { Outcome::Confirmed(false) } else { Outcome::Cancelled };
    }
    if confirms {
        return Outcome::Confirmed(body.get("confirmed") == Some(&Value::Bool(true)));
    }
    let Some(value) = body.get("value").and_then(Value::as_str) else { return Outcome::Cancelled };
    let value = match (rail, dialog.login.as_ref().map(|login| &login.method)) {
        (Rail::Ui, Some(LoginMethod::Select { options, .. })) => {
            options.iter().find(|option| option.label == value).map_or(value, |option| option.id.as_str())
        }
        _ => value,
    };
    Outcome::Value(value.to_owned())
}

/// As JavaScript sees it.
fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}
