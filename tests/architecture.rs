//! Rules that the compiler does not know: which crate may use which, how long a file may be, and what must not stand in the tree.
//!
//! Each rule is a plain function over text, with cases of its own below, so that a rule which finds nothing is known to look.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The whole graph: each crate, and which of ours it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("wolli-protocol", &[]),
    ("wolli-home", &["wolli-protocol"]),
    ("wolli-models", &["wolli-protocol"]),
    ("wolli-exec", &[]),
    ("wolli-drivers", &["wolli-protocol", "wolli-exec"]),
    ("wolli-runtime", &["wolli-protocol", "wolli-home", "wolli-models", "wolli-exec", "wolli-drivers"]),
    ("wolli-daemon", &["wolli-protocol", "wolli-home", "wolli-exec", "wolli-runtime"]),
    ("wolli-client", &["wolli-protocol", "wolli-home"]),
    ("wolli-cli", &["wolli-protocol", "wolli-home", "wolli-client", "wolli-daemon"]),
    ("wolli-testkit", &["wolli-protocol", "wolli-client"]),
];

/// Packages that nothing is built from: they measure and test the others, and may use all of them.
const OUTSIDE: &[&str] = &["wolli-tests", "wolli-bench"];

/// Only tests may use it.
const TESTKIT: &str = "wolli-testkit";

/// The files through which the command line calls the daemon.
const CALLS_DAEMON: &[&str] =
    &["crates/cli/src/commands/daemon.rs", "crates/cli/src/commands/doctor.rs", "crates/cli/src/commands/service.rs"];

/// Longest Rust file, in lines; tests aside.
const LINES_MAX: usize = 1_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file of the tree with its path from the root, links and build output aside.
fn files() -> Vec<(String, PathBuf)> {
    const PASSED_OVER: &[&str] = &[".git", ".demo", "target", "node_modules", "corpus"];
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            let name = entry.file_name().into_string().unwrap();
            if kind.is_dir() && !PASSED_OVER.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && !PASSED_OVER.contains(&name.as_str()) {
                let path = entry.path();
                found.push((path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), path));
            }
        }
    }
    found.sort();
    assert!(found.len() > 100, "only {} files were found below {}", found.len(), root.display());
    found
}

/// Texts of the files that `wanted` picks, as far as they are text.
fn texts(wanted: fn(&str) -> bool) -> Vec<(String, String)> {
    let picked = files().into_iter().filter(|(name, _)| wanted(name));
    picked.filter_map(|(name, path)| Some((name, String::from_utf8(fs::read(path).unwrap()).ok()?))).collect()
}

fn rust(name: &str) -> bool {
    name.ends_with(".rs")
}

fn is_test(name: &str) -> bool {
    name.starts_with("tests/") || name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Fails with all that a rule found.
fn none(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Edges of the graph that are not in the table.
fn forbidden_edges(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let ours: Vec<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut found = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        if OUTSIDE.contains(&name) {
            continue;
        }
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            found.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let (used, kind) = (dependency["name"].as_str().unwrap(), dependency["kind"].as_str());
            let allowed = may_use.contains(&used) || (kind == Some("dev") && used == TESTKIT);
            if ours.contains(&used) && !allowed {
                found.push(format!("{name} -> {used} ({})", kind.unwrap_or("normal")));
            }
        }
    }
    found
}

fn long_file(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > LINES_MAX && !is_test(name)).then(|| format!("{name} has {lines} lines"))
}

/// The tests of a module stand in for a part of its file, and need no words of their own.
fn without_comment(name: &str, text: &str) -> Option<String> {
    (!name.ends_with("/tests.rs") && !text.trim_start().starts_with("//!")).then(|| name.to_owned())
}

/// Lines with an attribute that says `word(` or `word` alone, also inside `cfg_attr`.
fn attributes<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let has_word = move |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].trim_start().chars().next();
            before.is_some_and(|c| matches!(c, '[' | ',' | ' ' | '(')) && after.is_some_and(|c| matches!(c, '(' | ']' | '=' | ')'))
        })
    };
    text.lines().enumerate().filter(move |(_, line)| {
        let line = line.trim_start();
        (line.starts_with("#[") || line.starts_with("#![")) && has_word(line)
    })
}

/// `allow` hides what comes later too; `expect` complains when it is needed no more.
fn allowed_lints(name: &str, text: &str) -> Vec<String> {
    attributes(text, "allow").map(|(n, line)| format!("{name}:{}: {}", n + 1, line.trim())).collect()
}

/// A test may be a program that another test of its file starts: then its name stands there as a text too.
fn ignored_tests(name: &str, text: &str) -> Vec<String> {
    if name.starts_with("tests/soak/") {
        return Vec::new();
    }
    let is_started = |line: usize| {
        let function = text.lines().skip(line).find_map(|line| line.split_once("fn ")?.1.split('(').next());
        function.is_some_and(|function| text.contains(&format!("{function}\"")))
    };
    let ignored = attributes(text, "ignore").filter(|(line, _)| !is_started(*line));
    ignored.map(|(n, line)| format!("{name}:{}: {}", n + 1, line.trim())).collect()
}

/// Paths that mean something on one machine only.
fn foreign_paths(name: &str, text: &str) -> Vec<String> {
    const PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("../sha", "red")];
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| PATHS.iter().any(|path| line.contains(path))).map(|(n, _)| format!("{name}:{}", n + 1)).collect()
}

fn daemon_calls(name: &str, text: &str) -> Option<String> {
    let called = name.starts_with("crates/cli/src/") && !CALLS_DAEMON.contains(&name) && text.contains(concat!("wolli_", "daemon::"));
    called.then(|| name.to_owned())
}

#[test]
fn crates_use_only_what_the_table_names() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    none("edges that are not in the table", forbidden_edges(&serde_json::from_slice(&output.stdout).unwrap()));
}

#[test]
fn files_can_be_read_in_one_sitting() {
    none("files that are too long", texts(rust).iter().filter_map(|(name, text)| long_file(name, text)).collect());
}

#[test]
fn every_module_says_what_it_is() {
    none("modules without a comment of their own", texts(rust).iter().filter_map(|(name, text)| without_comment(name, text)).collect());
}

#[test]
fn no_lint_is_allowed_away() {
    none("`allow` where `expect` with a reason belongs", texts(rust).iter().flat_map(|(name, text)| allowed_lints(name, text)).collect());
}

#[test]
fn no_test_is_ignored_but_in_soak() {
    none("tests that never run", texts(rust).iter().flat_map(|(name, text)| ignored_tests(name, text)).collect());
}

#[test]
fn no_path_of_one_machine_is_in_the_tree() {
    none("paths of one machine", texts(|_| true).iter().flat_map(|(name, text)| foreign_paths(name, text)).collect());
}

#[test]
fn the_command_line_calls_the_daemon_in_one_place() {
    none("files that call the daemon", texts(rust).iter().filter_map(|(name, text)| daemon_calls(name, text)).collect());
}

#[test]
fn the_rules_find_what_they_look_for() {
    let metadata = serde_json::json!({"packages": [
        {"name": "wolli-protocol", "dependencies": [{"name": "serde", "kind": null}, {"name": "wolli-testkit", "kind": "dev"}]},
        {"name": "wolli-client", "dependencies": [{"name": "wolli-runtime", "kind": null}, {"name": "wolli-protocol", "kind": null}]},
        {"name": "wolli-testkit", "dependencies": [{"name": "wolli-client", "kind": null}]},
        {"name": "wolli-runtime", "dependencies": [{"name": "wolli-testkit", "kind": null}, {"name": "wolli-daemon", "kind": "dev"}]},
        {"name": "wolli-daemon", "dependencies": []},
        {"name": "wolli-tests", "dependencies": [{"name": "wolli-daemon", "kind": "dev"}]},
        {"name": "wolli-new", "dependencies": []},
    ]});
    assert_eq!(
        forbidden_edges(&metadata),
        [
            "wolli-client -> wolli-runtime (normal)",
            "wolli-runtime -> wolli-testkit (normal)",
            "wolli-runtime -> wolli-daemon (dev)",
            "wolli-new is not in the table",
        ]
    );

    let long = "x\n".repeat(LINES_MAX + 1);
    assert!(long_file("crates/a/src/b.rs", &long).is_some());
    assert!(long_file("crates/a/src/b.rs", &long[2..]).is_none());
    assert!(long_file("crates/a/src/b/tests.rs", &long).is_none());
    assert!(long_file("crates/a/src/tests/b.rs", &long).is_none());

    assert!(without_comment("a.rs", "\n//! Says it.\n").is_none());
    assert!(without_comment("a.rs", "// Says nothing.\nfn a() {}").is_some());
    assert!(without_comment("crates/a/src/b/tests.rs", "use super::*;").is_none());

    for text in ["#[allow(dead_code)]", "  #![allow(clippy::all)]", "#[cfg_attr(test, allow(x))]", "#[allow (x)]"] {
        assert_eq!(allowed_lints("a.rs", text).len(), 1, "{text}");
    }
    for text in ["#[expect(x, reason = \"we allow (it)\")]".replace("allow (", "permit ("), "// #[allow(x)]".into(), "allow(x)".into()] {
        assert_eq!(allowed_lints("a.rs", &text), Vec::<String>::new(), "{text}");
    }

    for text in ["#[ignore]", "#[ignore = \"slow\"]", "#[cfg_attr(x, ignore)]"] {
        assert_eq!(ignored_tests("crates/a/src/b.rs", text).len(), 1, "{text}");
        assert_eq!(ignored_tests("tests/soak/b.rs", text).len(), 0, "{text}");
    }
    let half = "#[ignore]\nasync fn half() {}\nfn whole() { start(\"a::tests::half\") }";
    assert_eq!(ignored_tests("a.rs", half), Vec::<String>::new());
    assert_eq!(ignored_tests("a.rs", &half.replace("tests::half", "tests::other")).len(), 1);
    assert_eq!(ignored_tests("a.rs", "#[serde(skip)] // ignored\n#[derive(Ignore)]"), Vec::<String>::new());

    assert_eq!(foreign_paths("a.md", concat!("x\nsee /wo", "rk/main\nhome/work\nlib/../sha", "red")), ["a.md:2", "a.md:4"]);
    assert_eq!(foreign_paths("a.md", "network/ workspace/ /workers"), Vec::<String>::new());

    let call = concat!("use wolli_", "daemon::run;");
    assert!(daemon_calls("crates/cli/src/main.rs", call).is_some());
    assert!(daemon_calls("crates/cli/src/commands/daemon.rs", call).is_none());
    assert!(daemon_calls("crates/runtime/src/x.rs", call).is_none());
}
