//! The registry as its users see it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use wolli_protocol::model::{Model, ThinkingLevel};

use super::*;
use crate::credentials::{CredentialMap, CredentialSource, Tier};
use crate::indirection::{CommandRunner, Resolver};

const NOW: i64 = 1_790_000_000_000;
const RICH: &str = include_str!("../../tests/golden/models.json");

/// The shared tier alone, changeable.
struct Stored(Mutex<Arc<CredentialMap>>);

impl Stored {
    fn new(value: &Value) -> Arc<Self> {
        let stored = Self(Mutex::default());
        stored.set(value);
        Arc::new(stored)
    }

    fn set(&self, value: &Value) {
        *self.0.lock().unwrap() = Arc::new(CredentialMap::from_json(value.as_object().unwrap(), "auth.json").0);
    }
}

impl CredentialSource for Stored {
    fn tier(&self, tier: Tier) -> Arc<CredentialMap> {
        match tier {
            Tier::Agent => Arc::default(),
            Tier::Shared => self.0.lock().unwrap().clone(),
        }
    }
}

struct Commands;

impl CommandRunner for Commands {
    fn run<'a>(&'a self, command: &'a str, _: Duration) -> BoxFuture<'a, Option<SecretString>> {
        Box::pin(async move { command.strip_prefix("pass show ").map(|name| format!("{name}-planted\n").into()) })
    }
}

/// A home for tests: what is configured in it.
struct Setup<'a> {
    environment: &'a [(&'a str, &'a str)],
    stored: Value,
    models_json: Option<&'a str>,
    demo: bool,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self { environment: &[], stored: json!({}), models_json: None, demo: true }
    }
}

impl Setup<'_> {
    fn load(&self) -> Registry {
        self.load_with(Stored::new(&self.stored))
    }

    fn load_with(&self, credentials: Arc<Stored>) -> Registry {
        let environment = self.environment.iter().copied().collect();
        Registry::load(RegistryInputs {
            catalogue_override: None,
            models_json: self.models_json.map(|text| ConfigText { path: "/r/models.json".into(), text: text.into() }),
            resolver: Arc::new(Resolver::new(environment, Arc::new(Commands))),
            credentials,
            runtime_keys: BTreeMap::new(),
            clock: || NOW,
            provided: Vec::new(),
            demo: self.demo,
        })
    }
}

fn references(models: &[&Model]) -> Vec<String> {
    models.iter().map(|model| model.reference()).collect()
}

fn find<'a>(registry: &'a Registry, reference: &str) -> &'a Model {
    let (provider, id) = reference.split_once('/').unwrap();
    registry.find(provider, id).unwrap_or_else(|| panic!("{reference} is not there"))
}

/// All that the rich file changes, as the wire shows it, and all that it is told.
#[test]
fn a_rich_file_gives_the_golden_list() {
    let registry = Setup { models_json: Some(RICH), ..Setup::default() }.load();
    let plain = Setup::default().load();
    let gateway = "https://llm-gateway.example.org/anthropic";
    assert!(registry.models().iter().all(|model| (model.provider == "anthropic") == (model.base_url == gateway)));
    let is_changed = |model: &&Model| {
        let row = plain.find(&model.provider, &model.id);
        row.is_none_or(|row| Model { base_url: model.base_url.clone(), ..row.clone() } != **model)
    };
    let changed: Vec<_> = registry.models().into_iter().filter(is_changed).collect();
    let actual = json!({
        "order": {
            "deepseek": references(&registry.models()).into_iter().filter(|name| name.starts_with("deepseek/")).collect::<Vec<_>>(),
            "last": references(&registry.models()).into_iter().rev().take(5).collect::<Vec<_>>(),
        },
        "models": changed,
        "unknownPrices": changed.iter().filter(|model| registry.pricing(&model.provider, &model.id) == Pricing::Unknown).map(|model| model.reference()).collect::<Vec<_>>(),
        "diagnostics": registry.diagnostics(),
    });
    let expected = include_str!("../../tests/golden/models.expected.json");
    let actual = serde_json::to_string_pretty(&actual).unwrap();
    assert!(actual.trim() == expected.trim(), "the list is now:\n{actual}");
}

async fn auth(registry: &Registry, reference: &str) -> Result<(Option<String>, Vec<(String, String)>), String> {
    let auth = registry.resolve_auth(find(registry, reference), Some("session-1")).await.map_err(|error| error.to_string())?;
    let shown = |secret: &SecretString| secret.expose_secret().to_owned();
    assert!(!format!("{auth:?}").contains("planted"));
    Ok((auth.key.as_ref().map(shown), auth.headers.iter().map(|(name, value)| (name.clone(), shown(value))).collect()))
}

fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A model, its key, and its headers.
type Case<'a> = (&'a str, Option<&'a str>, &'a [(&'a str, &'a str)]);

#[tokio::test]
async fn keys_and_headers_of_a_request() {
    let environment =
        [("TEAM", "core"), ("GROQ_TEAM_KEY", "gsk-planted"), ("ANTHROPIC_API_KEY", "sk-planted"), ("NVIDIA_API_KEY", "nv-planted")];
    let stored = json!({"opencode": {"type": "api_key", "key": "oc-planted"}});
    let registry = Setup { environment: &environment, stored, models_json: Some(RICH), ..Setup::default() }.load();
    let bearer = ("Authorization", "Bearer sk-planted");
    let good: [Case; 9] = [
        ("anthropic/claude-opus-4-8", Some("sk-planted"), &[("x-team", "core"), ("x-who", "team"), bearer]),
        ("anthropic/claude-haiku-4-5", Some("sk-planted"), &[("x-team", "core"), ("X-Who", "haiku core"), bearer]),
        ("groq/openai/gpt-oss-120b", Some("gsk-planted"), &[]),
        ("deepseek/deepseek-next", Some("deepseek-planted"), &[]),
        ("ollama/qwen3:14b", Some("ollama"), &[]),
        ("ollama/claude-like", Some("ollama"), &[]),
        ("nvidia/nvidia/nemotron-3-super-120b-a12b", Some("nv-planted"), &[("NVCF-POLL-SECONDS", "3600")]),
        ("opencode/kimi-k2.6", Some("oc-planted"), &[("x-opencode-session", "session-1"), ("x-opencode-client", "wolli")]),
        ("echo/demo", None, &[]),
    ];
    for (reference, key, headers) in good {
        assert_eq!(auth(&registry, reference).await, Ok((key.map(str::to_owned), pairs(headers))), "{reference}");
    }
    let bad = [
        ("xai/grok-4.3", "No API key for \"xai\". Run /login to authenticate."),
        ("ollama/llava", "Failed to resolve model \"ollama/llava\" header \"x-gpu\" from environment variable: GPU"),
    ];
    for (reference, error) in bad {
        assert_eq!(auth(&registry, reference).await, Err(error.to_owned()), "{reference}");
    }
    assert!(!format!("{registry:?}").contains("planted"));
}

#[tokio::test]
async fn everything_that_must_be_masked_is_known() {
    let text = r#"{"providers": {
        "groq": {"apiKey": "$GROQ_TEAM_KEY", "headers": {"X-Api-Key": "$HEADER_KEY", "x-team": "public"}},
        "deepseek": {"apiKey": "!pass show deepseek"},
        "xai": {"apiKey": "$UNSET"},
        "zai": {"apiKey": "literal-key"}
    }}"#;
    let environment = [("GROQ_TEAM_KEY", "team-key"), ("HEADER_KEY", "header-key"), ("XAI_API_KEY", "xai-key"), ("PATH", "/bin")];
    let stored = json!({
        "anthropic": {"type": "oauth", "access": "token", "expires": 1},
        "moonshotai": {"type": "api_key", "key": "stored-key"},
        "mistral": {"type": "api_key", "key": "team-key"},
        "nvidia": {"type": "api_key", "key": "$UNSET"},
    });
    let registry = Setup { environment: &environment, stored, models_json: Some(text), ..Setup::default() }.load();
    let known = |registry: &Registry| registry.known_secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect::<Vec<_>>();
    let before = ["header-key", "literal-key", "stored-key", "team-key", "token", "xai-key"];
    assert_eq!(known(&registry), before);
    assert!(auth(&registry, "deepseek/deepseek-v4-pro").await.is_ok());
    assert_eq!(known(&registry), [&["deepseek-planted"][..], &before].concat());
}

#[tokio::test]
async fn headers_that_cannot_be_made_or_sent() {
    let text = r#"{"providers": {
        "bare": {"baseUrl": "http://h", "apiKey": "$NO_KEY", "api": "openai-completions", "authHeader": true, "models": [{"id": "m"}]},
        "xai": {"authHeader": true, "headers": {"x": "y"}},
        "groq": {"apiKey": "k", "headers": {"x-a": "!no such command"}},
        "zai": {"apiKey": "k", "headers": {"x-a": "$TWO_LINES"}}
    }}"#;
    let registry = Setup { environment: &[("TWO_LINES", "planted\nx: y")], models_json: Some(text), ..Setup::default() }.load();
    let bad = [
        ("bare/m", "Failed to resolve API key for provider \"bare\" from environment variable: NO_KEY"),
        ("xai/grok-4.3", "No API key found for \"xai\""),
        ("groq/openai/gpt-oss-20b", "Failed to resolve provider \"groq\" header \"x-a\" from shell command: no such command"),
        ("zai/glm-5.1", "provider \"zai\" header \"x-a\" contains characters that cannot be sent in a header"),
    ];
    for (reference, error) in bad {
        assert_eq!(auth(&registry, reference).await, Err(error.to_owned()), "{reference}");
    }
}

/// A custom model takes nothing over from the row it replaces, not even what was laid on that row.
#[tokio::test]
async fn a_replaced_row_leaves_no_headers_behind() {
    let text = r#"{"providers": {"groq": {
        "apiKey": "k",
        "modelOverrides": {"openai/gpt-oss-20b": {"headers": {"x-old": "1"}}, "openai/gpt-oss-120b": {"headers": {"x-kept": "1"}}},
        "models": [{"id": "openai/gpt-oss-20b", "maxTokens": 1}, {"id": "openai/gpt-oss-20b", "maxTokens": 2, "headers": {"x-new": "2"}},
            {"id": "openai/gpt-oss-20b", "maxTokens": 3}]
    }}}"#;
    let registry = Setup { models_json: Some(text), ..Setup::default() }.load();
    assert_eq!(find(&registry, "groq/openai/gpt-oss-20b").max_tokens, 3);
    assert_eq!(registry.models().len(), Setup::default().load().models().len());
    let key = Some("k".to_owned());
    assert_eq!(auth(&registry, "groq/openai/gpt-oss-20b").await, Ok((key.clone(), vec![])));
    assert_eq!(auth(&registry, "groq/openai/gpt-oss-120b").await, Ok((key, pairs(&[("x-kept", "1")]))));
}

#[tokio::test]
async fn attribution_gives_way_to_configured_headers() {
    let text = r#"{"providers": {"openrouter": {"apiKey": "k", "headers": {"http-referer": "https://mine.test"}}}}"#;
    let environment = [("WOLLI_TELEMETRY", "yes")];
    let registry = Setup { environment: &environment, models_json: Some(text), ..Setup::default() }.load();
    let headers = [("http-referer", "https://mine.test"), ("X-OpenRouter-Title", "wolli"), ("X-OpenRouter-Categories", "cli-agent")];
    let expected = (Some("k".to_owned()), pairs(&headers));
    assert_eq!(auth(&registry, "openrouter/moonshotai/kimi-k2.6").await, Ok(expected));
}

#[test]
fn a_base_url_is_filled_in_from_the_environment() {
    let name = "cloudflare-workers-ai/@cf/moonshotai/kimi-k2.6";
    let registry = Setup { environment: &[("CLOUDFLARE_ACCOUNT_ID", "acc")], ..Setup::default() }.load();
    let placed = registry.at_endpoint(find(&registry, name)).unwrap();
    assert_eq!(placed.base_url, "https://api.cloudflare.com/client/v4/accounts/acc/ai/v1");
    let empty = Setup::default().load();
    let error = empty.at_endpoint(find(&empty, name)).unwrap_err();
    assert_eq!(error.to_string(), "CLOUDFLARE_ACCOUNT_ID is required for provider cloudflare-workers-ai but is not set.");
    let mut literal = find(&empty, "groq/openai/gpt-oss-20b").clone();
    literal.base_url = "http://h/{X}".into();
    assert_eq!(empty.at_endpoint(&literal).unwrap().base_url, "http://h/{X}");
    literal.provider = "cloudflare-ai-gateway".into();
    literal.base_url = "http://h/{X".into();
    assert_eq!(empty.at_endpoint(&literal).unwrap().base_url, "http://h/{X");
}

#[test]
fn only_models_with_a_key_and_a_known_kind_are_available() {
    let count = |environment: &[(&str, &str)], stored: Value| {
        let registry = Setup { environment, stored, ..Setup::default() }.load();
        let available = registry.available();
        let mut providers: Vec<_> = available.iter().map(|model| model.provider.as_str()).collect();
        providers.dedup();
        providers.join(" ")
    };
    assert_eq!(count(&[], json!({})), "echo");
    assert_eq!(count(&[("GROQ_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("MISTRAL_API_KEY", "k")], json!({})), "groq echo");
    assert_eq!(count(&[("MOONSHOT_API_KEY", "k")], json!({})), "moonshotai moonshotai-cn echo");
    let login = |expires: i64| json!({"anthropic": {"type": "oauth", "access": "a", "refresh": "r", "expires": expires}});
    assert_eq!(count(&[], login(NOW + 1)), "anthropic echo");
    assert_eq!(count(&[], login(NOW)), "echo");
    let registry = Setup { demo: false, ..Setup::default() }.load();
    assert!(registry.available().is_empty());
    assert!(registry.find("echo", "demo").is_some() && registry.select("echo", "demo").is_ok());
}

#[test]
fn a_key_that_is_stored_now_counts_now() {
    let stored = Stored::new(&json!({}));
    let registry = Setup::default().load_with(stored.clone());
    assert!(!registry.has_credentials("xai"));
    stored.set(&json!({"xai": {"type": "api_key", "key": "k"}}));
    assert!(registry.has_credentials("xai"));
    assert_eq!(references(&registry.available()).len(), 8);
}

#[test]
fn choosing_by_name_says_why_not() {
    let stored = json!({
        "anthropic": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1},
        "openai": {"type": "api_key", "key": "k"},
        "groq": {"type": "api_key", "key": "k"},
    });
    let registry = Setup { stored, ..Setup::default() }.load();
    let cases = [
        ("groq", "openai/gpt-oss-120b", None),
        ("echo", "demo", None),
        ("groq", "none", Some("Model not found: groq/none")),
        ("GROQ", "openai/gpt-oss-120b", Some("Model not found: GROQ/openai/gpt-oss-120b")),
        ("xai", "grok-4.3", Some("No configured credentials for xai/grok-4.3.")),
        ("anthropic", "claude-opus-4-8", Some("login expired for \"anthropic\". Run /login to authenticate.")),
        ("openai", "gpt-5.4", Some("Model openai/gpt-5.4 speaks openai-responses, which this version does not support.")),
    ];
    for (provider, id, error) in cases {
        assert_eq!(registry.select(provider, id).err().map(|error| error.to_string()).as_deref(), error, "{provider}/{id}");
    }
    assert_eq!(registry.match_exact("gpt-oss-120b"), None);
    assert_eq!(registry.match_exact("openai/GPT-oss-120b").map(Model::reference).as_deref(), Some("groq/openai/gpt-oss-120b"));
    assert_eq!(registry.scope(&["gpt-oss-20b:high"]).models[0].level, Some(ThinkingLevel::High));
}

#[test]
fn selectors_show_names_and_who_can_log_in() {
    let stored = json!({"ollama": {"type": "api_key", "key": "k"}, "openai-codex": {"type": "oauth", "access": "a", "expires": 1}});
    let registry = Setup { stored, models_json: Some(RICH), ..Setup::default() }.load();
    let names = ["ollama", "anthropic", "openai-codex", "nobody"].map(|id| registry.display_name(id).to_owned());
    assert_eq!(names, ["Ollama at home", "Anthropic", "openai-codex", "nobody"]);
    let logins = registry.key_login_providers();
    assert!(logins.is_sorted_by(|left, right| left.name.to_lowercase() <= right.name.to_lowercase()));
    let has = |id: &str| logins.iter().any(|entry| entry.id == id && entry.auth_type == "api_key");
    assert!(has("ollama") && has("anthropic") && has("openai") && !has("openai-codex") && !has("github-copilot") && !has("echo"));
    let logouts: Vec<_> = registry.logout_providers().into_iter().map(|entry| (entry.id, entry.name, entry.auth_type)).collect();
    let expected = [("ollama", "Ollama at home", "api_key"), ("openai-codex", "openai-codex", "oauth")];
    assert_eq!(logouts, expected.map(|(id, name, kind)| (id.to_owned(), name.to_owned(), kind.to_owned())));
}

/// The model, why, and what is said.
fn told(initial: &InitialModel) -> (String, ModelSource, Option<&str>) {
    (initial.model.reference(), initial.source, initial.notice.as_deref())
}

#[test]
fn the_first_model_of_an_agent() {
    let saved = |agent: Option<&str>, provider: Option<&str>, model: Option<&str>| SavedDefaults {
        agent_model: agent.map(str::to_owned),
        shared_provider: provider.map(str::to_owned),
        shared_model: model.map(str::to_owned),
        level: None,
    };
    let (groq, both, nothing) = (&[("GROQ_API_KEY", "k")][..], &[("GROQ_API_KEY", "k"), ("DEEPSEEK_API_KEY", "k")][..], &[][..]);
    let (gpt, pro) = ("groq/openai/gpt-oss-120b", "deepseek/deepseek-v4-pro");
    let demo = "No model is configured, so the built-in demonstration answers. Run /login to sign in, then /model to choose a model.";
    let llama = "llama-3.1-8b-instant";
    let instead = format!("No configured credentials for xai/grok-4.3. Using {gpt} instead.");
    let gone = format!("Model not found: groq/gone. Using {gpt} instead.");
    let twice = format!("Model not found: groq/gone. No configured credentials for xai/grok-4.3. Using {gpt} instead.");
    let unsupported = format!("Model openai/gpt-5.4 speaks openai-responses, which this version does not support. Using {gpt} instead.");
    let nowhere = format!("No configured credentials for xai/grok-4.3. {NO_MODEL}");
    let bare = format!("Model not found: gone. Using {gpt} instead.");
    use ModelSource::{AgentDefault, Demo, None as Nothing, ProviderDefault, SharedDefault};
    let cases = [
        // What is saved, if it can be used.
        (
            groq,
            true,
            saved(Some("groq/llama-3.1-8b-instant"), Some("groq"), Some("openai/gpt-oss-20b")),
            "groq/llama-3.1-8b-instant",
            AgentDefault,
            None,
        ),
        (groq, true, saved(Some(llama), None, None), "groq/llama-3.1-8b-instant", AgentDefault, None),
        (groq, true, saved(None, Some("groq"), Some("openai/gpt-oss-20b")), "groq/openai/gpt-oss-20b", SharedDefault, None),
        (groq, true, saved(None, None, Some("openai/gpt-oss-20b")), "groq/openai/gpt-oss-20b", SharedDefault, None),
        (
            groq,
            true,
            saved(Some("xai/grok-4.3"), Some("groq"), Some(llama)),
            "groq/llama-3.1-8b-instant",
            SharedDefault,
            Some("No configured credentials for xai/grok-4.3. Using groq/llama-3.1-8b-instant instead."),
        ),
        // The order of the providers, not of the alphabet.
        (both, true, saved(None, None, None), pro, ProviderDefault, None),
        (groq, true, saved(None, None, None), gpt, ProviderDefault, None),
        // What cannot be used is named.
        (groq, true, saved(Some("xai/grok-4.3"), None, None), gpt, ProviderDefault, Some(instead.as_str())),
        (groq, true, saved(Some("groq/gone"), None, None), gpt, ProviderDefault, Some(&gone)),
        (groq, true, saved(Some("gone"), None, None), gpt, ProviderDefault, Some(&bare)),
        (groq, true, saved(Some("groq/gone"), Some("xai"), Some("grok-4.3")), gpt, ProviderDefault, Some(&twice)),
        (groq, true, saved(Some("openai/gpt-5.4"), None, None), gpt, ProviderDefault, Some(&unsupported)),
        // The demonstration: only where nothing is saved, and never beside a real model.
        (nothing, true, saved(None, None, None), "echo/demo", Demo, Some(demo)),
        (nothing, false, saved(None, None, None), "unknown/unknown", Nothing, Some(NO_MODEL)),
        (nothing, true, saved(Some("xai/grok-4.3"), None, None), "unknown/unknown", Nothing, Some(&nowhere)),
        (nothing, true, saved(None, Some("xai"), Some("grok-4.3")), "unknown/unknown", Nothing, Some(&nowhere)),
        // Named, it always works.
        (nothing, false, saved(Some("echo/demo"), None, None), "echo/demo", AgentDefault, None),
        (groq, false, saved(None, Some("echo"), Some("demo")), "echo/demo", SharedDefault, None),
    ];
    for (environment, demo, saved, reference, source, notice) in cases {
        let initial = Setup { environment, demo, ..Setup::default() }.load().initial_model(&saved);
        assert_eq!(told(&initial), (reference.to_owned(), source, notice), "{environment:?} {saved:?}");
    }
}

#[test]
fn a_provider_without_its_default_gives_its_first_model() {
    let text = r#"{"providers": {"mine": {"baseUrl": "http://h", "apiKey": "k", "api": "openai-completions", "models": [{"id": "b"}, {"id": "a"}]}}}"#;
    let initial = Setup { models_json: Some(text), ..Setup::default() }.load().initial_model(&SavedDefaults::default());
    assert_eq!(told(&initial), ("mine/b".to_owned(), ModelSource::FirstAvailable, None));
}

#[test]
fn saved_levels_are_clamped_to_the_model() {
    let environment = [("GROQ_API_KEY", "k"), ("DEEPSEEK_API_KEY", "k")];
    let registry = Setup { environment: &environment, ..Setup::default() }.load();
    let level = |model: &str, level| {
        registry.initial_model(&SavedDefaults { agent_model: Some(model.into()), level, ..SavedDefaults::default() }).level
    };
    assert_eq!(level("deepseek/deepseek-v4-pro", Some(ThinkingLevel::Low)), Some(ThinkingLevel::High));
    assert_eq!(level("groq/llama-3.1-8b-instant", Some(ThinkingLevel::High)), Some(ThinkingLevel::Off));
    assert_eq!(level("deepseek/deepseek-v4-pro", None), None);
}

#[test]
fn a_stored_session_keeps_its_model_while_it_can() {
    let recorded = |provider: &str, id: &str, chosen| RecordedModel {
        provider: provider.into(),
        id: id.into(),
        level: Some(ThinkingLevel::Low),
        chosen,
    };
    let saved =
        SavedDefaults { agent_model: Some("groq/openai/gpt-oss-20b".into()), level: Some(ThinkingLevel::High), ..SavedDefaults::default() };
    let environment = [("GROQ_API_KEY", "k")];
    let registry = Setup { environment: &environment, ..Setup::default() }.load();
    let llama = recorded("groq", "qwen/qwen3-32b", false);
    let kept = registry.restored_model(Some(&llama), &saved);
    assert_eq!((told(&kept), kept.level), (("groq/qwen/qwen3-32b".to_owned(), ModelSource::Session, None), Some(ThinkingLevel::High)));

    let lost = registry.restored_model(Some(&recorded("xai", "grok-4.3", true)), &saved);
    let notice = "No configured credentials for xai/grok-4.3. Using groq/openai/gpt-oss-20b instead.";
    assert_eq!(told(&lost), ("groq/openai/gpt-oss-20b".to_owned(), ModelSource::AgentDefault, Some(notice)));
    assert_eq!(lost.level, Some(ThinkingLevel::Low), "the branch's level, not the saved one");

    let chosen = registry.restored_model(Some(&recorded("echo", "demo", true)), &saved);
    assert_eq!(told(&chosen), ("echo/demo".to_owned(), ModelSource::Session, None));
    let stood_in = registry.restored_model(Some(&recorded("echo", "demo", false)), &saved);
    assert_eq!(told(&stood_in), ("groq/openai/gpt-oss-20b".to_owned(), ModelSource::AgentDefault, None));
    let fresh = registry.restored_model(None, &saved);
    assert_eq!((told(&fresh).0, fresh.level), ("groq/openai/gpt-oss-20b".to_owned(), Some(ThinkingLevel::High)));

    let unanswered = recorded("unknown", "unknown", false);
    let found = registry.restored_model(Some(&unanswered), &saved);
    assert_eq!(told(&found), ("groq/openai/gpt-oss-20b".to_owned(), ModelSource::AgentDefault, None));

    let empty = Setup::default().load();
    let still = empty.restored_model(Some(&unanswered), &SavedDefaults::default());
    assert_eq!(told(&still), ("unknown/unknown".to_owned(), ModelSource::None, Some(NO_MODEL)));
    let notice = format!("No configured credentials for xai/grok-4.3. {NO_MODEL}");
    let lost = empty.restored_model(Some(&recorded("xai", "grok-4.3", true)), &SavedDefaults::default());
    assert_eq!(told(&lost), ("unknown/unknown".to_owned(), ModelSource::None, Some(notice.as_str())));
    let lost =
        empty.restored_model(Some(&recorded("xai", "grok-4.3", true)), &SavedDefaults { agent_model: Some("groq/gone".into()), ..saved });
    let notice = format!("No configured credentials for xai/grok-4.3. Model not found: groq/gone. {NO_MODEL}");
    assert_eq!(told(&lost), ("unknown/unknown".to_owned(), ModelSource::None, Some(notice.as_str())));
}
