//! `wolli prompt` and `wolli events` against a real daemon and its built-in demonstration.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read};
use std::process::{Child, ChildStdout};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::daemon::{Daemon, serve, signal};
use crate::support::terminal::Terminal;
use crate::support::{Home, Outcome, said};

/// A follower, and its lines.
struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home.command(&[&["events", "scribe"], arguments].concat()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The lines up to the one that is wanted.
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        for line in self.lines.by_ref() {
            let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
            seen.push(value);
            if seen.last().is_some_and(&wanted) {
                return seen;
            }
        }
        panic!("it ended: {seen:?}");
    }

    fn end(mut self) -> (Option<i32>, String) {
        signal(&self.child, Signal::INT);
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn kind(value: &Value) -> &str {
    value["type"].as_str().unwrap()
}

#[test]
fn a_message_comes_from_words_a_file_or_stdin() {
    let (home, _daemon) = serve("scribe");
    fs::write(home.path().join("task.txt"), "from a file\nof two lines\n").unwrap();
    assert_eq!(home.run(&["prompt", "scribe", "two", "words", "--wait"]), said("two words"));
    assert_eq!(home.run(&["prompt", "scribe", "--wait", "--file", "task.txt"]), said("from a file\nof two lines"));
    for arguments in [&["prompt", "scribe", "--wait"][..], &["prompt", "scribe", "-", "--wait"]] {
        assert_eq!(home.run_with_input(arguments, "from stdin\n"), said("from stdin"));
    }
    for (arguments, status, text) in [
        (&["prompt", "scribe"][..], 1, "The message is empty.\n"),
        (&["prompt", "scribe", " "], 1, "The message is empty.\n"),
        (&["prompt", "scribe", "--file", "none.txt"], 1, "cannot read none.txt: No such file or directory (os error 2)\n"),
        (&["prompt", "ghost", "x"], 1, "Unknown agent \"ghost\". Create it with: wolli new ghost\n"),
    ] {
        assert_eq!(home.run(arguments), Outcome { status: Some(status), stdout: String::new(), stderr: text.into() }, "{arguments:?}");
    }
    assert_eq!(home.run(&["prompt", "scribe", "x", "--file", "task.txt"]).status, Some(2));
    // A person at a terminal is told what can be given.
    let (status, shown) = Terminal::start(home.command(&["prompt", "scribe"])).finish();
    assert_eq!((status, shown.starts_with("Which message? Usage: wolli prompt scribe")), (Some(2), true), "{shown}");
}

#[test]
fn without_waiting_the_prompt_is_accepted_and_goes_on() {
    let (home, daemon) = serve("scribe");
    let session = home.succeed(&["prompt", "scribe", "!sleep 20\none two three four five"]);
    let session = session.trim_end();
    // It is on disk by then, so another one comes after it.
    assert_eq!(home.run(&["prompt", "scribe", "--session", session, "--wait", "next"]), said("next"));
    let text = home.succeed(&["sessions", "export", "scribe", session]);
    assert!(text.contains("\none two three four five\n"), "{text}");
    assert_eq!(daemon.terminate().code(), Some(143));
}

#[test]
fn the_status_tells_how_the_turn_ended() {
    let (home, _daemon) = serve("scribe");
    let failed = home.run(&["prompt", "scribe", "--wait", "!fail 529"]);
    assert_eq!((failed.status, failed.stdout.as_str(), failed.stderr.contains("529")), (Some(5), "", true), "{failed:?}");
    let mut child = home.command(&["prompt", "scribe", "--json", "!sleep 20000\none two"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("\"role\":\"assistant\"")));
    // It may leave before it hears of the answer that it aborted.
    let aborted = home.run_with_input(&["scribe"], "/abort\n");
    assert!(aborted.stdout.contains("(stopping)") && matches!(aborted.status, Some(0 | 6)), "{aborted:?}");
    assert!(lines.map(Result::unwrap).any(|line| line.contains("\"stopReason\":\"aborted\"")));
    assert_eq!(child.wait().unwrap().code(), Some(6));
    let late = home.run(&["prompt", "scribe", "--timeout", "200ms", "!sleep 20000\none two"]);
    assert_eq!(late, Outcome { status: Some(1), stdout: String::new(), stderr: "No answer within 0.2 s; gave up.\n".into() });
}

#[test]
fn a_daemon_that_is_not_there_or_refuses_has_statuses_of_its_own() {
    let (home, _daemon) = serve("scribe");
    let mut command = home.command(&["prompt", "scribe", "x"]);
    command.env("WOLLI_DAEMON_TOKEN", "another-token-than-the-one-of-agent-json");
    let outcome = crate::support::finish(command, "");
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(4), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("WOLLI_DAEMON_TOKEN"), "{outcome:?}");
    home.succeed(&["new", "other"]);
    // Its daemon cannot have the port, and so does not start.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let file = home.agent("other").join("agent.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config["port"] = taken.local_addr().unwrap().port().into();
    fs::write(&file, config.to_string()).unwrap();
    drop(taken);
    fs::write(home.agent("other").join("logs"), "no folder").unwrap();
    let outcome = home.run(&["events", "other"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(3), ""), "{outcome:?}");
}

#[test]
fn a_login_of_somebody_else_is_no_question_of_the_run() {
    let (home, _daemon) = serve("scribe");
    let mut chat = Terminal::start(home.command(&["scribe"]));
    chat.wait_for("> ");
    chat.type_line("/login groq");
    chat.wait_for("Answer (");
    assert_eq!(home.run(&["prompt", "scribe", "--wait", "Hello"]), said("Hello"));
    assert_eq!(home.run(&["scribe", "--print", "Hello"]), said("Hello"));
    chat.type_line("gsk-0123");
    chat.wait_for("The key for groq is stored.");
}

#[test]
fn events_are_lines_that_outlive_the_daemon() {
    let (home, daemon) = serve("scribe");
    let mut follower = Follower::start(&home, &[]);
    let hello = follower.until(|value| kind(value) == "hello");
    assert_eq!((hello.len(), hello[0]["isStreaming"].as_bool()), (1, Some(false)));
    home.succeed(&["scribe", "-p", "Hello there"]);
    let mut seen = follower.until(|value| kind(value) == "agent_end");
    daemon.kill();
    let daemon = Daemon::start(&home, "scribe");
    let back = follower.until(|value| kind(value) == "hello");
    assert_eq!(back.len(), 1, "{back:?}");
    home.succeed(&["scribe", "-p", "again"]);
    seen.extend(follower.until(|value| kind(value) == "agent_end"));
    let numbers: Vec<u64> = seen.iter().filter_map(|value| value["frameId"].as_u64()).collect();
    assert!(numbers.len() > 10 && numbers.is_sorted_by(|one, two| one < two), "{numbers:?}");
    let said: Vec<&Value> = seen
        .iter()
        .filter(|value| kind(value) == "message_end" && value["message"]["role"] == "user")
        .map(|value| &value["message"]["content"][0]["text"])
        .collect();
    assert_eq!(said, ["Hello there", "again"]);
    let (status, stderr) = follower.end();
    assert_eq!(status, Some(130));
    assert!(stderr.contains("connection lost") && stderr.contains("connected again\n") && stderr.ends_with("Interrupted.\n"), "{stderr}");

    // Another follower begins where that one was in the middle.
    let place = numbers[numbers.len() - 3].to_string();
    let mut late = Follower::start(&home, &["--after", &place]);
    let rest = late.until(|value| kind(value) == "agent_end");
    assert_eq!(rest[0]["stream"]["resumed"], true);
    let rest: Vec<u64> = rest.iter().filter_map(|value| value["frameId"].as_u64()).collect();
    assert_eq!(rest, numbers[numbers.len() - 2..]);
    drop(late);
    let mut lost = Follower::start(&home, &["--after", "99999999999999"]);
    lost.until(|value| kind(value) == "hello");
    assert!(lost.end().1.starts_with("warning: events are missing here"));
    assert_eq!(daemon.terminate().code(), Some(143));
}

#[test]
fn each_view_and_notice_can_be_followed() {
    let (home, _daemon) = serve("scribe");
    let mut full = Follower::start(&home, &["--view", "full", "--include", "usage,waiting"]);
    let mut snapshots = Follower::start(&home, &["--view", "snapshot"]);
    full.until(|value| kind(value) == "hello");
    snapshots.until(|value| value["patch"]["full"].is_object());
    home.succeed(&["scribe", "-p", "Hello"]);
    let seen = full.until(|value| kind(value) == "agent_end");
    assert!(seen.iter().any(|value| kind(value) == "usage" && value.get("frameId").is_none()), "{seen:?}");
    assert!(seen.iter().filter(|value| kind(value) == "message_update").all(|value| value["message"].is_object()));
    let patches = snapshots.until(|value| value["patch"]["set"]["phase"] == "done");
    assert!(patches.iter().all(|value| kind(value) == "snapshot" && value["frameId"].is_u64()), "{patches:?}");
    for (arguments, part) in [
        (&["events", "scribe", "--view", "whole"][..], "possible values: delta, full, snapshot"),
        (&["events", "scribe", "--include", "usage,all,more"], "invalid value 'more'"),
        (&["events", "scribe", "--after", "-1"], "unexpected argument"),
        (&["events", "scribe", "--after", "x"], "whole number"),
    ] {
        let outcome = home.run(arguments);
        assert_eq!(outcome.status, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(part), "{outcome:?}");
    }
    let unknown = home.run(&["events", "scribe", "--session", "zz"]);
    assert_eq!((unknown.status, unknown.stdout.as_str()), (Some(1), ""));
}

#[test]
fn a_session_that_is_deleted_ends_its_followers() {
    let (home, _daemon) = serve("scribe");
    home.succeed(&["scribe", "-p", "Hello"]);
    let mut follower = Follower::start(&home, &[]);
    let hello = follower.until(|value| kind(value) == "hello");
    home.succeed(&["sessions", "delete", "scribe", hello[0]["sessionId"].as_str().unwrap(), "--yes"]);
    assert!(follower.lines.by_ref().all(|line| line.unwrap().contains("\"type\"")));
    assert_eq!(follower.child.wait().unwrap().code(), Some(1));
}

#[test]
fn usage_models_and_compaction_are_asked_for_by_scripts() {
    let (home, _daemon) = serve("scribe");
    home.succeed(&["scribe", "-p", "Hello"]);
    let usage: Value = serde_json::from_str(&home.succeed(&["usage", "scribe", "--json"])).unwrap();
    let tokens = usage["session"]["totalTokens"].as_u64().unwrap();
    assert!(tokens > 0 && usage["total"]["totalTokens"] == tokens && usage["today"]["cost"]["total"] == 0, "{usage}");
    let table = home.succeed(&["usage", "scribe"]);
    assert!(table.lines().nth(3).unwrap().starts_with("total ") && table.contains(&format!(" {tokens} ")), "{table}");
    assert_eq!(home.succeed(&["models", "scribe"]), "* echo/demo  128k  thinks\n");
    let models: Value = serde_json::from_str(&home.succeed(&["models", "scribe", "--json"])).unwrap();
    assert_eq!((models.as_array().unwrap().len(), &models[0]["id"]), (1, &Value::from("demo")));
    let text = home.succeed(&["compact", "scribe", "keep", "the", "names"]);
    assert!(text.starts_with("A conversation of ") && text.contains("Additional focus: keep the names"), "{text}");
    home.succeed(&["scribe", "-p", "And then?"]);
    let result: Value = serde_json::from_str(&home.succeed(&["compact", "scribe", "--json"])).unwrap();
    assert!(result["summary"].is_string() && result["tokensBefore"].as_u64().unwrap() > 0, "{result}");
    assert!(home.succeed(&["sessions", "show", "scribe"]).contains(", compacted 2 times\n"));
    for command in ["usage", "models", "compact"] {
        assert_eq!(home.run(&[command, "scribe", "--session", "zz"]).status, Some(1));
        assert_eq!(home.run(&[command]).status, Some(2));
    }
}
