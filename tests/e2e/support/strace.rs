//! A program that is killed at the n-th system call of a kind, right before the call happens.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use wolli_testkit::process::eventually;

/// How long `strace` may take to let go.
const PATIENCE: Duration = Duration::from_secs(2);

/// `strace`, attached to a running program. Dropping it lets the program go on.
pub(crate) struct Killer {
    strace: Child,
    log: PathBuf,
}

/// Says why nothing can be checked here; on the build server that is a failure.
pub(crate) fn missing(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "{why}");
    eprintln!("not checked: {why}");
}

impl Killer {
    /// Kills the program `pid` at the `number`-th call of the kind `calls`, counted for each of its threads; only calls on `paths`, if any
    /// are named. `Err` says why `strace` cannot do that here.
    pub(crate) async fn attach(pid: u32, calls: &str, number: usize, paths: &[&Path], folder: &Path) -> Result<Self, String> {
        let (log, said) = (folder.join("strace.log"), folder.join("strace.err"));
        let errors = File::create(&said).map_err(|error| error.to_string())?;
        let mut command = Command::new("strace");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        command.args(["-f", "-p", &pid.to_string(), "-e", &format!("trace={calls}"), "-o"]).arg(&log);
        command.args(["-e", &format!("inject={calls}:signal=SIGKILL:when={number}")]);
        for path in paths {
            command.arg("-P").arg(path);
        }
        let mut strace = command.spawn().map_err(|error| format!("strace cannot be started ({error}); scripts/setup.sh installs it"))?;
        let attached = eventually("strace", Duration::from_secs(20), || {
            if strace.try_wait().ok()?.is_some() {
                return Some(false);
            }
            std::fs::read_to_string(&said).ok()?.contains("attached").then_some(true)
        })
        .await;
        match attached {
            Ok(true) => Ok(Self { strace, log }),
            _ => Err(format!("strace cannot attach: {}", std::fs::read_to_string(&said).unwrap_or_default())),
        }
    }

    /// The call at which the program was killed; `None` if it still runs, and then it is let go.
    pub(crate) async fn end(mut self) -> Option<String> {
        if let Some(pid) = i32::try_from(self.strace.id()).ok().and_then(Pid::from_raw)
            && matches!(self.strace.try_wait(), Ok(None))
        {
            // It lets go of the program before it ends.
            let _ = kill_process(pid, Signal::TERM);
        }
        // One that misses the end of a thread waits for ever; what it is to tell stands in its log by then.
        let _ = eventually("the end of strace", PATIENCE, || self.strace.try_wait().ok()?).await;
        self.stop();
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let killed = log.contains("+++ killed by SIGKILL +++");
        // The call that did not happen has no result.
        let call = log.lines().rev().find(|line| line.contains("= ?") || line.contains("unfinished"));
        killed.then(|| call.unwrap_or("?").to_owned())
    }

    fn stop(&mut self) {
        // Whatever it was attached to goes on, or is gone.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.stop();
    }
}
