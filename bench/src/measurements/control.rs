//! control: `get_state` requests a second over a few connections, and its latency while sessions stream to readers.
//!
//! The reference is a bare hyper server that answers as many bytes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{MissedTickBehavior, interval};

use super::{float, no_samples};
use crate::harness::{Bench, BenchHome, Daemon, Session};
use crate::provider::{Pace, Provider, Script};
use crate::readers::Crowd;
use crate::reference::Reference;
use crate::report::{Row, Verdict};
use crate::statistics::Samples;
use crate::wire::{Connection, Target};

/// Keep-alive connections, one request at a time on each.
const CONNECTIONS: usize = 16;
/// How long requests are counted, and how often; the median counts.
const COUNTED: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
/// Bar of requests a second.
const RATE_BAR: f64 = 60_000.0;
/// On a machine where a bare server does not reach the bar with room to spare, this share of it is the bar.
const REFERENCE_SHARE: f64 = 0.75;
/// The load under which latency is measured.
const SESSIONS: usize = 20;
const READERS: usize = 50;
/// Pace of each session: 100 tokens a second, a fast model.
const PACE: Duration = Duration::from_millis(10);
/// Requests whose latency is measured, and their distance.
const REQUESTS: usize = 3_000;
const REQUEST_DISTANCE: Duration = Duration::from_millis(2);
/// Deltas of each session: more than the measurement lasts.
const TOKENS: u64 = 3_000;
/// Bar of the latency, in milliseconds.
const P99_BAR: f64 = 2.0;

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    rows.push(throughput(bench, &daemon).await?);
    rows.push(latency(&daemon, &provider).await?);
    daemon.stop().await?;
    Ok(())
}

async fn throughput(bench: &Bench, daemon: &Daemon) -> Result<Row> {
    let session = daemon.first_session().await?;
    let request = daemon.target.command(&session.id, &json!({ "type": "get_state" }));
    let length = check_answer(&daemon.target, &request).await?;
    let reference = Reference::start(&bench.program).await?;
    let bare = reference.target.post(&format!("/{length}"), &json!({ "type": "get_state" }));
    let (mut rates, mut bare_rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rates.push(rate(&daemon.target, &request).await?);
        bare_rates.push(rate(&reference.target, &bare).await?);
    }
    let rate = Samples::new(rates).ok_or_else(no_samples)?.median();
    let bare = Samples::new(bare_rates).ok_or_else(no_samples)?.median();
    let measured = format!("{rate:.0} a second, {:.2} of bare ({bare:.0})", rate / bare);
    Ok(Row::new(
        format!("get_state a second, {CONNECTIONS} connections"),
        format!("{RATE_BAR} or {REFERENCE_SHARE} of bare"),
        measured,
        Verdict::of(rate >= RATE_BAR.min(REFERENCE_SHARE * bare)),
    )
    .number("requestsPerSecond", rate)
    .number("referenceRequestsPerSecond", bare))
}

/// The length of an answer that says `success`.
async fn check_answer(target: &Target, request: &[u8]) -> Result<usize> {
    let mut connection = Connection::open(target.address).await?;
    let answer = connection.exchange(request).await?;
    let value: serde_json::Value = serde_json::from_slice(answer.body).context("get_state did not answer JSON")?;
    ensure!(answer.status == 200 && value["success"] == true, "get_state answered {value}");
    Ok(answer.body.len())
}

/// Answers a second, with all connections in one thread.
async fn rate(target: &Target, request: &[u8]) -> Result<f64> {
    let (done, result) = oneshot::channel();
    let (address, request) = (target.address, request.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
        let answered = LocalSet::new().block_on(&runtime, async {
            let mut clients = JoinSet::new();
            let begin = Instant::now();
            for _ in 0..CONNECTIONS {
                clients.spawn_local(request_until(address, request.clone(), begin + COUNTED));
            }
            let mut answered = 0;
            while let Some(count) = clients.join_next().await {
                answered += count??;
            }
            anyhow::Ok(float(answered) / begin.elapsed().as_secs_f64())
        });
        drop(done.send(answered));
    })?;
    let answered = result.await.context("the requests ended early")?;
    thread.join().map_err(|_| anyhow!("the requests panicked"))?;
    answered
}

async fn request_until(address: std::net::SocketAddr, request: Vec<u8>, end: Instant) -> Result<u64> {
    let mut connection = Connection::open(address).await?;
    let mut answered = 0;
    while Instant::now() < end {
        let status = connection.exchange(&request).await?.status;
        ensure!(status == 200, "get_state answered {status}");
        answered += 1;
    }
    Ok(answered)
}

async fn latency(daemon: &Daemon, provider: &Provider) -> Result<Row> {
    let mut sessions: Vec<Session> = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(daemon.new_session().await?);
    }
    let readers = (0..READERS).map(|reader| sessions[reader % SESSIONS].attach("delta")).collect();
    let crowd = Crowd::attach(daemon.target.address, readers, 0).await?;
    provider.set_script(Script { tokens: TOKENS, pace: Pace::Interval(PACE), stamped: false });
    for session in &sessions {
        session.prompt().await?;
    }

    let get_state = json!({ "type": "get_state" });
    let requests: Vec<Vec<u8>> = sessions.iter().map(|session| daemon.target.command(&session.id, &get_state)).collect();
    let mut connection = Connection::open(daemon.target.address).await?;
    let mut ticks = interval(REQUEST_DISTANCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut times, frames, begin) = (Vec::with_capacity(REQUESTS), crowd.progress().frames(), Instant::now());
    for request in requests.iter().cycle().take(REQUESTS) {
        ticks.tick().await;
        let sent = Instant::now();
        let answer = connection.exchange(request).await?;
        times.push(sent.elapsed());
        ensure!(answer.status == 200, "get_state answered {}", answer.status);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let delivered = float(crowd.progress().frames() - frames) / seconds;
    let state = sessions[0].control(&get_state).await?;
    for session in &sessions {
        session.control(&json!({ "type": "abort" })).await?;
    }
    ensure!(state["isStreaming"] == true, "sessions did not stream to the end: {state}");
    ensure!(crowd.progress().closed() == 0, "{} readers lost their connection", crowd.progress().closed());

    let samples = Samples::milliseconds(&times).ok_or_else(no_samples)?;
    let (p50, p99) = (samples.median(), samples.percentile(99.0));
    let measured = format!("{p99:.2} ms (p50 {p50:.2}; {delivered:.0} frames a second delivered)");
    Ok(Row::new(
        format!("p99 of get_state, {SESSIONS} streams, {READERS} readers"),
        format!("{P99_BAR} ms"),
        measured,
        Verdict::of(p99 <= P99_BAR),
    )
    .number("p99Milliseconds", p99)
    .number("p50Milliseconds", p50)
    .number("framesPerSecond", delivered))
}
