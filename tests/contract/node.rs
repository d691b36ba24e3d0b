//! A client of wolli 0.0.2, written in the language of that version, against a daemon that is configured for it.
//!
//! `node/` has the client: its requests, what it reads of the answers, and what it would show. It needs `node` 18 or later; the build
//! server must have it, elsewhere the test says that it did not run.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use wolli_testkit::home::TestHome;
use wolli_testkit::provider::{Answer, Gate, RecordedRequest};

use crate::support::World;

/// Far above what the whole conversation takes.
const LIMIT: Duration = Duration::from_secs(90);

/// What the provider says, whichever kind it plays.
fn answer(request: &RecordedRequest, gate: &Gate) -> Answer {
    let last = request.messages().last().map(ToString::to_string).unwrap_or_default();
    if last.contains("hello\\n") {
        return Answer::says("It says hello.");
    }
    if last.contains("\"tool_result\"") || last.contains("tool_call_id") {
        return Answer::says("I am ready.");
    }
    // What was not answered stands in front of what is asked now.
    let deploy = json!({"purpose": "keep minutes", "soul": "I keep minutes."});
    match request.last_user_text() {
        text if text.ends_with("What is in a.txt?") => {
            Answer::new().text("Let me look.").tool_call("call_1", "read", &json!({"path": "a.txt"}))
        }
        text if text.ends_with("count") => Answer::new().text_deltas(["one ", "two ", "three"]).hold_before(5, gate),
        text if text.ends_with("are you there?") => Answer::says("Here."),
        text if text.ends_with("final SOUL.md.") => Answer::new().tool_call("call_2", "deploy", &deploy),
        _ => Answer::says("They talked about a file."),
    }
}

/// `node`, unless it is not here and need not be.
fn node() -> Option<Command> {
    let there = Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "node is not installed; scripts/setup.sh gets it");
        eprintln!("NOT RUN: node is not installed (scripts/setup.sh gets it as root; else nodejs.org)");
        return None;
    }
    Some(Command::new("node"))
}

#[tokio::test]
async fn a_client_of_wolli_0_0_2_shows_what_happens() {
    let Some(mut node) = node() else { return };
    let home = TestHome::new().unwrap();
    let settings = json!({
        "defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off",
        "compaction": {"enabled": false, "keepRecentTokens": 1},
    });
    let agent = home.agent("scribe", settings).unwrap();
    // An agent that is being born has no purpose yet.
    let path = agent.home.join("agent.json");
    let config = std::fs::read_to_string(&path).unwrap().replace("be tested", "");
    std::fs::write(&path, config).unwrap();
    home.write("agents/scribe/config.toml", "[events]\nview = \"full\"\ninclude = [\"compaction\", \"login_ui\"]\n").unwrap();
    let mut world = World::begin(home, agent).await;
    let gate = Gate::new();
    let closed = gate.clone();
    world.provider.respond_with(move |request| answer(request, &closed));

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/contract/node/conversation.mjs");
    let path = std::env::var_os("PATH").unwrap_or_default();
    node.arg(script).env_clear().env("PATH", path).env("HOME", world.home.folder()).stdin(Stdio::null());
    node.env("WOLLI_URL", format!("http://{}", world.agent.address()));
    node.env("WOLLI_TOKEN", &world.agent.token).env("WOLLI_AGENT_HOME", &world.agent.home);
    let running = tokio::task::spawn_blocking(move || node.output());
    let Ok(output) = tokio::time::timeout(LIMIT, running).await else { panic!("the client hangs") };
    let output = output.unwrap().unwrap();
    let (told, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.ends_with("- done\n"), "{told}\n{problem}");
    assert_eq!(world.daemon.ended().await.unwrap().code(), Some(0), "it was asked to stop");
}
