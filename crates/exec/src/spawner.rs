//! The one thread that forks.
//!
//! On Linux the death signal of a child is tied to the *thread* that forked it, not to the process: a child that was forked from a
//! runtime worker or a blocking thread would be killed when that thread retires. So all forks happen on one thread, which lives as
//! long as the process. The only unsafe code of the workspace is the hook that runs between fork and exec.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::ledger::Ledger;
use crate::process_table;
use crate::program::{Output, Program, SpawnError, Stdin};
use crate::record::{ForChild, Record};

/// Waiting starts. Filled by callers of [`spawn`], drained by the thread; a caller waits for room.
const QUEUE: usize = 64;

/// A started program and our ends of its pipes.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) pid: u32,
    pub(crate) start_time: Option<u64>,
    /// Absent without a ledger, or if it refused.
    pub(crate) record: Option<Record>,
    pub(crate) stdin: Option<pipe::Sender>,
    pub(crate) stdout: Option<pipe::Receiver>,
    pub(crate) stderr: Option<pipe::Receiver>,
}

/// Runs on the thread, inside the caller's runtime, so that the pipes and the wait belong to that runtime.
type Job = Box<dyn FnOnce() + Send>;

fn queue() -> io::Result<&'static mpsc::Sender<Job>> {
    static QUEUE_OF_JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    if let Some(sender) = QUEUE_OF_JOBS.get() {
        return Ok(sender);
    }
    let (sender, mut jobs) = mpsc::channel::<Job>(QUEUE);
    std::thread::Builder::new().name("wolli-spawner".to_owned()).spawn(move || {
        while let Some(job) = jobs.blocking_recv() {
            // The end of this thread would be the end of every child. The caller sees its answer missing.
            if std::panic::catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("starting a program panicked");
            }
        }
    })?;
    // Of two threads made at once one loses, sees its channel closed and ends before it has forked anything.
    Ok(QUEUE_OF_JOBS.get_or_init(|| sender))
}

/// Starts `program` on the spawner thread and gives what `wrap` makes of it.
///
/// Cancel-safe: `wrap` runs on the thread, so a program whose caller went away is dropped as a wrapped (guarded) one.
pub(crate) async fn spawn<T, F>(program: Program, ledger: Option<Ledger>, wrap: F) -> Result<T, SpawnError>
where
    T: Send + 'static,
    F: FnOnce(Started) -> T + Send + 'static,
{
    let name = program.name();
    let gone = |source| SpawnError::Pipe { program: name.clone(), source };
    let runtime = Handle::current();
    let (reply, answer) = oneshot::channel();
    let job: Job = Box::new(move || {
        let _entered = runtime.enter();
        let _unheard = reply.send(start(&program, ledger.as_ref()).map(wrap));
    });
    let closed = || io::Error::other("the spawner thread is gone");
    queue().map_err(gone)?.send(job).await.map_err(|_| gone(closed()))?;
    answer.await.map_err(|_| gone(closed()))?
}

fn start(program: &Program, ledger: Option<&Ledger>) -> Result<Started, SpawnError> {
    let name = || program.name();
    // The standard library reports a missing directory as if the program were missing.
    let in_directory = |source| SpawnError::Directory { program: name(), directory: program.directory.clone(), source };
    if !std::fs::metadata(&program.directory).map_err(in_directory)?.is_dir() {
        return Err(in_directory(io::ErrorKind::NotADirectory.into()));
    }

    let mut command = Command::new(&program.program);
    command.args(&program.arguments).env_clear().envs(&program.environment).current_dir(&program.directory);
    let pipes = connect(&mut command, program).map_err(|source| SpawnError::Pipe { program: name(), source })?;
    let record = ledger.and_then(|ledger| match ledger.prepare(&inodes_of(&pipes)) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(program = %name(), %error, "program not recorded");
            None
        }
    });
    prepare_child(&mut command, record.as_ref().and_then(|record| record.for_child().ok()));

    let mut command = tokio::process::Command::from(command);
    // Only the leader, and only if nobody else does: the guard ends the whole group.
    command.kill_on_drop(true);
    let child = command.spawn().map_err(|source| SpawnError::Program { program: name(), source })?;
    // It holds the child's ends of the pipes; while it lives there is no end of file.
    drop(command);
    // Always there before the first wait.
    let pid = child.id().unwrap_or_default();
    let (stdin, stdout, stderr) = pipes;
    Ok(Started { pid, start_time: process_table::start_time(pid), record, child, stdin, stdout, stderr })
}

/// The inodes of the pipes that the program will write to.
fn inodes_of((_, stdout, stderr): &Pipes) -> Vec<u64> {
    [stdout, stderr].into_iter().flatten().filter_map(process_table::inode).collect()
}

type Pipes = (Option<pipe::Sender>, Option<pipe::Receiver>, Option<pipe::Receiver>);

fn connect(command: &mut Command, program: &Program) -> io::Result<Pipes> {
    let stdin = match program.stdin {
        Stdin::Null => {
            command.stdin(Stdio::null());
            None
        }
        Stdin::Bytes(_) | Stdin::Pipe => {
            let (reader, writer) = io::pipe()?;
            command.stdin(reader);
            Some(pipe::Sender::from_owned_fd(OwnedFd::from(writer))?)
        }
    };
    let receiver = |reader| pipe::Receiver::from_owned_fd(OwnedFd::from(reader));
    let (stdout, stderr) = match program.output {
        Output::Discard => {
            command.stdout(Stdio::null()).stderr(Stdio::null());
            (None, None)
        }
        Output::Merged => {
            let (reader, writer) = io::pipe()?;
            command.stdout(writer.try_clone()?).stderr(writer);
            (Some(receiver(reader)?), None)
        }
        Output::Separate => {
            let (reader, writer) = io::pipe()?;
            command.stdout(writer);
            let (error_reader, error_writer) = io::pipe()?;
            command.stderr(error_writer);
            (Some(receiver(reader)?), Some(receiver(error_reader)?))
        }
    };
    Ok((stdin, stdout, stderr))
}

/// Gives the child its own session (and with it a group), on Linux SIGKILL at the death of this process, and its record.
#[expect(unsafe_code, reason = "the hook between fork and exec has no safe form")]
fn prepare_child(command: &mut Command, record: Option<ForChild>) {
    #[cfg(target_os = "linux")]
    let parent = rustix::process::getpid();
    let hook = move || {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // If the parent died before the line above, nobody will send the signal.
            if rustix::process::getppid() != Some(parent) {
                return Err(rustix::io::Errno::SRCH.into());
            }
        }
        // From here on it dies with this process by itself; what it starts later is found by the record.
        if let Some(record) = &record {
            record.write_own();
        }
        Ok(())
    };
    // SAFETY: the hook runs in the forked child, where only async-signal-safe operations are allowed. It makes system calls
    // (setsid, prctl, getppid; open, read, close and write for the record), converts errno values to `io::Error` without allocating, takes no lock and touches no memory
    // but its own stack. `crate::guard::tests` starts real programs through it.
    unsafe {
        command.pre_exec(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_does_not_end_the_thread() {
        let program = || Program::new("/bin/sleep", "/").arguments(["300"]);
        let first = spawn(program(), None, |started| started).await.unwrap();
        let failed = spawn(program(), None, |_| -> u32 { panic!("oops") }).await.unwrap_err();
        assert!(failed.to_string().starts_with("cannot connect to program /bin/sleep: "), "{failed}");
        let second = spawn(program(), None, |started| started).await.unwrap();
        for mut started in [first, second] {
            assert!(started.child.try_wait().unwrap().is_none());
            started.child.kill().await.unwrap();
        }
    }
}
