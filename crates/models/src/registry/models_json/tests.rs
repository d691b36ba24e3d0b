use proptest::prelude::*;
use wolli_protocol::resource::DiagnosticKind;

use super::*;

const PATH: &str = "/home/x/.wolli/agent/models.json";

fn load(text: &str) -> ModelsJson {
    let file = ConfigText { path: PATH.into(), text: text.into() };
    read(&file, &Catalogue::load(None).0)
}

/// The messages of errors and of warnings.
fn said(result: &ModelsJson) -> (Vec<String>, Vec<String>) {
    assert!(result.problems.iter().all(|problem| problem.path.as_deref() == Some(PATH)));
    let of = |kind| {
        let found = result.problems.iter().filter(|problem| problem.kind == kind);
        found.map(|problem| problem.message.clone()).collect::<Vec<_>>()
    };
    (of(DiagnosticKind::Error), of(DiagnosticKind::Warning))
}

const GOOD: &str = r#""good": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "k", "api": "openai-completions", "models": [{"id": "m"}]}"#;

/// Each row is one faulty provider beside a good one: its violations, and the good one stays.
#[test]
fn violations_name_their_place_and_cost_one_provider() {
    let cases: &[(&str, &[&str])] = &[
        ("7", &["/providers/p: must be object"]),
        (r#"{"name": ""}"#, &["/providers/p/name: must not have fewer than 1 characters"]),
        (
            r#"{"baseUrl": 1, "api": [], "apiKey": {"planted": "planted"}}"#,
            &["/providers/p/baseUrl: must be string", "/providers/p/apiKey: must be string", "/providers/p/api: must be string"],
        ),
        (r#"{"authHeader": "planted"}"#, &["/providers/p/authHeader: must be boolean"]),
        (r#"{"headers": "planted"}"#, &["/providers/p/headers: must be object"]),
        (
            r#"{"headers": {"x-a": 7, "b/c d": "planted", "": "planted"}}"#,
            &[
                "/providers/p/headers/x-a: must be string",
                "/providers/p/headers/b~1c d: must be the name of a header",
                "/providers/p/headers/: must be the name of a header",
            ],
        ),
        (r#"{"compat": true}"#, &["/providers/p/compat: must be object"]),
        (r#"{"models": {}}"#, &["/providers/p/models: must be array"]),
        (
            r#"{"models": ["planted", {}, {"id": 7}, {"id": ""}]}"#,
            &[
                "/providers/p/models/0: must be object",
                "/providers/p/models/1: must have required property 'id'",
                "/providers/p/models/2/id: must be string",
                "/providers/p/models/3/id: must not have fewer than 1 characters",
            ],
        ),
        (
            r#"{"models": [{"id": "m", "reasoning": 1, "input": ["text", "sound"], "contextWindow": "8k", "maxTokens": null}]}"#,
            &[
                "/providers/p/models/0/reasoning: must be boolean",
                "/providers/p/models/0/input/1: must be equal to one of the allowed values: \"text\", \"image\"",
                "/providers/p/models/0/contextWindow: must be number",
                "/providers/p/models/0/maxTokens: must be number",
            ],
        ),
        (
            r#"{"models": [{"id": "m", "cost": {"input": 1, "output": "2"}, "thinkingLevelMap": {"low": 1}, "input": "text"}]}"#,
            &[
                "/providers/p/models/0/thinkingLevelMap/low: must be string or null",
                "/providers/p/models/0/input: must be array",
                "/providers/p/models/0/cost/output: must be number",
                "/providers/p/models/0/cost: must have required property 'cacheRead'",
                "/providers/p/models/0/cost: must have required property 'cacheWrite'",
            ],
        ),
        (r#"{"modelOverrides": []}"#, &["/providers/p/modelOverrides: must be object"]),
        (
            r#"{"modelOverrides": {"a/b": {"cost": {"input": "x"}, "name": 1}}}"#,
            &["/providers/p/modelOverrides/a~1b/name: must be string", "/providers/p/modelOverrides/a~1b/cost/input: must be number"],
        ),
    ];
    for (entry, violations) in cases {
        let result = load(&format!("{{\"providers\": {{\"p\": {entry}, {GOOD}}}}}"));
        let lines: String = violations.iter().map(|violation| format!("\n  - {violation}")).collect();
        let (errors, _) = said(&result);
        assert_eq!(errors, [format!("Invalid models.json schema:{lines}\n\nFile: {PATH}")], "{entry}");
        assert_eq!(result.providers.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["good"], "{entry}");
        assert!(!format!("{result:?}").contains("planted"), "{result:?}");
    }
}

#[test]
fn well_formed_entries_that_are_useless_are_named_one_by_one() {
    let complete = r#""baseUrl": "http://h", "apiKey": "k", "api": "openai-completions""#;
    let cases = [
        ("{}".to_owned(), "Provider p: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\"."),
        (
            r#"{"name": "N", "authHeader": true, "models": []}"#.into(),
            "Provider p: must specify \"baseUrl\", \"headers\", \"compat\", \"modelOverrides\", or \"models\".",
        ),
        (r#"{"apiKey": "k", "models": [{"id": "m"}]}"#.into(), "Provider p: \"baseUrl\" is required when defining custom models."),
        (r#"{"baseUrl": "http://h", "models": [{"id": "m"}]}"#.into(), "Provider p: \"apiKey\" is required when defining custom models."),
        (
            r#"{"baseUrl": "http://h", "apiKey": "k", "models": [{"id": "m"}]}"#.into(),
            "Provider p, model m: no \"api\" specified. Set at provider or model level.",
        ),
        (format!("{{{complete}, \"models\": [{{\"id\": \" \"}}]}}"), "Provider p: model missing \"id\""),
        (format!("{{{complete}, \"models\": [{{\"id\": \"m\", \"contextWindow\": 0}}]}}"), "Provider p, model m: invalid contextWindow"),
        (format!("{{{complete}, \"models\": [{{\"id\": \"m\", \"contextWindow\": 0.5}}]}}"), "Provider p, model m: invalid contextWindow"),
        (format!("{{{complete}, \"models\": [{{\"id\": \"m\", \"maxTokens\": -1}}]}}"), "Provider p, model m: invalid maxTokens"),
        (r#"{"modelOverrides": {"m": {"maxTokens": 0}}}"#.into(), "Provider p, model m: invalid maxTokens"),
        (r#"{"modelOverrides": {"m": {"contextWindow": -5}}}"#.into(), "Provider p, model m: invalid contextWindow"),
    ];
    for (entry, detail) in &cases {
        let result = load(&format!("{{\"providers\": {{\"p\": {entry}, {GOOD}}}}}"));
        assert_eq!(said(&result), (vec![format!("Failed to load models.json: {detail}\n\nFile: {PATH}")], vec![]), "{entry}");
        assert_eq!(result.providers.len(), 1, "{entry}");
    }
    // Each faulty provider is named, not only the first; what is built in needs neither URL, key nor kind.
    let text = r#"{"providers": {"a": {}, "b": {}, "echo": {"apiKey": "k"}, "groq": {"apiKey": "k"}, "xai": {"models": [{"id": "m"}]}}}"#;
    let result = load(text);
    let (errors, _) = said(&result);
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[2], format!("Failed to load models.json: Provider echo: is built in and cannot be configured.\n\nFile: {PATH}"));
    assert_eq!(result.providers.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["groq", "xai"]);
}

#[test]
fn a_file_that_is_not_json_or_no_object() {
    let cases = [
        ("", "Failed to parse models.json: the file is empty"),
        ("{ \"providers\": {\n  \"p\": { \"apiKey\": planted } } }", "Failed to parse models.json: Unexpected word on line 2 column 20"),
        ("[]", "Invalid models.json schema:\n  - root: must be object"),
        ("{}", "Invalid models.json schema:\n  - root: must have required property 'providers'"),
        ("{\"providers\": []}", "Invalid models.json schema:\n  - /providers: must be object"),
    ];
    for (text, message) in cases {
        let result = load(text);
        assert_eq!(said(&result), (vec![format!("{message}\n\nFile: {PATH}")], vec![]), "{text}");
        assert!(result.providers.is_empty());
    }
}

#[test]
fn keys_that_mean_nothing_are_named_and_cost_nothing() {
    let text = r#"{"$schema": "s", "providers": {"groq": {"apiKey": "k", "modelOverides": {}, "modelOverrides": {"m": {"id": "x",
        "thinkingLevelMap": {"max": "max", "high": "max"}}}}}}"#;
    let result = load(text);
    let warnings = [
        "models.json: unknown key /providers/groq/modelOverides is ignored",
        "models.json: unknown key /providers/groq/modelOverrides/m/id is ignored",
        "models.json: unknown key /providers/groq/modelOverrides/m/thinkingLevelMap/max is ignored",
    ];
    assert_eq!(said(&result), (vec![], warnings.map(str::to_owned).to_vec()));
    assert_eq!(result.providers[0].1.overrides[0].1.levels, Some([(ThinkingLevel::High, Some("max".to_owned()))].into()));
}

#[test]
fn tokens_are_whole_and_countable() {
    let cases = [(1.0, Some(1)), (4096.9, Some(4096)), (0.9, None), (0.0, None), (-1.0, None), (1e300, Some(9_007_199_254_740_991))];
    for (value, expected) in cases {
        assert_eq!(tokens(value), expected, "{value}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "providers",
        "models",
        "id",
        "headers",
        "compat",
        "cost",
        "input",
        "api",
        "baseUrl",
        "apiKey",
        "modelOverrides",
        "thinkingLevelMap",
        "groq",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever stands in the file: no panic, the good provider stays, and every other one is used or named.
    #[test]
    fn any_entry_leaves_the_others_alone(entry in any_json()) {
        let text = format!("{{\"providers\": {{\"p\": {entry}, {GOOD}}}}}");
        let result = load(&text);
        prop_assert!(result.providers.iter().any(|(id, _)| id == "good"));
        let used = result.providers.iter().any(|(id, _)| id == "p");
        let named = result.problems.iter().any(|problem| problem.kind == DiagnosticKind::Error);
        prop_assert!(used != named, "{:?}", result);
    }
}
