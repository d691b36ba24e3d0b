//! memory: growth over many attach and drop cycles and over long turns, and the cost of a thousand readers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::float;
use crate::harness::{Bench, BenchHome, Daemon, Session, memory, raise_descriptor_limit};
use crate::pacing::Window;
use crate::provider::{Pace, Provider, Script};
use crate::readers::{Crowd, Stalled, hello};
use crate::report::{Row, Verdict, mebibytes};

/// Cycles before the first look, and from it to the second.
const WARM_UP: u64 = 1_000;
const CYCLES: u64 = 9_000;
/// Deltas of a long turn, the readers beside it that never read, and how many turns: the first one is the warm-up.
const LONG: u64 = 50_000;
const STALLED: usize = 3;
const TURNS: usize = 4;
/// Bar of each growth, in MiB.
const GROWTH_BAR: u32 = 2;
/// Readers at once, and the bar of all memory with them, in MiB.
const READERS: u64 = 1_000;
const READERS_BAR: u32 = 60;
/// Deltas that they get, so that their buffers are used.
const TOKENS: u64 = 300;
/// Descriptors beside those of the readers.
const OTHER_DESCRIPTORS: u64 = 100;
/// Longer than the daemon waits until it gives memory back.
const REST: Duration = Duration::from_secs(2);
/// A reply has arrived by then.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let descriptors = raise_descriptor_limit();
    let home = BenchHome::new(provider.address())?;
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    rows.push(cycles(&daemon).await?);
    rows.push(turns(&daemon, &provider).await?);
    daemon.stop().await?;

    let promise = format!("{READERS} readers");
    let bar = format!("{READERS_BAR} MiB");
    if descriptors < READERS + OTHER_DESCRIPTORS {
        rows.push(Row::new(promise, bar, format!("{descriptors} descriptors are allowed"), Verdict::Skipped));
        return Ok(());
    }
    // A daemon of its own, so that the cycles have no part in it.
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    let (attached, used) = crowd(&daemon, &provider).await?;
    daemon.stop().await?;
    let most = attached.max(used);
    let measured = format!("{} attached, {} after a reply", mebibytes(float(attached)), mebibytes(float(used)));
    let row = Row::new(promise, bar, measured, Verdict::of(most <= u64::from(READERS_BAR) << 20));
    rows.push(row.number("attachedPssBytes", float(attached)).number("afterReplyPssBytes", float(used)));
    Ok(())
}

/// Every other cycle is the only reader of its session, which is opened and evicted with it; the others join one that stays.
async fn cycles(daemon: &Daemon) -> Result<Row> {
    let (watched, alone) = (daemon.first_session().await?, daemon.new_session().await?);
    let watcher = Crowd::attach(daemon.target.address, vec![watched.attach("delta")], 0).await?;
    let run = async |count: u64| {
        for cycle in 0..count {
            let session: &Session = if cycle % 2 == 0 { &watched } else { &alone };
            hello(daemon.target.address, &session.attach("delta")).await.with_context(|| format!("cycle {cycle}"))?;
        }
        memory(daemon.pid()?)
    };
    let before = run(WARM_UP).await?;
    let after = run(CYCLES).await?;
    ensure!(watcher.progress().closed() == 0, "the reader that stays lost its connection");
    Ok(growth(format!("growth over {CYCLES} attach and drop"), before, after))
}

/// Long turns with readers that never read, each in a session that is evicted afterwards.
async fn turns(daemon: &Daemon, provider: &Provider) -> Result<Row> {
    let mut memories = Vec::new();
    for turn in 0..TURNS {
        let session = daemon.new_session().await?;
        let base = session.last_id().await?;
        let stalled: Vec<Stalled> =
            (0..STALLED).map(|_| Stalled::attach(daemon.target.address, &session.attach("delta"))).collect::<Result<_>>()?;
        let reader = Crowd::attach(daemon.target.address, vec![session.attach("delta")], base).await?;
        reply(&session, provider, &reader, base, 1, LONG).await.with_context(|| format!("turn {turn}"))?;
        drop((stalled, reader));
        // What answers this has taken note of the readers that left.
        session.last_id().await?;
        // A daemon gives memory back soon after a session left, and not at each.
        tokio::time::sleep(REST).await;
        memories.push(memory(daemon.pid()?)?);
    }
    let (first, last) = (memories.first().copied().unwrap_or(0), memories.last().copied().unwrap_or(0));
    Ok(growth(format!("growth over {} turns of {LONG} deltas", TURNS - 1), first, last))
}

fn growth(promise: String, before: u64, after: u64) -> Row {
    let growth = float(after) - float(before);
    let measured = format!("{} (from {} to {})", mebibytes(growth), mebibytes(float(before)), mebibytes(float(after)));
    let within = growth <= f64::from(GROWTH_BAR << 20);
    Row::new(promise, format!("{GROWTH_BAR} MiB"), measured, Verdict::of(within))
        .number("growthBytes", growth)
        .number("pssBytesBefore", float(before))
        .number("pssBytesAfter", float(after))
}

/// Memory with all readers attached, before and after a reply.
async fn crowd(daemon: &Daemon, provider: &Provider) -> Result<(u64, u64)> {
    let session = daemon.new_session().await?;
    let base = session.last_id().await?;
    let requests = (0..READERS).map(|_| session.attach("delta")).collect();
    let crowd = Crowd::attach(daemon.target.address, requests, base).await?;
    let attached = memory(daemon.pid()?)?;
    reply(&session, provider, &crowd, base, READERS, TOKENS).await?;
    Ok((attached, memory(daemon.pid()?)?))
}

/// One reply that all readers of a crowd have received.
async fn reply(session: &Session, provider: &Provider, crowd: &Crowd, base: u64, readers: u64, tokens: u64) -> Result<()> {
    let progress = crowd.progress();
    let window = Window::new(Arc::clone(progress), readers);
    provider.set_script(Script { tokens, pace: Pace::Window(window), stamped: false });
    session.prompt().await?;
    session.idle().await?;
    let numbers = session.last_id().await? - base;
    let arrived = progress.finished(readers * numbers, ARRIVAL_LIMIT).await;
    ensure!(progress.closed() == 0, "{} readers lost their connection", progress.closed());
    ensure!(numbers >= tokens, "a reply of {tokens} tokens made {numbers} numbered frames");
    ensure!(arrived, "{} of {} frames arrived", progress.delivered(), readers * numbers);
    Ok(())
}
