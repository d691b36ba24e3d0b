//! Every seed of the fuzz targets and changes of them, without an engine; `WOLLI_SOAK=1` makes very many.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use wolli_tests::fuzz::{Random, TARGETS, Target, mutate};

/// Changed seeds of the cheapest target on every day, and when there is an hour.
const RUNS: (usize, usize) = (8_000, 4_000_000);

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Runs a case; one that fails is kept, for a seed of its own.
fn run(target: &Target, bytes: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let kept = std::env::temp_dir().join(format!("wolli-fuzz-{}-{}", target.name, std::process::id()));
        std::fs::write(&kept, bytes).unwrap();
        panic!("{} fails with {what}; the bytes are in {}: {}", target.name, kept.display(), bytes.escape_ascii());
    }
}

fn target(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = seeds(name);
    for (path, bytes) in &seeds {
        run(target, bytes, &path.display().to_string());
    }
    let soak = std::env::var_os("WOLLI_SOAK").is_some_and(|value| value == "1");
    let chosen = std::env::var("WOLLI_SEED").ok().and_then(|text| text.parse().ok());
    let seed = chosen.unwrap_or(20_261_130);
    let bytes: Vec<Vec<u8>> = seeds.into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = Random::new(seed);
    for number in 0..if soak { RUNS.1 } else { RUNS.0 } / target.cost {
        run(target, &mutate(&bytes, &mut random), &format!("change {number} of WOLLI_SEED={seed}"));
    }
}

#[test]
fn sse() {
    target("sse");
}

#[test]
fn frames() {
    target("frames");
}

#[test]
fn partial_json() {
    target("partial_json");
}

#[test]
fn command() {
    target("command");
}

#[test]
fn session_file() {
    target("session_file");
}

#[test]
fn every_target_has_a_test_seeds_and_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let this = std::fs::read_to_string(root.join("tests/fuzz/main.rs")).unwrap();
    for target in TARGETS {
        assert!(this.contains(&format!("    target(\"{}\");", target.name)), "{}", target.name);
        assert!(!seeds(target.name).is_empty(), "{}", target.name);
        let program = std::fs::read_to_string(root.join(format!("fuzz/fuzz_targets/{}.rs", target.name))).unwrap();
        assert!(program.contains(&format!("wolli_tests::fuzz::{}::run", target.name)), "{}", target.name);
    }
    let programs = std::fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap().count();
    assert_eq!(programs, TARGETS.len());
}
