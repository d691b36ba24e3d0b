use std::fs;

use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn resolve(shared: Value, agent: Value) -> (Settings, Vec<String>) {
    Settings::resolve(&object(shared), agent.as_object())
}

#[test]
fn tiers_merge_one_level_deep() {
    let shared = object(json!({
        "a": 1, "list": [1, 2], "compaction": {"enabled": true, "x": {"p": 1, "q": 2}}, "gone": {"k": 1}, "scalar": 1
    }));
    let agent = object(json!({
        "list": [3], "compaction": {"enabled": false, "x": {"p": 3}}, "gone": null, "scalar": {"k": 1}, "new": true
    }));
    let merged = merge(&shared, Some(&agent));
    assert_eq!(
        serde_json::to_string(&merged).unwrap(),
        r#"{"a":1,"list":[3],"compaction":{"enabled":false,"x":{"p":3}},"gone":null,"scalar":{"k":1},"new":true}"#
    );
    assert_eq!(merge(&shared, None), shared);
}

#[test]
fn defaults() {
    let (settings, problems) = resolve(json!({}), Value::Null);
    assert!(problems.is_empty());
    assert_eq!(
        settings,
        Settings {
            default_model: None,
            default_thinking_level: None,
            enabled_models: None,
            compaction: Compaction { enabled: true, reserve_tokens: 16384, keep_recent_tokens: 20000 },
            enable_install_telemetry: true,
            all: Map::new(),
        }
    );
}

#[test]
fn the_default_model_comes_from_the_nearest_tier() {
    let shared = json!({"defaultProvider": "groq", "defaultModel": "llama"});
    for (shared, agent, expected) in [
        (shared.clone(), json!({"defaultModel": "anthropic/opus"}), Some("anthropic/opus")),
        (shared.clone(), json!({"defaultProvider": "openai"}), Some("groq/llama")),
        (shared.clone(), json!({"defaultModel": null}), Some("groq/llama")),
        (shared, json!({"defaultModel": ""}), Some("groq/llama")),
        (json!({"defaultModel": "llama"}), json!({}), Some("llama")),
        (json!({"defaultProvider": "groq"}), json!({}), None),
    ] {
        assert_eq!(resolve(shared, agent).0.default_model.as_deref(), expected);
    }
}

#[test]
fn values_are_read_and_ill_typed_ones_are_named() {
    let (settings, problems) = resolve(
        json!({"defaultThinkingLevel": "xhigh", "enabledModels": ["a"], "compaction": {"reserveTokens": 1e4}, "theme": 5}),
        json!({"enabledModels": ["b", "c"], "compaction": {"enabled": false}, "enableInstallTelemetry": false}),
    );
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(settings.default_thinking_level, Some(ThinkingLevel::Xhigh));
    assert_eq!(settings.enabled_models.unwrap(), ["b", "c"]);
    assert_eq!(settings.compaction, Compaction { enabled: false, reserve_tokens: 10_000, keep_recent_tokens: 20_000 });
    assert!(!settings.enable_install_telemetry);
    assert_eq!(settings.all["theme"], 5);

    let (settings, problems) = resolve(
        json!({"defaultModel": 1, "defaultThinkingLevel": "huge", "enabledModels": ["a", 1], "compaction": true}),
        json!({"enableInstallTelemetry": "no"}),
    );
    assert_eq!(settings.compaction, Compaction { enabled: true, reserve_tokens: 16384, keep_recent_tokens: 20000 });
    assert_eq!(
        problems,
        [
            "setting defaultModel must be a string; it is ignored",
            "setting compaction must be an object; it is ignored",
            "setting defaultThinkingLevel must be one of off, minimal, low, medium, high, xhigh; it is ignored",
            "setting enabledModels must be a list of strings; it is ignored",
            "setting enableInstallTelemetry must be true or false; it is ignored",
        ]
    );
    let (settings, problems) = resolve(json!({"compaction": {"reserveTokens": -1, "keepRecentTokens": "many"}}), json!({}));
    assert_eq!((settings.compaction.reserve_tokens, problems.len()), (16384, 2));
}

#[test]
fn shared_settings_are_changed_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shared/settings.json");
    assert_eq!(read_shared(&path).unwrap(), Map::new());
    update_shared(&path, |settings| drop(settings.insert("theme".to_owned(), json!("dark")))).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"theme\": \"dark\"\n}\n");
    fs::write(&path, "{\"z\":1,\"defaultModel\":\"a\",\"b\":{}}").unwrap();
    update_shared(&path, |settings| drop(settings.insert("defaultModel".to_owned(), json!("b")))).unwrap();
    let expected = "{\n  \"z\": 1,\n  \"defaultModel\": \"b\",\n  \"b\": {}\n}\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    fs::write(&path, "\0\0").unwrap();
    assert_eq!(read_shared(&path).unwrap(), Map::new());
}

#[test]
fn a_broken_shared_file_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    for content in ["{\"theme\": \"dark\",}", "[]", "{"] {
        fs::write(&path, content).unwrap();
        let error = read_shared(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{} is not a JSON object: ", path.display())), "{error}");
        assert!(update_shared(&path, Map::clear).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}
