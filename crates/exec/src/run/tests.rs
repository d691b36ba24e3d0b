//! Real programs that hold pipes, ignore signals and print too much.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::program::Output;
use crate::truncate::Limits;

/// Upper bound for what should be quick; the machine may be busy.
const SOON: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Program {
    Program::new("/bin/bash", "/").arguments(["-c", script]).environment([("PATH", "/usr/bin:/bin")])
}

async fn run_shell(script: &str) -> Finished {
    tokio::time::timeout(SOON, run(shell(script), RunSettings::default(), None)).await.unwrap().unwrap()
}

/// The processes whose numbers stand in `text`.
fn dead(text: &str) -> bool {
    text.split_whitespace().all(|pid| {
        let pid = pid.parse().unwrap();
        !ProcessIdentity { pid, start_time: crate::process_table::start_time(pid) }.is_alive()
    })
}

#[tokio::test]
async fn output_is_merged_in_order() {
    let finished = run_shell("echo a; echo b >&2; echo c; exit 4").await;
    assert_eq!((finished.ending, finished.exit), (Ending::Exited, Some(Exit::Code(4))));
    assert_eq!(finished.output.tail(), "a\nb\nc\n");
    assert!(finished.output.is_whole() && finished.errors.is_none() && finished.spill.is_none() && finished.background.is_none());
}

#[tokio::test]
async fn separate_output_and_input() {
    let program = shell("cat; echo e >&2").output(Output::Separate).stdin(Stdin::Bytes("in".into()));
    let finished = run(program, RunSettings::default(), None).await.unwrap();
    assert_eq!((finished.output.tail(), finished.errors.unwrap().tail()), ("in", "e\n"));
}

#[tokio::test]
async fn input_that_nobody_reads_is_no_error() {
    let program = shell("exit 0").stdin(Stdin::Bytes(vec![b'x'; 1 << 20].into()));
    let finished = tokio::time::timeout(SOON, run(program, RunSettings::default(), None)).await.unwrap().unwrap();
    assert_eq!(finished.exit, Some(Exit::Code(0)));
    // Big input to a program that prints as much: neither side waits for the other.
    let program = shell("cat").stdin(Stdin::Bytes(vec![b'x'; 1 << 20].into()));
    let finished = tokio::time::timeout(SOON, run(program, RunSettings::default(), None)).await.unwrap().unwrap();
    assert_eq!(finished.output.total_bytes(), 1 << 20);
}

#[tokio::test]
async fn a_time_limit_ends_background_children_too() {
    let settings = RunSettings { time_limit: Some(Duration::from_secs(1)), ..RunSettings::default() };
    let started = Instant::now();
    let finished = run(shell("sleep 300 & echo $!; sleep 300"), settings, None).await.unwrap();
    assert_eq!((finished.ending, finished.exit), (Ending::TimedOut, Some(Exit::Signal(15))));
    assert!(started.elapsed() >= Duration::from_secs(1) && started.elapsed() < SOON);
    assert_eq!(finished.survivors, []);
    assert!(dead(finished.output.tail()), "{}", finished.output.tail());
}

#[tokio::test]
async fn a_pipe_held_by_a_process_substitution_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    let finished = run_shell(&format!("exec > >(tee {}) ; echo hi", file.display())).await;
    assert_eq!((finished.ending, finished.exit), (Ending::Exited, Some(Exit::Code(0))));
    assert!(["hi\n", ""].contains(&finished.output.tail()));
    // And then abort, while the substitution is still there.
    let settings = RunSettings::default();
    let cancel = settings.cancel.clone();
    let script = format!("exec > >(tee {}) ; echo $$; sleep 300", file.display());
    let mut seen = |_: Update<'_>| cancel.cancel();
    let updates = Updates { every: Duration::from_millis(1), deliver: &mut seen };
    let finished = tokio::time::timeout(SOON, run(shell(&script), settings, Some(updates))).await.unwrap().unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
    assert!(finished.survivors.is_empty() && finished.background.is_none());
    assert!(dead(finished.output.tail()));
}

#[tokio::test]
async fn cancel_beats_a_program_that_ignores_sigterm() {
    let settings = RunSettings::default();
    let cancel = settings.cancel.clone();
    let mut seen = |_: Update<'_>| cancel.cancel();
    let updates = Updates { every: Duration::from_millis(1), deliver: &mut seen };
    let script = "trap 'echo asked' TERM; echo $$; while :; do sleep 0.01; done";
    let finished = tokio::time::timeout(SOON, run(shell(script), settings, Some(updates))).await.unwrap().unwrap();
    assert_eq!((finished.ending, finished.exit), (Ending::Cancelled, Some(Exit::Signal(9))));
    let (pid, rest) = finished.output.tail().split_once('\n').unwrap();
    assert!(dead(pid));
    assert!(rest.contains("asked\n"), "what it says while it ends is collected: {rest:?}");
}

#[tokio::test]
async fn a_daemonised_grandchild_that_holds_the_pipe_is_found() {
    let settings = RunSettings { time_limit: Some(Duration::from_millis(700)), ..RunSettings::default() };
    let script = "( setsid bash -c 'echo $$; exec sleep 300' & ); sleep 300";
    let finished = run(shell(script), settings, None).await.unwrap();
    assert_eq!((finished.ending, finished.survivors.len()), (Ending::TimedOut, 0));
    assert!(!finished.output.tail().is_empty() && dead(finished.output.tail()));
}

#[tokio::test]
async fn a_background_child_does_not_block_and_dies_with_its_handle() {
    let started = Instant::now();
    let finished = run_shell("sleep 300 & echo $!").await;
    assert!(started.elapsed() >= LINGER && started.elapsed() < SOON);
    assert_eq!((finished.ending, finished.exit), (Ending::Exited, Some(Exit::Code(0))));
    let background = finished.background.unwrap();
    assert!(!dead(finished.output.tail()));
    let cancel = CancellationToken::new();
    cancel.cancel();
    tokio::time::timeout(SOON, background.supervise(&cancel)).await.unwrap();
    assert!(dead(finished.output.tail()));
}

#[tokio::test]
async fn a_background_child_may_print_as_much_as_it_likes() {
    // More than a pipe holds: it would hang (or get SIGPIPE) if nobody read.
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let script = format!("{{ sleep 0.3; head -c 3000000 /dev/zero; echo ok > {}; }} & exit 0", done.display());
    let finished = run_shell(&script).await;
    let background = finished.background.unwrap();
    tokio::time::timeout(SOON, background.supervise(&CancellationToken::new())).await.unwrap();
    assert_eq!(std::fs::read_to_string(done).unwrap(), "ok\n");
}

#[tokio::test]
async fn fifty_megabytes_in_little_memory_and_all_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let spill = SpillSettings { folder: folder.path().into(), prefix: "bash".into(), beyond_lines: 2000, beyond_bytes: 51_200 };
    let settings = RunSettings { spill: Some(spill), ..RunSettings::default() };
    let finished = run(shell("seq -w 1 6300000; echo the end"), settings, None).await.unwrap();
    assert_eq!(finished.output.total_lines(), 6_300_001);
    assert_eq!(finished.output.total_bytes(), 6_300_000 * 8 + 8);
    assert!(finished.output.tail().ends_with("6300000\nthe end\n") && finished.output.tail().len() <= 200 * 1024);
    assert!(finished.output.head().starts_with("0000001\n0000002\n"));
    let shown = finished.output.truncate_tail(Limits::default());
    assert_eq!((shown.truncation.output_lines, shown.truncation.total_lines), (2000, 6_300_001));
    let report = finished.spill.unwrap();
    assert_eq!(report.incomplete, None);
    let file = std::fs::read(report.path.unwrap()).unwrap();
    assert_eq!(file.len() as u64, finished.output.total_bytes());
    assert!(file.starts_with(b"0000001\n") && file.ends_with(b"the end\n"));
}

#[tokio::test]
async fn invalid_utf8_is_replaced_in_text_and_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let spill = SpillSettings { folder: folder.path().into(), prefix: "x".into(), beyond_lines: 0, beyond_bytes: 0 };
    let settings = RunSettings { spill: Some(spill), ..RunSettings::default() };
    let script = r"printf '\xe2\x82'; sleep 0.05; printf '\xac\xff\xf0\x9f'";
    let finished = run(shell(script), settings, None).await.unwrap();
    assert_eq!(finished.output.tail(), "€\u{fffd}\u{fffd}");
    assert_eq!(finished.output.raw_bytes(), 6);
    assert_eq!(std::fs::read(finished.spill.unwrap().path.unwrap()).unwrap(), b"\xe2\x82\xac\xff\xf0\x9f");
}

#[tokio::test]
async fn updates_are_spaced_and_join_to_the_text() {
    let (mut text, mut times, mut whole) = (String::new(), Vec::new(), 0);
    let mut seen = |update: Update<'_>| {
        assert_eq!(update.skipped, 0);
        text.push_str(update.appended);
        times.push(Instant::now());
        whole = update.so_far.total_bytes();
    };
    let every = Duration::from_millis(50);
    let updates = Updates { every, deliver: &mut seen };
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.02; done; sleep 0.3";
    run(shell(script), RunSettings::default(), Some(updates)).await.unwrap();
    assert_eq!(text, "1\n2\n3\n4\n5\n6\n7\n8\n", "the last text is told although no other follows");
    assert_eq!(whole, 16);
    assert!(times.len() < 8 && times.windows(2).all(|pair| pair[1] - pair[0] >= every), "{times:?}");
}

#[tokio::test]
async fn what_was_not_told_yet_is_told_at_the_end() {
    for (script, ending) in
        [("echo one; sleep 0.1; echo two", Ending::Exited), ("echo one; sleep 0.1; echo two; sleep 300", Ending::TimedOut)]
    {
        let (mut text, mut count) = (String::new(), 0);
        let mut seen = |update: Update<'_>| {
            text.push_str(update.appended);
            count += 1;
        };
        let updates = Updates { every: Duration::from_secs(3600), deliver: &mut seen };
        let settings = RunSettings { time_limit: Some(Duration::from_secs(1)), ..RunSettings::default() };
        let finished = run(shell(script), settings, Some(updates)).await.unwrap();
        assert_eq!((finished.ending, text.as_str(), count), (ending, "one\ntwo\n", 2), "{script}");
    }
}

#[tokio::test]
async fn dropping_the_future_kills_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!("sleep 300 & echo $$ $! > {0}.new; mv {0}.new {0}; echo; wait", file.display());
    let updates_seen = AtomicUsize::new(0);
    let mut seen = |_: Update<'_>| {
        updates_seen.fetch_add(1, Ordering::Relaxed);
    };
    let updates = Updates { every: Duration::ZERO, deliver: &mut seen };
    {
        let mut running = Box::pin(run(shell(&script), RunSettings::default(), Some(updates)));
        let started = std::future::poll_fn(|context| {
            let _pending = running.as_mut().poll(context);
            if updates_seen.load(Ordering::Relaxed) > 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        });
        tokio::time::timeout(SOON, started).await.unwrap();
    }
    let pids = std::fs::read_to_string(file).unwrap();
    let deadline = Instant::now() + SOON;
    while !dead(&pids) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_cancelled_run_that_never_stops_printing_ends() {
    let settings = RunSettings { time_limit: Some(Duration::from_millis(300)), ..RunSettings::default() };
    let finished = tokio::time::timeout(SOON, run(shell("yes & yes"), settings, None)).await.unwrap().unwrap();
    assert_eq!((finished.ending, finished.survivors.len()), (Ending::TimedOut, 0));
    assert!(finished.output.total_bytes() > 100_000);
}
