//! `--print` against a real daemon and its built-in demonstration.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use crate::support::daemon::{serve, signal};
use crate::support::{Home, Outcome, finish, said};
use rustix::process::Signal;
use serde_json::Value;

fn failed(reason: &str) -> Outcome {
    Outcome { status: Some(1), stdout: String::new(), stderr: format!("{reason}\n") }
}

#[test]
fn the_answer_is_on_stdout_alone() {
    let (home, daemon) = serve("scribe");
    assert_eq!(home.run(&["scribe", "--print", "Hello"]), said("Hello"));
    assert_eq!(home.run(&["scribe", "two", "words", "-p"]), said("two words"));
    assert_eq!(home.run(&["chat", "scribe", "-p", "--", "--print", "-x"]), said("--print -x"));
    assert_eq!(home.run_with_input(&["scribe", "-p", "-"], "from stdin\n!think about it\nto the end\n"), said("from stdin\n\nto the end"));
    assert_eq!(home.run_with_input(&["scribe", "-p", "-"], "\n \n").status, Some(1));
    assert_eq!(daemon.terminate().code(), Some(143));
}

#[test]
fn a_model_that_fails_is_status_5_and_one_that_says_nothing_1() {
    let (home, _daemon) = serve("scribe");
    let outcome = home.run(&["scribe", "--print", "!fail 529"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(5), ""), "{outcome:?}");
    assert!(outcome.stderr.contains("529"), "{outcome:?}");
    assert_eq!(home.run(&["scribe", "--print", "!think only"]), failed("The model gave no answer."));
    // What was said before is not the answer.
    assert_eq!(home.run(&["scribe", "--print", "Hello"]), said("Hello"));
    assert_eq!(home.run(&["scribe", "--print", "!think only"]), failed("The model gave no answer."));
}

#[test]
fn events_are_lines_of_json() {
    let (home, _daemon) = serve("scribe");
    let outcome = home.run(&["scribe", "--print", "--json", "!tool ls {}\n"]);
    assert_eq!(outcome.status, Some(0), "{outcome:?}");
    let events: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"session"), Some(&"agent_end")));
    for kind in ["agent_start", "message_start", "message_update", "message_end", "tool_execution_start", "tool_execution_end", "turn_end"]
    {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let session = events[0]["sessionId"].as_str().unwrap();
    assert_eq!(home.run(&["scribe", "--session", session, "-p", "there"]), said("there"));
    let unknown = home.run(&["scribe", "--session", "no-such", "-p", "there"]);
    assert_eq!((unknown.status, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.starts_with("No session \"no-such\" for agent \"scribe\""), "{unknown:?}");
    // What others have a say in moves no cursor.
    let unknown = home.run(&["scribe", "--session", "no\u{1b}[2J\u{7}such", "-p", "x"]);
    assert!(unknown.stderr.starts_with("No session \"no[2Jsuch\" for agent"), "{unknown:?}");
}

#[test]
fn prompts_at_the_same_time_get_an_answer_each() {
    let (home, _daemon) = serve("scribe");
    let mut first = home.command(&["scribe", "-p", "--json", "!sleep 20\none two three four five six seven"]).spawn().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    // It has begun, so the second one waits for its turn.
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("text_delta")));
    assert_eq!(home.run(&["scribe", "-p", "second"]), said("second"));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert!(rest.iter().any(|line| line.contains("seven")), "{rest:?}");
}

#[test]
fn a_time_limit_aborts_the_run() {
    let (home, _daemon) = serve("scribe");
    let outcome = home.run(&["scribe", "-p", "--timeout", "300ms", "!sleep 20000\none two three"]);
    assert_eq!(outcome, failed("No answer within 0.3 s; gave up."));
    assert_eq!(home.run(&["scribe", "-p", "Hello"]), said("Hello"));
}

#[test]
fn signals_abort_the_run_and_are_told_by_the_status() {
    let (home, _daemon) = serve("scribe");
    for (sent, status, text) in [(Signal::INT, 130, "Interrupted.\n"), (Signal::TERM, 143, "Terminated.\n")] {
        let mut child = home.command(&["scribe", "-p", "--json", "!sleep 20000\none two three"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("\"role\":\"assistant\"")));
        signal(&child, sent);
        assert_eq!(child.wait().unwrap().code(), Some(status));
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, text);
        assert_eq!(home.run(&["scribe", "-p", "Hello"]), said("Hello"));
    }
}

#[test]
fn a_daemon_is_started_when_there_is_none_restarted_and_ended_by_deletion() {
    let home = Home::new();
    home.succeed(&["new", "scribe", "--model", "echo/demo"]);
    assert_eq!(home.run(&["scribe", "-p", "Hello"]), said("Hello"));
    let lock: Value = serde_json::from_slice(&fs::read(home.agent("scribe").join("daemon.lock")).unwrap()).unwrap();
    let before = lock["pid"].clone();
    assert_eq!(home.succeed(&["restart", "scribe"]), "Restarted agent \"scribe\".\n");
    let lock: Value = serde_json::from_slice(&fs::read(home.agent("scribe").join("daemon.lock")).unwrap()).unwrap();
    assert_ne!(lock["pid"], before);
    assert_eq!(home.run(&["scribe", "-p", "Hello"]), said("Hello"));
    assert_eq!(home.run(&["restart", "ghost"]), failed("Unknown agent \"ghost\"."));
    // What has ended and was not waited for by the process above it still has a number, and no command line.
    let runs = || fs::read(format!("/proc/{}/cmdline", lock["pid"])).is_ok_and(|line| !line.is_empty());
    assert!(!cfg!(target_os = "linux") || runs());
    assert_eq!(home.succeed(&["delete", "scribe", "--yes"]), "Deleted agent \"scribe\".\n");
    assert!(!home.agent("scribe").exists());
    let started = Instant::now();
    while runs() {
        assert!(started.elapsed() < Duration::from_secs(10), "the daemon of a deleted agent goes on");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn a_port_of_another_program_is_no_place_for_the_token() {
    let home = Home::new();
    home.succeed(&["new", "scribe", "--model", "echo/demo"]);
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    let file = home.agent("scribe").join("agent.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config["port"] = port.into();
    fs::write(&file, config.to_string()).unwrap();
    let heard = std::thread::spawn(move || {
        let mut heard = String::new();
        while let Ok((mut stream, _)) = foreign.accept() {
            drop(stream.set_read_timeout(Some(Duration::from_secs(1))));
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
            if heard.contains("THE END") {
                break;
            }
            drop(std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"));
        }
        heard
    });
    let outcome = home.run(&["scribe", "-p", "Hello"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(3), ""), "{outcome:?}");
    std::io::Write::write_all(&mut std::net::TcpStream::connect(("127.0.0.1", port)).unwrap(), b"THE END").unwrap();
    let heard = heard.join().unwrap();
    assert!(!heard.contains(config["token"].as_str().unwrap()), "{heard}");
}

#[test]
fn a_reader_that_left_is_no_panic() {
    let (home, _daemon) = serve("scribe");
    let mut command = home.command(&["scribe", "-p", "Hello"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
fn a_second_daemon_is_status_75_and_names_the_first() {
    let (home, _daemon) = serve("scribe");
    let outcome = home.run(&["daemon", "scribe"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(75), ""), "{outcome:?}");
    assert!(outcome.stderr.starts_with("wolli daemon for \"scribe\" is already running"), "{outcome:?}");
    let launchd = home.run(&["daemon", "scribe", "--supervisor", "launchd"]);
    assert_eq!(launchd.status, Some(0), "{launchd:?}");
    let unknown = home.run(&["daemon", "ghost"]);
    assert_eq!(unknown, failed("Unknown agent \"ghost\". Create it with: wolli new ghost"));
    let mut command = home.command(&["daemon", "scribe", "--port", "1"]);
    command.env_remove("HOME").env_remove("WOLLI_HOME").env_remove("WOLLI_SHARED_DIR");
    assert_eq!(finish(command, "").status, Some(78));
}
