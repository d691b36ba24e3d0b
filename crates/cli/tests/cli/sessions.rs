//! `wolli sessions` and `wolli list --json` against a real daemon and its built-in demonstration.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::fs;

use serde_json::{Value, json};

use crate::support::daemon::Daemon;
use crate::support::terminal::Terminal;
use crate::support::{Home, Outcome};

/// A deployed agent, which may have several sessions.
fn serve(name: &str) -> (Home, Daemon) {
    let home = Home::new();
    home.succeed(&["new", name, "--model", "echo/demo"]);
    home.deployed(name);
    let daemon = Daemon::start(&home, name);
    (home, daemon)
}

fn list(home: &Home) -> Vec<Value> {
    serde_json::from_str(&home.succeed(&["sessions", "list", "scribe", "--json"])).unwrap()
}

fn id(session: &Value) -> String {
    session["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn sessions_are_listed_shown_renamed_and_deleted() {
    let (home, _daemon) = serve("scribe");
    home.succeed(&["scribe", "-p", "Who comes?"]);
    home.succeed(&["scribe", "--new", "-p", "second"]);
    let sessions = list(&home);
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let (newest, first) = (id(&sessions[0]), id(&sessions[1]));

    assert_eq!(home.succeed(&["sessions", "rename", "scribe", &first, " Minutes "]), format!("Session {first} is called \"Minutes\".\n"));
    let renamed = home.succeed(&["sessions", "rename", "scribe", &newest, "x", "--json"]);
    assert_eq!(renamed, format!("{}\n", json!({"sessionId": newest, "sessionName": "x"})));
    assert!(home.succeed(&["sessions", "rename", "scribe", &newest, ""]).ends_with("has no name any more.\n"));
    let lines = home.succeed(&["sessions", "list", "scribe"]);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with(&newest) && lines[0].ends_with("Z  idle"), "{lines:?}");
    assert!(lines[1].starts_with(&first) && lines[1].ends_with("Z  idle  Minutes"), "{lines:?}");

    let shown = home.succeed(&["sessions", "show", "scribe", &first]);
    assert!(
        shown.starts_with(&format!("session   {first}\nname      Minutes\nstate     idle\nmodel     echo/demo\ncreated   ")),
        "{shown}"
    );
    assert!(shown.contains("\nmessages  2 (1 prompt)\n\n> Who comes?\nWho comes?\n"), "{shown}");
    let facts: Value = serde_json::from_str(&home.succeed(&["sessions", "show", "scribe", "--json"])).unwrap();
    assert_eq!((&facts["sessionId"], &facts["agent"], &facts["prompts"]), (&json!(newest), &json!("scribe"), &json!(1)));
    assert_eq!((&facts["model"], &facts["messages"]), (&json!("echo/demo"), &json!(2)));

    let outcome = home.run_with_input(&["sessions", "delete", "scribe", &first], "no\n");
    assert_eq!((outcome.status, outcome.stdout.ends_with("y or n: Delete cancelled.\n")), (Some(1), true), "{outcome:?}");
    assert_eq!(list(&home).len(), 2);
    assert_eq!(
        home.run_with_input(&["sessions", "delete", "scribe", &first], "y\n"),
        Outcome {
            status: Some(0),
            stdout: format!("Delete session {first} \"Minutes\" for good? y or n: Deleted session {first}.\n"),
            stderr: String::new()
        }
    );
    // The last one too.
    let deleted = home.succeed(&["sessions", "delete", "scribe", &newest, "--yes", "--json"]);
    assert_eq!(deleted, format!("{}\n", json!({"sessionId": newest, "deleted": true})));
    assert_eq!(list(&home), [Value::Null; 0]);
    let outcome = home.run(&["sessions", "show", "scribe"]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(1), "No session for agent \"scribe\".\n"));
}

#[test]
fn an_id_may_be_shortened_as_far_as_it_names_one() {
    let (home, _daemon) = serve("scribe");
    home.succeed(&["scribe", "-p", "one"]);
    home.succeed(&["scribe", "--new", "-p", "two"]);
    let ids: Vec<String> = list(&home).iter().map(id).collect();
    let shared = ids[0].bytes().zip(ids[1].bytes()).take_while(|(one, two)| one == two).count();
    let short = &ids[1][..=shared];
    assert!(home.succeed(&["sessions", "show", "scribe", short]).contains(&format!("session   {}\n", ids[1])));
    assert_eq!(home.succeed(&["scribe", "--session", short, "-p", "three"]), "three\n");
    assert!(home.succeed(&["sessions", "show", "scribe", short]).contains("(2 prompts)"));
    let outcome = home.run(&["sessions", "delete", "scribe", &ids[0][..4], "--yes"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(1), ""));
    let expected = format!("\"{}\" is the beginning of several ids:\n  {}\n  {}\nType more of it.\n", &ids[0][..4], ids[0], ids[1]);
    assert_eq!(outcome.stderr, expected);
    assert_eq!(list(&home).len(), 2);
    for arguments in
        [&["sessions", "show", "scribe", "zz"][..], &["scribe", "--session", "zz", "-p", "x"], &["sessions", "export", "scribe", "zz"]]
    {
        let outcome = home.run(arguments);
        let expected = "No session \"zz\" for agent \"scribe\"\n`wolli sessions list <agent>` lists the sessions that there are.\n";
        assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(1), expected));
    }
    assert_eq!(home.run(&["sessions", "list", "ghost"]).stderr, "Unknown agent \"ghost\". Create it with: wolli new ghost\n");
}

#[test]
fn a_conversation_is_exported_whole() {
    let (home, _daemon) = serve("scribe");
    home.succeed(&["scribe", "-p", "!tool ls {\"path\":\"workspace\"}"]);
    assert_eq!(home.run(&["scribe", "-p", "!fail 500"]).status, Some(5));
    let text = home.succeed(&["sessions", "export", "scribe"]);
    for part in [
        "# Session of scribe\n\n- agent: scribe\n- session: `01",
        "!tool ls {\"path\":\"workspace\"}\n",
        "Calls **ls**:\n\n```json\n{\n  \"path\": \"workspace\"\n}\n```\n",
        "**ls** returned:\n\n```text\n(empty directory)\n```\n",
        "## Agent (echo/demo) · 20",
        "*500",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let file = home.path().join("out.json");
    assert_eq!(home.succeed(&["sessions", "export", "scribe", "--json", "--output", "out.json"]), "");
    let exported: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(exported["agent"], "scribe");
    assert_eq!(exported["session"], list(&home)[0]);
    // What stands in the session file, but for its header.
    let folder = fs::read_dir(home.agent("scribe").join("sessions")).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap().path();
    let stored =
        fs::read_dir(folder).unwrap().flatten().find(|entry| entry.path().extension().is_some_and(|end| end == "jsonl")).unwrap().path();
    let lines: Vec<Value> = fs::read_to_string(stored).unwrap().lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(exported["entries"], Value::Array(lines));
    let outcome = home.run(&["sessions", "export", "scribe", "--output", "no/such/folder/x.md"]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("no/such/folder"), "{outcome:?}");
}

#[test]
fn agents_are_told_to_programs_without_their_secret_and_aligned_for_people() {
    let home = Home::new();
    assert_eq!(home.succeed(&["list", "--json"]), "[]\n");
    home.succeed(&["new", "scribe", "--model", "echo/demo", "--purpose", "minutes"]);
    home.succeed(&["new", "ab"]);
    home.deployed("ab");
    let text = home.succeed(&["list", "--json"]);
    let agents: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!((&agents[0]["name"], &agents[1]["name"], &agents[1]["purpose"]), (&json!("ab"), &json!("scribe"), &json!("minutes")));
    assert_eq!(agents[1]["home"], json!(home.agent("scribe")));
    assert_eq!((&agents[1]["model"], agents[1].get("deployedAt"), agents[0]["deployedAt"].is_string()), (&json!("echo/demo"), None, true));
    assert!(agents[0]["port"].is_u64() && !text.contains("token"), "{text}");
    assert_eq!(home.succeed(&["list"]), "ab  —  (no purpose yet)\nscribe  —  minutes\n");
    let (status, shown) = Terminal::start(home.command(&["list"])).finish();
    assert_eq!((status, shown.as_str()), (Some(0), "ab      —  (no purpose yet)\nscribe  —  minutes\n"));
}
