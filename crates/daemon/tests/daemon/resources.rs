//! Skills and prompt templates: what is listed, and what a prompt with a slash becomes.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{TestDaemon, TestHome};

const GREET: &str = "---\nname: greet\ndescription: Greets somebody\n---\n\n# Greet\nSay hello.\n";

impl TestHome {
    pub(crate) fn put(&self, path: &str, content: &str) -> PathBuf {
        let path = self.home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn greeting() -> Self {
        let home = Self::new();
        home.put("skills/greet/SKILL.md", GREET);
        home.put("prompts/review.md", "---\ndescription: Reviews a file\n---\nReview $1 for ${2:-defects}.");
        home
    }

    fn block(&self) -> String {
        let folder = self.home.path().join("skills/greet");
        let folder = folder.to_str().unwrap();
        format!(
            "<skill name=\"greet\" location=\"{folder}/SKILL.md\">\nReferences are relative to {folder}.\n\n# Greet\nSay hello.\n</skill>"
        )
    }
}

impl TestDaemon {
    async fn user_texts(&self, id: &str) -> Vec<String> {
        let messages = self.command(id, json!({"type": "get_messages"})).await;
        let messages = messages["data"]["messages"].as_array().unwrap().clone();
        let users = messages.iter().filter(|message| message["role"] == "user");
        users.map(|message| message["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    }

    async fn prompted(&self, id: &str, prompt: Value) {
        let answer = self.command(id, prompt).await;
        assert_eq!(answer["success"], true, "{answer}");
        self.command(id, json!({"type": "wait_for_idle"})).await;
    }
}

#[tokio::test]
async fn skills_and_templates_are_listed() {
    let daemon = TestHome::greeting().start().await;
    let id = daemon.session().await;
    let home = daemon.home.home.path().to_str().unwrap().to_owned();
    let source =
        |path: &str| json!({"path": format!("{home}/{path}"), "source": "auto", "scope": "user", "origin": "top-level", "baseDir": home});
    let skills = daemon.command(&id, json!({"type": "get_skills"})).await;
    let skill = json!({
        "name": "greet", "description": "Greets somebody", "filePath": format!("{home}/skills/greet/SKILL.md"),
        "baseDir": format!("{home}/skills/greet"), "sourceInfo": source("skills/greet/SKILL.md"), "disableModelInvocation": false,
    });
    assert_eq!(skills["data"], json!({"skills": [skill]}));
    let commands = daemon.command(&id, json!({"type": "get_commands"})).await;
    assert_eq!(
        commands["data"],
        json!({"commands": [
            {"name": "review", "description": "Reviews a file", "source": "prompt", "sourceInfo": source("prompts/review.md")},
            {"name": "skill:greet", "description": "Greets somebody", "source": "skill", "sourceInfo": source("skills/greet/SKILL.md")},
        ]})
    );
    let summary = daemon.command(&id, json!({"type": "get_resource_summary"})).await;
    let counts: Vec<&Value> = ["extensions", "skills", "prompts", "commands"].map(|key| &summary["data"][key]).into();
    assert_eq!(counts, [0, 1, 1, 0], "{summary}");
}

#[tokio::test]
async fn a_slash_calls_a_skill_or_a_template_and_everything_else_is_text() {
    let daemon = TestHome::greeting().start().await;
    let id = daemon.session().await;
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    daemon.prompted(&id, json!({"type": "prompt", "message": "/skill:greet  Ann \n"})).await;
    daemon.prompted(&id, json!({"type": "prompt", "message": "/review 'a b.rs'", "images": [image]})).await;
    for plain in ["/nosuch x", "/deploy", "/reload", "/model opus", "/ review"] {
        daemon.prompted(&id, json!({"type": "prompt", "message": plain})).await;
    }
    let answer = daemon.command(&id, json!({"type": "prompt", "message": "/skill:nosuch now"})).await;
    assert_eq!(answer["error"], "Unknown skill: nosuch");
    let skill = format!("{}\n\nAnn", daemon.home.block());
    let expected = [&*skill, "Review a b.rs for defects.", "/nosuch x", "/deploy", "/reload", "/model opus", "/ review"];
    assert_eq!(daemon.user_texts(&id).await, expected);
    let messages = daemon.command(&id, json!({"type": "get_messages"})).await;
    assert_eq!(messages["data"]["messages"][2]["content"][1], image);
}

#[tokio::test]
async fn a_skill_called_during_a_run_waits_and_is_not_lost() {
    let daemon = TestHome::greeting().start().await;
    let id = daemon.session().await;
    daemon.command(&id, json!({"type": "prompt", "message": "!sleep 50\n!repeat 1000 x "})).await;
    let call = |behavior: Value| json!({"type": "prompt", "message": "/skill:greet Ann", "streamingBehavior": behavior});
    let answer = daemon.command(&id, call(json!(null))).await;
    assert_eq!(answer["error"], "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.");
    assert_eq!(daemon.command(&id, json!({"type": "prompt", "message": "/skill:nosuch"})).await["error"], "Unknown skill: nosuch");
    assert_eq!(daemon.command(&id, call(json!("steer"))).await["success"], true);
    assert_eq!(daemon.command(&id, call(json!("followUp"))).await["success"], true);
    assert_eq!(daemon.command(&id, json!({"type": "get_state"})).await["data"]["pendingMessageCount"], 2);
    let cleared = daemon.command(&id, json!({"type": "abort"})).await;
    let expected = json!([{"type": "text", "text": format!("{}\n\nAnn", daemon.home.block())}]);
    for queue in ["clearedSteer", "clearedFollowUp"] {
        assert_eq!(cleared["data"][queue][0]["content"], expected, "{cleared}");
    }
}

#[tokio::test]
async fn a_repeat_is_answered_before_anything_is_read() {
    let home = TestHome::greeting();
    let template = home.put("prompts/once.md", "Do it once: $@");
    let daemon = home.start().await;
    let id = daemon.session().await;
    let call = |key: &str| json!({"type": "prompt", "message": "/once now", "idempotencyKey": key});
    daemon.prompted(&id, call("k1")).await;
    std::fs::remove_file(&template).unwrap();
    daemon.prompted(&id, call("k1")).await;
    let refused = daemon.command(&id, call("k2")).await;
    let expected = format!("cannot read the prompt template \"/once\" at {}: No such file or directory", template.display());
    assert!(refused["error"].as_str().unwrap().starts_with(&expected), "{refused}");
    std::fs::write(&template, "Do it twice: $@").unwrap();
    daemon.prompted(&id, call("k2")).await;
    assert_eq!(daemon.user_texts(&id).await, ["Do it once: now", "Do it twice: now"]);
}

#[tokio::test]
async fn hostile_trees_are_told_and_hold_nobody_up() {
    let home = TestHome::greeting();
    let path = |name: &str| home.home.path().join(name);
    symlink(path("skills"), path("skills/loop")).unwrap();
    symlink("b", path("skills/a")).unwrap();
    symlink("a", path("skills/b")).unwrap();
    std::fs::create_dir(path("skills/pipe")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(path("skills/pipe/SKILL.md")).arg(path("prompts/pipe.md")).status().unwrap().success()
    );
    home.put("skills/huge/SKILL.md", &format!("---\nname: {}\n---\n", "x".repeat(10 << 20)));
    home.put("skills/twin/SKILL.md", GREET);
    home.put("skills/bad/SKILL.md", "---\nname: [\n---\n");
    home.put("extensions/old.ts", "export default 1");
    let expected = [
        ("warning", home.home.path().join("skills/pipe/SKILL.md"), "skill path is not a regular file"),
        ("warning", home.home.path().join("skills/huge/SKILL.md"), "the file is larger than 1 MiB"),
        ("collision", home.home.path().join("skills/twin/SKILL.md"), "name \"greet\" collision"),
        ("warning", home.home.path().join("extensions/old.ts"), "extension is not loaded: code within the process is not supported"),
    ];
    let bad = home.home.path().join("skills/bad/SKILL.md");
    let daemon = home.start().await;
    let id = daemon.session().await;
    let summary = daemon.command(&id, json!({"type": "get_resource_summary"})).await;
    let diagnostics = summary["data"]["diagnostics"].as_array().unwrap();
    for (kind, path, message) in expected {
        let found =
            diagnostics.iter().find(|diagnostic| diagnostic["path"] == json!(path)).unwrap_or_else(|| panic!("{path:?}: {summary}"));
        assert_eq!((&found["type"], &found["message"]), (&json!(kind), &json!(message)));
    }
    assert!(diagnostics.iter().any(|diagnostic| diagnostic["path"] == json!(bad)), "{summary}");
    assert_eq!((&summary["data"]["skills"], &summary["data"]["prompts"]), (&json!(1), &json!(1)));
}
