//! `wolli doctor`: faults are planted, found, named with their fix, and mended where that is safe.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use wolli_home::lock::{Holder, HomeLock};
use wolli_home::paths::{Root, socket_path};

use crate::support::daemon::Daemon;
use crate::support::{Home, Outcome, finish};

const HEADER: &str = r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#;

/// An agent "a" in which nothing is wrong.
fn agent() -> Home {
    let home = Home::new();
    home.succeed(&["new", "a", "--model", "echo/demo"]);
    home.succeed(&["list"]);
    home
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Replaces keys of `agent.json`.
fn change(home: &Home, name: &str, key: &str, value: Value) {
    let file = home.agent(name).join("agent.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    config[key] = value;
    fs::write(file, config.to_string()).unwrap();
}

fn port(home: &Home) -> u16 {
    let config: Value = serde_json::from_slice(&fs::read(home.agent("a").join("agent.json")).unwrap()).unwrap();
    u16::try_from(config["port"].as_u64().unwrap()).unwrap()
}

fn socket(home: &Home) -> PathBuf {
    let root = Root::new(home.root());
    let path = socket_path(Some(home.path()), &root, &root.agent(&"a".parse().unwrap())).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mode(path.parent().unwrap(), 0o700);
    path
}

fn session(home: &Home, content: &str) {
    let folder = home.agent("a").join("sessions/--w--");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("2026-01-01_s1.jsonl"), content).unwrap();
}

fn models(home: &Home, text: &str) {
    fs::create_dir_all(home.path().join("s")).unwrap();
    fs::write(home.path().join("s/models.json"), text).unwrap();
    mode(&home.path().join("s/models.json"), 0o600);
}

/// The one finding of that code, and the exit status.
fn find(command: Command, code: &str) -> (Value, Option<i32>) {
    let outcome = finish(command, "");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    let findings = report["agents"][0]["findings"].as_array().unwrap();
    let found: Vec<&Value> = findings.iter().filter(|finding| finding["code"] == code).collect();
    assert_eq!(found.len(), 1, "{code}: {report:#}");
    for key in ["check", "problem", "meaning", "fix"] {
        assert!(found[0][key].as_str().is_some_and(|text| !text.is_empty()), "{found:?}");
    }
    (found[0].clone(), outcome.status)
}

fn codes(outcome: &Outcome) -> Vec<String> {
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"));
    let agents = report["agents"].as_array().unwrap().iter();
    let findings = agents.flat_map(|agent| agent["findings"].as_array().unwrap());
    findings.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

/// The code of a fault, a part of its fix, the exit status, and how the fault is made.
type Fault<T> = (&'static str, &'static str, i32, fn(&T));

#[test]
fn planted_faults_of_files_are_found_with_their_fix() {
    let faults: &[Fault<Home>] = &[
        ("agent_unusable", "agent.json", 1, |home| {
            fs::write(home.agent("a").join("agent.json"), "{").unwrap();
            fs::remove_file(home.agent("a").join("agent.json.last-good")).unwrap();
        }),
        ("agent_damaged", "cp -p ", 10, |home| fs::write(home.agent("a").join("agent.json"), "").unwrap()),
        ("bad_token", "agent.json", 1, |home| change(home, "a", "token", "no token".into())),
        ("bad_configuration", "config.toml", 10, |home| fs::write(home.agent("a").join("config.toml"), "[limits]\nwrong = 1\n").unwrap()),
        ("secret_readable", "chmod go-rwx ", 1, |home| mode(&home.agent("a").join("agent.json"), 0o644)),
        ("folder_open", "chmod go-rwx ", 10, |home| mode(&home.agent("a"), 0o755)),
        ("lock_unusable", "mv ", 1, |home| fs::create_dir(home.agent("a").join("daemon.lock")).unwrap()),
        ("port_shared", "agent.json", 1, |home| {
            home.succeed(&["new", "b"]);
            change(home, "b", "port", port(home).into());
        }),
        ("socket_stale", "rm ", 10, |home| drop(UnixListener::bind(socket(home)).unwrap())),
        ("socket_blocked", "mv ", 10, |home| fs::write(socket(home), "").unwrap()),
        ("session_empty", "rm ", 10, |home| session(home, "")),
        ("session_header", "mv ", 1, |home| session(home, "{\"type\":\"message\"}\n")),
        ("session_torn", "wolli chat a --session s1", 10, |home| session(home, &format!("{HEADER}\n{{\"type\":\"mes"))),
        ("file_unusable", "auth.json", 1, |home| {
            fs::write(home.agent("a").join("auth.json"), "[").unwrap();
            mode(&home.agent("a").join("auth.json"), 0o600);
        }),
        ("server_silent", "curl -sS http://127.0.0.1:1/v1/models", 1, |home| {
            models(
                home,
                r#"{"providers":{"own":{"baseUrl":"http://127.0.0.1:1/v1","api":"openai-completions","apiKey":"k","models":[{"id":"m"}]}}}"#,
            );
            change(home, "a", "settings", json!({"defaultModel": "own/m"}));
        }),
        ("no_model", "/login", 1, |home| change(home, "a", "settings", json!({"defaultModel": "anthropic/claude-opus-4-8"}))),
    ];
    for (code, fix, status, plant) in faults {
        let home = agent();
        let before = home.run(&["doctor", "a", "--json"]);
        assert_eq!((codes(&before), before.status), (Vec::new(), Some(0)), "{before:?}");
        plant(&home);
        let (found, ended) = find(home.command(&["doctor", "a", "--json"]), code);
        assert!(found["fix"].as_str().unwrap().contains(fix), "{found:#}");
        assert_eq!(ended, Some(*status), "{found:#}");
        let shown = home.run(&["doctor", "a"]);
        assert!(shown.stdout.contains(found["problem"].as_str().unwrap()), "{shown:?}");
        // What is marked is mended, and only that.
        let fixable = found["fixable"] == true;
        let mended = home.run(&["doctor", "a", "--fix", "--json"]);
        assert_eq!(!codes(&mended).iter().any(|left| left == code), fixable, "{mended:?}");
        assert!(!fixable || mended.status == Some(0), "{mended:?}");
    }
}

#[test]
fn who_is_in_the_way_of_a_daemon_is_named() {
    let home = agent();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port(&home))).unwrap();
    let (found, status) = find(home.command(&["doctor", "a", "--json"]), "port_taken");
    assert_eq!(status, Some(1));
    assert!(found["fix"].as_str().unwrap().starts_with(&format!("ss -ltnp 'sport = :{}'", port(&home))), "{found}");
    drop(listener);
    let holder = Holder::this_process("/some/wolli".as_ref(), "1", std::time::SystemTime::now());
    let lock = HomeLock::acquire(&home.agent("a").join("daemon.lock"), holder, std::time::Duration::ZERO).unwrap();
    let (found, _) = find(home.command(&["doctor", "a", "--json"]), "holder_silent");
    assert_eq!(found["fix"], format!("kill {}; wolli start a", std::process::id()));
    drop(lock);
    assert_eq!(home.run(&["doctor", "a"]).stdout, "a\n  nothing is wrong\n");
}

#[test]
fn a_running_daemon_is_well_and_one_of_another_build_is_named() {
    let home = agent();
    let _daemon = Daemon::start(&home, "a");
    assert_eq!(codes(&home.run(&["doctor", "a", "--json"])), [""; 0]);
    let other = home.path().join("wolli");
    fs::copy(env!("CARGO_BIN_EXE_wolli"), &other).unwrap();
    let from = home.command(&["doctor", "a", "--json"]);
    let mut command = Command::new(other);
    command.args(from.get_args()).env_clear().envs(from.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.path()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let (found, status) = find(command, "other_build");
    assert_eq!((&found["fix"], status), (&"wolli restart a".into(), Some(10)));
}

#[test]
fn without_a_name_all_agents_are_looked_at() {
    let home = Home::new();
    assert_eq!(home.succeed(&["doctor"]), "No agents yet. Create one with: wolli new <name>\n");
    for name in ["b", "a"] {
        home.succeed(&["new", name, "--model", "echo/demo"]);
    }
    assert_eq!(home.succeed(&["doctor"]), "a\n  nothing is wrong\nb\n  nothing is wrong\n");
    mode(&home.agent("b"), 0o750);
    let outcome = home.run(&["doctor"]);
    assert_eq!(outcome.status, Some(10));
    assert!(outcome.stdout.ends_with("What is marked with * is done by: wolli doctor --fix\n"), "{outcome:?}");
    let outcome = home.run(&["doctor", "--fix"]);
    assert!(outcome.status == Some(0) && outcome.stdout.contains("b\n  fixed    "), "{outcome:?}");
    let outcome = home.run(&["doctor", "c"]);
    assert!(outcome.status == Some(1) && outcome.stderr.starts_with("Unknown agent \"c\"."), "{outcome:?}");
}

/// Service managers that are scripts: what they say stands in files beside them.
const SYSTEMCTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ ! -e "$here/no-bus" ] || { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
units=$HOME/.config/systemd/user
for unit; do :; done
case "$*" in
  *" enable "*) mkdir -p "$units/default.target.wants" && ln -sf "../$unit" "$units/default.target.wants/$unit" ;;
  *daemon-reload*) rm -f "$here/changed" ;;
  *"show --property=Version"*) echo Version=252 ;;
  *" show "*)
    state=; [ ! -e "$units/default.target.wants/$unit" ] || state=enabled
    active=inactive; [ ! -e "$here/failed" ] || active=failed
    reload=no; [ ! -e "$here/changed" ] || reload=yes
    printf 'UnitFileState=%s\nActiveState=%s\nMainPID=0\nNeedDaemonReload=%s\n' "$state" "$active" "$reload" ;;
esac
"#;
const LOGINCTL: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *enable-linger*) [ ! -e "$here/no-rights" ] || { echo "Access denied" >&2; exit 1; }; rm -f "$here/leaves" ;;
  *) if [ -e "$here/leaves" ]; then echo no; else echo yes; fi ;;
esac
"#;
const SHELL: &str = "#!/bin/sh\nPATH=${0%/*}/installed:/usr/bin:/bin exec /bin/sh -c \"$4\"\n";

/// The agent, installed as a service under the scripts.
struct Machine {
    home: Home,
    bin: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let home = agent();
        let bin = home.path().join("bin");
        fs::create_dir_all(bin.join("installed")).unwrap();
        for (name, script) in [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL), ("shell", SHELL)] {
            fs::write(bin.join(name), script).unwrap();
            mode(&bin.join(name), 0o755);
        }
        let machine = Self { home, bin };
        let installed = finish(machine.command(&["service", "install", "a"]), "");
        assert_eq!(installed.status, Some(0), "{installed:?}");
        machine
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        let path = format!("{}:/usr/bin:/bin", self.bin.display());
        command.env("WOLLI_SERVICE_MANAGER", "systemd").env("PATH", path).env("SHELL", self.bin.join("shell")).env("USER", "nobody-here");
        command
    }

    fn flag(&self, name: &str) {
        fs::write(self.bin.join(name), "").unwrap();
    }

    fn unit(&self) -> PathBuf {
        let folder = self.home.path().join(".config/systemd/user");
        let mut files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "service")).unwrap()
    }

    /// Replaces a line of the unit.
    fn edit(&self, start: &str, line: &str) {
        let text = fs::read_to_string(self.unit()).unwrap();
        assert!(text.lines().any(|line| line.starts_with(start)), "{text}");
        let lines: Vec<&str> = text.lines().map(|known| if known.starts_with(start) { line } else { known }).collect();
        fs::write(self.unit(), lines.join("\n")).unwrap();
    }
}

#[test]
fn planted_faults_of_the_service_are_found_with_their_fix() {
    let faults: &[Fault<Machine>] = &[
        ("program_missing", "wolli service install a && wolli start a", 1, |machine| {
            machine.edit("ExecStart=", "ExecStart=\"/opt/gone/wolli\" \"daemon\" \"a\"");
        }),
        ("other_program", "wolli service install a && wolli restart a", 10, |machine| {
            machine.edit("ExecStart=", "ExecStart=/bin/sh daemon a")
        }),
        ("path_old", "wolli service install a", 10, |machine| machine.edit("Environment=\"PATH=", "Environment=\"PATH=/usr/bin:/bin\"")),
        ("path_unusable", "wolli service install a", 1, |machine| machine.edit("Environment=\"PATH=", "Environment=\"PATH=/opt/gone\"")),
        ("not_enabled", "wolli service install a", 10, |machine| {
            fs::remove_dir_all(machine.unit().with_file_name("default.target.wants")).unwrap();
        }),
        ("needs_reload", "systemctl --user daemon-reload", 10, |machine| machine.flag("changed")),
        ("lingering_off", "sudo loginctl enable-linger", 10, |machine| machine.flag("leaves")),
        ("failed", "wolli logs a", 1, |machine| machine.flag("failed")),
        ("manager_unreachable", "enable-linger", 1, |machine| machine.flag("no-bus")),
        ("masked", "systemctl --user unmask wolli-a", 1, |machine| {
            let unit = machine.unit();
            fs::remove_file(&unit).unwrap();
            symlink("/dev/null", unit).unwrap();
        }),
        ("not_installed", "wolli service install a", 10, |machine| {
            fs::remove_file(machine.unit()).unwrap();
            machine.home.deployed("a");
        }),
    ];
    for (code, fix, status, plant) in faults {
        let machine = Machine::new();
        let before = finish(machine.command(&["doctor", "a", "--json"]), "");
        assert_eq!((codes(&before), before.status), (Vec::new(), Some(0)), "{before:?}");
        plant(&machine);
        let (found, ended) = find(machine.command(&["doctor", "a", "--json"]), code);
        assert!(found["fix"].as_str().unwrap().contains(fix), "{found:#}");
        assert_eq!(ended, Some(*status), "{found:#}");
        let mended = finish(machine.command(&["doctor", "a", "--fix", "--json"]), "");
        assert_eq!(!codes(&mended).iter().any(|left| left == code), found["fixable"] == true, "{mended:?}");
    }
}

#[test]
fn what_cannot_be_mended_is_told() {
    let machine = Machine::new();
    machine.flag("leaves");
    machine.flag("no-rights");
    let mended = finish(machine.command(&["doctor", "a", "--fix", "--json"]), "");
    assert_eq!((codes(&mended), mended.status), (vec!["lingering_off".to_owned()], Some(10)));
    assert!(mended.stderr.contains("Access denied"), "{mended:?}");
}

#[test]
fn what_somebody_wrote_into_the_definition_is_kept() {
    let machine = Machine::new();
    machine.edit("Description=", "Description=mine");
    machine.flag("changed");
    machine.flag("leaves");
    let fix = || finish(machine.command(&["doctor", "a", "--fix"]), "");
    assert_eq!(fix().status, Some(0));
    assert!(fs::read_to_string(machine.unit()).unwrap().contains("Description=mine"));
    machine.edit("ExecStart=", "ExecStart=/bin/sh daemon a");
    assert_eq!(fix().status, Some(0));
    assert!(!fs::read_to_string(machine.unit()).unwrap().contains("Description=mine"));
    assert!(fs::read_to_string(format!("{}.old", machine.unit().display())).unwrap().contains("Description=mine"));
}

/// A key that only the shell has is not the service's.
#[test]
fn a_key_that_the_service_lacks_is_named() {
    let machine = Machine::new();
    change(&machine.home, "a", "settings", json!({"defaultModel": "anthropic/claude-opus-4-8"}));
    let mut command = machine.command(&["doctor", "a", "--json"]);
    command.env("ANTHROPIC_API_KEY", "sk-very-private");
    let (found, status) = find(command, "key_in_shell");
    assert_eq!(status, Some(10));
    assert!(found["fix"].as_str().unwrap().ends_with("/login anthropic") && !found.to_string().contains("private"), "{found}");
}
