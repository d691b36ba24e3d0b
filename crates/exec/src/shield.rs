//! Keeps the programs we start from looking into this process.
//!
//! A program of the same user may read another one's environment, memory and open files through `/proc`; a model that runs
//! `cat /proc/$PPID/environ` would have every key. A process that cannot be dumped is closed to everybody but root.

use std::io;

/// Closes this process to other programs of the user; also means no core dumps. Does nothing where there is no `/proc`.
///
/// Programs that are started later are not affected: the mark ends with exec.
///
/// # Errors
/// If the system refuses, which no known one does.
pub fn close_to_other_programs() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::program::Program;
    use crate::run::{RunSettings, run};

    /// Set for the helper half.
    const HELPER: &str = "WOLLI_EXEC_TEST_SHIELD";

    #[tokio::test]
    #[ignore = "the helper half of another test"]
    async fn helper() {
        let Ok(shielded) = std::env::var(HELPER) else { return };
        if shielded == "yes" {
            close_to_other_programs().unwrap();
        }
        let script = "cat /proc/$PPID/environ; cat /proc/self/environ";
        let program = Program::new("/bin/sh", "/").arguments(["-c", script]).environment([("PATH", "/usr/bin:/bin")]);
        let finished = run(program, RunSettings::default(), None).await.unwrap();
        io::Write::write_all(&mut io::stdout(), finished.output.tail().as_bytes()).unwrap();
    }

    /// What a program sees of a parent that is not root.
    fn seen(shielded: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("helper");
        std::fs::copy(std::env::current_exe().unwrap(), &executable).unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        // Root may look into everything, so the helper must not be root.
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let output = command
            .arg(executable)
            .args(["--exact", "shield::tests::helper", "--ignored", "--nocapture"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env(HELPER, shielded)
            .env("SECRET", "planted")
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn children_cannot_read_our_environment() {
        let Some(open) = seen("no") else {
            eprintln!("skipped: no setpriv here");
            return;
        };
        assert!(open.contains("SECRET=planted"), "without the shield there is something to see: {open}");
        let closed = seen("yes").unwrap();
        assert!(!closed.contains("planted"), "{closed}");
        assert!(closed.contains("PATH=/usr/bin:/bin"), "the child itself is as open as ever: {closed}");
    }
}
