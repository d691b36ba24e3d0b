use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::*;
use crate::indirection::{CommandRunner, Environment, Resolver, Template};

type Pairs<'a> = &'a [(&'a str, &'a str)];
/// Runtime keys, agent tier, shared tier, environment, `models.json`; then the key and the status.
type Case<'a> = (Pairs<'a>, &'a Value, &'a Value, Pairs<'a>, Option<&'a str>, Option<&'a str>, AuthStatus);

const NOW: i64 = 1_790_000_000_000;

/// Both tiers, changeable as files are.
#[derive(Default)]
struct Files(Mutex<[Arc<CredentialMap>; 2]>);

impl Files {
    fn set(&self, tier: Tier, value: &Value) {
        let (map, problems) = CredentialMap::from_json(value.as_object().unwrap(), "/h/auth.json");
        assert_eq!(problems, []);
        self.0.lock().unwrap()[tier as usize] = Arc::new(map);
    }
}

impl CredentialSource for Files {
    fn tier(&self, tier: Tier) -> Arc<CredentialMap> {
        self.0.lock().unwrap()[tier as usize].clone()
    }
}

struct Commands;

impl CommandRunner for Commands {
    fn run<'a>(&'a self, command: &'a str, _: Duration) -> BoxFuture<'a, Option<SecretString>> {
        Box::pin(async move { command.strip_prefix("say ").map(SecretString::from) })
    }
}

fn credentials(runtime: Pairs, agent: Value, shared: Value, environment: Pairs) -> (Credentials, Arc<Files>) {
    let files = Arc::new(Files::default());
    files.set(Tier::Agent, &agent);
    files.set(Tier::Shared, &shared);
    let environment: Environment = environment.iter().copied().collect();
    let resolver = Arc::new(Resolver::new(environment, Arc::new(Commands)));
    let runtime = runtime.iter().map(|(name, key)| ((*name).to_owned(), (*key).into())).collect();
    (Credentials::new(runtime, files.clone(), resolver, || NOW), files)
}

async fn outcome(credentials: &Credentials, models_json: Option<&str>) -> (Result<Option<String>, String>, AuthStatus) {
    let variables = ["P_TOKEN".to_owned(), "P_KEY".to_owned()];
    let template = models_json.map(Template::parse);
    let places = KeyPlaces { variables: &variables, models_json: template.as_ref() };
    let key = credentials.key("p", places).await;
    let key = key.map(|key| key.map(|key| key.expose_secret().to_owned())).map_err(|error| error.to_string());
    (key, credentials.status("p", places))
}

#[tokio::test]
async fn the_first_source_decides() {
    let runtime = [("p", "from-runtime")];
    let agent = json!({"p": {"type": "api_key", "key": "from-agent"}});
    let shared = json!({"p": {"type": "oauth", "access": "from-shared", "refresh": "r", "expires": NOW + 1, "accountId": "a"}});
    let environment = [("P_TOKEN", "from-token"), ("P_KEY", "from-key")];
    let stored = |tier| AuthStatus::Stored { tier, expired: false };
    let file = Some("from-file");
    let none = json!({});
    let cases: [Case; 9] = [
        (&runtime, &agent, &shared, &environment, file, Some("from-runtime"), AuthStatus::Runtime),
        (&[], &agent, &shared, &environment, file, Some("from-agent"), stored(Tier::Agent)),
        (&[], &none, &shared, &environment, file, Some("from-shared"), stored(Tier::Shared)),
        (&[], &none, &none, &environment, file, Some("from-token"), AuthStatus::Environment("P_TOKEN".into())),
        (&[], &none, &none, &environment[1..], file, Some("from-key"), AuthStatus::Environment("P_KEY".into())),
        (&[], &none, &none, &[("P_TOKEN", ""), ("P_KEY", "k")], file, Some("k"), AuthStatus::Environment("P_KEY".into())),
        (&[], &none, &none, &[], file, Some("from-file"), AuthStatus::ModelsJsonKey),
        (&[], &none, &none, &[], Some("!say from-command"), Some("from-command"), AuthStatus::ModelsJsonCommand),
        (&[("q", "k")], &json!({"q": {"type": "api_key", "key": "k"}}), &none, &[], None, None, AuthStatus::NotConfigured),
    ];
    for (runtime, agent, shared, environment, file, key, status) in cases {
        let (credentials, _) = credentials(runtime, agent.clone(), shared.clone(), environment);
        assert_eq!(outcome(&credentials, file).await, (Ok(key.map(str::to_owned)), status));
    }
}

#[tokio::test]
async fn a_source_that_cannot_be_used_does_not_fall_through() {
    let environment = [("P_KEY", "from-key"), ("SET", "from-set")];
    let stored = |tier, expired| AuthStatus::Stored { tier, expired };
    let shared = json!({"p": {"type": "api_key", "key": "$SET"}});
    let cases = [
        (
            json!({"p": {"type": "api_key", "key": "$UNSET"}}),
            "Failed to resolve API key for provider \"p\" from environment variable: UNSET",
            stored(Tier::Agent, false),
        ),
        (
            json!({"p": {"type": "api_key", "key": "!fails"}}),
            "Failed to resolve API key for provider \"p\" from shell command: fails",
            stored(Tier::Agent, false),
        ),
        (
            json!({"p": {"type": "oauth", "access": "at", "refresh": "rt", "expires": NOW}}),
            "login expired for \"p\". Run /login to authenticate.",
            stored(Tier::Agent, true),
        ),
        (
            json!({"p": {"type": "api_key", "key": "two\nlines"}}),
            "API key for provider \"p\" contains characters that cannot be sent in a header",
            stored(Tier::Agent, false),
        ),
    ];
    for (agent, error, status) in cases {
        let (credentials, files) = credentials(&[], agent, shared.clone(), &environment);
        assert_eq!(outcome(&credentials, Some("from-file")).await, (Err(error.to_owned()), status));
        // What changes in the files counts at once.
        files.set(Tier::Agent, &json!({}));
        assert_eq!(outcome(&credentials, None).await, (Ok(Some("from-set".into())), stored(Tier::Shared, false)));
    }
}

#[tokio::test]
async fn an_api_key_of_models_json_without_its_variable_is_not_configured() {
    let (credentials, _) = credentials(&[], json!({}), json!({}), &[]);
    let error = "Failed to resolve API key for provider \"p\" from environment variable: TEAM_KEY".to_owned();
    assert_eq!(outcome(&credentials, Some("$TEAM_KEY")).await, (Err(error), AuthStatus::NotConfigured));
}

#[test]
fn entries_that_make_no_sense_are_reported_without_their_value() {
    let object = json!({
        "good": {"type": "api_key", "key": "planted", "note": "kept by the owner of the file"},
        "text": "planted",
        "kind": {"type": "planted"},
        "key": {"type": "api_key", "key": ""},
        "number": {"type": "api_key", "key": 7},
        "token": {"type": "oauth", "refresh": "planted", "expires": 1},
        "expires": {"type": "oauth", "access": "planted", "expires": "soon"},
    });
    let (map, problems) = CredentialMap::from_json(object.as_object().unwrap(), "/h/auth.json");
    assert_eq!(map.providers().collect::<Vec<_>>(), ["good"]);
    let shown: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        shown,
        [
            "credential of \"text\" is ignored: \"type\" must be \"api_key\" or \"oauth\"",
            "credential of \"kind\" is ignored: \"type\" must be \"api_key\" or \"oauth\"",
            "credential of \"key\" is ignored: \"key\" must be a string of at least 1 character",
            "credential of \"number\" is ignored: \"key\" must be a string of at least 1 character",
            "credential of \"token\" is ignored: \"access\" must be a string of at least 1 character",
            "credential of \"expires\" is ignored: \"expires\" must be milliseconds since 1970",
        ]
    );
    assert!(!format!("{map:?} {problems:?}").contains("planted"));
}

#[test]
fn selectors_know_the_words() {
    let stored = AuthStatus::Stored { tier: Tier::Shared, expired: false };
    let environment = AuthStatus::Environment("P_KEY".into());
    let cases = [
        (AuthStatus::Runtime, Some("runtime"), Some("--api-key"), true),
        (stored, Some("stored"), None, true),
        (AuthStatus::Stored { tier: Tier::Agent, expired: true }, Some("stored"), None, false),
        (environment, Some("environment"), Some("P_KEY"), true),
        (AuthStatus::ModelsJsonKey, Some("models_json_key"), None, true),
        (AuthStatus::ModelsJsonCommand, Some("models_json_command"), None, true),
        (AuthStatus::NotConfigured, None, None, false),
    ];
    for (status, source, label, usable) in cases {
        assert_eq!((status.source(), status.label(), status.is_usable()), (source, label, usable), "{status:?}");
    }
}

#[test]
fn debug_shows_no_key() {
    let (credentials, files) = credentials(&[("p", "planted")], json!({"p": {"type": "api_key", "key": "planted"}}), json!({}), &[]);
    assert!(!format!("{credentials:?} {:?}", files.tier(Tier::Agent)).contains("planted"));
}
