//! Homes that a full disk, a power cut, a wrong editor or another program left: the daemon starts, or says exactly what is wrong, and
//! nothing is lost.

use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};
use wolli_testkit::home::{Agent, TestHome};
use wolli_testkit::provider::{Answer, Kind, MODEL};

use crate::support::{World, roles, text_of, texts_of};

/// A session file's first line.
fn header(id: &str, created: &str) -> String {
    json!({"type": "session", "version": 3, "id": id, "timestamp": created, "cwd": "/somewhere/else"}).to_string()
}

fn user_entry(id: &str, parent: Option<&str>, text: &str) -> String {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1_782_673_801_000_u64});
    json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-06-28T19:10:01.000Z", "message": message}).to_string()
}

fn sessions_folder(agent: &Agent) -> PathBuf {
    let folder = agent.home.join("sessions/--somewhere-else--");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn echo_agent(home: &TestHome) -> Agent {
    home.agent("a", json!({"defaultModel": "echo/demo"})).unwrap()
}

/// What the agent says is wrong, as one text.
async fn complaints(world: &World) -> String {
    json!(world.diagnostics().await).to_string()
}

#[tokio::test]
async fn damaged_session_files_stop_nobody_and_keep_what_is_readable() {
    let home = TestHome::new().unwrap();
    let agent = echo_agent(&home);
    let folder = sessions_folder(&agent);
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(format!("{name}.jsonl")), bytes).unwrap();
    let session = |name: &str, hour: u32, rest: &str| {
        write(name, format!("{}\n{rest}", header(name, &format!("2026-06-28T{hour:02}:00:00.000Z"))).as_bytes());
    };
    let one = user_entry("e1", None, "one") + "\n";
    let two = user_entry("e2", Some("e1"), "two");
    // The newest is the most damaged one.
    session("torn", 23, &format!("{one}{two}\n{{\"type\":\"message\",\"id\":\"a"));
    session("unended", 22, &format!("{one}{two}"));
    session(
        "holes",
        21,
        &format!("{one}\0\0\0\0\nnot json\n{two}\n{{\"type\":\"message\"}}\n{}\n", user_entry("e3", Some("gone"), "three")),
    );
    session("doubled", 20, &format!("{one}{one}{two}\n"));
    session("large", 19, &format!("{one}{}\n", user_entry("e2", Some("e1"), &"x".repeat(12 << 20))));
    session("bare", 18, "");
    let strangers: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("zeros", &[0; 8192]),
        ("foreign", b"Dear diary,\nthis is no session.\n"),
        ("half-header", br#"{"type":"session","vers"#),
        ("newer", br#"{"type":"session","version":4,"id":"newer","timestamp":"2026-06-28T19:10:00.137Z","cwd":"/x"}"#),
        ("noise", b"\xff\xfe\xfd"),
        ("array", b"[]\n"),
    ];
    for (name, bytes) in strangers {
        write(name, bytes);
    }
    std::fs::create_dir(folder.join("folder.jsonl")).unwrap();
    std::os::unix::fs::symlink("/nowhere", folder.join("dangling.jsonl")).unwrap();

    let mut world = World::begin(home, agent).await;
    let told = complaints(&world).await;
    for (name, _) in strangers {
        assert!(told.contains(&format!("{name}.jsonl")), "{name}: {told}");
    }
    let expected = [
        ("torn", vec!["one", "two"]),
        ("unended", vec!["one", "two"]),
        ("holes", vec!["one", "two", "three"]),
        ("doubled", vec!["one", "two"]),
        ("bare", vec![]),
    ];
    for round in 0..2 {
        let listed: Vec<String> = serde_json::from_value::<Vec<Value>>(world.agent_state().await["sessions"].clone())
            .unwrap()
            .iter()
            .map(|session| session["sessionId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(listed, ["torn", "unended", "holes", "doubled", "large", "bare"], "round {round}");
        for (session, texts) in &expected {
            world.session = (*session).to_owned();
            let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            texts.extend((0..round).map(|number| format!("more {number}")));
            assert_eq!(texts_of(&world.messages().await, "user"), texts, "{session}, round {round}");
            world.prompt(&format!("more {round}")).await;
            world.idle().await;
            world.lines_after_repair(&folder.join(format!("{session}.jsonl"))).await;
        }
        world.session = "large".into();
        let reader = world.reader("").await;
        assert!(reader.hello.to_string().len() < 64 * 1024);
        assert_eq!(text_of(&world.messages().await[1]).len(), 12 << 20);
        world.restart().await;
    }
    let torn =
        std::fs::read_to_string(folder.join("torn.jsonl.torn-0")).or_else(|_| std::fs::read_to_string(folder.join("torn.jsonl.torn-1")));
    assert_eq!(torn.unwrap(), "{\"type\":\"message\",\"id\":\"a");
    for (name, bytes) in strangers {
        assert_eq!(std::fs::read(folder.join(format!("{name}.jsonl"))).unwrap(), bytes, "{name} was changed");
    }
}

impl World {
    /// Every line that the daemon wrote behind the damage is whole.
    async fn lines_after_repair(&self, path: &std::path::Path) {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'), "{} ends in the middle of a line", path.display());
        let last = bytes.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap();
        let entry: Value = serde_json::from_slice(last).unwrap();
        assert_eq!(entry["message"]["role"], "assistant", "{entry}");
    }
}

#[tokio::test]
async fn what_was_wrong_with_a_session_is_told() {
    let home = TestHome::new().unwrap();
    let agent = echo_agent(&home);
    let text = format!("{}\n{}\nnonsense\n{{\"type\":", header("s1", "2026-06-28T19:00:00.000Z"), user_entry("e1", None, "one"));
    std::fs::write(sessions_folder(&agent).join("s1.jsonl"), text).unwrap();
    let world = World::begin(home, agent).await;
    world.messages().await;
    let told = complaints(&world).await;
    assert!(told.contains("line 3") && told.contains("s1.jsonl") && told.contains("torn"), "{told}");
}

#[tokio::test]
async fn a_damaged_agent_json_is_replaced_by_the_last_good_one() {
    let home = TestHome::new().unwrap();
    let agent = echo_agent(&home);
    let path = agent.home.join("agent.json");
    let mut world = World::begin(home, agent).await;
    let good = std::fs::read(&path).unwrap();
    let config = world.agent_state().await["config"].clone();
    let half = &good[..good.len() / 2];
    for damage in [&b""[..], &[0; 512], half, b"null", b"{}", b"\xff\xfe", b"{\"schemaVersion\": 2, \"name\": 7}"] {
        world.daemon.terminate().await.unwrap();
        std::fs::write(&path, damage).unwrap();
        world.start().await;
        assert_eq!(world.agent_state().await["config"], config);
        let told = complaints(&world).await;
        assert!(told.contains("agent.json"), "{damage:?}: {told}");
        world.prompt("hello").await;
        world.idle().await;
    }
    // A change makes it whole again, and keeps beside what was found.
    world.succeed(json!({"type": "set_thinking_level", "level": "off"})).await;
    world.succeed(json!({"type": "deploy"})).await;
    let mended: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((&mended["token"], &mended["port"]), (&json!(world.agent.token), &json!(world.agent.port)));
    assert!(mended["deployedAt"].is_string());
    let kept: Vec<_> = std::fs::read_dir(&world.agent.home)
        .unwrap()
        .filter_map(|file| file.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with("agent.json.broken-"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");

    world.daemon.terminate().await.unwrap();
    for name in ["agent.json", "agent.json.last-good"] {
        std::fs::write(world.agent.home.join(name), "").unwrap();
    }
    let mut refused = world.home.spawn_daemon(&world.agent, &[]).unwrap();
    assert_eq!(refused.ended().await.unwrap().code(), Some(78));
    assert!(refused.stderr().contains("agent.json") && refused.stderr().contains("blank"), "{}", refused.stderr());
}

#[tokio::test]
async fn a_faulty_provider_in_models_json_takes_no_other_with_it() {
    let mut world = World::scripted(Kind::Anthropic).await;
    let mut models = world.provider.models_json();
    models["providers"]["broken"] = json!({"baseUrl": 7, "api": "anthropic-messages", "models": [{"id": "m"}]});
    world.daemon.terminate().await.unwrap();
    world.home.write_json("agent/models.json", &models).unwrap();
    world.start().await;
    let told = complaints(&world).await;
    assert!(told.contains("broken") && told.contains("models.json"), "{told}");
    world.provider.reply(Answer::says("Here."));
    world.prompt("hello").await;
    world.idle().await;
    assert_eq!(text_of(world.messages().await.last().unwrap()), "Here.");

    for damage in ["", "{", "\0\0\0\0", "[]", "{\"providers\": 7}"] {
        world.daemon.terminate().await.unwrap();
        world.home.write("agent/models.json", damage).unwrap();
        world.start().await;
        let told = complaints(&world).await;
        assert!(damage.is_empty() || told.contains("models.json"), "{damage:?}: {told}");
        let models = world.succeed(json!({"type": "get_available_models"})).await["models"].to_string();
        assert!(!models.contains(MODEL) && models.contains("echo"), "{damage:?}: {models}");
        // The history stays, whatever becomes of its model.
        assert_eq!(roles(&world.messages().await)[..2], ["user", "assistant"]);
    }
}

#[tokio::test]
async fn broken_settings_and_configuration_are_told_and_do_no_harm() {
    let mut world = World::echo().await;
    for damage in ["{", "\0\0", "[1]"] {
        world.daemon.terminate().await.unwrap();
        world.home.write("agent/settings.json", damage).unwrap();
        world.start().await;
        world.prompt("hello").await;
        world.idle().await;
        let told = complaints(&world).await;
        // Zeros hold no setting that could be missed.
        assert!(told.contains("settings.json") || damage == "\0\0", "{damage:?}: {told}");
        assert_eq!(std::fs::read_to_string(world.home.shared().join("settings.json")).unwrap(), damage, "it was overwritten");
    }
    std::fs::remove_file(world.home.shared().join("settings.json")).unwrap();
    for (place, text, named) in [
        ("config.toml", "this is no TOML", "config.toml"),
        ("config.toml", "[limits]\nbody = \"much\"\n", "body"),
        ("config.toml", "[limits]\nno_such_key = 1\n", "no_such_key"),
        ("agents/a/config.toml", "[no_such_section]\n", "no_such_section"),
        ("agents/a/config.toml", "\0\0\0", "config.toml"),
    ] {
        world.daemon.terminate().await.unwrap();
        world.home.write(place, text).unwrap();
        world.start().await;
        let told = complaints(&world).await;
        assert!(told.contains(named) && told.contains("config.toml"), "{text:?}: {told}");
        let checked = world.home.run(&["config", "a"]).unwrap();
        assert_eq!(checked.status.code(), Some(78), "{text:?}");
        assert!(String::from_utf8_lossy(&checked.stderr).contains(named), "{checked:?}");
        std::fs::remove_file(world.home.root().join(place)).unwrap();
    }
}

#[tokio::test]
async fn a_lock_that_nobody_holds_stops_nobody() {
    let mut world = World::echo().await;
    let lock = world.agent.home.join("daemon.lock");
    let dead = {
        let mut child = std::process::Command::new("true").env_clear().env("PATH", "/usr/bin:/bin").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    for pid in [dead, 1, std::process::id()] {
        world.daemon.terminate().await.unwrap();
        let record = json!({"pid": pid, "startedAt": "2026-01-01T00:00:00.000Z", "executable": "/usr/bin/wolli", "version": "9.9.9"});
        std::fs::write(&lock, record.to_string()).unwrap();
        world.start().await;
        assert!(world.daemon.stderr().contains(&pid.to_string()), "{}", world.daemon.stderr());
        world.prompt("hello").await;
        world.idle().await;
    }
    for bytes in [&b""[..], b"\0\0\0", b"garbage"] {
        world.daemon.terminate().await.unwrap();
        std::fs::write(&lock, bytes).unwrap();
        world.start().await;
    }
}

#[tokio::test]
async fn a_second_daemon_names_the_first_and_leaves_it_alone() {
    let world = World::echo().await;
    let mut second = world.home.spawn_daemon(&world.agent, &[]).unwrap();
    assert_eq!(second.ended().await.unwrap().code(), Some(75));
    let (said, pid) = (second.stderr(), world.daemon.pid().to_string());
    assert!(said.contains("already running") && said.contains(&pid), "{said}");
    let mut under_launchd = world.home.spawn_daemon(&world.agent, &["--supervisor", "launchd"]).unwrap();
    assert_eq!(under_launchd.ended().await.unwrap().code(), Some(0));
    let mut elsewhere = world.home.spawn_daemon(&world.agent, &["--port", "19999"]).unwrap();
    assert_eq!(elsewhere.ended().await.unwrap().code(), Some(75));
    world.prompt("hello").await;
    world.idle().await;
    assert_eq!(world.messages().await.len(), 2);
}

#[tokio::test]
async fn a_taken_port_and_an_unknown_agent_have_their_own_status_and_text() {
    let home = TestHome::new().unwrap();
    let agent = echo_agent(&home);
    let taken = TcpListener::bind(agent.address()).unwrap();
    let mut refused = home.spawn_daemon(&agent, &[]).unwrap();
    assert_eq!(refused.ended().await.unwrap().code(), Some(76));
    let first = format!("wolli daemon for \"a\": port {} already in use.", agent.port);
    assert_eq!(refused.stderr().lines().next(), Some(first.as_str()));
    drop(taken);
    // The refusal left nothing behind that would stop the next one.
    home.start_daemon(&agent).await.unwrap();

    for name in ["nobody", "../a", "a/../a", "A", ""] {
        let output = home.run(&["daemon", name]).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{name:?}: {output:?}");
        assert!(!said.is_empty(), "{name:?}");
    }
    let output = home.run(&["daemon", "nobody"]).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().next(), Some("Unknown agent \"nobody\". Create it with: wolli new nobody"));
}

#[tokio::test]
async fn a_moved_home_keeps_its_history() {
    let home = TestHome::new().unwrap();
    let agent = echo_agent(&home);
    let mut world = World::begin(home, agent).await;
    world.prompt("before the move").await;
    world.idle().await;
    let before = world.messages().await;
    world.daemon.terminate().await.unwrap();
    let elsewhere = world.home.folder().join("elsewhere");
    std::fs::rename(world.home.root(), &elsewhere).unwrap();
    world.home.set_env("WOLLI_HOME", &elsewhere);
    world.home.set_env("WOLLI_SHARED_DIR", elsewhere.join("agent"));
    world.start().await;
    assert_eq!(world.messages().await, before);
    world.prompt("after the move").await;
    world.idle().await;
    assert_eq!(texts_of(&world.messages().await, "user"), ["before the move", "after the move"]);
}
