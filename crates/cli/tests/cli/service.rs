//! Starting, stopping and asking after an agent, and its service where there is no service manager.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{Home, finish};

#[test]
fn without_a_service_manager_agents_are_started_and_stopped_all_the_same() {
    let home = Home::new();
    home.succeed(&["new", "a", "--model", "echo/demo"]);
    let status = || {
        let outcome = home.run(&["status", "a", "--json"]);
        let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(outcome.status, Some(if json["running"] == true { 0 } else { 3 }), "{outcome:?}");
        json
    };
    assert_eq!(status()["running"], false);
    assert!(home.succeed(&["start", "a"]).starts_with("Started agent \"a\" (process "));
    let first = status();
    assert_eq!((&first["running"], &first["service"]["manager"]), (&true.into(), &"none".into()));
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(home.succeed(&["start", "a"]), format!("Already running: agent \"a\" (process {}).\n", first["pid"]));
    home.succeed(&["restart", "a"]);
    assert_ne!(status()["pid"], first["pid"]);
    let shown = home.succeed(&["status", "a"]);
    assert!(shown.contains("no service manager") && !shown.contains("another build"), "{shown}");
    assert_eq!(home.succeed(&["stop", "a"]), "Stopped agent \"a\".\n");
    assert_eq!(home.succeed(&["stop", "a"]), "Stopped agent \"a\".\n");
    assert_eq!(status()["running"], false);
}

#[test]
fn what_has_no_manager_is_not_installed_and_says_what_to_do() {
    let home = Home::new();
    home.succeed(&["new", "a"]);
    let outcome = home.run(&["service", "install", "a"]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("WOLLI_SERVICE_MANAGER is \"none\"") && outcome.stderr.contains("wolli start"), "{outcome:?}");
    assert_eq!(home.succeed(&["service", "uninstall", "a"]), "\"a\" is not installed as a service.\n");
    assert_eq!(home.succeed(&["service", "status", "a"]), "a\n  service     no service manager\n");
    for arguments in [&["service", "status", "b"][..], &["service", "install", "b"], &["status", "b"], &["start", "b"], &["stop", "b"]] {
        let outcome = home.run(arguments);
        assert_eq!(outcome.status, Some(1), "{arguments:?}");
        assert!(outcome.stderr.starts_with("Unknown agent \"b\"."), "{outcome:?}");
    }
}

/// A machine whose systemd cannot be reached: the programs are there, and nobody answers them.
#[test]
fn a_manager_that_cannot_be_reached_changes_nothing() {
    let home = Home::new();
    home.succeed(&["new", "a"]);
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("systemctl"), "#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(bin.join("systemctl"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("WOLLI_SERVICE_MANAGER", "systemd").env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        finish(command, "")
    };
    let outcome = run(&["service", "install", "a"]);
    assert_eq!(outcome.status, Some(1));
    for part in ["cannot be reached: Failed to connect to bus: No medium found", "loginctl enable-linger", "WOLLI_SERVICE_MANAGER=none"] {
        assert!(outcome.stderr.contains(part), "{outcome:?}");
    }
    assert!(!home.path().join(".config").exists());
    let outcome = run(&["service", "status", "a", "--json"]);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((outcome.status, &json["installed"]), (Some(0), &false.into()));
    assert!(json["problem"].as_str().unwrap().contains("No medium found"), "{json}");
}
