//! Homes and daemons, with shell scripts in the place of the program.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::TestHome;

/// A home whose program is a shell script.
fn scripted(script: &str) -> TestHome {
    let mut home = TestHome::with_binary("/bin/false").unwrap();
    let path = home.folder().join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.binary = path;
    home
}

#[test]
fn programs_see_the_temporary_home_and_nothing_else() {
    let mut home = TestHome::with_binary("/usr/bin/env").unwrap();
    home.set_env("EXTRA", "1");
    home.remove_env("LANG");
    let out = home.run_ok(&[]).unwrap();
    let names: Vec<_> = out.lines().map(|line| line.split_once('=').unwrap().0).collect();
    let expected = [
        "EXTRA",
        "HOME",
        "PATH",
        "TMPDIR",
        "WOLLI_HOME",
        "WOLLI_OFFLINE",
        "WOLLI_SERVICE_MANAGER",
        "WOLLI_SHARED_DIR",
        "WOLLI_TELEMETRY",
        "XDG_RUNTIME_DIR",
    ];
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(out.contains(&format!("WOLLI_HOME={}\n", home.root().display())));
    assert!(home.run_ok(&["--no-such-option"]).unwrap_err().to_string().contains("--no-such-option"));
}

#[test]
fn agents_have_a_home_a_port_and_a_token() {
    let home = TestHome::with_binary("/bin/false").unwrap();
    let (one, two) = (home.agent("one", json!({})).unwrap(), home.agent("two", json!({"defaultModel": "a/b"})).unwrap());
    assert!(one.port != two.port && one.token != two.token && one.token.len() == 64);
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(two.home.join("agent.json")).unwrap()).unwrap();
    assert_eq!((&config["name"], &config["port"], &config["settings"]), (&json!("two"), &json!(two.port), &json!({"defaultModel": "a/b"})));
    assert!(one.home.join("sessions").is_dir());
    let folder = home.folder().to_owned();
    drop(home);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_daemon_that_ends_early_is_told_with_its_output() {
    let home = scripted("echo to stdout; echo to stderr $1 $2 >&2; exit 78");
    let agent = home.agent("a", json!({})).unwrap();
    let error = home.start_daemon(&agent).await.unwrap_err().to_string();
    for part in ["exit status: 78", "to stdout", "to stderr daemon a"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn readiness_is_this_process_answering() {
    let home = scripted("exec sleep 1000");
    let agent = home.agent("a", json!({})).unwrap();
    let listener = tokio::net::TcpListener::bind(agent.address()).await.unwrap();
    let mut daemon = home.spawn_daemon(&agent, &[]).unwrap();
    let pid = daemon.pid();
    let mut servers = tokio::task::JoinSet::new();
    servers.spawn(async move {
        for answer in [503, 1, 0] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await;
            let status = if answer == 503 { 503 } else { 200 };
            let body = json!({"status": "ok", "agent": "a", "pid": pid + answer}).to_string();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    assert_eq!(daemon.ready().await.unwrap()["pid"], pid);
    assert!(daemon.is_running().unwrap());
    daemon.signal(Signal::STOP).unwrap();
    assert!(daemon.is_running().unwrap());
    daemon.signal(Signal::CONT).unwrap();
    let status = daemon.terminate().await.unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert!(!daemon.is_running().unwrap());
}

#[tokio::test]
async fn a_daemon_dies_with_its_guard() {
    let home = scripted("exec sleep 1000");
    let agent = home.agent("a", json!({})).unwrap();
    let daemon = home.spawn_daemon(&agent, &[]).unwrap();
    let process = format!("/proc/{}", daemon.pid());
    assert!(std::path::Path::new(&process).exists());
    drop(daemon);
    assert!(!std::path::Path::new(&process).exists());
    let mut killed = home.spawn_daemon(&agent, &[]).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.kill().unwrap()), Some(9));
}
