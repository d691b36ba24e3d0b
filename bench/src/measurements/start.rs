//! start: from before the spawn until `/health` answers 200, with an empty home and with a large one.

use std::path::Path;

use anyhow::Result;

use super::{float, no_samples};
use crate::harness::{Bench, BenchHome, Content, Daemon};
use crate::provider::Provider;
use crate::report::{Row, Verdict};
use crate::statistics::Samples;

/// Starts of which the median counts.
const STARTS: usize = 20;
/// Sessions of the large home.
const SESSIONS: usize = 2_000;
/// Their content: half a mebibyte, so that all of them are 1 GiB.
const CONTENT: Content = Content { entries: 256, entry_bytes: 2_097, compacted: false };
/// Free space below which the large home is not made.
const FREE_BYTES_MIN: u64 = 3 << 30;
/// Bars, in milliseconds.
const EMPTY_BAR: f64 = 20.0;
const LARGE_BAR: f64 = 40.0;

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    rows.push(row("empty home", EMPTY_BAR, &starts(bench, &home).await?));

    let free = free_bytes(home.path())?;
    let promise = format!("{SESSIONS} sessions, 1 GiB");
    if free < FREE_BYTES_MIN {
        let reason = format!("{:.1} GiB free below {}, 3 are needed", float(free) / float(1 << 30), home.path().display());
        rows.push(Row::new(promise, format!("{LARGE_BAR} ms"), reason, Verdict::Skipped));
        return Ok(());
    }
    let home = tokio::task::spawn_blocking(move || home.write_sessions(&[CONTENT; SESSIONS]).map(|_| home)).await??;
    // The first start may build an index; what is promised is a start.
    Daemon::start(&bench.wolli, &home).await?.stop().await?;
    rows.push(row(&promise, LARGE_BAR, &starts(bench, &home).await?));
    Ok(())
}

async fn starts(bench: &Bench, home: &BenchHome) -> Result<Samples> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let daemon = Daemon::start(&bench.wolli, home).await?;
        times.push(daemon.started_in);
        daemon.stop().await?;
    }
    Samples::milliseconds(&times).ok_or_else(no_samples)
}

fn row(promise: &str, bar: f64, samples: &Samples) -> Row {
    let (median, min, max) = (samples.median(), samples.min(), samples.max());
    let measured = format!("{median:.1} ms ({min:.1} to {max:.1})");
    Row::new(promise, format!("{bar} ms"), measured, Verdict::of(median <= bar))
        .number("medianMilliseconds", median)
        .number("minMilliseconds", min)
        .number("maxMilliseconds", max)
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let system = rustix::fs::statvfs(folder)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}
