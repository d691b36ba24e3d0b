//! Reading everything again while sessions live, and what is set for a session or for later ones.

use serde_json::{Value, json};

use crate::support::{Events, TestDaemon, TestHome};

/// Two models on a server that nobody asks.
fn models(context_window: u64) -> Value {
    let model = |id: &str| json!({"id": id, "name": id, "contextWindow": context_window});
    json!({"providers": {"local": {
        "baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "key-of-nobody-000000", "models": [model("one"), model("two")],
    }}})
}

impl TestHome {
    fn share(&self, name: &str, content: &str) {
        let folder = self.folder.path().join("user/.wolli/agent");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), content).unwrap();
    }

    fn set(&self, settings: Value) {
        let path = self.home.config_json();
        let mut agent: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        agent["settings"] = settings;
        std::fs::write(path, agent.to_string()).unwrap();
    }

    fn settings(&self) -> Value {
        serde_json::from_slice::<Value>(&std::fs::read(self.home.config_json()).unwrap()).unwrap()["settings"].clone()
    }
}

impl TestDaemon {
    async fn succeed(&self, id: &str, command: Value) -> Value {
        let answer = self.command(id, command).await;
        assert_eq!(answer["success"], true, "{answer}");
        answer["data"].clone()
    }

    async fn state(&self, id: &str) -> Value {
        self.succeed(id, json!({"type": "get_state"})).await
    }

    async fn named(&self, id: &str, command: &str, list: &str) -> Vec<String> {
        let data = self.succeed(id, json!({"type": command})).await;
        data[list].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn messages_of_diagnostics(&self, id: &str) -> Vec<String> {
        let data = self.succeed(id, json!({"type": "get_resource_summary"})).await;
        data["diagnostics"].as_array().unwrap().iter().map(|item| item["message"].as_str().unwrap().to_owned()).collect()
    }

    async fn tool_changes(&self, id: &str) -> Vec<Value> {
        let mut data = self.succeed(id, json!({"type": "get_entries"})).await;
        let entries: Vec<Value> = serde_json::from_value(data["entries"].take()).unwrap();
        entries.into_iter().filter(|entry| entry["type"] == "active_tools_change").collect()
    }

    fn scope(state: &Value) -> Vec<String> {
        let scoped = state["scopedModels"].as_array().unwrap().iter();
        scoped
            .map(|scoped| format!("{}:{}", scoped["model"]["id"].as_str().unwrap(), scoped["thinkingLevel"].as_str().unwrap_or("-")))
            .collect()
    }
}

#[tokio::test]
async fn a_reload_brings_what_was_added_and_a_broken_file_brings_nothing() {
    let home = TestHome::greeting();
    home.share("models.json", &models(1000).to_string());
    home.set(json!({"defaultModel": "local/one"}));
    let daemon = home.start().await;
    let id = daemon.session().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    events.event().await;
    assert_eq!(daemon.named(&id, "get_skills", "skills").await, ["greet"]);
    daemon.home.put("skills/part/SKILL.md", "---\nname: part\ndescription: Says goodbye\n---\nBye.");
    daemon.home.share("models.json", &models(2000).to_string());
    let agent_json = std::fs::read(daemon.home.home.config_json()).unwrap();
    let broken = [
        ("settings.json", true, "{"),
        ("models.json", true, "{\"providers\": "),
        ("config.toml", false, "[limits"),
        ("agent.json", false, "{\"name\": 1}"),
    ];
    for (file, is_shared, content) in broken {
        if is_shared {
            daemon.home.share(file, content);
        } else {
            daemon.home.put(file, content);
        }
        let answer = daemon.command(&id, json!({"type": "reload"})).await;
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{file}: {answer}"));
        assert!(error.starts_with("nothing was reloaded: ") && error.contains(file), "{error}");
        assert_eq!(daemon.named(&id, "get_skills", "skills").await, ["greet"], "{file}");
        assert_eq!(daemon.state(&id).await["model"]["contextWindow"], 1000, "{file}");
        match file {
            "settings.json" => daemon.home.share(file, "{}"),
            "models.json" => daemon.home.share(file, &models(2000).to_string()),
            "config.toml" => drop(daemon.home.put(file, "[limits]\nnothing = 1\n")),
            _ => std::fs::write(daemon.home.home.config_json(), &agent_json).unwrap(),
        }
    }
    daemon.succeed(&id, json!({"type": "reload"})).await;
    assert_eq!(daemon.named(&id, "get_skills", "skills").await, ["greet", "part"]);
    assert_eq!(daemon.named(&id, "get_commands", "commands").await, ["review", "skill:greet", "skill:part"]);
    assert_eq!(daemon.state(&id).await["model"]["contextWindow"], 2000, "the session's model is known anew");
    let update = events.until("model_update").await;
    assert_eq!((&update["source"], &update["model"]["contextWindow"]), (&json!("restore"), &json!(2000)));
    // One bad key costs itself alone, and is told until it is mended.
    let told = |messages: &[String]| messages.iter().any(|message| message.contains("unknown key limits.nothing"));
    assert!(told(&daemon.messages_of_diagnostics(&id).await));
    daemon.home.put("config.toml", "[limits]\nbash_timeout = \"5m\"\n");
    daemon.succeed(&id, json!({"type": "reload"})).await;
    assert!(!told(&daemon.messages_of_diagnostics(&id).await));
    assert!(daemon.tool_changes(&id).await.is_empty(), "the tools are what they were");
}

#[tokio::test]
async fn a_model_that_cannot_be_used_is_told_until_that_is_mended() {
    let home = TestHome::greeting();
    home.share("models.json", &models(1000).to_string());
    home.set(json!({"defaultModel": "local/gone"}));
    let daemon = home.start().await;
    let id = daemon.session().await;
    let told = |messages: &[String]| messages.iter().filter(|message| message.contains("Model not found: local/gone")).count();
    assert_eq!(told(&daemon.messages_of_diagnostics(&id).await), 1);
    daemon.succeed(&id, json!({"type": "reload"})).await;
    assert_eq!(told(&daemon.messages_of_diagnostics(&id).await), 1);
    daemon.home.set(json!({"defaultModel": "local/one"}));
    daemon.succeed(&id, json!({"type": "reload"})).await;
    assert_eq!(told(&daemon.messages_of_diagnostics(&id).await), 0);
}

#[tokio::test]
async fn tools_of_resident_sessions_follow_and_are_written_only_if_they_changed() {
    let daemon = TestHome::new().start().await;
    let birth = daemon.session().await;
    daemon.succeed(&birth, json!({"type": "prompt", "message": "!sleep 50\n!repeat 1000 x "})).await;
    let fresh = daemon.succeed(&birth, json!({"type": "deploy"})).await["sessionId"].as_str().unwrap().to_owned();
    let has_deploy = |names: Vec<String>| names.contains(&"deploy".to_owned());
    assert!(has_deploy(daemon.named(&birth, "get_tool_info", "tools").await), "each session has its own tools");
    assert!(!has_deploy(daemon.named(&fresh, "get_tool_info", "tools").await));
    for _ in 0..3 {
        daemon.succeed(&fresh, json!({"type": "reload"})).await;
    }
    assert_eq!(daemon.state(&birth).await["isStreaming"], true, "a run is not disturbed");
    let info = daemon.succeed(&birth, json!({"type": "get_tool_info"})).await;
    assert!(!info["activeToolNames"].as_array().unwrap().contains(&json!("deploy")));
    assert_eq!(info["activeToolNames"].as_array().unwrap().len(), info["tools"].as_array().unwrap().len());
    daemon.succeed(&birth, json!({"type": "abort"})).await;
    let changes = daemon.tool_changes(&birth).await;
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["activeToolNames"], info["activeToolNames"]);
    assert!(daemon.tool_changes(&fresh).await.is_empty());
}

#[tokio::test]
async fn scopes_are_of_a_session_and_enabled_models_of_the_agent() {
    let home = TestHome::new();
    home.share("models.json", &models(1000).to_string());
    home.set(json!({"defaultModel": "local/one", "enabledModels": ["local/two"]}));
    let daemon = home.start().await;
    let (id, mut control) = daemon.session_at_rest().await;
    let mut events = Events::new(daemon.stream(&format!("/sessions/{id}/events")).await);
    events.event().await;
    assert_eq!(TestDaemon::scope(&daemon.state(&id).await), ["two:-"], "settings.enabledModels is where it begins");
    let scope = |patterns: Value| json!({"type": "set_scoped_models", "enabledModelIds": patterns});
    daemon.succeed(&id, scope(json!(["local/*:high", "nothing", "two"]))).await;
    let update = events.until("scoped_models_update").await;
    assert_eq!(update["scopedModels"][0]["thinkingLevel"], "high");
    assert_eq!(TestDaemon::scope(&daemon.state(&id).await), ["one:high", "two:high"]);
    daemon.succeed(&id, scope(json!([]))).await;
    assert_eq!(events.until("scoped_models_update").await["scopedModels"], json!([]));
    let many: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
    assert_eq!(daemon.command(&id, scope(json!(many))).await["error"], "at most 1000 model patterns can be given");

    daemon.succeed(&id, json!({"type": "set_enabled_models", "enabledModels": ["one"]})).await;
    assert_eq!(daemon.home.settings()["enabledModels"], json!(["one"]));
    assert!(TestDaemon::scope(&daemon.state(&id).await).is_empty(), "sessions that are open keep theirs");
    drop(events);
    control.until("session_removed").await;
    assert_eq!(TestDaemon::scope(&daemon.state(&id).await), ["one:-"], "a session that left memory begins anew");
    daemon.succeed(&id, json!({"type": "set_enabled_models", "enabledModels": []})).await;
    assert_eq!(daemon.home.settings()["enabledModels"], json!([]));
    daemon.succeed(&id, json!({"type": "set_enabled_models"})).await;
    assert_eq!(daemon.home.settings(), json!({"defaultModel": "local/one"}));
}

#[tokio::test]
async fn new_sessions_begin_with_the_model_and_level_of_the_moment() {
    let home = TestHome::new();
    home.share("models.json", &models(1000).to_string().replace("\"name\"", "\"reasoning\":true,\"name\""));
    home.set(json!({"defaultModel": "anthropic/claude-opus-4-8"}));
    let daemon = home.start().await;
    let id = daemon.session().await;
    let state = daemon.state(&id).await;
    assert_eq!((&state["model"]["provider"], &state["model"]["id"]), (&json!("local"), &json!("one")), "{state}");
    let notice = "No configured credentials for anthropic/claude-opus-4-8. Using local/one instead.";
    assert!(daemon.messages_of_diagnostics(&id).await.contains(&notice.to_owned()));
    daemon.succeed(&id, json!({"type": "set_model", "provider": "local", "modelId": "two"})).await;
    daemon.succeed(&id, json!({"type": "set_thinking_level", "level": "high"})).await;
    let fresh = daemon.succeed(&id, json!({"type": "deploy"})).await;
    let created = daemon.succeed(&id, json!({"type": "create_session"})).await;
    for state in [fresh, created] {
        assert_eq!((&state["model"]["id"], &state["thinkingLevel"]), (&json!("two"), &json!("high")), "{state}");
    }
    daemon.succeed(&id, json!({"type": "reload"})).await;
    assert!(!daemon.messages_of_diagnostics(&id).await.contains(&notice.to_owned()), "it is not so any more");
}

#[tokio::test]
async fn plugins_are_listed_and_removed_and_never_loaded() {
    let home = TestHome::new();
    home.set(json!({"plugins": ["npm:tools@1.0", {"source": "./mine", "skills": []}], "theme": "dark"}));
    let daemon = home.start().await;
    let id = daemon.session().await;
    let plugins = daemon.succeed(&id, json!({"type": "get_plugins"})).await;
    let plugin = |source: &str, filtered| json!({"source": source, "scope": "user", "filtered": filtered});
    assert_eq!(plugins, json!({"plugins": [plugin("npm:tools@1.0", false), plugin("./mine", true)]}));
    let told = |messages: &[String]| messages.iter().filter(|message| message.contains("plugin")).count();
    assert_ne!(told(&daemon.messages_of_diagnostics(&id).await), 0);
    let folder = daemon.home.folder.path().to_str().unwrap().to_owned();
    let path = daemon.home.home.path().to_str().unwrap().to_owned();
    let unsupported =
        format!("this version of wolli loads no plugins; skills and prompt templates can be put into {path}/skills and {path}/prompts");
    for (command, source, error) in [
        ("install_plugin", json!("./nowhere"), format!("Path does not exist: {folder}/nowhere")),
        ("install_plugin", json!(folder), unsupported.clone()),
        ("install_plugin", json!("npm:other"), unsupported.clone()),
        ("update_plugins", json!("npm:tools"), unsupported.clone()),
        ("update_plugins", json!(null), unsupported),
        ("update_plugins", json!("tools"), "No matching package found for tools. Did you mean npm:tools@1.0?".into()),
        ("update_plugins", json!("npm:other"), "No matching package found for npm:other".into()),
    ] {
        let answer = daemon.command(&id, json!({"type": command, "source": source})).await;
        assert_eq!(answer["error"], error, "{command}");
    }
    assert_eq!(daemon.succeed(&id, json!({"type": "onboard_plugin", "source": "npm:tools"})).await, json!({"results": []}));
    let remove = |source: &str| json!({"type": "remove_plugin", "source": source});
    assert_eq!(daemon.succeed(&id, remove("npm:other")).await, json!({"removed": false}));
    assert_eq!(daemon.succeed(&id, remove("npm:tools")).await, json!({"removed": true}));
    assert_eq!(daemon.home.settings(), json!({"plugins": [{"source": "./mine", "skills": []}], "theme": "dark"}));
    assert_eq!(daemon.succeed(&id, json!({"type": "get_plugins"})).await, json!({"plugins": [plugin("./mine", true)]}));
    assert_eq!(daemon.succeed(&id, remove("mine")).await, json!({"removed": true}));
    daemon.succeed(&id, json!({"type": "update_plugins"})).await;
    assert_eq!(told(&daemon.messages_of_diagnostics(&id).await), 0);
}
