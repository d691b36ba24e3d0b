use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::*;
use crate::child;
use crate::lock::{Holder, HomeLock};
use crate::paths::{AgentHome, AgentName, Root};
use crate::tiny_disk::TinyDisk;

const GOLDEN: &str = r#"{
  "schemaVersion": 2,
  "name": "scribe",
  "purpose": "Keep the meeting minutes",
  "zzz": {
    "b": [],
    "a": {}
  },
  "createdAt": "2026-06-28T19:10:00.123Z",
  "deployedAt": null,
  "port": 33911,
  "token": "9f0c",
  "aaa": null,
  "settings": {
    "defaultModel": "anthropic/claude-opus-4-8",
    "enabledModels": [
      "a"
    ],
    "later": 1.5,
    "defaultThinkingLevel": "high"
  }
}
"#;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 123)
}

struct Place {
    _folder: tempfile::TempDir,
    root: Root,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::new(folder.path().join("root"));
    Place { _folder: folder, root }
}

fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

fn make(root: &Root, text: &str) -> (AgentHome, Loaded) {
    create(root, NewAgent { name: name(text), model: None }, at(0)).unwrap()
}

/// A home with the golden file, as wolli 0.0.2 would leave it.
fn golden(root: &Root) -> AgentHome {
    let home = root.agent(&name("scribe"));
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.config_json(), GOLDEN).unwrap();
    home
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn entries(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_agent_has_everything_and_is_private() {
    let place = place();
    let new = NewAgent { name: name("scribe"), model: Some("anthropic/claude".to_owned()) };
    let (home, loaded) = create(&place.root, new, at(1_782_673_800)).unwrap();
    assert!(loaded.warnings.is_empty());
    let (port, token) = (loaded.document.port(), loaded.document.token().to_owned());
    assert!((PORT_FIRST..=PORT_LAST).contains(&port));
    assert_eq!(
        fs::read_to_string(home.config_json()).unwrap(),
        format!(
            "{{\n  \"schemaVersion\": 2,\n  \"name\": \"scribe\",\n  \"purpose\": \"\",\n  \"createdAt\": \"2026-06-28T19:10:00.123Z\",\n  \
             \"deployedAt\": null,\n  \"port\": {port},\n  \"token\": \"{token}\",\n  \"settings\": {{\n    \"defaultModel\": \"anthropic/claude\"\n  }}\n}}\n"
        )
    );
    assert_eq!(entries(home.path()), ["MEMORY.md", "SOUL.md", "USER.md", "agent.json", "agent.json.last-good", "sessions", "workspace"]);
    for entry in fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    assert_eq!([mode(home.path()), mode(place.root.path())], [0o700; 2]);
    assert_eq!(load(&home).unwrap(), loaded);
}

#[test]
fn creating_keeps_what_is_there_and_refuses_to_replace_an_agent() {
    let place = place();
    let home = place.root.agent(&name("x"));
    fs::create_dir_all(home.path()).unwrap();
    fs::write(home.soul(), "me").unwrap();
    make(&place.root, "x");
    assert_eq!(fs::read(home.soul()).unwrap(), b"me");
    for content in ["", "{"] {
        fs::write(home.config_json(), content).unwrap();
        let again = create(&place.root, NewAgent { name: name("x"), model: None }, at(0));
        assert_eq!(again.unwrap_err().to_string(), "Agent \"x\" already exists.");
        assert_eq!(fs::read_to_string(home.config_json()).unwrap(), content);
    }
}

#[test]
fn a_home_that_cannot_be_finished_is_not_left() {
    let place = place();
    fs::create_dir_all(place.root.agents()).unwrap();
    let home = place.root.agent(&name("x"));
    symlink("/nowhere/at/all", home.path()).unwrap();
    assert!(create(&place.root, NewAgent { name: name("x"), model: None }, at(0)).is_err());
    assert!(list(&place.root).unwrap().agents.is_empty());
}

#[test]
fn agents_made_at_once_have_different_ports() {
    let place = place();
    let mut ports: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let root = &place.root;
                scope.spawn(move || make(root, &format!("a{n}")).1.document.port())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 8);
}

#[test]
fn the_port_of_another_agent_is_never_drawn() {
    let place = place();
    fs::create_dir_all(place.root.agents()).unwrap();
    // Some hundred agents, damaged ones, so that a draw that did not look would hit one of them soon.
    for port in (PORT_FIRST..=PORT_LAST).filter(|port| port % 32 == 0) {
        let folder = place.root.agents().join(format!("p{port}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("agent.json"), json!({ "port": port }).to_string()).unwrap();
    }
    let taken = port::taken(&place.root);
    assert!(taken.len() > 390, "{}", taken.len());
    for n in 0..100 {
        let port = port::draw(&place.root).unwrap();
        assert!(!taken.contains(&port), "draw {n}: {port}");
    }
}

#[test]
fn every_change_keeps_unknown_keys_and_the_order() {
    let place = place();
    let home = golden(&place.root);
    let change = |change: Change| update(&home, |document| document.apply(change)).unwrap();

    change(Change::Deploy(at(1_782_673_801)));
    change(Change::Deploy(at(9)));
    change(Change::Purpose("new".to_owned()));
    change(Change::DefaultModel("p/m".to_owned()));
    change(Change::DefaultThinkingLevel("low".to_owned()));
    change(Change::EnabledModels(None));
    change(Change::CompactionEnabled(false));
    change(Change::ClearOnShrink(true));
    let last = change(Change::Plugins(vec!["npm:x".into()]));

    let expected = GOLDEN
        .replace("\"deployedAt\": null", "\"deployedAt\": \"2026-06-28T19:10:01.123Z\"")
        .replace("Keep the meeting minutes", "new")
        .replace("anthropic/claude-opus-4-8", "p/m")
        .replace("    \"enabledModels\": [\n      \"a\"\n    ],\n", "")
        .replace(
            "\"high\"\n",
            "\"low\",\n    \"compaction\": {\n      \"enabled\": false\n    },\n    \"terminal\": {\n      \"clearOnShrink\": true\n    },\n    \
             \"plugins\": [\n      \"npm:x\"\n    ]\n",
        );
    assert_eq!(fs::read_to_string(home.config_json()).unwrap(), expected);
    assert_eq!(fs::read_to_string(home.last_good()).unwrap(), expected);
    assert_eq!(load(&home).unwrap(), last);
    assert_eq!(mode(&home.config_json()), 0o600);
}

#[test]
fn a_change_of_nothing_writes_nothing() {
    let place = place();
    let home = golden(&place.root);
    let compact = GOLDEN.replace('\n', " ");
    fs::write(home.config_json(), &compact).unwrap();
    update(&home, |document| document.apply(Change::Purpose("Keep the meeting minutes".to_owned()))).unwrap();
    update(&home, |document| document.apply(Change::EnabledModels(Some(vec!["a".to_owned()])))).unwrap();
    assert_eq!(fs::read_to_string(home.config_json()).unwrap(), compact);
}

#[test]
fn truthiness_decides_about_deployment() {
    for (value, deployed) in [("null", None), ("\"\"", None), ("\"2026\"", Some("2026"))] {
        let text = GOLDEN.replace("\"deployedAt\": null", &format!("\"deployedAt\": {value}"));
        assert_eq!(AgentDocument::parse(text.as_bytes()).unwrap().deployed_at(), deployed);
    }
    let absent = GOLDEN.replace("  \"deployedAt\": null,\n", "");
    assert_eq!(AgentDocument::parse(absent.as_bytes()).unwrap().deployed_at(), None);
}

#[test]
fn problems_are_named() {
    let place = place();
    let home = golden(&place.root);
    let mut value: Value = serde_json::from_str(GOLDEN).unwrap();
    for (key, wrong) in [("schemaVersion", json!("2")), ("port", json!(70000)), ("deployedAt", json!(1)), ("settings", json!([]))] {
        value[key] = wrong;
    }
    value.as_object_mut().unwrap().shift_remove("token");
    fs::write(home.config_json(), value.to_string()).unwrap();
    assert_eq!(
        load(&home).unwrap_err().to_string(),
        format!(
            "Invalid agent config at {}: /schemaVersion: must be number; /port: must be an integer from 1 to 65535; \
             root: must have required property token; /deployedAt: must be string or null; /settings: must be object",
            home.config_json().display()
        )
    );
    for (content, end) in
        [("", "root: the file is blank"), ("[]", "root: must be object"), ("{", "root: EOF while parsing an object at line 1 column 1")]
    {
        fs::write(home.config_json(), content).unwrap();
        let text = load(&home).unwrap_err().to_string();
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn ports_are_numbers_of_javascript() {
    for (port, good) in
        [("33911.0", true), ("3.3911e4", true), ("0", false), ("65536", false), ("1.5", false), ("-1", false), ("\"1\"", false)]
    {
        let text = GOLDEN.replace("33911", port);
        assert_eq!(AgentDocument::parse(text.as_bytes()).is_ok(), good, "{port}");
    }
}

#[test]
fn a_damaged_file_is_replaced_by_the_last_good_copy_and_kept() {
    let torn = &GOLDEN[..200];
    let half_written = format!("{torn}{}", "\0".repeat(100));
    for (content, kept) in
        [("", false), ("\0\0\0\0", false), ("\n", false), (torn, true), (&half_written, true), ("{\"port\": 1}", true), ("no json", true)]
    {
        let place = place();
        let home = golden(&place.root);
        let good = load(&home).unwrap();
        assert!(good.warnings.is_empty());
        assert_eq!(fs::read_to_string(home.last_good()).unwrap(), GOLDEN);

        fs::write(home.config_json(), content).unwrap();
        let loaded = load(&home).unwrap();
        assert_eq!(loaded.document, good.document, "{content:?}");
        let [warning] = &loaded.warnings[..] else { panic!("{:?}", loaded.warnings) };
        assert!(warning.starts_with(&format!("Invalid agent config at {}: ", home.config_json().display())), "{warning}");
        assert!(warning.contains("last good copy"), "{warning}");
        assert_eq!(fs::read_to_string(home.config_json()).unwrap(), content, "loading must not write");

        update(&home, |document| document.apply(Change::Purpose("again".to_owned()))).unwrap();
        let expected = GOLDEN.replace("Keep the meeting minutes", "again");
        assert_eq!(fs::read_to_string(home.config_json()).unwrap(), expected);
        let broken = home.path().join("agent.json.broken-1");
        assert_eq!(fs::read_to_string(&broken).ok().as_deref(), kept.then_some(content));
        assert!(load(&home).unwrap().warnings.is_empty());
    }
}

#[test]
fn many_damaged_files_do_not_pile_up_for_ever() {
    let place = place();
    let home = golden(&place.root);
    load(&home).unwrap();
    for n in 0..15 {
        fs::write(home.config_json(), format!("broken {n}")).unwrap();
        update(&home, |_| ()).unwrap();
    }
    let broken = entries(home.path()).iter().filter(|name| name.contains("broken")).count();
    assert_eq!(broken, 9);
    assert_eq!(fs::read_to_string(home.path().join("agent.json.broken-9")).unwrap(), "broken 14");
}

#[test]
fn without_a_good_copy_damage_is_an_error_and_nothing_is_written() {
    let place = place();
    let home = golden(&place.root);
    fs::write(home.config_json(), "{").unwrap();
    fs::write(home.last_good(), "").unwrap();
    assert!(matches!(load(&home), Err(AgentError::Invalid { .. })));
    assert!(matches!(update(&home, |_| ()), Err(AgentError::Invalid { .. })));
    assert_eq!(fs::read_to_string(home.config_json()).unwrap(), "{");
}

#[test]
fn an_absent_agent_is_missing_and_gets_no_files() {
    let place = place();
    let home = place.root.agent(&name("nobody"));
    assert!(matches!(load(&home), Err(AgentError::Missing { .. })));
    assert!(matches!(update(&home, |_| ()), Err(AgentError::Missing { .. })));
    assert!(matches!(delete(&place.root, &name("nobody"), Duration::ZERO), Err(AgentError::Missing { .. })));
    assert!(!place.root.path().exists());
    assert!(list(&place.root).unwrap().agents.is_empty());
}

#[test]
fn changes_of_threads_and_processes_are_all_kept() {
    let place = place();
    let home = golden(&place.root);
    let mut children: Vec<_> = (0..2)
        .map(|n| {
            let argument = format!("{n}{}", place.root.path().display());
            child::command("agent::tests::changes", &argument).spawn().unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for n in 2..4 {
            let home = &home;
            scope.spawn(move || change_often(home, n));
        }
        for _ in 0..200 {
            assert!(load(&home).unwrap().warnings.is_empty(), "a reader saw a file that is not whole");
        }
    });
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let loaded = load(&home).unwrap();
    let settings = loaded.document.settings().unwrap();
    for writer in 0..4 {
        for n in 0..CHANGES {
            assert!(settings["plugins"].as_array().unwrap().contains(&json!(format!("{writer}-{n}"))), "{writer}-{n}");
        }
    }
    assert_eq!(fs::read(home.last_good()).unwrap(), fs::read(home.config_json()).unwrap());
}

const CHANGES: usize = 15;

fn change_often(home: &AgentHome, writer: usize) {
    for n in 0..CHANGES {
        update(home, |document| {
            let known = document.settings().and_then(|settings| settings.get("plugins")).and_then(Value::as_array);
            let mut plugins = known.cloned().unwrap_or_default();
            plugins.push(json!(format!("{writer}-{n}")));
            document.apply(Change::Plugins(plugins));
        })
        .unwrap();
    }
}

#[test]
#[ignore = "started by changes_of_threads_and_processes_are_all_kept"]
fn changes() {
    let Some(argument) = child::argument() else {
        return;
    };
    let (writer, root) = argument.split_at(1);
    change_often(&Root::new(root).agent(&name("scribe")), writer.parse().unwrap());
}

#[test]
fn the_list_is_sorted_and_reports_what_it_cannot_read() {
    let place = place();
    for text in ["b", "a-b", "a", "a1", "10"] {
        make(&place.root, text);
    }
    let agents = place.root.agents();
    fs::write(agents.join("b/agent.json"), "{").unwrap();
    fs::write(agents.join("a/agent.json"), "{").unwrap();
    fs::remove_file(agents.join("a/agent.json.last-good")).unwrap();
    fs::create_dir_all(agents.join("Upper")).unwrap();
    fs::write(agents.join("Upper/agent.json"), GOLDEN).unwrap();
    fs::create_dir_all(agents.join("empty")).unwrap();
    fs::create_dir_all(agents.join("Empty")).unwrap();
    fs::write(agents.join("file"), "").unwrap();
    symlink("b", agents.join("link")).unwrap();
    symlink("nowhere", agents.join("dangling")).unwrap();

    let listing = list(&place.root).unwrap();
    let names: Vec<_> = listing.agents.iter().map(|(home, _)| home.name().as_str()).collect();
    assert_eq!(names, ["10", "a-b", "a1", "b"]);
    assert_eq!(listing.agents[3].1.warnings.len(), 1);
    let unreadable: Vec<_> = listing.unreadable.iter().map(|u| u.name.as_str()).collect();
    assert_eq!(unreadable, ["Upper", "a"]);
    assert!(listing.unreadable[1].error.to_string().starts_with("Invalid agent config at "));
}

#[test]
fn a_home_behind_a_link_works_and_deleting_it_leaves_the_target() {
    let place = place();
    let (real, _) = make(&place.root, "real");
    let elsewhere = place.root.path().join("elsewhere");
    fs::rename(real.path(), &elsewhere).unwrap();
    symlink(&elsewhere, real.path()).unwrap();
    update(&real, |document| document.apply(Change::Purpose("p".to_owned()))).unwrap();
    assert_eq!(load(&real).unwrap().document.purpose(), "p");
    delete(&place.root, &name("real"), Duration::ZERO).unwrap();
    assert!(fs::symlink_metadata(real.path()).is_err());
    assert!(elsewhere.join("agent.json").exists());
}

#[test]
fn deleting_removes_the_home_and_what_earlier_deletions_left() {
    let place = place();
    make(&place.root, "x");
    make(&place.root, "y");
    fs::create_dir_all(place.root.agents().join(".deleted-0123/sessions")).unwrap();
    delete(&place.root, &name("x"), Duration::ZERO).unwrap();
    assert_eq!(entries(&place.root.agents()), [".create.lock", "y"]);
    fs::write(place.root.agents().join("z"), "").unwrap();
    delete(&place.root, &name("z"), Duration::ZERO).unwrap();
    assert_eq!(entries(&place.root.agents()), [".create.lock", "y"]);
}

#[test]
fn an_agent_that_is_served_is_not_deleted() {
    let place = place();
    let (home, _) = make(&place.root, "x");
    let us = Holder::this_process(Path::new("/bin/wolli"), "0.1.0", at(0));
    let lock = HomeLock::acquire(&home.daemon_lock(), us, Duration::ZERO).unwrap();
    let error = delete(&place.root, &name("x"), Duration::ZERO).unwrap_err().to_string();
    assert!(error.starts_with("agent \"x\" cannot be deleted: ") && error.contains("/bin/wolli"), "{error}");
    assert!(load(&home).is_ok());
    drop(lock);
    delete(&place.root, &name("x"), Duration::ZERO).unwrap();
}

#[test]
fn tokens_are_not_shown() {
    let document = AgentDocument::parse(GOLDEN.as_bytes()).unwrap();
    assert!(!format!("{document:?}").contains("9f0c"));
    assert_eq!(document.public_object()["token"], "");
    let keys = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&document.public_object()), keys(document.object()));
}

#[test]
fn a_full_disk_loses_no_agent_and_makes_none() {
    let Some(disk) = TinyDisk::mount() else { return };
    let root = Root::new(disk.path().join("root"));
    let (home, made) = make(&root, "old");
    disk.fill();
    let error = update(&home, |document| document.apply(Change::Purpose("p".repeat(8000)))).unwrap_err();
    assert!(matches!(error, AgentError::Write(_)), "{error}");
    assert_eq!(load(&home).unwrap(), made);
    assert!(create(&root, NewAgent { name: name("new"), model: None }, at(0)).is_err());
    assert!(!root.agent(&name("new")).path().exists());
    let listing = list(&root).unwrap();
    assert_eq!((listing.agents.len(), listing.unreadable.len()), (1, 0));

    fs::remove_file(disk.path().join("filler")).unwrap();
    assert_eq!(update(&home, |document| document.apply(Change::Purpose("p".to_owned()))).unwrap().document.purpose(), "p");
    make(&root, "new");
}
