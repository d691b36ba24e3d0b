//! What a model is told of skills and templates, and what it keeps being told while the files change.

use serde_json::{Value, json};
use wolli_testkit::home::TestHome;
use wolli_testkit::provider::{Answer, Gate, RecordedRequest};

use crate::support::World;

const SETTINGS: &str = "scripted/scripted-1";

async fn world() -> World {
    let home = TestHome::new().unwrap();
    let agent = home.agent("a", json!({"defaultModel": SETTINGS, "defaultThinkingLevel": "off"})).unwrap();
    home.write("agents/a/skills/greet/SKILL.md", "---\ndescription: Greets <somebody>\n---\nSay hello.").unwrap();
    home.write("agents/a/skills/secret/SKILL.md", "---\ndescription: x\ndisable-model-invocation: true\n---\nSay nothing.").unwrap();
    home.write("agents/a/prompts/look.md", "Look at $1.").unwrap();
    World::begin(home, agent).await
}

/// What a request tells the model before the conversation, to the byte.
fn told(request: &RecordedRequest) -> String {
    format!("{}\n{}", request.body["system"], request.body["tools"])
}

#[tokio::test]
async fn the_prompt_of_a_session_stays_as_it_is_to_the_byte() {
    let mut world = world().await;
    world.provider.respond_with(|_| Answer::says("Yes."));
    world.prompt("one").await;
    world.idle().await;
    world.home.write("agents/a/skills/later/SKILL.md", "---\ndescription: Comes later\n---\nLate.").unwrap();
    for file in ["MEMORY.md", "SOUL.md", "APPEND_SYSTEM.md"] {
        std::fs::write(world.agent.home.join(file), format!("words of {file}")).unwrap();
    }
    world.succeed(json!({"type": "reload"})).await;
    world.prompt("/skill:later").await;
    world.idle().await;
    let requests = world.provider.requests();
    assert_eq!(told(&requests[0]), told(&requests[1]));
    let location = world.agent.home.join("skills/greet/SKILL.md");
    let first = requests[0].body["system"].to_string();
    let listed = format!(
        "<available_skills>\\n  <skill>\\n    <name>greet</name>\\n    <description>Greets &lt;somebody&gt;</description>\\n    \
         <location>{}</location>\\n  </skill>\\n</available_skills>",
        location.display()
    );
    assert!(first.contains(&listed), "{first}");
    assert!(requests[1].last_user_text().ends_with("Late.\n</skill>"), "a new skill can be called at once");

    world.restart().await;
    world.prompt("three").await;
    world.idle().await;
    let again = world.provider.requests()[2].body["system"].to_string();
    assert!(again.contains("<name>later</name>") && again.contains("words of MEMORY.md"), "{again}");
    let appended = again.rfind("words of APPEND_SYSTEM.md").unwrap();
    assert!(appended > again.rfind("</available_skills>").unwrap(), "what a person appends stands last");
}

#[tokio::test]
async fn a_skill_called_while_the_model_speaks_reaches_it_next() {
    let world = world().await;
    let gate = Gate::new();
    world.provider.reply(Answer::says("Wait.").hold_before(2, &gate));
    world.provider.reply(Answer::says("Hello Ann."));
    world.provider.reply(Answer::says("Looked."));
    world.prompt("begin").await;
    world.provider.wait_for_requests(1).await;
    for text in ["/skill:secret Ann", "/look 'the sky'"] {
        world.succeed(json!({"type": "prompt", "message": text, "streamingBehavior": "followUp"})).await;
    }
    world.succeed(json!({"type": "reload"})).await;
    gate.open();
    world.idle().await;
    let requests = world.provider.requests();
    let folder = world.agent.home.join("skills/secret");
    let folder = folder.display();
    let block = format!(
        "<skill name=\"secret\" location=\"{folder}/SKILL.md\">\nReferences are relative to {folder}.\n\nSay nothing.\n</skill>\n\nAnn"
    );
    let texts: Vec<String> = requests.iter().map(RecordedRequest::last_user_text).collect();
    assert_eq!(texts, ["begin".to_owned(), block, "Look at the sky.".into()]);
    assert_eq!(told(&requests[0]), told(&requests[2]));
}

#[tokio::test]
async fn a_reload_during_a_run_gives_its_next_turn_the_models_of_the_moment() {
    let world = world().await;
    let gate = Gate::new();
    world.provider.reply(Answer::new().tool_call("c1", "ls", &json!({})).hold_before(2, &gate));
    world.provider.reply(Answer::says("Done."));
    world.prompt("begin").await;
    world.provider.wait_for_requests(1).await;
    let mut models: Value = world.provider.models_json();
    models["providers"]["scripted"]["models"][0]["headers"] = json!({"x-added": "by the reload"});
    world.home.write_json("agent/models.json", &models).unwrap();
    world.succeed(json!({"type": "reload"})).await;
    gate.open();
    world.idle().await;
    let requests = world.provider.requests();
    let added: Vec<Option<&str>> = requests.iter().map(|request| request.header("x-added")).collect();
    assert_eq!(added, [None, Some("by the reload")]);
}
