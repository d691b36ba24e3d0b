//! What `/proc` says about a process: processor time, memory, wake-ups. Linux only; elsewhere each answer is an error.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Processor time of a process so far, user and system, of all its threads. Steps of 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    parse_cpu_time(&read(pid, "stat")?, rustix::param::clock_ticks_per_second())
}

/// Proportional set size in bytes: private memory, and its share of what others map too.
pub fn memory(pid: u32) -> Result<u64> {
    parse_pss(&read(pid, "smaps_rollup")?)
}

/// How often threads of a process went to sleep by themselves so far. Threads that ended are not counted.
pub fn wake_ups(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("failed to list threads of process {pid}"))? {
        // A thread may end between the listing and the reading.
        if let Ok(status) = fs::read_to_string(task?.path().join("status")) {
            sum += parse_switches(&status)?;
        }
    }
    Ok(sum)
}

/// The machine at a moment.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Load {
    /// Runnable processes on average over 1, 5 and 15 minutes, as the system prints them.
    pub average: String,
    /// Processors.
    pub processors: usize,
    /// Kernel and version.
    pub system: String,
}

/// How busy the machine is.
pub fn load() -> Load {
    let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let system = rustix::system::uname();
    Load {
        average: average.split(' ').take(3).collect::<Vec<_>>().join(" "),
        processors: std::thread::available_parallelism().map_or(0, usize::from),
        system: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
    }
}

/// Lets this process, and those that it starts, open as many descriptors as it may. Returns how many.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal leaves the old limit, which is what is returned then.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))
}

fn parse_cpu_time(stat: &str, ticks_per_second: u64) -> Result<Duration> {
    // The name in brackets may hold anything, brackets included.
    let (_, fields) = stat.rsplit_once(')').context("stat has no name")?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (times.next(), times.next()) else { anyhow::bail!("stat has no times") };
    Ok(Duration::from_millis((user + system) * 1_000 / ticks_per_second.max(1)))
}

fn parse_pss(rollup: &str) -> Result<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("smaps_rollup has no Pss")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("Pss is not a number")?;
    Ok(kibibytes * 1_024)
}

fn parse_switches(status: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).context("status has no switches")?;
    line.trim().parse().context("switches are not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_system() {
        let stat = "4711 (a) b (c)) S 1 4711 4711 0 -1 4194304 9 0 0 0 250 125 7 8 20 0 3 0 99 1 2";
        assert_eq!(parse_cpu_time(stat, 100).unwrap(), Duration::from_millis(3_750));
        assert_eq!(parse_pss("00400000-7ffd rollup\nRss:   9000 kB\nPss:            1234 kB\nPss_Dirty: 7 kB\n").unwrap(), 1_263_616);
        assert_eq!(parse_switches("Name:\tx\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n").unwrap(), 42);
        assert!(parse_cpu_time("4711 (x) S 1", 100).is_err() && parse_cpu_time("", 100).is_err());
        assert!(parse_pss("Rss: 1 kB").is_err() && parse_switches("").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process() {
        let pid = std::process::id();
        assert!(memory(pid).unwrap() > 100_000);
        assert!(cpu_time(pid).unwrap() < Duration::from_secs(3_600));
        assert!(wake_ups(pid).is_ok());
        assert!(cpu_time(u32::MAX).is_err());
    }
}
