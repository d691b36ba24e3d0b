//! A temporary home and the real binary in it, with nothing of the machine's own environment.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in the functions that it calls too")]

pub(crate) mod daemon;
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than any command here takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder that is home, root and shared folder of everything that is run in it.
pub(crate) struct Home {
    folder: TempDir,
}

/// What a program left behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path().join("w")
    }

    pub(crate) fn agent(&self, name: &str) -> PathBuf {
        self.root().join("agents").join(name)
    }

    /// The binary with a cleared environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wolli"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.path())
            .env("PATH", "/usr/bin:/bin")
            .env("WOLLI_HOME", self.root())
            .env("WOLLI_SHARED_DIR", self.path().join("s"))
            .env("WOLLI_SERVICE_MANAGER", "none")
            .env("XDG_RUNTIME_DIR", self.path())
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Marks an agent as deployed, as its daemon does after a yes.
    pub(crate) fn deployed(&self, name: &str) {
        let file = self.agent(name).join("agent.json");
        let mut config: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        config["deployedAt"] = "2026-03-01T09:00:00.000Z".into();
        std::fs::write(file, config.to_string()).unwrap();
    }

    /// Runs to the end without input.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        finish(self.command(arguments), "")
    }

    /// Runs to the end with this on stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Outcome {
        finish(self.command(arguments), input)
    }

    /// Runs something that must succeed; gives its stdout.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!(outcome.status, Some(0), "{arguments:?}: {outcome:?}");
        outcome.stdout
    }
}

/// Runs a program to its end and fails loudly when that does not come.
pub(crate) fn finish(mut command: Command, input: &str) -> Outcome {
    use std::io::{Read, Write};
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input is none of this function's business.
        drop(stdin.write_all(input.as_bytes()));
    }
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.unwrap().read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let started = Instant::now();
    while !(stdout.is_finished() && stderr.is_finished()) {
        if started.elapsed() > LIMIT {
            drop(child.kill());
            panic!("{command:?} did not end");
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let status = child.wait().unwrap().code();
    Outcome { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// What a command leaves that printed this line and nothing else.
pub(crate) fn said(text: &str) -> Outcome {
    Outcome { status: Some(0), stdout: format!("{text}\n"), stderr: String::new() }
}
