//! idle: memory after the start and after a turn; wake-ups and processor time while nothing happens, alone and with a client.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::float;
use crate::harness::{Bench, BenchHome, Daemon, cpu_time, memory, wake_ups};
use crate::provider::{Pace, Provider, Script};
use crate::readers::Crowd;
use crate::report::{Row, Verdict, mebibytes, milliseconds};

/// Deltas of the turn.
const TOKENS: u64 = 200;
/// What is waited for before idleness counts: blocking threads of the runtime end after 10 s.
const SETTLE: Duration = Duration::from_secs(12);
/// Longer than the daemon waits until it gives memory back.
const REST: Duration = Duration::from_secs(2);
/// How long idleness is watched.
const WATCH: Duration = Duration::from_secs(20);
/// The watchdog's notice comes once a minute, so at most once in the watch; it may wake two threads.
const WATCHDOG_WAKE_UPS: u64 = 2;
/// A keepalive comes every 15 s, so at most twice in the watch; each may wake two threads, twice (timer, socket).
const KEEPALIVE_WAKE_UPS: u64 = 8;
/// Bars of memory, in MiB.
const START_BAR: u32 = 10;
const TURN_BAR: u32 = 14;

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    provider.set_script(Script { tokens: TOKENS, pace: Pace::Interval(Duration::from_millis(1)), stamped: false });
    let (alone_home, attached_home) = (BenchHome::new(provider.address())?, BenchHome::new(provider.address())?);
    let alone = Daemon::start(&bench.wolli, &alone_home).await?;
    let session = alone.first_session().await?;
    let at_start = memory(alone.pid()?)?;
    sleep(REST).await;
    let after_start = memory(alone.pid()?)?;
    let base = session.last_id().await?;
    session.prompt().await?;
    session.idle().await?;
    ensure!(session.last_id().await? >= base + TOKENS, "the turn did not reach the scripted provider");
    let after_turn = memory(alone.pid()?)?;

    // Not before memory is known: two processes of one program share its pages, and each counts half of them.
    let attached = Daemon::start(&bench.wolli, &attached_home).await?;
    let reader = Crowd::attach(attached.target.address, vec![attached.first_session().await?.attach("delta")], 0).await?;
    sleep(SETTLE).await;
    let before = [Sample::of(&alone)?, Sample::of(&attached)?];
    let pings = reader.progress().frames();
    sleep(WATCH).await;
    let alone_cost = Sample::of(&alone)?.since(&before[0]);
    let attached_cost = Sample::of(&attached)?.since(&before[1]);
    let pings = reader.progress().frames() - pings;
    ensure!(reader.progress().closed() == 0, "the attached client lost its connection");
    drop(reader);
    alone.stop().await?;
    attached.stop().await?;

    let with_client = format!("with a client ({pings} keepalives)");
    rows.extend([
        Row::new("memory at the first answer", "-", mebibytes(float(at_start)), Verdict::Note).number("pssBytes", float(at_start)),
        memory_row("memory after start, at rest", START_BAR, after_start),
        memory_row("memory after a turn", TURN_BAR, after_turn),
        alone_cost.row("nobody attached", WATCHDOG_WAKE_UPS),
        attached_cost.row(&with_client, WATCHDOG_WAKE_UPS + KEEPALIVE_WAKE_UPS),
    ]);
    Ok(())
}

fn memory_row(promise: &str, bar: u32, bytes: u64) -> Row {
    let within = bytes <= u64::from(bar) << 20;
    Row::new(promise, format!("{bar} MiB"), mebibytes(float(bytes)), Verdict::of(within)).number("pssBytes", float(bytes))
}

struct Sample {
    wake_ups: u64,
    time: Duration,
}

impl Sample {
    fn of(daemon: &Daemon) -> Result<Self> {
        Ok(Self { wake_ups: wake_ups(daemon.pid()?)?, time: cpu_time(daemon.pid()?)? })
    }

    fn since(&self, before: &Self) -> Self {
        // A thread that ended takes its count with it.
        Self { wake_ups: self.wake_ups.saturating_sub(before.wake_ups), time: self.time.saturating_sub(before.time) }
    }

    fn row(&self, who: &str, bar: u64) -> Row {
        let measured = format!("{} wake-ups, {} of processor time", self.wake_ups, milliseconds(self.time));
        Row::new(format!("{} s idle, {who}", WATCH.as_secs()), format!("{bar} wake-ups"), measured, Verdict::of(self.wake_ups <= bar))
            .number("wakeUps", float(self.wake_ups))
            .number("processorMilliseconds", self.time.as_secs_f64() * 1_000.0)
    }
}
