//! Logging in and out over the wire, and through it the life of a question: who sees it, who answers, what ends it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{Client, Events, PATIENCE, TestDaemon, TestHome, quick};

/// Looks like a key and must not be seen again.
const KEY: &str = "gsk-planted-0123456789";

impl TestDaemon {
    async fn events(&self, id: &str, query: &str) -> (Value, Events) {
        let mut events = Events::new(self.stream(&format!("/sessions/{id}/events{query}")).await);
        let (name, hello) = events.event().await.unwrap();
        assert_eq!(name, "hello");
        (hello, events)
    }

    /// Begins a login; its answer comes over the connection.
    async fn begin_login(&self, id: &str, provider: &str) -> Client<TcpStream> {
        let mut client = self.connect().await;
        let body = json!({"type": "login", "provider": provider, "authType": "api_key"}).to_string();
        client.send(&self.post_text(&format!("/sessions/{id}/control"), &body)).await;
        client
    }

    async fn answer(&self, id: &str, rail: &str, body: Value) -> Value {
        self.post(&format!("/sessions/{id}/{rail}"), &body.to_string()).await.json()
    }

    fn shared_auth(&self) -> PathBuf {
        self.home.shared_auth()
    }

    fn stored(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.shared_auth()).unwrap()).unwrap()
    }

    async fn names(&self, id: &str, command: &str, list: &str, field: &str) -> Vec<String> {
        let answer = self.command(id, json!({"type": command})).await;
        answer["data"][list].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
    }
}

impl TestHome {
    fn shared_auth(&self) -> PathBuf {
        self.folder.path().join("user/.wolli/agent/auth.json")
    }

    fn write_shared_auth(&self, text: &str) {
        let path = self.shared_auth();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn applied() -> Value {
    json!({"success": true, "applied": true})
}

fn late(reason: &str) -> Value {
    json!({"success": true, "applied": false, "reason": reason})
}

fn refused(error: &str) -> Value {
    json!({"type": "response", "command": "login", "success": false, "error": error})
}

/// Waits until something outside of the daemon is so.
async fn becomes(what: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < deadline, "it does not come to pass");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_is_asked_for_stored_used_and_removed() {
    let home = TestHome::new();
    home.write_shared_auth(r#"{"other": {"type": "new-kind", "more": [1]}, "groq": {"type": "api_key", "key": "old", "note": "mine"}}"#);
    std::fs::write(home.home.auth(), r#"{"xai": {"type": "api_key", "key": "k"}}"#).unwrap();
    let daemon = home.start().await;
    let id = daemon.session().await;
    let (_, mut events) = daemon.events(&id, "?include=waiting").await;
    assert_eq!(daemon.names(&id, "get_logout_providers", "providers", "id").await, ["groq", "xai"]);

    for provider in ["groq", "deepseek"] {
        let mut login = daemon.begin_login(&id, provider).await;
        let request = events.until("extension_ui_request").await;
        let name = if provider == "groq" { "Groq" } else { "DeepSeek" };
        let dialog = request["id"].as_str().unwrap();
        assert_eq!(
            request.to_string(),
            format!(r#"{{"type":"extension_ui_request","id":"{dialog}","method":"input","title":"Enter API key for {name}"}}"#)
        );
        assert_eq!(events.until("waiting").await["waiting"]["kind"], "login");
        let answer = json!({"type": "extension_ui_response", "id": dialog, "value": format!("  {KEY}-{provider}\n")});
        assert_eq!(daemon.answer(&id, "ui-response", answer).await, applied());
        assert_eq!(login.response().await.json(), json!({"type": "response", "command": "login", "success": true}));
        assert_eq!(events.until("extension_ui_resolved").await["id"], request["id"]);
        assert_eq!(events.until("waiting").await["waiting"], json!(null));
    }
    let text = std::fs::read_to_string(daemon.shared_auth()).unwrap();
    let expected = json!({
        "other": {"type": "new-kind", "more": [1]},
        "groq": {"type": "api_key", "key": format!("{KEY}-groq"), "note": "mine"},
        "deepseek": {"type": "api_key", "key": format!("{KEY}-deepseek")},
    });
    assert_eq!(text, serde_json::to_string_pretty(&expected).unwrap());
    let mode = std::fs::metadata(daemon.shared_auth()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let models = daemon.names(&id, "get_available_models", "models", "provider").await;
    assert!(["groq", "deepseek", "xai"].iter().all(|provider| models.iter().any(|known| known == provider)), "{models:?}");

    assert_eq!(daemon.names(&id, "get_logout_providers", "providers", "name").await, ["DeepSeek", "Groq", "xAI"]);
    for provider in ["deepseek", "xai", "deepseek", "never-heard-of"] {
        let answer = daemon.command(&id, json!({"type": "logout", "provider": provider})).await;
        assert_eq!(answer, json!({"type": "response", "command": "logout", "success": true}));
    }
    let models = daemon.names(&id, "get_available_models", "models", "provider").await;
    assert!(!models.iter().any(|provider| provider == "deepseek" || provider == "xai"), "{models:?}");
    assert_eq!(std::fs::read_to_string(daemon.home.home.auth()).unwrap(), "{}");
    assert_eq!((daemon.stored()["other"].clone(), daemon.stored().get("deepseek")), (expected["other"].clone(), None));
    let logged = std::fs::read_dir(daemon.home.home.path().join("logs"))
        .map(|folder| folder.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect::<String>());
    assert!(!logged.unwrap_or_default().contains(KEY));
}

#[tokio::test]
async fn who_can_be_logged_in_to() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let names = daemon.names(&id, "get_login_providers", "providers", "name").await;
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    assert!(lower.is_sorted() && names.contains(&"Anthropic".to_owned()) && names.contains(&"xAI".to_owned()), "{names:?}");
    let of = |kind: &str| daemon.command(&id, json!({"type": "get_login_providers", "authType": kind}));
    assert_eq!(of("api_key").await["data"]["providers"].as_array().unwrap().len(), names.len());
    assert_eq!(of("oauth").await["data"], json!({"providers": []}));
    for (provider, kind, error) in [
        ("anthropic", "oauth", "Unknown OAuth provider: anthropic"),
        ("nobody", "api_key", "Unknown provider: nobody"),
        ("", "api_key", "Unknown provider: "),
        ("groq", "api_key", "API key cannot be empty."),
    ] {
        let answer = daemon.command(&id, json!({"type": "login", "provider": provider, "authType": kind})).await;
        assert_eq!(answer, refused(error), "with nobody there to answer");
    }
    assert_eq!(daemon.command(&id, json!({"type": "login_cancel"})).await["success"], true);
    assert!(!daemon.shared_auth().exists());
}

#[tokio::test]
async fn the_first_answer_counts_whoever_gives_it() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let (_, mut plain) = daemon.events(&id, "").await;
    let (_, mut full) = daemon.events(&id, "?view=full").await;
    let (_, mut rail) = daemon.events(&id, "?include=login_ui").await;
    let mut login = daemon.begin_login(&id, "groq").await;
    let request = plain.until("extension_ui_request").await;
    assert_eq!(full.event().await.unwrap().1, request);
    let prompt = rail.event().await.unwrap().1;
    let dialog = request["id"].clone();
    assert_eq!(prompt, json!({"type": "login_ui_request", "id": dialog, "method": "prompt", "message": "Enter API key for Groq"}));

    // Another session is another matter, whatever the id.
    let other = daemon.command(&id, json!({"type": "deploy"})).await["data"]["sessionId"].as_str().unwrap().to_owned();
    let answer = json!({"type": "login_ui_response", "id": dialog, "value": KEY});
    for session in [other.as_str(), "nope"] {
        for route in ["ui-response", "login-response"] {
            assert_eq!(daemon.answer(session, route, answer.clone()).await, late("no open dialog has this id"));
        }
    }
    let open = daemon.command(&id, json!({"type": "get_dialogs"})).await;
    assert_eq!(open["data"], json!({"dialogs": [{"id": dialog, "method": "input", "title": "Enter API key for Groq"}]}));
    assert_eq!(daemon.command(&other, json!({"type": "get_dialogs"})).await["data"], json!({"dialogs": []}));

    // One that comes now is told, once, in the form that it asked for.
    for (query, again) in [("", None), ("?view=full", Some(&request)), ("?view=full&include=login_ui", Some(&prompt))] {
        let (hello, mut late) = daemon.events(&id, query).await;
        assert_eq!(hello["dialogs"], open["data"]["dialogs"], "{query}");
        if let Some(again) = again {
            assert_eq!(late.event().await.unwrap(), ("message".to_owned(), again.clone()));
        }
    }
    assert_eq!(daemon.answer(&id, "login-response", answer.clone()).await, applied());
    for route in ["ui-response", "login-response"] {
        assert_eq!(daemon.answer(&id, route, answer.clone()).await, late("the dialog was answered already"));
    }
    assert_eq!(login.response().await.json()["success"], true);
    let resolved = json!({"type": "extension_ui_resolved", "id": dialog});
    for events in [&mut plain, &mut full, &mut rail] {
        assert_eq!(events.event().await.unwrap().1, resolved);
    }
    assert_eq!(daemon.stored()["groq"]["key"], KEY);
}

#[tokio::test]
async fn what_ends_a_login_without_a_key() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let (_, mut stays) = daemon.events(&id, "").await;
    let (_, leaves) = daemon.events(&id, "").await;
    for (route, answer) in [
        ("ui-response", json!({"cancelled": true})),
        ("ui-response", json!({"value": " \t"})),
        ("ui-response", json!({"confirmed": true})),
        ("login-response", json!({"value": KEY, "cancelled": false})),
    ] {
        let mut login = daemon.begin_login(&id, "groq").await;
        let dialog = stays.until("extension_ui_request").await["id"].clone();
        let mut answer = answer;
        answer["id"] = dialog;
        assert_eq!(daemon.answer(&id, route, answer).await, applied());
        assert_eq!(login.response().await.json(), refused("API key cannot be empty."));
    }

    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = stays.until("extension_ui_request").await["id"].clone();
    let second = daemon.command(&id, json!({"type": "login", "provider": "xai", "authType": "api_key"})).await;
    assert_eq!(second, refused("A login is already in progress."));
    assert_eq!(daemon.command(&id, json!({"type": "login_cancel"})).await["success"], true);
    assert_eq!(login.response().await.json(), refused("API key cannot be empty."));
    assert_eq!(stays.until("extension_ui_resolved").await["id"], dialog);
    assert_eq!(daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await, late("the dialog is not needed any more"));

    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = stays.until("extension_ui_request").await["id"].clone();
    drop(leaves);
    assert_eq!(daemon.command(&id, json!({"type": "get_dialogs"})).await["data"]["dialogs"][0]["id"], dialog);
    drop(stays);
    assert_eq!(login.response().await.json(), refused("API key cannot be empty."));
    let reason = "the dialog ended when the last client left";
    assert_eq!(daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await, late(reason));
    let (hello, mut events) = daemon.events(&id, "?view=full").await;
    assert_eq!(hello["dialogs"], json!([]));
    assert!(!daemon.shared_auth().exists());

    // A daemon that stops does not wait for people.
    let mut login = daemon.begin_login(&id, "groq").await;
    events.until("extension_ui_request").await;
    daemon.command(&id, json!({"type": "shutdown"})).await;
    assert_eq!(login.response().await.json(), refused("API key cannot be empty."));
    daemon.ended.await.unwrap();
}

#[tokio::test]
async fn the_lock_of_another_process_is_waited_for() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let (_, mut events) = daemon.events(&id, "").await;
    daemon.home.write_shared_auth("{}");
    let auth = daemon.shared_auth();
    let lock = auth.with_file_name("auth.json.lock");
    std::fs::create_dir(&lock).unwrap();
    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = events.until("extension_ui_request").await["id"].clone();
    assert_eq!(daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await, applied());
    // The daemon stands at the lock once it has shut out its like.
    becomes(|| auth.with_file_name(".auth.json.guard").exists()).await;
    assert_eq!(daemon.stored(), json!({}));
    std::fs::write(&auth, r#"{"theirs": {"type": "api_key", "key": "t"}}"#).unwrap();
    std::fs::remove_dir(&lock).unwrap();
    assert_eq!(login.response().await.json()["success"], true);
    let both = json!({"theirs": {"type": "api_key", "key": "t"}, "groq": {"type": "api_key", "key": KEY}});
    assert_eq!(daemon.stored(), both);
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_broken_file_is_told_of_and_left_as_it_is() {
    let daemon = TestHome::new().start().await;
    let id = daemon.session().await;
    let (_, mut events) = daemon.events(&id, "").await;
    let broken = r#"{"groq": {"type": "api_key", "key": "gsk-half"#;
    daemon.home.write_shared_auth(broken);
    let expected = format!("{} is not a JSON object (", daemon.shared_auth().display());

    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = loop {
        let request = events.until("extension_ui_request").await;
        if request["method"] == "input" {
            break request["id"].clone();
        }
    };
    assert_eq!(daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await, applied());
    let answer = login.response().await.json();
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with(&expected) && error.ends_with("); it was left unchanged"), "{error}");
    let logout = daemon.command(&id, json!({"type": "logout", "provider": "groq"})).await;
    assert!(logout["error"].as_str().unwrap().starts_with(&expected), "{logout}");
    assert_eq!(std::fs::read_to_string(daemon.shared_auth()).unwrap(), broken);

    // Everyone who is there is told, once, and those who come later find it among the diagnostics.
    daemon.command(&id, json!({"type": "get_available_models"})).await;
    let notice = events.until("extension_ui_request").await;
    let [method, kind, message] = ["method", "notifyType", "message"].map(|field| notice[field].as_str().unwrap());
    assert_eq!((method, kind), ("notify", "error"));
    assert!(message.starts_with(&expected), "{message}");
    let summary = daemon.command(&id, json!({"type": "get_resource_summary"})).await;
    let listed = summary["data"]["diagnostics"].as_array().unwrap().iter().filter(|it| it["message"] == message).count();
    assert_eq!(listed, 1, "{summary}");
    assert!(!format!("{answer}{logout}{notice}{summary}").contains("gsk-half") && !error.contains(KEY));

    daemon.home.write_shared_auth("{}");
    daemon.command(&id, json!({"type": "get_available_models"})).await;
    let summary = daemon.command(&id, json!({"type": "get_resource_summary"})).await;
    assert!(summary["data"]["diagnostics"].as_array().unwrap().iter().all(|it| it["type"] != "error"), "{summary}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_an_error_without_the_key() {
    let home = TestHome::new();
    let user = home.folder.path().join("user");
    std::fs::create_dir_all(&user).unwrap();
    // Not a folder, so that nobody can write below it, whatever the rights.
    std::fs::write(user.join(".wolli"), "").unwrap();
    let daemon = home.start().await;
    let id = daemon.session().await;
    let (_, mut events) = daemon.events(&id, "").await;
    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = events.until("extension_ui_request").await["id"].clone();
    daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await;
    let answer = login.response().await.json();
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains(".wolli/agent/auth.json") && !error.contains(KEY), "{error}");
    assert_eq!(daemon.names(&id, "get_logout_providers", "providers", "id").await, Vec::<String>::new());
    // The next one is not "already in progress".
    let (second, _) = tokio::join!(daemon.command(&id, json!({"type": "login", "provider": "groq", "authType": "api_key"})), async {
        let dialog = events.until("extension_ui_request").await["id"].clone();
        daemon.answer(&id, "ui-response", json!({"id": dialog, "cancelled": true})).await
    });
    assert_eq!(second, refused("API key cannot be empty."));
}

#[tokio::test]
async fn the_agents_own_credential_goes_before_a_shared_one_and_that_is_said() {
    let home = TestHome::new();
    std::fs::write(home.home.auth(), r#"{"groq": {"type": "api_key", "key": "own"}}"#).unwrap();
    let daemon = home.start_with(quick(), &[]).await;
    let id = daemon.session().await;
    let (_, mut events) = daemon.events(&id, "").await;
    let mut login = daemon.begin_login(&id, "groq").await;
    let dialog = events.until("extension_ui_request").await["id"].clone();
    daemon.answer(&id, "ui-response", json!({"id": dialog, "value": KEY})).await;
    assert_eq!(login.response().await.json()["success"], true);
    let warning = events.until("extension_ui_request").await;
    let expected = "auth.json has a credential for groq of its own, which goes before the one stored now";
    assert!(warning["message"].as_str().unwrap().ends_with(expected) && warning["notifyType"] == "warning", "{warning}");
    assert_eq!(daemon.command(&id, json!({"type": "logout", "provider": "groq"})).await["success"], true);
    assert_eq!((daemon.stored(), std::fs::read_to_string(daemon.home.home.auth()).unwrap().as_str()), (json!({}), "{}"));
}
