//! Who is whose child: a picture of `/proc`, and sending signals to exactly the processes that were seen.
//!
//! Empty on systems without `/proc`; there only process groups are ended. Zombies count as dead: they hold nothing and do nothing.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use rustix::process::{Pid, Signal};

/// A process that cannot be mixed up with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// Clock ticks from boot to the start of the process; `None` where the system does not tell.
    pub start_time: Option<u64>,
}

impl ProcessIdentity {
    /// Whether this very process is alive (a zombie is not).
    pub fn is_alive(self) -> bool {
        match read(self.pid) {
            Some(process) => process.alive && self.start_time.is_none_or(|start| start == process.start_time),
            None if cfg!(target_os = "linux") => false,
            None => to_pid(self.pid).is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok()),
        }
    }

    /// Sends a signal to this very process; does nothing if it is gone.
    pub(crate) fn signal(self, signal: Signal) {
        let Some(pid) = to_pid(self.pid) else { return };
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
            // The descriptor pins the process; after it is open, the start time says whether it is the one that was meant.
            if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) {
                if self.is_alive() {
                    let _gone = pidfd_send_signal(descriptor, signal);
                }
                return;
            }
        }
        if self.is_alive() {
            let _gone = rustix::process::kill_process(pid, signal);
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    pub(crate) alive: bool,
}

impl Process {
    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity { pid: self.pid, start_time: Some(self.start_time) }
    }
}

/// A number that may be signalled: never 0 (own group) or 1 (init).
pub(crate) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)
}

/// When the process started, in clock ticks since boot.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    read(pid).map(|process| process.start_time)
}

fn read(pid: u32) -> Option<Process> {
    parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads one `/proc/<pid>/stat`; the name in parentheses may itself hold parentheses, blanks and any bytes.
fn parse(stat: &[u8]) -> Option<Process> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(stat.split(|byte| *byte == b' ').next()?).ok()?.parse().ok()?;
    let rest = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(Process {
        pid,
        alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// All processes of now; blocking, some milliseconds.
pub(crate) fn snapshot() -> Vec<Process> {
    numbers_in_proc().filter_map(read).collect()
}

fn numbers_in_proc() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The living processes that `leader` started, itself included: its session, its group, and their descendants.
///
/// Empty when the number of the leader belongs to another process by now: the system gives a number away only after the last
/// member of its group and session is gone.
pub(crate) fn family(processes: &[Process], leader: ProcessIdentity) -> Vec<ProcessIdentity> {
    // Numbers that are no leader's: kernel threads and what started outside of a container have session 0.
    if leader.pid <= 1 {
        return Vec::new();
    }
    let now = processes.iter().find(|process| process.pid == leader.pid);
    if let (Some(process), Some(start)) = (now, leader.start_time)
        && process.start_time != start
    {
        return Vec::new();
    }
    let own = std::process::id();
    let mut members: BTreeSet<u32> = processes
        .iter()
        .filter(|process| [process.pid, process.group, process.session].contains(&leader.pid))
        .map(|process| process.pid)
        .collect();
    loop {
        let before = members.len();
        for process in processes {
            if members.contains(&process.parent) {
                members.insert(process.pid);
            }
        }
        if members.len() == before {
            break;
        }
    }
    processes
        .iter()
        .filter(|process| process.alive && process.pid > 1 && process.pid != own && members.contains(&process.pid))
        .map(Process::identity)
        .collect()
}

/// What identifies a pipe, at either end.
pub(crate) fn inode(pipe: &impl AsFd) -> Option<u64> {
    rustix::fs::fstat(pipe.as_fd()).ok().map(|status| status.st_ino)
}

/// The processes (without this one) that hold a pipe open, given by its inode; blocking.
pub(crate) fn holders_of_pipe(inode: u64) -> Vec<ProcessIdentity> {
    let wanted = format!("pipe:[{inode}]");
    let holds = |pid: &u32| {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str()))
    };
    let own = std::process::id();
    numbers_in_proc()
        .filter(|pid| *pid > 1 && *pid != own)
        .filter(holds)
        .filter_map(read)
        .filter(|process| process.alive)
        .map(|process| process.identity())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, group: u32, session: u32) -> Process {
        Process { pid, parent, group, session, start_time: u64::from(pid) * 10, alive: true }
    }

    fn numbers(found: &[ProcessIdentity]) -> Vec<u32> {
        found.iter().map(|identity| identity.pid).collect()
    }

    #[test]
    fn a_name_may_hold_parentheses_and_blanks() {
        let line = b"4711 (a) R 1 (x) S 12 13 14 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        assert_eq!(parse(line), Some(Process { pid: 4711, parent: 12, group: 13, session: 14, start_time: 98765, alive: true }));
        for broken in [&b""[..], b"1", b"1 (x", b"1 (x) S 1 2", b"\xff (x) S 1 2 3"] {
            assert_eq!(parse(broken), None);
        }
    }

    #[test]
    fn family_is_session_group_and_descendants() {
        let leader = ProcessIdentity { pid: 100, start_time: Some(1000) };
        let table = [
            process(100, 50, 100, 100),
            process(101, 100, 100, 100),
            process(102, 1, 102, 100),   // own group, orphaned, same session
            process(103, 101, 103, 103), // own session, but a grandchild
            process(104, 103, 103, 103),
            process(105, 1, 105, 105), // a stranger
        ];
        assert_eq!(numbers(&family(&table, leader)), [100, 101, 102, 103, 104]);
    }

    #[test]
    fn family_of_a_recycled_number_is_empty() {
        let table = [process(100, 50, 100, 100), process(101, 100, 100, 100)];
        assert_eq!(family(&table, ProcessIdentity { pid: 100, start_time: Some(7) }), []);
    }

    #[test]
    fn nobody_is_of_the_family_of_the_system() {
        let table = [process(1, 0, 1, 1), process(2, 0, 0, 0), process(100, 1, 100, 100)];
        for pid in [0, 1] {
            assert_eq!(family(&table, ProcessIdentity { pid, start_time: None }), []);
        }
    }

    #[test]
    fn zombies_are_dead() {
        let mut dead = process(100, 50, 100, 100);
        dead.alive = false;
        assert_eq!(family(&[dead], ProcessIdentity { pid: 100, start_time: Some(1000) }), []);
    }

    #[test]
    fn this_process_is_found_alive_with_its_start_time() {
        let pid = std::process::id();
        let found = snapshot().into_iter().find(|process| process.pid == pid).unwrap();
        assert!(found.identity().is_alive());
        assert!(!ProcessIdentity { pid, start_time: Some(found.start_time + 1) }.is_alive());
    }
}
