//! The agent as a service, under a real manager: it is installed, comes back, gives way and goes, and never fights itself.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wolli_client::{ClientError, DaemonProgram, Wolli};
use wolli_home::environment::Environment;
use wolli_testkit::home::TestHome;
use wolli_testkit::process::{eventually, running_with};

use crate::support::systemd::{LIMIT, Machine};
use crate::support::{count, newest_session};

/// A whole hand-over takes less.
const HANDOVER: Duration = Duration::from_secs(10);

fn kill(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_life_as_a_service() {
    let Some(machine) = Machine::enter("service::a_life_as_a_service") else { return };
    // A program that only a login shell finds.
    let folder = machine.user.join("tools of mine");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("only-in-logins"), "#!/bin/sh\necho found it\n").unwrap();
    std::fs::set_permissions(folder.join("only-in-logins"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(machine.user.join(".bash_profile"), format!("echo hello\nexport PATH=\"{}:$PATH\"\n", folder.display())).unwrap();

    machine.install();
    let verified = Command::new("systemd-analyze").args(["--user", "verify"]).arg(machine.unit_file()).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&verified.stderr).as_ref(), verified.status.code()), ("", Some(0)));
    assert_eq!(machine.unit_file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let status = machine.status();
    assert_eq!((&status["installed"], &status["enabled"], &status["active"]), (&true.into(), &true.into(), &false.into()));

    machine.home.run_ok(&["start", "a"]).unwrap();
    let first = machine.main_pid();
    assert_eq!(machine.server().await, Some(first));
    machine.until("StatusText", &format!("serving on {}", machine.agent.address())).await;
    assert_ne!(machine.property("WatchdogTimestampMonotonic"), "0", "no sign of life has come");

    let (client, session) = (machine.agent.client(), newest_session(&machine.agent).await);
    let tool = |command: &str| json!({"type": "prompt", "message": format!("!tool bash {}", json!({"command": command}))});
    client.succeed(&session, &tool("only-in-logins; env")).await.unwrap();
    client.succeed(&session, &json!({"type": "wait_for_idle"})).await.unwrap();
    let messages = client.succeed(&session, &json!({"type": "get_messages"})).await.unwrap().to_string();
    assert!(messages.contains("found it"), "{messages}");
    for hidden in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "INVOCATION_ID", "LISTEN_FDS"] {
        assert!(!messages.contains(hidden), "{hidden} is seen by a tool");
    }
    let log = std::fs::read_to_string(machine.agent.home.join("logs/daemon.log")).unwrap();
    assert!(log.contains("listening") && machine.journal().contains("listening"), "a log is missing");

    kill(first, Signal::KILL);
    let second = machine.served_by_other(first).await;
    assert_eq!(machine.property("NRestarts"), "1");
    machine.until("ActiveState", "active").await;
    assert_eq!(machine.main_pid(), second);

    machine.home.run_ok(&["stop", "a"]).unwrap();
    assert_eq!((machine.property("ActiveState"), machine.property("Result")), ("inactive".into(), "success".into()));
    assert_eq!(machine.server().await, None);

    machine.home.run_ok(&["start", "a"]).unwrap();
    machine.home.run_ok(&["service", "uninstall", "a"]).unwrap();
    assert_eq!(machine.server().await, None);
    assert_eq!(machine.property("LoadState"), "not-found");
    assert!(!machine.unit_file().exists());
    let left = Command::new("find").arg(machine.user.join(".config")).args(["-name", "*wolli*"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_crash_loop_stops_and_a_person_can_start_it_again() {
    let Some(machine) = Machine::enter("service::a_crash_loop_stops_and_a_person_can_start_it_again") else { return };
    machine.install();
    let config = machine.agent.home.join("agent.json");
    let good = std::fs::read(&config).unwrap();
    std::fs::write(&config, "{").unwrap();
    let _ = std::fs::remove_file(machine.agent.home.join("agent.json.last-good"));
    // It may run for an instant: systemd answers when the first start has failed.
    assert!(!machine.systemctl(&["start", machine.unit()]).status.success());
    machine.until("ActiveState", "failed").await;
    // Five starts; only then it is given up.
    assert_eq!(machine.property("NRestarts"), "5");
    assert_eq!(machine.journal().matches("Invalid agent config").count(), 5, "{}", machine.journal());
    std::fs::write(&config, good).unwrap();
    machine.home.run_ok(&["start", "a"]).unwrap();
    assert_eq!(machine.server().await, Some(machine.main_pid()));
}

#[tokio::test]
async fn two_restarts_while_a_tool_runs_leave_one_daemon_and_no_tool() {
    let Some(machine) = Machine::enter("service::two_restarts_while_a_tool_runs_leave_one_daemon_and_no_tool") else { return };
    machine.install();
    machine.home.run_ok(&["start", "a"]).unwrap();
    let first = machine.main_pid();
    let marker = format!("600.{}", std::process::id());
    let (client, session) = (machine.agent.client(), newest_session(&machine.agent).await);
    let command = json!({"command": format!("trap '' TERM; sleep {marker} & wait; sleep {marker}")});
    client.succeed(&session, &json!({"type": "prompt", "message": format!("!tool bash {command}")})).await.unwrap();
    eventually("the tool", LIMIT, || Some(running_with(&format!("sleep\0{marker}"))).filter(|found| !found.is_empty())).await.unwrap();

    let started = Instant::now();
    let mut restarts: Vec<_> = (0..2).map(|_| machine.home.command(&["restart", "a"]).spawn().unwrap()).collect();
    for restart in &mut restarts {
        assert!(restart.wait().unwrap().success());
    }
    // Two of them, at worst one after the other.
    assert!(started.elapsed() < HANDOVER * 2, "{:?}", started.elapsed());
    let second = machine.main_pid();
    assert_ne!(second, first);
    assert_eq!(machine.server().await, Some(second));
    assert!(running_with(&format!("sleep\0{marker}")).is_empty(), "the tool outlived its daemon");
    let daemons = running_with(&format!("wolli\0daemon\0{}\0", machine.agent.name));
    // Those of other tests have other homes.
    let ours = |pid: &&u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder == machine.agent.home);
    assert_eq!(daemons.iter().filter(ours).count(), 1);
    assert_eq!(machine.property("NRestarts"), "0", "the manager had to restart it by itself");
}

#[tokio::test]
async fn two_owners_do_not_fight_and_the_service_takes_over() {
    let Some(machine) = Machine::enter("service::two_owners_do_not_fight_and_the_service_takes_over") else { return };
    machine.install();
    let by_hand = machine.home.start_daemon(&machine.agent).await.unwrap();
    let holder = u64::from(by_hand.pid());
    assert!(!machine.systemctl(&["start", machine.unit()]).status.success());
    assert_eq!(machine.property("ExecMainStatus"), "75");
    let watched = Instant::now();
    let limit = Duration::from_secs(count(6, 60) as u64);
    // Longer than the pause between two starts: a loop would show.
    while watched.elapsed() < limit {
        assert_eq!((machine.property("NRestarts"), machine.server().await), ("0".into(), Some(holder)));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let refusal = || Some(machine.journal()).filter(|said| said.contains("is already running"));
    let said = eventually("the refusal in the journal", LIMIT, refusal).await.unwrap();
    assert_eq!(said.matches("is already running").count(), 1, "{said}");
    assert!(said.contains(&format!("process {holder} ")), "{said}");
    assert!(machine.home.run_ok(&["start", "a"]).unwrap().contains(&format!("(process {holder})")));

    let ended = Instant::now();
    kill(holder, Signal::TERM);
    let successor = machine.served_by_other(holder).await;
    assert!(ended.elapsed() < HANDOVER, "{:?}", ended.elapsed());
    machine.until("ActiveState", "active").await;
    assert_eq!(machine.main_pid(), successor);
}

#[tokio::test]
async fn a_stop_by_command_wakes_nobody_and_a_restart_moves_to_the_service() {
    let Some(machine) = Machine::enter("service::a_stop_by_command_wakes_nobody_and_a_restart_moves_to_the_service") else { return };
    machine.install();
    let mut by_hand = machine.home.start_daemon(&machine.agent).await.unwrap();
    machine.home.run_ok(&["stop", "a"]).unwrap();
    assert_eq!(by_hand.ended().await.unwrap().code(), Some(0));
    assert_eq!((machine.server().await, machine.property("ActiveState")), (None, "inactive".into()));

    let mut by_hand = machine.home.start_daemon(&machine.agent).await.unwrap();
    let started = Instant::now();
    machine.home.run_ok(&["restart", "a"]).unwrap();
    assert!(started.elapsed() < HANDOVER, "{:?}", started.elapsed());
    by_hand.ended().await.unwrap();
    assert_eq!(machine.server().await, Some(machine.main_pid()));

    // Deleting takes the service with it.
    machine.home.run_ok(&["delete", "a", "--yes"]).unwrap();
    assert!(!machine.unit_file().exists() && !machine.agent.home.exists());
    assert_eq!((machine.server().await, machine.property("LoadState")), (None, "not-found".into()));
}

#[tokio::test]
async fn an_upgraded_program_is_noticed_and_served_after_a_restart() {
    let binary = || {
        let home = TestHome::new().unwrap();
        let own = home.folder().join("wolli");
        std::fs::copy(home.binary(), &own).unwrap();
        // Kept: the folder goes with its guard, and this one stays until the program ends.
        std::mem::forget(home);
        TestHome::with_binary(own).unwrap()
    };
    let test = "service::an_upgraded_program_is_noticed_and_served_after_a_restart";
    let Some(machine) = Machine::enter_with(test, binary) else { return };
    machine.install();
    machine.home.run_ok(&["start", "a"]).unwrap();
    let program = machine.home.binary().to_owned();
    let shown = machine.home.run_ok(&["status", "a"]).unwrap();
    assert!(!shown.contains("warning") || !shown.contains("another build"), "{shown}");
    let first = machine.main_pid();

    let newer = program.with_extension("new");
    std::fs::copy(&program, &newer).unwrap();
    std::fs::rename(&newer, &program).unwrap();
    let shown = machine.home.run_ok(&["status", "a"]).unwrap();
    assert!(shown.contains("another build") && shown.contains("wolli restart a"), "{shown}");
    machine.home.run_ok(&["restart", "a"]).unwrap();
    assert_ne!(machine.main_pid(), first);
    let shown = machine.home.run_ok(&["status", "a"]).unwrap();
    assert!(!shown.contains("another build") && !shown.contains("another wolli"), "{shown}");
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
}

#[tokio::test]
async fn deploying_hands_over_to_the_service_and_sessions_go_on() {
    let Some(machine) = Machine::enter("service::deploying_hands_over_to_the_service_and_sessions_go_on") else { return };
    let agent = client(&machine).get("a").unwrap().unwrap();
    agent.connect().await.unwrap();
    let by_hand = machine.server().await.unwrap();
    let started = Instant::now();
    let fresh = agent.deploy().await.unwrap();
    assert!(started.elapsed() < HANDOVER, "{:?}", started.elapsed());
    assert_ne!(machine.server().await, Some(by_hand));
    assert_eq!(machine.server().await, Some(machine.main_pid()));
    let session = agent.session(&fresh.session_id).await.unwrap();
    session.prompt("still there?").await.unwrap();
    session.wait_for_idle().await.unwrap();
    assert_eq!(newest_session(&machine.agent).await, fresh.session_id.to_string());

    let serving = machine.main_pid();
    assert_ne!(agent.deploy().await.unwrap().session_id, fresh.session_id);
    assert_eq!(machine.server().await, Some(serving), "nothing had to give way");
}

#[tokio::test]
async fn folders_that_cannot_be_written_are_named_and_nothing_is_changed() {
    let Some(machine) = Machine::enter("service::folders_that_cannot_be_written_are_named_and_nothing_is_changed") else { return };
    let config = machine.user.join(".config");
    std::fs::create_dir(&config).unwrap();
    let mount = |arguments: &[&str]| assert!(Command::new("mount").args(arguments).arg(&config).status().unwrap().success());
    mount(&["--bind", config.to_str().unwrap()]);
    mount(&["-o", "remount,bind,ro"]);
    let output = machine.home.run(&["service", "install", "a"]).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(config.to_str().unwrap()) && text.to_lowercase().contains("read-only file system"), "{text}");

    // Deploying is all or nothing.
    let daemon = machine.home.start_daemon(&machine.agent).await.unwrap();
    let session = newest_session(&machine.agent).await;
    let refused = machine.agent.client().command(&session, &json!({"type": "deploy"})).await.unwrap();
    assert_eq!(refused["success"], false);
    assert!(refused["error"].as_str().unwrap().contains(config.to_str().unwrap()), "{refused}");
    let record: Value = serde_json::from_slice(&std::fs::read(machine.agent.home.join("agent.json")).unwrap()).unwrap();
    assert!(record["deployedAt"].is_null() && newest_session(&machine.agent).await == session);
    assert_eq!(machine.server().await, Some(u64::from(daemon.pid())));
    assert!(Command::new("umount").arg(&config).status().unwrap().success());
    assert_eq!(std::fs::read_dir(&config).unwrap().count(), 0);
}

#[tokio::test]
async fn a_service_that_cannot_start_leaves_the_agent_served() {
    let Some(machine) = Machine::enter("service::a_service_that_cannot_start_leaves_the_agent_served") else { return };
    // The unit is what it should be, and something in its way.
    let drop_in = machine.unit_file().with_file_name(format!("{}.d", machine.unit()));
    std::fs::create_dir_all(&drop_in).unwrap();
    std::fs::write(drop_in.join("broken.conf"), "[Service]\nExecStartPre=/bin/false\nRestart=no\n").unwrap();
    let agent = client(&machine).get("a").unwrap().unwrap();
    agent.connect().await.unwrap();
    let error = agent.deploy().await.unwrap_err();
    assert!(matches!(error, ClientError::HandOver { .. }), "{error}");
    assert!(error.to_string().contains("restart failed for \"a\"") && error.to_string().contains("served without its service"), "{error}");
    let server = machine.server().await.unwrap();
    assert_eq!(machine.main_pid(), 0);
    assert!(agent.list_sessions().await.unwrap().len() >= 2);

    std::fs::remove_dir_all(drop_in).unwrap();
    machine.systemctl(&["daemon-reload"]);
    machine.home.run_ok(&["restart", "a"]).unwrap();
    assert_ne!(machine.server().await, Some(server));
    assert_eq!(machine.server().await, Some(machine.main_pid()));
}

/// The typed client, as a program of the same user has it.
fn client(machine: &Machine) -> Wolli {
    let command = machine.home.command(&[]);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let environment = Environment::new(variables, machine.home.folder());
    Wolli::with_program(environment, Some(DaemonProgram::new(machine.home.binary()))).unwrap()
}
