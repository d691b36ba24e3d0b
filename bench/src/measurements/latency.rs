//! latency: from the provider's write to the client's read, one delta at a time; and whether a long reply gets slower.
//!
//! The bare broadcaster tells what the machine adds: where it alone takes more than half of the bar, its double is the bar.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{MissedTickBehavior, interval};

use super::{float, no_samples};
use crate::harness::{Bench, BenchHome, Daemon};
use crate::provider::{Pace, Provider, Script, now, stamp, stamps};
use crate::readers::{Crowd, Observer};
use crate::reference::Reference;
use crate::report::{Row, Verdict};
use crate::statistics::Samples;

/// Deltas of the reply.
const TOKENS: u64 = 4_000;
/// Their distance.
const PACE: Duration = Duration::from_millis(2);
/// Frames that the reference sends.
const REFERENCE_FRAMES: u64 = 1_000;
/// Bars, in milliseconds.
const P50_BAR: f64 = 0.15;
const P99_BAR: f64 = 0.6;
/// What may be added to the time of the bare broadcaster on a machine that is too busy for the bars.
const REFERENCE_TIMES: f64 = 2.0;
/// The median of the last tenth over that of the first: what the noise of two medians explains.
const TENTHS_BAR: f64 = 1.25;
/// Everything has arrived by then.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(10);

/// Latencies in the order of the deltas, in milliseconds.
type Latencies = Arc<Mutex<Vec<f64>>>;

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let reference = through_reference(bench).await?;
    let latencies = through_daemon(bench).await?;
    let tenth = latencies.len() / 10;
    let all = Samples::new(latencies.iter().copied()).ok_or_else(no_samples)?;
    let first = Samples::new(latencies[..tenth].iter().copied()).ok_or_else(no_samples)?;
    let last = Samples::new(latencies[latencies.len() - tenth..].iter().copied()).ok_or_else(no_samples)?;
    let growth = last.median() / first.median();
    let row = |percent: f64, bar: f64| {
        let (value, bare) = (all.percentile(percent), reference.percentile(percent));
        let measured = format!("{value:.3} ms (bare {bare:.3})");
        Row::new(
            format!("p{percent} of {TOKENS} deltas every 2 ms"),
            format!("{bar} ms or {REFERENCE_TIMES} times bare"),
            measured,
            Verdict::of(value <= bar.max(REFERENCE_TIMES * bare)),
        )
        .number("milliseconds", value)
        .number("referenceMilliseconds", bare)
    };
    let tenths = format!("{growth:.2} times ({:.3} and {:.3} ms)", first.median(), last.median());
    rows.extend([
        row(50.0, P50_BAR),
        row(99.0, P99_BAR),
        Row::new("last tenth over first tenth, medians", format!("{TENTHS_BAR} times"), tenths, Verdict::of(growth <= TENTHS_BAR))
            .number("ratio", growth),
    ]);
    Ok(())
}

async fn through_daemon(bench: &Bench) -> Result<Vec<f64>> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    let session = daemon.new_session().await?;
    let base = session.last_id().await?;
    let (latencies, observer) = recorder();
    let reader = Crowd::observe(daemon.target.address, session.attach("delta"), base, observer).await?;
    provider.set_script(Script { tokens: TOKENS, pace: Pace::Interval(PACE), stamped: true });
    session.prompt().await?;
    session.idle().await?;
    let numbers = session.last_id().await? - base;
    ensure!(reader.progress().finished(numbers, ARRIVAL_LIMIT).await, "{} of {numbers} frames arrived", reader.progress().delivered());
    drop(reader);
    daemon.stop().await?;
    take(&latencies, TOKENS)
}

async fn through_reference(bench: &Bench) -> Result<Samples> {
    let reference = Reference::start(&bench.program).await?;
    let (latencies, observer) = recorder();
    let reader = Crowd::observe(reference.target.address, reference.target.get("/events"), 0, observer).await?;
    let mut feed = reference.feed().await?;
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 1..=REFERENCE_FRAMES {
        ticks.tick().await;
        feed.send(frame(number).as_bytes()).await?;
    }
    ensure!(reader.progress().finished(REFERENCE_FRAMES, ARRIVAL_LIMIT).await, "frames of the reference are missing");
    Samples::new(take(&latencies, REFERENCE_FRAMES)?).ok_or_else(no_samples)
}

/// A delta frame as the daemon sends it.
fn frame(number: u64) -> String {
    format!(
        "event: message\ndata: {{\"type\":\"message_update\",\"assistantMessageEvent\":{{\"type\":\"text_delta\",\"contentIndex\":0,\"delta\":\"{}\"}}}}\nid: {number}\n\n",
        stamp()
    )
}

fn recorder() -> (Latencies, Observer) {
    let latencies = Latencies::default();
    let observer = {
        let latencies = Arc::clone(&latencies);
        move |bytes: &[u8]| {
            let at = now();
            let found = stamps(bytes).into_iter().map(|sent| float(at.saturating_sub(sent)) / 1_000_000.0);
            latencies.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        }
    };
    (latencies, Box::new(observer))
}

fn take(latencies: &Latencies, expected: u64) -> Result<Vec<f64>> {
    let latencies = std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    // A stamp that a read cut in two is lost; that happens to few, or the measurement is worth nothing.
    ensure!(float(latencies.len() as u64) >= float(expected) * 0.99, "{} of {expected} stamps were seen", latencies.len());
    Ok(latencies)
}
