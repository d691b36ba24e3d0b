//! A disk that fills up in the middle of a turn: it is said so, nothing is torn, and with room everything goes on.

use serde_json::{Value, json};
use wolli_testkit::disk::TinyDisk;
use wolli_testkit::home::TestHome;
use wolli_testkit::provider::{Answer, Gate};

use crate::support::frames::check_order;
use crate::support::{World, texts_of};

/// Longer than the rest of the last page of any file.
fn long(word: &str) -> String {
    format!("{word} ").repeat(3000)
}

/// What the system says of a full disk.
const FULL: &str = "No space left on device";

struct OnTinyDisk {
    world: World,
    disk: TinyDisk,
}

impl OnTinyDisk {
    /// All of the agents' homes on a disk of their own; `None`, with the reason printed, where nothing can be mounted.
    async fn begin() -> Option<Self> {
        let home = TestHome::new().unwrap();
        let disk = match TinyDisk::mount(&home.root().join("agents"), 1024) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("not checked: no disk can be mounted here: {error:#}");
                return None;
            }
        };
        let settings = json!({"defaultModel": "scripted/scripted-1", "defaultThinkingLevel": "off"});
        let agent = home.agent("a", settings).unwrap();
        Some(Self { world: World::begin(home, agent).await, disk })
    }

    /// Files of the session that are neither whole nor expected.
    fn check_files(&self) {
        let sessions = self.world.agent.home.join("sessions");
        for folder in std::fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                let bytes = std::fs::read(&file).unwrap();
                if name.ends_with(".jsonl") {
                    assert_eq!(bytes.last(), Some(&b'\n'), "{name} is torn");
                    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(|line| {
                        serde_json::from_slice::<Value>(line).unwrap();
                    });
                } else {
                    assert!(name.ends_with(".state.json"), "{name} was left behind");
                    serde_json::from_slice::<Value>(&bytes).unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_in_a_turn_is_named_and_tears_nothing() {
    let Some(mut tiny) = OnTinyDisk::begin().await else { return };
    let agent_json = tiny.world.agent.home.join("agent.json");
    tiny.world.provider.reply(Answer::says("Good."));
    tiny.world.prompt("first").await;
    tiny.world.idle().await;
    let config = std::fs::read(&agent_json).unwrap();

    // The answer does not fit any more.
    let gate = Gate::new();
    tiny.world.provider.reply(Answer::says(&long("word")).hold_before(5, &gate));
    let mut reader = tiny.world.reader("").await;
    tiny.world.prompt("second").await;
    gate.reached().await;
    tiny.disk.fill().unwrap();
    gate.open();
    tiny.world.idle().await;
    let frames = reader.run_end().await;
    check_order_but_for_the_lost_answer(&frames);
    let failure = frames.iter().rev().find(|frame| frame["type"] == "message_end").unwrap();
    let error = failure["message"]["errorMessage"].as_str().unwrap_or_default();
    assert!(error.contains(FULL), "{failure}");
    assert_eq!(failure["message"]["stopReason"], "error");
    tiny.check_files();

    // Prompts and queued messages are refused, everything else is answered.
    let refused = tiny.world.command(json!({"type": "prompt", "message": long("third")})).await;
    assert_eq!(refused["success"], false);
    assert!(refused["error"].as_str().unwrap().contains(FULL), "{refused}");
    tiny.world.idle().await;
    assert_eq!(tiny.world.state().await["isStreaming"], false);
    assert_eq!(texts_of(&tiny.world.messages().await, "user"), ["first", "second"]);
    let refused = tiny.world.command(json!({"type": "set_thinking_level", "level": "high"})).await;
    assert!(refused["success"] == true || refused["error"].as_str().is_some_and(|error| error.contains(FULL)), "{refused}");
    let state: Value = serde_json::from_slice(&std::fs::read(&agent_json).unwrap()).unwrap();
    assert_eq!(state["token"], serde_json::from_slice::<Value>(&config).unwrap()["token"]);

    // A daemon starts on a full disk, too.
    tiny.world.restart().await;
    assert_eq!(texts_of(&tiny.world.messages().await, "user"), ["first", "second"]);

    tiny.disk.make_room().unwrap();
    tiny.world.provider.reply(Answer::says("Room again."));
    tiny.world.prompt("fourth").await;
    tiny.world.idle().await;
    let messages = tiny.world.messages().await;
    assert_eq!(texts_of(&messages, "user"), ["first", "second", "fourth"]);
    assert_eq!(texts_of(&messages, "assistant").last().unwrap(), "Room again.");
    tiny.check_files();
    tiny.world.restart().await;
    assert_eq!(tiny.world.messages().await, messages);
    let unchanged: Value = serde_json::from_slice(&std::fs::read(&agent_json).unwrap()).unwrap();
    assert_eq!(unchanged["name"], "a");
}

/// The answer that could not be stored has no end: the failure follows as a message of its own.
fn check_order_but_for_the_lost_answer(frames: &[Value]) {
    let started = frames.iter().position(|frame| frame["type"] == "message_start" && frame["message"]["role"] == "assistant").unwrap();
    let failed = frames.iter().rposition(|frame| frame["type"] == "message_start").unwrap();
    let kept: Vec<Value> = frames[..started].iter().chain(&frames[failed..]).cloned().collect();
    check_order(&kept);
}

#[tokio::test]
async fn on_a_full_disk_messages_for_the_queue_are_refused_and_the_run_goes_on() {
    let Some(tiny) = OnTinyDisk::begin().await else { return };
    let gate = Gate::new();
    tiny.world.provider.reply(Answer::says("Done.").hold_before(3, &gate));
    tiny.world.prompt("go").await;
    gate.reached().await;
    tiny.disk.fill().unwrap();
    for kind in ["steer", "follow_up"] {
        let refused = tiny.world.command(json!({"type": kind, "message": long("later")})).await;
        assert!(refused["error"].as_str().is_some_and(|error| error.contains(FULL)), "{kind}: {refused}");
    }
    assert_eq!(tiny.world.state().await["pendingMessageCount"], 0);
    tiny.disk.make_room().unwrap();
    gate.open();
    tiny.world.idle().await;
    assert_eq!(texts_of(&tiny.world.messages().await, "user"), ["go"]);
    assert_eq!(texts_of(&tiny.world.messages().await, "assistant"), ["Done."]);
    tiny.check_files();
}

#[tokio::test]
async fn on_a_full_disk_tools_say_so_and_leave_files_as_they_were() {
    let Some(tiny) = OnTinyDisk::begin().await else { return };
    let file = tiny.world.agent.home.join("notes.txt");
    std::fs::write(&file, "precious\n").unwrap();
    let gate = Gate::new();
    let write = json!({"path": "notes.txt", "content": long("new")});
    tiny.world.provider.reply(Answer::new().tool_call("c1", "write", &write).hold_before(1, &gate));
    tiny.world.prompt("go").await;
    gate.reached().await;
    tiny.disk.fill().unwrap();
    gate.open();
    tiny.world.idle().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious\n");
    let left: Vec<_> = std::fs::read_dir(&tiny.world.agent.home)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.contains("notes"))
        .collect();
    assert_eq!(left, ["notes.txt"]);
    tiny.check_files();
}

#[tokio::test]
async fn on_a_full_disk_names_and_messages_are_refused_and_sessions_can_be_deleted() {
    let Some(mut tiny) = OnTinyDisk::begin().await else { return };
    tiny.world.succeed(json!({"type": "deploy"})).await;
    let other = tiny.world.succeed(json!({"type": "create_session"})).await["sessionId"].clone();
    tiny.world.provider.reply(Answer::says("Good."));
    tiny.world.prompt("first").await;
    tiny.world.idle().await;
    tiny.world.restart().await;
    let session = json!(tiny.world.session);
    tiny.disk.fill().unwrap();

    // One is in memory, the other is not. The last block of a file has room for some names.
    let mut accepted = Vec::new();
    for id in [&session, &other] {
        let mut name = Value::Null;
        let refused = loop {
            let next = json!(format!("{}{}", "n".repeat(1000), accepted.len()));
            let answer = tiny.world.command(json!({"type": "rename_session", "targetSessionId": id, "sessionName": next})).await;
            if answer["success"] == false {
                break answer;
            }
            name = next;
            accepted.push(Value::Null);
            assert!(accepted.len() < 16, "the disk is not full");
        };
        assert!(refused["error"].as_str().is_some_and(|error| error.contains(FULL)), "{refused}");
        accepted.push(name);
    }
    let before = tiny.world.state().await;
    let message = json!({"role": "user", "content": long("appended"), "timestamp": 1});
    let refused = tiny.world.command(json!({"type": "append_message", "message": message})).await;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains(FULL)), "{refused}");
    let refused = tiny.world.command(json!({"type": "seed_assistant_message", "text": long("seeded")})).await;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains(FULL)), "{refused}");
    assert_eq!(tiny.world.state().await, before, "what was refused shows nowhere");
    tiny.check_files();
    let state = tiny.world.agent_state().await;
    let named: Vec<&Value> = state["sessions"].as_array().unwrap().iter().filter_map(|session| session.get("sessionName")).collect();
    assert!(named.iter().all(|name| accepted.contains(name)), "what was refused shows nowhere");

    tiny.world.succeed(json!({"type": "delete_session", "targetSessionId": other})).await;
    assert!(!tiny.world.agent_state().await["sessions"].to_string().contains(other.as_str().unwrap()));
    tiny.check_files();
    tiny.disk.make_room().unwrap();
    tiny.world.succeed(json!({"type": "append_message", "message": message})).await;
    tiny.world.succeed(json!({"type": "rename_session", "targetSessionId": session, "sessionName": "room"})).await;
    tiny.world.restart().await;
    assert_eq!(tiny.world.messages().await.len(), 3);
    assert_eq!(tiny.world.state().await["sessionName"], "room");
    assert!(!tiny.world.agent_state().await["sessions"].to_string().contains(other.as_str().unwrap()));
}
