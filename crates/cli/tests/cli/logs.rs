//! `wolli logs` with the log of a real daemon, and without a daemon.

use std::fs;
use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use crate::support::daemon::Daemon;
use crate::support::{Home, Outcome};

#[test]
fn a_daemons_log_is_read_when_it_runs_and_when_it_does_not() {
    let home = Home::new();
    home.succeed(&["new", "scribe", "--model", "echo/demo"]);
    let none = home.run(&["logs", "scribe"]);
    let expected = format!("There is no log yet: {}\n", home.agent("scribe").join("logs/daemon.log").display());
    assert_eq!(none, Outcome { status: Some(0), stdout: String::new(), stderr: expected });
    let daemon = Daemon::start(&home, "scribe");
    daemon.terminate();
    let lines = home.succeed(&["logs", "scribe"]);
    assert_eq!(lines, fs::read_to_string(home.agent("scribe").join("logs/daemon.log")).unwrap());
    assert!(lines.lines().count() >= 2, "{lines}");
    let last = lines.lines().last().unwrap();
    assert_eq!(home.succeed(&["logs", "scribe", "-n", "1"]), format!("{last}\n"));
    assert_eq!(home.succeed(&["logs", "scribe", "-n", "0"]), "");
    assert_eq!(home.succeed(&["logs", "scribe", "--since", "1h"]), lines);
    assert_eq!(home.succeed(&["logs", "scribe", "--since", "2999-01-01"]), "");
    assert_eq!(home.succeed(&["logs", "scribe", "--session", "no-such"]), "");
    for line in home.succeed(&["logs", "scribe", "--json"]).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["timestamp"].is_string() && line["level"].is_string() && line["text"].is_string(), "{line}");
    }
    // A broken agent.json is a reason to read it.
    fs::write(home.agent("scribe").join("agent.json"), "{").unwrap();
    assert_eq!(home.succeed(&["logs", "scribe"]), lines);
    assert_eq!(home.run(&["logs", "ghost"]).stderr, "Unknown agent \"ghost\". Create it with: wolli new ghost\n");
    let wrong = home.run(&["logs", "scribe", "--since", "yesterday"]);
    assert_eq!((wrong.status, wrong.stderr.contains("2026-11-30T17:00:00Z")), (Some(2), true), "{wrong:?}");
}

#[test]
fn a_log_is_followed_over_rotations() {
    let home = Home::new();
    home.succeed(&["new", "scribe"]);
    let folder = home.agent("scribe").join("logs");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("daemon.log");
    let write = |first: u32, count: u32| {
        let mut log = fs::OpenOptions::new().append(true).create(true).open(&file).unwrap();
        for n in first..first + count {
            writeln!(log, "2026-03-01T09:00:00.000Z  INFO session{{id=01a2}}: n={n}").unwrap();
        }
    };
    write(0, 20);
    let mut child = home.command(&["logs", "scribe", "-f"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut number = || lines.next().unwrap().unwrap().rsplit_once('=').unwrap().1.parse::<u32>().unwrap();
    assert_eq!((10..20).map(|_| number()).collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
    for round in 0..4 {
        write(20 + round * 10, 5);
        fs::rename(&file, folder.join(format!("daemon.log.{}", 4 - round))).unwrap();
        write(25 + round * 10, 5);
        assert_eq!((0..10).map(|_| number()).collect::<Vec<_>>(), (20 + round * 10..30 + round * 10).collect::<Vec<_>>());
    }
    // It ends with the agent.
    fs::remove_dir_all(home.agent("scribe")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
