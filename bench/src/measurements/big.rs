//! big: `hello` of a session with many entries, and the list of many sessions.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{float, no_samples};
use crate::harness::{Bench, BenchHome, Content, Daemon, memory};
use crate::provider::Provider;
use crate::readers::hello;
use crate::report::{Row, Verdict, mebibytes};
use crate::statistics::Samples;
use crate::wire::Connection;

/// The large sessions, without and with a compaction in the middle.
const LARGE: [Content; 2] =
    [Content { entries: 100_000, entry_bytes: 220, compacted: false }, Content { entries: 100_000, entry_bytes: 220, compacted: true }];
/// Attaches of which the median counts; each is the only reader, so that each opens the session from its file.
const ATTACHES: usize = 10;
/// Bar of an attach, in milliseconds.
const HELLO_BAR: f64 = 150.0;
/// Sessions that are listed; they are small.
const LISTED: usize = 1_000;
const SMALL: Content = Content { entries: 4, entry_bytes: 500, compacted: false };
/// Lists of which the median counts.
const LISTS: usize = 50;
/// Bar of a list, in milliseconds.
const LIST_BAR: f64 = 2.0;

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    let mut contents = LARGE.to_vec();
    contents.push(SMALL);
    let (home, ids) = tokio::task::spawn_blocking(move || home.write_sessions(&contents).map(|ids| (home, ids))).await??;
    for (content, id) in LARGE.iter().zip(&ids) {
        // A daemon of its own, so that its memory tells of this session alone.
        let daemon = Daemon::start(&bench.wolli, &home).await?;
        rows.push(first_frame(&daemon, content, id).await?);
        daemon.stop().await?;
    }
    rows.push(list(bench, BenchHome::new(provider.address())?).await?);
    Ok(())
}

async fn first_frame(daemon: &Daemon, content: &Content, id: &str) -> Result<Row> {
    // Waits until the daemon has loaded what it loads at start.
    daemon.first_session().await?;
    let request = daemon.target.attach(id, "delta");
    let mut times = Vec::new();
    for _ in 0..ATTACHES {
        let begin = Instant::now();
        let state = hello(daemon.target.address, &request).await?;
        times.push(begin.elapsed());
        ensure!(state["sessionId"] == id, "hello of another session: {state}");
    }
    let samples = Samples::milliseconds(&times).ok_or_else(no_samples)?;
    let (median, max, pss) = (samples.median(), samples.max(), float(memory(daemon.pid()?)?));
    let kind = if content.compacted { "compacted in the middle" } else { "not compacted" };
    let measured = format!("{median:.1} ms (at most {max:.1}; then {})", mebibytes(pss));
    Ok(Row::new(
        format!("hello of {} entries, {kind}", content.entries),
        format!("{HELLO_BAR} ms"),
        measured,
        Verdict::of(median <= HELLO_BAR),
    )
    .number("medianMilliseconds", median)
    .number("maxMilliseconds", max)
    .number("pssBytes", pss))
}

async fn list(bench: &Bench, home: BenchHome) -> Result<Row> {
    let home = tokio::task::spawn_blocking(move || home.write_sessions(&[SMALL; LISTED]).map(|_| home)).await??;
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    let listed = daemon.target.get_json("/sessions").await?["sessions"].as_array().map_or(0, Vec::len);
    ensure!(listed >= LISTED, "{listed} of {LISTED} sessions are listed");
    let request = daemon.target.get("/sessions");
    let mut connection = Connection::open(daemon.target.address).await?;
    let mut times = Vec::new();
    for _ in 0..LISTS {
        let begin = Instant::now();
        let status = connection.exchange(&request).await?.status;
        times.push(begin.elapsed());
        ensure!(status == 200, "the list answered {status}");
    }
    daemon.stop().await?;
    let samples = Samples::milliseconds(&times).ok_or_else(no_samples)?;
    let (median, max) = (samples.median(), samples.max());
    let measured = format!("{median:.2} ms (at most {max:.2})");
    Ok(Row::new(format!("list of {LISTED} sessions"), format!("{LIST_BAR} ms"), measured, Verdict::of(median <= LIST_BAR))
        .number("medianMilliseconds", median)
        .number("maxMilliseconds", max))
}
