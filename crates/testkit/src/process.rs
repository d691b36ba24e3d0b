//! What the system says of running programs.
//!
//! Reads `/proc`, so there is nothing to find on systems without one. Not here: starting and ending programs.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::POLL_INTERVAL;

/// Resident memory of a process, in KiB.
///
/// # Errors
/// When it is gone.
pub fn memory_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// How many files, sockets among them, a process has open.
///
/// # Errors
/// When it is gone.
pub fn open_files(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// True while the process holds the TCP connection whose other end is `peer`.
///
/// # Errors
/// When there is no such process, or it may not be looked into.
pub fn holds_connection(pid: u32, peer: SocketAddr) -> Result<bool> {
    let table = std::fs::read_to_string(if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" })?;
    let port = format!(":{:04X}", peer.port());
    let sockets: Vec<String> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|columns| columns.get(2).is_some_and(|other| other.ends_with(&port)))
        .filter_map(|columns| Some(format!("socket:[{}]", columns.get(9)?)))
        .collect();
    let mut open = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    Ok(open.any(|file| sockets.iter().any(|socket| file.as_os_str() == socket.as_str())))
}

/// Processes whose command line holds `text`; their ids. Dead ones that nobody has waited for have no command line.
#[must_use]
pub fn running_with(text: &str) -> Vec<u32> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes())
    })
    .collect()
}

/// Looks until `found` gives something.
///
/// # Errors
/// When it has not after `limit`; the message names `what`.
pub async fn eventually<T>(what: &str, limit: Duration, mut found: impl FnMut() -> Option<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = found() {
            return Ok(value);
        }
        ensure!(started.elapsed() < limit, "{what} did not come about within {limit:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{Duration, eventually, memory_kib, open_files, running_with};

    #[tokio::test]
    async fn a_program_is_seen_while_it_runs() {
        // Not in this program's own command line.
        let marker = format!("7{}.5", std::process::id());
        let mut child = Command::new("sleep").arg(&marker).stdin(Stdio::null()).spawn().unwrap();
        eventually("the program", Duration::from_secs(10), || (running_with(&marker) == [child.id()]).then_some(())).await.unwrap();
        assert!(memory_kib(child.id()).unwrap() > 0 && open_files(child.id()).unwrap() >= 3);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(running_with(&marker).is_empty() && memory_kib(child.id()).is_err());
        let missed = eventually("nothing", Duration::ZERO, || None::<()>).await.unwrap_err();
        assert_eq!(missed.to_string(), "nothing did not come about within 0ns");
    }
}
