//! The steps of a login on a rail of their own (`include=login_ui`), and how each looks as a plain dialog.
//!
//! Both forms of a step have the same id, so a client that knows one of them can answer. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dialog::{DialogMethod, DialogRequest, NotifyType};
use crate::ids::DialogId;

/// What to show when a provider says nothing of its own with the URL.
const OPEN_URL: &str = "Open this URL to sign in:";
/// The question for what the browser was sent to.
const PASTE_CODE: &str = "Paste the redirect URL or code, or finish in your browser:";

/// A step of a login for every client that included `login_ui`. Three of the six methods wait for an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginRequest {
    pub id: DialogId,
    #[serde(flatten)]
    pub method: LoginMethod,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum LoginMethod {
    /// The client opens a browser.
    Auth {
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
    },
    DeviceCode {
        user_code: String,
        verification_uri: String,
    },
    Progress {
        message: String,
    },
    Prompt {
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placeholder: Option<String>,
    },
    /// Asks for the URL that the browser was sent to, or for the code in it.
    ManualInput {},
    /// Answered with the `id` of an option.
    Select {
        message: String,
        options: Vec<LoginOption>,
    },
}

/// One choice of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginOption {
    pub id: String,
    pub label: String,
}

impl LoginMethod {
    /// The same step as a dialog. A choice shows its labels there, and is answered with one of them.
    #[must_use]
    pub fn as_dialog(&self) -> DialogMethod {
        let notice = |message: String| DialogMethod::Notify { message, notify_type: Some(NotifyType::Info) };
        match self {
            Self::Auth { url, instructions } => notice(format!("{}\n{url}", instructions.as_deref().unwrap_or(OPEN_URL))),
            Self::DeviceCode { user_code, verification_uri } => notice(format!("Open {verification_uri} and enter the code {user_code}")),
            Self::Progress { message } => notice(message.clone()),
            Self::Prompt { message, placeholder } => {
                DialogMethod::Input { title: message.clone(), placeholder: placeholder.clone(), timeout: None }
            }
            Self::ManualInput {} => DialogMethod::Input { title: PASTE_CODE.into(), placeholder: None, timeout: None },
            Self::Select { message, options } => DialogMethod::Select {
                title: message.clone(),
                options: options.iter().map(|option| option.label.clone()).collect(),
                timeout: None,
            },
        }
    }
}

impl LoginRequest {
    /// The same step as a dialog, under the same id.
    #[must_use]
    pub fn as_dialog(&self) -> DialogRequest {
        DialogRequest { id: self.id.clone(), method: self.method.as_dialog(), expires_at: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LoginRequest;

    #[test]
    fn each_step_as_a_dialog() {
        for (step, dialog) in [
            (
                json!({"id": "1", "method": "auth", "url": "https://a/b"}),
                json!({"id": "1", "method": "notify", "message": "Open this URL to sign in:\nhttps://a/b", "notifyType": "info"}),
            ),
            (
                json!({"id": "1", "method": "auth", "url": "https://a/b", "instructions": "Go there."}),
                json!({"id": "1", "method": "notify", "message": "Go there.\nhttps://a/b", "notifyType": "info"}),
            ),
            (
                json!({"id": "1", "method": "deviceCode", "userCode": "A-1", "verificationUri": "https://a"}),
                json!({"id": "1", "method": "notify", "message": "Open https://a and enter the code A-1", "notifyType": "info"}),
            ),
            (
                json!({"id": "1", "method": "progress", "message": "Waiting"}),
                json!({"id": "1", "method": "notify", "message": "Waiting", "notifyType": "info"}),
            ),
            (
                json!({"id": "1", "method": "prompt", "message": "Domain", "placeholder": "x.com"}),
                json!({"id": "1", "method": "input", "title": "Domain", "placeholder": "x.com"}),
            ),
            (
                json!({"id": "1", "method": "manualInput"}),
                json!({"id": "1", "method": "input", "title": "Paste the redirect URL or code, or finish in your browser:"}),
            ),
            (
                json!({"id": "1", "method": "select", "message": "How?", "options": [{"id": "b", "label": "Browser"}]}),
                json!({"id": "1", "method": "select", "title": "How?", "options": ["Browser"]}),
            ),
        ] {
            let request: LoginRequest = serde_json::from_value(step.clone()).unwrap();
            assert_eq!(serde_json::to_value(&request).unwrap(), step);
            assert_eq!(serde_json::to_value(request.as_dialog()).unwrap(), dialog);
        }
    }
}
