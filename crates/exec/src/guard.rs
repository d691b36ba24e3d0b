//! One running program with everything it started.
//!
//! Invariant: the program's session, group and descendants do not outlive its guard. Dropping the guard kills them; [`ProcessGuard::end`]
//! asks first and then makes sure. If this process is killed itself, the system kills the leader (Linux), and the
//! [`Ledger`] lets the successor end the rest. What a program did on purpose to leave all of these behind (own session, no living ancestor,
//! none of our pipes) is out of reach.
//! Not here: reading and writing the pipes.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use crate::ledger::Ledger;
use crate::process_table::{self, ProcessIdentity, family, holders_of_pipe, snapshot, to_pid};
use crate::program::{Exit, Program, SpawnError};
use crate::record::Record;
use crate::spawner::{self, Started};

/// How often the process table is read while processes are being ended: the system does not tell about processes that are not our children.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long SIGKILL may take. Only a process in uninterruptible sleep (a dead network file system) needs longer.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// What [`ProcessGuard::end`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the leader ended; `None` if it did not, see `survivors`.
    pub exit: Option<Exit>,
    /// Processes that SIGKILL did not end in time. Nearly always empty.
    pub survivors: Vec<ProcessIdentity>,
}

/// A running program; see the module's invariant.
#[derive(Debug)]
pub struct ProcessGuard {
    program: String,
    identity: ProcessIdentity,
    child: Child,
    /// Set once the leader was reaped.
    exit: Option<Exit>,
    /// Processes seen as members; their link to the leader is lost when a parent between them dies.
    known: BTreeSet<ProcessIdentity>,
    output_pipes: Vec<u64>,
    nothing_left: bool,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    /// Removes the record when the guard goes.
    _record: Option<Record>,
}

impl ProcessGuard {
    /// Starts a program. With a ledger, it is recorded there for as long as the guard lives.
    ///
    /// Cancel-safe: a program whose start nobody waits for any more is killed. [`crate::Stdin::Bytes`] is treated as a pipe here;
    /// [`crate::run()`] writes the bytes.
    ///
    /// # Errors
    /// [`SpawnError`] names the program or the directory.
    pub async fn spawn(program: Program, ledger: Option<&Ledger>) -> Result<Self, SpawnError> {
        let name = program.name();
        let ledger = ledger.cloned();
        spawner::spawn(program, ledger, move |started| Self::new(name, started)).await
    }

    fn new(program: String, started: Started) -> Self {
        let Started { child, pid, start_time, record, stdin, stdout, stderr } = started;
        let identity = ProcessIdentity { pid, start_time };
        if let Some(Err(error)) = record.as_ref().map(|record| record.complete(identity)) {
            tracing::warn!(%program, pid, %error, "program not recorded");
        }
        let output_pipes = [&stdout, &stderr].into_iter().flatten().filter_map(process_table::inode).collect();
        Self {
            program,
            identity,
            child,
            exit: None,
            known: BTreeSet::new(),
            output_pipes,
            nothing_left: false,
            stdin,
            stdout,
            stderr,
            _record: record,
        }
    }

    /// The name it was started by.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Number and start time of the leader; the number is also that of its session and group.
    pub fn identity(&self) -> ProcessIdentity {
        self.identity
    }

    /// Our end of its input, once. Dropping it is the end of file.
    pub fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.stdin.take()
    }

    /// Our end of its output (merged or standard output), once.
    pub fn take_stdout(&mut self) -> Option<pipe::Receiver> {
        self.stdout.take()
    }

    /// Our end of its error output, once; only with [`crate::Output::Separate`].
    pub fn take_stderr(&mut self) -> Option<pipe::Receiver> {
        self.stderr.take()
    }

    /// Waits for the leader; what it started may live on. Cancel-safe, and may be called again.
    ///
    /// # Errors
    /// The system's, if it cannot be waited for.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = Exit::from(self.child.wait().await?);
        self.exit = Some(exit);
        Ok(exit)
    }

    /// Sends SIGINT to the group, as a terminal does on Ctrl-C.
    pub fn interrupt(&self) {
        self.signal_group(Signal::INT);
    }

    /// Whether anything of it is alive (or not reaped). After a `false` the guard has nothing left to do. Cancel-safe.
    pub async fn is_alive(&mut self) -> bool {
        let members = self.look().await;
        self.nothing_left = self.is_over(&members);
        !self.nothing_left
    }

    /// Ends everything: SIGTERM, after `grace` (or with none, at once) SIGKILL, then makes sure by looking.
    ///
    /// Cancel-safe: the guard still kills when dropped. Somebody has to keep reading the output meanwhile, if the program is to use its grace.
    pub async fn end(&mut self, grace: Duration) -> Ended {
        let mut members = self.look().await;
        if !grace.is_zero() {
            self.signal_all(&members, Signal::TERM);
            let deadline = Instant::now() + grace;
            while !self.is_over(&members) && Instant::now() < deadline {
                self.wait_a_moment(deadline).await;
                members = self.look().await;
            }
        }
        let deadline = Instant::now() + KILL_LIMIT;
        while !self.is_over(&members) && Instant::now() < deadline {
            self.signal_all(&members, Signal::KILL);
            self.wait_a_moment(deadline).await;
            members = self.look().await;
        }
        if !members.is_empty() {
            tracing::warn!(program = %self.program, pid = self.identity.pid, survivors = members.len(), "processes survive SIGKILL");
        }
        self.nothing_left = self.is_over(&members);
        Ended { exit: self.exit, survivors: members }
    }

    /// Ends a server that is asked by the end of its input: waits `patience` for it to end by itself, then [`Self::end`].
    ///
    /// The input is closed here, unless it was taken; then its owner has to drop it before. What the leader leaves behind is ended in any case.
    /// Cancel-safe: the guard still kills when dropped.
    pub async fn shut_down(&mut self, patience: Duration, grace: Duration) -> Ended {
        drop(self.stdin.take());
        if timeout(patience, self.wait()).await.is_ok() && !self.is_alive().await {
            return Ended { exit: self.exit, survivors: Vec::new() };
        }
        self.end(grace).await
    }

    /// Whether the leader is reaped and nobody else is left. Without a process table, the group is asked.
    fn is_over(&self, members: &[ProcessIdentity]) -> bool {
        let is_group_empty = || {
            let group = to_pid(self.identity.pid);
            group.is_none_or(|group| rustix::process::test_kill_process_group(group).is_err())
        };
        self.exit.is_some() && members.is_empty() && (cfg!(target_os = "linux") || is_group_empty())
    }

    /// Tells that the output pipes were read to their end: nobody holds them any more, so nobody has to be looked for.
    pub(crate) fn output_is_closed(&mut self) {
        self.output_pipes.clear();
    }

    /// Until the leader ends or the table is worth another look.
    async fn wait_a_moment(&mut self, deadline: Instant) {
        let moment = LOOK_EVERY.min(deadline.saturating_duration_since(Instant::now()));
        if self.exit.is_none() {
            let _ended_or_not = timeout(moment, self.wait()).await;
        } else {
            sleep(moment).await;
        }
    }

    /// Everything of it that is alive.
    async fn look(&mut self) -> Vec<ProcessIdentity> {
        let (identity, known, pipes) = (self.identity, self.known.clone(), self.output_pipes.clone());
        let looked = tokio::task::spawn_blocking(move || find(identity, &known, &pipes)).await;
        // The blocking pool refuses work only while the runtime goes down.
        let members = looked.unwrap_or_else(|_| find(self.identity, &self.known, &self.output_pipes));
        self.known = members.iter().copied().collect();
        members
    }

    fn signal_all(&self, members: &[ProcessIdentity], signal: Signal) {
        self.signal_group(signal);
        for member in members.iter().filter(|member| **member != self.identity) {
            member.signal(signal);
        }
    }

    fn signal_group(&self, signal: Signal) {
        // Once the leader is reaped its number can be given away, but not before the last member of the group is gone.
        let given_away = self.exit.is_some() && process_table::start_time(self.identity.pid).is_some();
        if let (false, Some(group)) = (given_away, to_pid(self.identity.pid)) {
            let _empty = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        if self.nothing_left {
            return;
        }
        // The picture first: killing breaks the links from parent to child.
        let members = find(self.identity, &self.known, &self.output_pipes);
        self.signal_all(&members, Signal::KILL);
        // Whoever was forked between the picture and the signal.
        for late in find(self.identity, &BTreeSet::new(), &[]) {
            late.signal(Signal::KILL);
        }
    }
}

/// Blocking: the family in the table, earlier members that are still alive, and orphans that hold our pipes.
fn find(leader: ProcessIdentity, known: &BTreeSet<ProcessIdentity>, pipes: &[u64]) -> Vec<ProcessIdentity> {
    let table = snapshot();
    let mut members: BTreeSet<ProcessIdentity> = family(&table, leader).into_iter().collect();
    members.extend(known.iter().filter(|process| process.is_alive()));
    // Another child of ours holds a copy of every pipe between its fork and its exec, so our own children do not count.
    let own = std::process::id();
    let is_child = |pid| table.iter().any(|process| process.pid == pid && process.parent == own);
    let holders = pipes.iter().flat_map(|pipe| holders_of_pipe(*pipe));
    members.extend(holders.filter(|holder| table.iter().any(|process| process.pid == holder.pid) && !is_child(holder.pid)));
    members.into_iter().collect()
}

#[cfg(test)]
mod tests;
