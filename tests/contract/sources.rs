//! Which tests the workspace has, read from its sources.
//!
//! A test is named by its package, its module and its function, as in `daemon access::refusals_have_the_known_bytes`. Nothing is
//! compiled for it: a line with a test attribute, and the function that follows, are enough.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every test of the workspace, with the file that has it, relative to the root.
pub(crate) fn tests() -> BTreeMap<String, String> {
    let root = root();
    let mut found = BTreeMap::new();
    let mut folders = vec![root.join("crates"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                let prefix = name_of_file(&file);
                let functions = functions(&std::fs::read_to_string(&path).unwrap());
                found.extend(functions.into_iter().map(|function| (format!("{prefix}{function}"), file.clone())));
            }
        }
    }
    found
}

/// What stands before a test's function: `crates/daemon/tests/daemon/access.rs` gives `daemon access::`.
fn name_of_file(file: &str) -> String {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let mut parts: Vec<&str> = file.split('/').collect();
    let package = match parts.remove(0) {
        "crates" => parts.remove(0),
        // The packages of tests are named by their program.
        _ if parts.len() > 1 => parts.remove(0),
        _ => "tests",
    };
    parts.retain(|part| !matches!(*part, "src" | "tests" | "mod" | "main" | "lib" | "suite") && *part != package);
    let modules: String = parts.iter().map(|part| format!("{part}::")).collect();
    format!("{package} {modules}")
}

/// Functions with a test attribute.
fn functions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if is_test && let Some((_, rest)) = line.split_once("fn ") {
            found.extend(rest.split(['(', '<']).next().map(str::to_owned));
            is_test = false;
        }
    }
    found
}

#[test]
fn tests_are_found_where_they_are() {
    for (file, prefix) in [
        ("crates/daemon/tests/daemon/access.rs", "daemon access::"),
        ("crates/daemon/src/http/access.rs", "daemon http::access::"),
        ("crates/protocol/src/sse/tests.rs", "protocol sse::"),
        ("crates/protocol/tests/golden.rs", "protocol golden::"),
        ("crates/client/tests/suite/streams.rs", "client streams::"),
        ("crates/cli/tests/cli/print.rs", "cli print::"),
        ("tests/e2e/kill.rs", "e2e kill::"),
        ("tests/contract/frames.rs", "contract frames::"),
        ("tests/architecture.rs", "tests architecture::"),
    ] {
        assert_eq!(name_of_file(file), prefix);
    }
    let text = "fn a() {}\n  #[tokio::test(start_paused = true)]\n  #[ignore]\n  async fn b() {}\n#[test]\nfn c<T>() {}\nfn d() {}\n";
    assert_eq!(functions(text), ["b", "c"]);
    assert!(tests().contains_key("contract sources::tests_are_found_where_they_are"));
}
