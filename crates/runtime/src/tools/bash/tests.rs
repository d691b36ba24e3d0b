//! Every outcome with its text, updates, limits, environment, and what is left behind.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;
use wolli_exec::Background;

use super::*;
use crate::tools::testing::{Home, call, names, text};
use crate::tools::{BackgroundCommands, ToolUpdates};

/// Whether the processes whose numbers stand in `text` are gone.
fn dead(text: &str) -> bool {
    text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()).all(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('Z') || stat.is_empty()
    })
}

#[tokio::test]
async fn outcomes() {
    let home = Home::new();
    for (command, expected) in [
        ("echo out; echo err >&2", "out\nerr\n"),
        ("true", "(no output)"),
        ("pwd", &*format!("{}\n", home.path("").display())),
        ("printf '\\033[1mx\\033[0m\\r'", "\u{1b}[1mx\u{1b}[0m\r"),
        ("cat", "(no output)"),
    ] {
        let output = home.call("bash", json!({"command": command})).await;
        assert_eq!(output, ToolOutput::text(expected), "{command}");
    }
    for (command, expected) in [
        ("echo x; exit 3", "x\n\n\nCommand exited with code 3"),
        ("exit 3", "(no output)\n\nCommand exited with code 3"),
        ("echo x; kill -9 $$", "x\n\n\nCommand was killed by signal 9 (SIGKILL)"),
        ("kill -TERM $$", "(no output)\n\nCommand was killed by signal 15 (SIGTERM)"),
    ] {
        assert_eq!(home.bad("bash", json!({"command": command})).await, expected, "{command}");
    }
    assert!(home.bad("bash", json!({"command": "no-such-command"})).await.ends_with("\n\nCommand exited with code 127"));
}

#[tokio::test]
async fn targets() {
    let home = Home::new();
    assert_eq!(home.good("bash", json!({"command": "echo x", "target": "host"})).await, "x\n");
    let unknown = home.bad("bash", json!({"command": "echo x", "target": "sandbox"})).await;
    assert_eq!(unknown, "Unknown target \"sandbox\". Available: host");
}

#[tokio::test]
async fn a_time_limit_ends_everything() {
    let home = Home::new();
    let text = home.bad("bash", json!({"command": "sleep 300 & echo $!; sleep 300", "timeout": 1})).await;
    let (pid, status) = text.split_once('\n').unwrap();
    assert_eq!(status, "\n\nCommand timed out after 1 seconds");
    assert!(!pid.is_empty() && dead(pid));
    assert_eq!(home.bad("bash", json!({"command": "sleep 300", "timeout": "0.25"})).await, "Command timed out after 0.25 seconds");
    let mut context = home.context();
    context.bash_time_limit = Duration::from_millis(200);
    for timeout in [json!(null), json!(0), json!(-5)] {
        let output = call(&context, "bash", json!({"command": "sleep 300", "timeout": timeout})).await;
        assert_eq!(output, ToolOutput::error("Command timed out after 0.2 seconds"), "{timeout}");
    }
}

#[test]
fn time_limits() {
    let default = Duration::from_secs(600);
    for (asked, limit, seconds) in [
        (None, Some(600.0), "600"),
        (Some(0.0), Some(600.0), "600"),
        (Some(-1.0), Some(600.0), "600"),
        (Some(f64::NAN), Some(600.0), "600"),
        (Some(2.5), Some(2.5), "2.5"),
        (Some(1e300), None, "1e+300"),
    ] {
        assert_eq!(time_limit(asked, default), (limit.map(Duration::from_secs_f64), seconds.to_owned()), "{asked:?}");
    }
}

#[tokio::test]
async fn abort_at_any_point() {
    let home = Home::new();
    let mut context = home.context();
    let cancel = context.cancel.clone();
    context.updates = ToolUpdates::new(move |update| {
        if !update.appended.is_empty() {
            cancel.cancel();
        }
    });
    let output = call(&context, "bash", json!({"command": "trap '' TERM; sleep 300 & echo $$ $!; wait"})).await;
    let (pids, status) = text(&output).split_once('\n').unwrap();
    assert_eq!((status, output.is_error), ("\n\nCommand aborted", true));
    assert!(dead(pids));

    let context = home.context();
    let cancel = context.cancel.clone();
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call(&context, "bash", json!({"command": "sleep 300"})), stop);
    assert_eq!(output, ToolOutput::error("Command aborted"));
}

#[tokio::test]
async fn the_environment_is_the_given_one() {
    let home = Home::new();
    let text = home.good("bash", json!({"command": "env | sort"})).await;
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    // The last three are the shell's own.
    assert_eq!(names, ["HOME", "PATH", "PWD", "SHLVL", "_"]);
}

#[tokio::test]
async fn long_output_shows_its_end_and_is_kept_privately() {
    let home = Home::new();
    let exact = home.call("bash", json!({"command": "seq 2000"})).await;
    assert_eq!((text(&exact).lines().count(), &exact.details), (2000, &None));
    assert!(!home.path("tmp").exists());

    let output = home.call("bash", json!({"command": "seq 2001"})).await;
    let file = output.details.as_ref().unwrap()["fullOutputPath"].as_str().unwrap().to_owned();
    let numbers: Vec<String> = (2..=2001).map(|number| number.to_string()).collect();
    let expected = format!("{}\n\n[Showing lines 2-2001 of 2001. Full output: {file}]", numbers.join("\n"));
    assert_eq!(text(&output), expected);
    let whole: String = (1..=2001).map(|number| format!("{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(Path::new(&file).parent(), Some(home.path("tmp").as_path()));
    let record = json!({
        "truncated": true, "truncatedBy": "lines", "totalLines": 2001, "totalBytes": whole.len(), "outputLines": 2000,
        "outputBytes": whole.len() - 3, "lastLinePartial": false, "firstLineExceedsLimit": false, "maxLines": 2000, "maxBytes": 51200
    });
    assert_eq!(output.details.unwrap()["truncation"], record);
}

#[tokio::test]
async fn long_lines_and_errors() {
    let home = Home::new();
    let output = home.call("bash", json!({"command": "echo first; head -c 300000 /dev/zero | tr '\\0' x"})).await;
    let (shown, notice) = text(&output).split_once("\n\n[").unwrap();
    assert_eq!(shown.len(), 51_200);
    assert!(notice.starts_with("Showing last 50.0KB of line 2 (line is 293.0KB). Full output: "), "{notice}");
    assert_eq!(output.details.unwrap()["truncation"]["lastLinePartial"], true);

    let bad = home.bad("bash", json!({"command": "yes 0123456789 | head -n 6000 ; exit 1"})).await;
    let end = bad.split_once("\n\n[").unwrap().1;
    assert!(end.starts_with("Showing lines 4001-6000 of 6000. Full output: HOME/tmp/bash-"), "{end}");
    assert!(end.ends_with(".log]\n\nCommand exited with code 1"), "{end}");

    let wide = home.good("bash", json!({"command": "for i in $(seq 600); do printf '%099d\\n' $i; done"})).await;
    assert!(wide.contains("\n\n[Showing lines 89-600 of 600 (50.0KB limit). Full output: "), "{}", &wide[wide.len() - 200..]);
    assert_eq!(names(&home.path("tmp")).len(), 3);
}

#[tokio::test]
async fn old_outputs_are_cleaned_up() {
    let home = Home::new();
    home.write("tmp/bash-0123456789abcdef.log", "old");
    home.write("tmp/mine.txt", "old");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(8 * 24 * 60 * 60);
    for name in ["tmp/bash-0123456789abcdef.log", "tmp/mine.txt"] {
        std::fs::File::options().write(true).open(home.path(name)).unwrap().set_modified(long_ago).unwrap();
    }
    home.good("bash", json!({"command": "seq 3000"})).await;
    let left = names(&home.path("tmp"));
    assert_eq!((left.len(), left.contains(&"mine.txt".to_owned())), (2, true), "{left:?}");
    assert!(!home.path("tmp/bash-0123456789abcdef.log").exists());
}

#[tokio::test]
async fn a_spill_that_fails_does_not_fail_the_command() {
    let home = Home::new();
    home.write("tmp", "a file where the folder should be");
    let output = home.call("bash", json!({"command": "seq 3000"})).await;
    assert!(!output.is_error);
    assert!(text(&output).contains("\n\n[Showing lines 1001-3000 of 3000. Full output not kept: "), "{}", text(&output));
    assert!(output.details.unwrap().get("fullOutputPath").is_none());
}

#[tokio::test]
async fn updates() {
    let home = Home::new();
    let mut context = home.context();
    let seen: Arc<Mutex<Vec<ToolUpdate>>> = Arc::default();
    let sink = Arc::clone(&seen);
    context.updates = ToolUpdates::new(move |update| sink.lock().unwrap().push(update));
    call(&context, "bash", json!({"command": "echo one; sleep 0.4; echo two; sleep 0.4"})).await;
    let seen = seen.lock().unwrap();
    let result = |text: &str| ToolResult { content: vec![UserBlock::text(text)], details: Some(json!({})), terminate: None };
    assert_eq!(
        *seen,
        [
            ToolUpdate { partial: ToolResult::default(), appended: String::new(), skipped: 0 },
            ToolUpdate { partial: result("one\n"), appended: "one\n".into(), skipped: 0 },
            ToolUpdate { partial: result("one\ntwo\n"), appended: "two\n".into(), skipped: 0 },
        ]
    );
}

#[tokio::test]
async fn updates_of_long_output_name_the_file() {
    let home = Home::new();
    let mut context = home.context();
    let last: Arc<Mutex<Option<ToolUpdate>>> = Arc::default();
    let sink = Arc::clone(&last);
    context.updates = ToolUpdates::new(move |update| *sink.lock().unwrap() = Some(update));
    call(&context, "bash", json!({"command": "seq 300000; sleep 0.5"})).await;
    let update = last.lock().unwrap().take().unwrap();
    let details = update.partial.details.unwrap();
    assert_eq!(details["truncation"]["truncatedBy"], "lines");
    assert!(details["fullOutputPath"].as_str().unwrap().starts_with(home.path("tmp").to_str().unwrap()));
}

#[tokio::test]
async fn background_commands_are_handed_over_or_end() {
    let home = Home::new();
    let mut context = home.context();
    let kept: Arc<Mutex<Vec<Background>>> = Arc::default();
    let sink = Arc::clone(&kept);
    context.background = BackgroundCommands::new(move |background| sink.lock().unwrap().push(background));
    let output = call(&context, "bash", json!({"command": "sleep 300 & echo $!"})).await;
    assert!(!output.is_error && !dead(text(&output)));
    let background = kept.lock().unwrap().pop().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    background.supervise(&cancel).await;
    assert!(dead(text(&output)));

    let output = home.call("bash", json!({"command": "sleep 300 & echo $!"})).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !dead(text(&output)) {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn names_that_are_no_text_do_no_harm() {
    let home = Home::new();
    let mut context = home.context();
    context.home = home.path("").join(std::ffi::OsStr::from_bytes(b"\xff"));
    context.spill_dir = context.home.join("tmp");
    std::fs::create_dir(&context.home).unwrap();
    let output = call(&context, "bash", json!({"command": "seq 3000"})).await;
    let file = output.details.as_ref().unwrap()["fullOutputPath"].as_str().unwrap();
    assert!(!output.is_error && file.contains('\u{fffd}'), "{file}");
    for (name, arguments) in [
        ("ls", json!({})),
        ("find", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "1"})),
        ("write", json!({"path": "f", "content": "x"})),
    ] {
        assert!(!call(&context, name, arguments).await.is_error, "{name}");
    }
}

#[tokio::test]
async fn a_missing_home_is_told() {
    let home = Home::new();
    let mut context = home.context();
    context.home = home.path("gone");
    let output = call(&context, "bash", json!({"command": "true"})).await;
    let expected = format!("Working directory does not exist: {}\nCannot execute bash commands.", home.path("gone").display());
    assert_eq!(output, ToolOutput::error(expected));
}

#[test]
fn shells() {
    let home = Home::new();
    assert_eq!(shell(None), Path::new("/bin/bash"));
    assert_eq!(shell(home.path("").to_str()), Path::new("/bin/bash"));
}
