//! Real programs: what is left of them after end, drop and the death of their parent.

use std::os::fd::OwnedFd;
use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use super::*;
use crate::program::{Output, Stdin};

/// How long a test waits for something that happens at once on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Set for the helper half of the tests that kill their parent.
const HELPER: &str = "WOLLI_EXEC_TEST_HELPER";

fn shell(script: &str) -> Program {
    Program::new("/bin/bash", "/").arguments(["-c", script]).environment([("PATH", "/usr/bin:/bin")])
}

/// Starts a script and reads the process numbers that it prints in its first line.
async fn start(script: &str) -> (ProcessGuard, Vec<ProcessIdentity>) {
    let mut guard = ProcessGuard::spawn(shell(script), None).await.unwrap();
    let mut line = String::new();
    let stdout = guard.stdout.as_mut().unwrap();
    timeout(PATIENCE, BufReader::new(stdout).read_line(&mut line)).await.unwrap().unwrap();
    (guard, identities(&line))
}

fn identities(line: &str) -> Vec<ProcessIdentity> {
    let numbers = line.split_whitespace().map(|word| word.parse().unwrap());
    numbers.map(|pid| ProcessIdentity { pid, start_time: process_table::start_time(pid) }).collect()
}

async fn wait_until_dead(processes: &[ProcessIdentity]) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(alive) = processes.iter().find(|process| process.is_alive()) {
        assert!(Instant::now() < deadline, "{alive:?} is still alive");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    for (script, expected) in
        [("exit 0", Exit::Code(0)), ("exit 3", Exit::Code(3)), ("kill -9 $$", Exit::Signal(9)), ("kill -TERM $$", Exit::Signal(15))]
    {
        let mut guard = ProcessGuard::spawn(shell(script), None).await.unwrap();
        assert_eq!(guard.wait().await.unwrap(), expected, "{script}");
        assert_eq!(guard.wait().await.unwrap(), expected, "a second time");
        assert!(!guard.is_alive().await);
    }
}

#[tokio::test]
async fn a_failed_start_names_the_program() {
    let error = ProcessGuard::spawn(Program::new("no-such-program-here", "/"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start program no-such-program-here: No such file or directory (os error 2)");
    let error = ProcessGuard::spawn(Program::new("/bin/true", "/no/such/folder"), None).await.unwrap_err();
    assert!(matches!(error, SpawnError::Directory { .. }), "{error}");
    assert!(error.to_string().contains("/bin/true in directory /no/such/folder"), "{error}");
    let error = ProcessGuard::spawn(Program::new("/etc/passwd", "/"), None).await.unwrap_err();
    assert_eq!(error.io().kind(), io::ErrorKind::PermissionDenied);
    let error = ProcessGuard::spawn(Program::new("/bin/true", "/etc/passwd"), None).await.unwrap_err();
    assert_eq!(error.io().kind(), io::ErrorKind::NotADirectory);
    let long = "x".repeat(200_000);
    let error = ProcessGuard::spawn(Program::new("/bin/true", "/").arguments([long]), None).await.unwrap_err();
    assert_eq!(error.io().kind(), io::ErrorKind::ArgumentListTooLong);
}

#[tokio::test]
async fn nothing_is_inherited_but_what_was_given() {
    let program = Program::new("/usr/bin/env", "/tmp").environment([("ONLY", "this")]);
    let mut guard = ProcessGuard::spawn(program, None).await.unwrap();
    let mut text = String::new();
    let mut stdout = guard.take_stdout().unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut text).await.unwrap();
    assert_eq!(text, "ONLY=this\n");
}

#[tokio::test]
async fn the_leader_has_its_own_session_and_no_open_files_of_ours() {
    let (mut guard, _) = start("echo; sleep 300").await;
    let pid = guard.identity().pid;
    let entry = snapshot().into_iter().find(|process| process.pid == pid).unwrap();
    assert_eq!((entry.session, entry.group), (pid, pid));
    assert_eq!(entry.parent, std::process::id());
    assert_eq!(guard.end(Duration::ZERO).await.survivors, []);

    let file = tempfile::NamedTempFile::new().unwrap();
    let program = Program::new("/bin/ls", "/").arguments(["-l", "/proc/self/fd"]);
    let mut guard = ProcessGuard::spawn(program, None).await.unwrap();
    let mut text = String::new();
    let mut stdout = guard.take_stdout().unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut text).await.unwrap();
    assert!(text.contains("pipe:[") && !text.contains(file.path().to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn input_and_two_outputs() {
    let program = shell("cat; echo no >&2").stdin(Stdin::Pipe).output(Output::Separate);
    let mut guard = ProcessGuard::spawn(program, None).await.unwrap();
    let mut stdin = guard.take_stdin().unwrap();
    stdin.write_all(b"yes").await.unwrap();
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    tokio::io::AsyncReadExt::read_to_string(&mut guard.take_stdout().unwrap(), &mut out).await.unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut guard.take_stderr().unwrap(), &mut err).await.unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("yes", "no\n"));
}

#[tokio::test]
async fn end_asks_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asked");
    let script = format!("trap 'echo yes > {}; exit 7' TERM; echo; while :; do sleep 0.01; done", file.display());
    let (mut guard, _) = start(&script).await;
    let ended = guard.end(PATIENCE).await;
    assert_eq!(ended, Ended { exit: Some(Exit::Code(7)), survivors: vec![] });
    assert_eq!(std::fs::read_to_string(file).unwrap(), "yes\n");
}

#[tokio::test]
async fn end_asks_those_that_left_the_group_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asked");
    let script = format!("setsid bash -c 'trap \"echo yes > {}; exit\" TERM; echo $$; while :; do sleep 0.01; done'", file.display());
    let (mut guard, processes) = start(&script).await;
    assert_ne!(processes[0].pid, guard.identity().pid);
    assert_eq!(guard.end(PATIENCE).await.survivors, []);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "yes\n");
}

#[tokio::test]
async fn end_does_not_take_no_for_an_answer() {
    let script = "trap '' TERM HUP INT; bash -c 'trap \"\" TERM; echo $PPID $$; while :; do sleep 300; done'; :";
    let (mut guard, processes) = start(script).await;
    assert_eq!(processes.len(), 2);
    let ended = guard.end(Duration::from_millis(50)).await;
    assert_eq!(ended, Ended { exit: Some(Exit::Signal(9)), survivors: vec![] });
    assert!(processes.iter().all(|process| !process.is_alive()));
}

#[tokio::test]
async fn end_finds_descendants_that_left_the_group() {
    // Own session with a living ancestor; own group in our session (job control) whose parent is gone; double fork into a session of its own that
    // still holds the pipe.
    let script = "
        setsid bash -c 'sleep 300 & echo $$ $! >> PIDS; wait' &
        bash -c 'set -m; sleep 300 & echo $! >> PIDS'
        ( setsid bash -c 'echo $$ >> PIDS; exec sleep 300' & )
        while [ $(cat PIDS | wc -w) -lt 4 ]; do :; done
        echo $(cat PIDS); sleep 300";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("PIDS"), "").unwrap();
    let script = script.replace("PIDS", folder.path().join("PIDS").to_str().unwrap());
    let (mut guard, processes) = start(&script).await;
    assert_eq!(processes.len(), 4);
    assert!(processes.iter().all(|process| process.is_alive()));
    assert_eq!(guard.end(Duration::ZERO).await.survivors, []);
    for process in processes {
        assert!(!process.is_alive(), "{process:?}");
    }
}

#[tokio::test]
async fn a_server_is_asked_by_the_end_of_its_input() {
    // Obeys; obeys but leaves a child; ignores that and SIGTERM as well.
    for (script, expected) in [
        ("echo; while read -r line; do :; done; exit 3", Exit::Code(3)),
        ("sleep 300 & echo $!; while read -r line; do :; done; exit 3", Exit::Code(3)),
        ("trap '' TERM; echo $$; while :; do sleep 0.05; done", Exit::Signal(9)),
    ] {
        let mut guard = ProcessGuard::spawn(shell(script).stdin(Stdin::Pipe), None).await.unwrap();
        let mut line = String::new();
        BufReader::new(guard.stdout.as_mut().unwrap()).read_line(&mut line).await.unwrap();
        let patience = if expected == Exit::Code(3) { PATIENCE } else { Duration::from_millis(50) };
        let ended = guard.shut_down(patience, Duration::from_millis(50)).await;
        assert_eq!(ended, Ended { exit: Some(expected), survivors: vec![] }, "{script}");
        assert!(identities(&line).iter().all(|process| !process.is_alive()));
    }
}

#[tokio::test]
async fn drop_kills_grandchildren() {
    let (guard, processes) = start("setsid sleep 300 & a=$!; bash -c 'sleep 300 & sleep 300 & echo $1 $$ $!; wait' x $a").await;
    assert_eq!(processes.len(), 3);
    assert!(processes.iter().all(|process| process.is_alive()));
    drop(guard);
    wait_until_dead(&processes).await;
}

#[tokio::test]
async fn drop_kills_what_the_leader_left() {
    let (mut guard, processes) = start("sleep 300 & echo $!").await;
    assert_eq!(guard.wait().await.unwrap(), Exit::Code(0));
    assert!(guard.is_alive().await);
    drop(guard);
    wait_until_dead(&processes).await;
}

#[tokio::test]
async fn drop_finds_a_daemon_that_holds_the_pipe() {
    let (guard, processes) = start("( setsid bash -c 'echo $$; exec sleep 300' & ); sleep 300").await;
    assert_eq!(processes.len(), 1);
    assert!(processes[0].is_alive());
    drop(guard);
    wait_until_dead(&processes).await;
}

#[tokio::test]
async fn guards_do_not_touch_each_other() {
    // Many at once, so that some are being forked while others are being ended.
    let keep = start("echo; sleep 300").await.0;
    let rounds = (0..20).map(|index| async move {
        let (mut guard, _) = start("sleep 300 & echo $!; sleep 300").await;
        if index % 2 == 0 {
            assert_eq!(guard.end(Duration::ZERO).await, Ended { exit: Some(Exit::Signal(9)), survivors: vec![] });
        } else {
            drop(guard);
        }
        let mut short = ProcessGuard::spawn(shell("exit 5"), None).await.unwrap();
        assert_eq!(short.wait().await.unwrap(), Exit::Code(5));
    });
    let mut tasks = tokio::task::JoinSet::new();
    for round in rounds {
        tasks.spawn(round);
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    assert!(keep.identity().is_alive());
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300", file.display());
    let mut starting = Box::pin(ProcessGuard::spawn(shell(&script), None));
    // One poll sends the job; then the caller goes away.
    let _pending = std::future::poll_fn(|context| std::task::Poll::Ready(starting.as_mut().poll(context))).await;
    drop(starting);
    // The spawner works in order: when the next start is answered, the first is over.
    let mut next = ProcessGuard::spawn(shell("exit 0"), None).await.unwrap();
    next.wait().await.unwrap();
    if let Ok(text) = std::fs::read_to_string(&file) {
        wait_until_dead(&identities(&text)).await;
    }
    let left =
        snapshot().into_iter().filter(|process| process.alive && command_line(process.pid).contains(folder.path().to_str().unwrap()));
    assert_eq!(left.count(), 0);
}

fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

/// Runs one of the ignored helper tests below in a process of its own; gives it and the numbers that it prints.
async fn start_helper(name: &str, folder: &Path) -> (Child, Vec<ProcessIdentity>) {
    let (reader, writer) = io::pipe().unwrap();
    let helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("guard::tests::{name}"), "--ignored", "--nocapture"])
        .env_clear()
        .env(HELPER, folder)
        .stdout(writer)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap()).lines();
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("the helper ended early");
        if let Some((_, numbers)) = line.split_once("STARTED ") {
            return (helper, identities(numbers));
        }
    }
}

/// Starts a script that prints numbers, passes them on, then waits to be killed.
async fn be_helper(script: &str, ledger: Option<Ledger>) {
    let mut guard = ProcessGuard::spawn(shell(script), ledger.as_ref()).await.unwrap();
    let mut line = String::new();
    BufReader::new(guard.stdout.as_mut().unwrap()).read_line(&mut line).await.unwrap();
    // Around the capture of the test runner.
    io::Write::write_all(&mut io::stdout(), format!("STARTED {line}").as_bytes()).unwrap();
    io::Write::flush(&mut io::stdout()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
#[ignore = "started by the_death_of_the_parent_is_the_death_of_the_child"]
async fn helper_with_a_child() {
    if std::env::var_os(HELPER).is_some() {
        be_helper("echo $$; exec sleep 300", None).await;
    }
}

#[tokio::test]
#[ignore = "started by a_successor_ends_what_a_killed_parent_left"]
async fn helper_with_a_ledger() {
    if let Some(folder) = std::env::var_os(HELPER) {
        be_helper("sleep 300 & echo $$ $!; wait", Some(Ledger::open(Path::new(&folder)).unwrap())).await;
    }
}

#[tokio::test]
async fn the_death_of_the_parent_is_the_death_of_the_child() {
    let (mut helper, processes) = start_helper("helper_with_a_child", Path::new("/tmp")).await;
    assert!(processes[0].is_alive());
    helper.kill().await.unwrap();
    wait_until_dead(&processes).await;
}

#[tokio::test]
async fn a_successor_ends_what_a_killed_parent_left() {
    let folder = tempfile::tempdir().unwrap();
    let (mut helper, processes) = start_helper("helper_with_a_ledger", folder.path()).await;
    let [leader, orphan] = processes[..] else { panic!("{processes:?}") };
    helper.kill().await.unwrap();
    wait_until_dead(&[leader]).await;
    assert!(orphan.is_alive(), "the death signal reaches only the leader");
    let ledger = Ledger::open(folder.path()).unwrap();
    assert_eq!(ledger.sweep().unwrap(), [orphan]);
    assert!(!orphan.is_alive());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "started by a_successor_ends_what_left_its_session"]
async fn helper_with_a_deserter() {
    if let Some(folder) = std::env::var_os(HELPER) {
        // The deserter is nobody's child and has a session of its own; it still writes where the program wrote.
        let script = "setsid -f sh -c 'echo $$; exec sleep 300'; sleep 300";
        be_helper(script, Some(Ledger::open(Path::new(&folder)).unwrap())).await;
    }
}

#[tokio::test]
async fn a_successor_ends_what_left_its_session() {
    let folder = tempfile::tempdir().unwrap();
    let (mut helper, processes) = start_helper("helper_with_a_deserter", folder.path()).await;
    let [deserter] = processes[..] else { panic!("{processes:?}") };
    helper.kill().await.unwrap();
    assert!(deserter.is_alive());
    let ended = Ledger::open(folder.path()).unwrap().sweep().unwrap();
    assert!(ended.contains(&deserter), "{ended:?}");
    assert!(!deserter.is_alive());
}

#[tokio::test]
async fn a_sweep_touches_no_stranger() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path()).unwrap();
    let (mut guard, _) = start("echo; sleep 300").await;
    let ProcessIdentity { pid, start_time } = guard.identity();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let other_start = start_time.unwrap() + 1;
    for (index, record) in [
        format!("{pid} {other_start} {boot}"),
        format!("{pid} {} other-boot", start_time.unwrap()),
        format!("{pid}"),
        "0 1 x".to_owned(),
        format!("1 5 {boot}"),
        "\0\0\0".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        std::fs::write(folder.path().join(format!("{index}.process")), record).unwrap();
    }
    assert_eq!(ledger.sweep().unwrap(), []);
    assert!(guard.identity().is_alive());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    guard.end(Duration::ZERO).await;
}

#[tokio::test]
async fn the_record_lives_as_long_as_the_guard() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(folder.path()).unwrap();
    let guard = ProcessGuard::spawn(shell("sleep 300"), Some(&ledger)).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    drop(guard);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_program_outlives_the_thread_that_asked_for_it() {
    // The death signal is tied to the thread that forks; here the asking runtime and all its threads end.
    let ask = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(ProcessGuard::spawn(shell("sleep 300"), None)).unwrap()
    };
    let guard = std::thread::spawn(ask).join().unwrap();
    std::thread::park_timeout(Duration::from_millis(50));
    assert!(guard.identity().is_alive());
}
