//! fan-out: frames a second and processor time per frame at 1 to 1,000 readers, as ratios to the bare broadcaster; and what one
//! reader that never reads changes for the others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{float, no_samples};
use crate::harness::{Bench, BenchHome, Daemon, Session, cpu_time, raise_descriptor_limit};
use crate::pacing::Window;
use crate::provider::{Pace, Provider, Script};
use crate::readers::{Crowd, Observer, Stalled};
use crate::reference::Reference;
use crate::report::{Row, Verdict};
use crate::scan::unchunk;
use crate::statistics::Samples;

/// Readers and deltas: enough deliveries for a stable time, few enough for a bounded one.
const SIZES: [(u64, u64); 4] = [(1, 30_000), (10, 15_000), (100, 4_000), (1_000, 600)];
/// Runs of each, in turn with the reference; the medians count.
const ROUNDS: usize = 3;
/// Bar of both ratios.
const RATIO_BAR: f64 = 2.0;
/// The run with a stalled reader: enough bytes to fill every buffer on its way.
const STALLED_SIZE: (u64, u64) = (10, 25_000);
/// Frames a second with a stalled reader over those without: what the noise of two medians explains.
const STALLED_BAR: f64 = 0.85;
/// Descriptors beside those of the readers.
const OTHER_DESCRIPTORS: u64 = 100;
/// A run has arrived by then.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    let descriptors = raise_descriptor_limit();
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    let reference = Reference::start(&bench.program).await?;
    let frames = capture(&daemon, &provider, SIZES[0].1).await?;
    for (readers, tokens) in SIZES {
        if descriptors < readers + OTHER_DESCRIPTORS {
            let reason = format!("{descriptors} descriptors are allowed");
            rows.push(Row::new(format!("{readers} readers"), "-", reason, Verdict::Skipped));
            continue;
        }
        let frames = &frames[..frames.len().min(usize::try_from(tokens)?)];
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(through_daemon(&daemon, &provider, readers, tokens, false).await.with_context(|| format!("{readers} readers"))?);
            bare.push(through_reference(&reference, readers, frames).await.with_context(|| format!("{readers} readers of the reference"))?);
        }
        rows.extend(compare(readers, &Run::median(&ours)?, &Run::median(&bare)?));
    }
    rows.push(stalled(&daemon, &provider).await?);
    daemon.stop().await?;
    Ok(())
}

/// What one run gave.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Frames a second, of all readers.
    rate: f64,
    /// The server's processor time per delivered frame, in microseconds.
    cost: f64,
    /// Processor time of the load generator per delivered frame, in microseconds.
    load: f64,
}

impl Run {
    fn median(runs: &[Self]) -> Result<Self> {
        let median =
            |field: fn(&Self) -> f64| Ok::<_, anyhow::Error>(Samples::new(runs.iter().map(field)).ok_or_else(no_samples)?.median());
        Ok(Self { rate: median(|run| run.rate)?, cost: median(|run| run.cost)?, load: median(|run| run.load)? })
    }
}

fn compare(readers: u64, ours: &Run, bare: &Run) -> [Row; 2] {
    let (rate, cost) = (bare.rate / ours.rate, ours.cost / bare.cost);
    let bar = format!("{RATIO_BAR} times");
    let rates = format!("{rate:.2} times fewer: {:.0}, bare {:.0}", ours.rate, bare.rate);
    let costs = format!("{cost:.2} times: {:.2} us, bare {:.2} (load generator {:.2})", ours.cost, bare.cost, ours.load);
    [
        Row::new(format!("{readers} readers, frames a second"), bar.clone(), rates, Verdict::of(rate <= RATIO_BAR))
            .number("ratio", rate)
            .number("framesPerSecond", ours.rate)
            .number("referenceFramesPerSecond", bare.rate),
        Row::new(format!("{readers} readers, server time a frame"), bar, costs, Verdict::of(cost <= RATIO_BAR))
            .number("ratio", cost)
            .number("microsecondsPerFrame", ours.cost)
            .number("referenceMicrosecondsPerFrame", bare.cost)
            .number("loadGeneratorMicrosecondsPerFrame", ours.load),
    ]
}

/// Times a run; frames count from `begin`, processor time from the making.
struct Meter {
    pid: u32,
    server: Duration,
    own: Duration,
}

impl Meter {
    fn new(pid: u32) -> Result<Self> {
        Ok(Self { pid, server: cpu_time(pid)?, own: cpu_time(std::process::id())? })
    }

    /// `counted` deliveries took `time`; `delivered` is what the processor time was for.
    fn run(&self, counted: u64, time: Duration, delivered: u64) -> Result<Run> {
        ensure!(delivered > 0, "nothing was delivered");
        let per_frame = |time: Duration| time.as_secs_f64() * 1_000_000.0 / float(delivered);
        let server = cpu_time(self.pid)?.saturating_sub(self.server);
        ensure!(!server.is_zero(), "the server used no measurable processor time");
        let own = cpu_time(std::process::id())?.saturating_sub(self.own);
        Ok(Run { rate: float(counted) / time.as_secs_f64().max(1e-6), cost: per_frame(server), load: per_frame(own) })
    }
}

/// One reply to many readers, in a session of its own so that no history grows.
async fn through_daemon(daemon: &Daemon, provider: &Provider, readers: u64, tokens: u64, with_stalled: bool) -> Result<Run> {
    let session = daemon.new_session().await?;
    let base = session.last_id().await?;
    let requests = (0..readers).map(|_| session.attach("delta")).collect();
    let crowd = Crowd::attach(daemon.target.address, requests, base).await?;
    let stalled = with_stalled.then(|| Stalled::attach(daemon.target.address, &session.attach("delta"))).transpose()?;
    let progress = crowd.progress();
    let window = Window::new(Arc::clone(progress), readers);
    provider.set_script(Script { tokens, pace: Pace::Window(window), stamped: false });
    let meter = Meter::new(daemon.pid()?)?;
    session.prompt().await?;
    let deltas_arrived = progress.finished(readers * tokens, ARRIVAL_LIMIT).await;
    let end = Instant::now();
    ensure!(progress.closed() == 0, "{} readers lost their connection", progress.closed());
    ensure!(deltas_arrived, "{} of {} frames arrived", progress.delivered(), readers * tokens);
    let numbers = settle(&session, &crowd, base, readers).await?;
    let run = meter.run(readers * tokens, begin(provider, end)?, readers * numbers)?;
    drop(stalled);
    Ok(run)
}

/// Waits for the end of the run at every reader; returns how many numbered frames it had.
async fn settle(session: &Session, crowd: &Crowd, base: u64, readers: u64) -> Result<u64> {
    session.idle().await?;
    let numbers = session.last_id().await? - base;
    let arrived = crowd.progress().finished(readers * numbers, ARRIVAL_LIMIT).await;
    ensure!(arrived, "{} of {} frames arrived", crowd.progress().delivered(), readers * numbers);
    Ok(numbers)
}

fn begin(provider: &Provider, end: Instant) -> Result<Duration> {
    let outcome = provider.outcome();
    // A window that had to be reopened waited for a quarter of a second: the run says nothing about speed.
    ensure!(outcome.reopened == 0, "the window had to be reopened {} times: frames were merged", outcome.reopened);
    Ok(end - outcome.first_sent.context("the provider was not asked")?)
}

async fn through_reference(reference: &Reference, readers: u64, frames: &[Vec<u8>]) -> Result<Run> {
    let before = frame_id(frames.first().context("no frames")?).context("a frame without a number")? - 1;
    let requests = (0..readers).map(|_| reference.target.get("/events")).collect();
    let crowd = Crowd::attach(reference.target.address, requests, before).await?;
    let mut feed = reference.feed().await?;
    let delivered = readers * frames.len() as u64;
    let meter = Meter::new(reference.pid()?)?;
    let begin = Instant::now();
    feed.send_all(frames, Window::new(Arc::clone(crowd.progress()), readers)).await?;
    let arrived = crowd.progress().finished(delivered, ARRIVAL_LIMIT).await;
    let time = begin.elapsed();
    ensure!(crowd.progress().closed() == 0, "{} readers lost their connection", crowd.progress().closed());
    ensure!(arrived, "{} of {delivered} frames arrived", crowd.progress().delivered());
    meter.run(delivered, time, delivered)
}

/// The numbered frames of a reply as the daemon sent them, contiguous.
async fn capture(daemon: &Daemon, provider: &Provider, tokens: u64) -> Result<Vec<Vec<u8>>> {
    let session = daemon.new_session().await?;
    let base = session.last_id().await?;
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let observer: Observer = {
        let bytes = Arc::clone(&bytes);
        Box::new(move |read| bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(read))
    };
    let crowd = Crowd::observe(daemon.target.address, session.attach("delta"), base, observer).await?;
    let window = Window::new(Arc::clone(crowd.progress()), 1);
    provider.set_script(Script { tokens, pace: Pace::Window(window), stamped: false });
    session.prompt().await?;
    settle(&session, &crowd, base, 1).await?;
    drop(crowd);
    let bytes = std::mem::take(&mut *bytes.lock().unwrap_or_else(PoisonError::into_inner));
    let frames = numbered_frames(&bytes)?;
    ensure!(float(frames.len() as u64) >= float(tokens), "a reply of {tokens} tokens made {} frames", frames.len());
    Ok(frames)
}

/// Splits the bytes of a connection into its numbered frames.
fn numbered_frames(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").context("a stream without a head")?;
    let text = String::from_utf8(unchunk(&bytes[head + 4..]).0).context("a stream that is not text")?;
    let frames: Vec<Vec<u8>> =
        text.split_inclusive("\n\n").map(|frame| frame.as_bytes().to_owned()).filter(|frame| frame_id(frame).is_some()).collect();
    let numbers: Vec<u64> = frames.iter().filter_map(|frame| frame_id(frame)).collect();
    ensure!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "numbers of one reply are not contiguous");
    Ok(frames)
}

fn frame_id(frame: &[u8]) -> Option<u64> {
    std::str::from_utf8(frame).ok()?.strip_suffix("\n\n")?.rsplit_once("\nid: ")?.1.parse().ok()
}

/// The same load with and without a stalled reader, in turn.
async fn stalled(daemon: &Daemon, provider: &Provider) -> Result<Row> {
    let (readers, tokens) = STALLED_SIZE;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(through_daemon(daemon, provider, readers, tokens, false).await?);
        with.push(through_daemon(daemon, provider, readers, tokens, true).await.context("beside a stalled reader")?);
    }
    let (without, with) = (Run::median(&without)?, Run::median(&with)?);
    let kept = with.rate / without.rate;
    let measured = format!("{kept:.2} of the frames a second ({:.0} of {:.0}), none lost", with.rate, without.rate);
    Ok(Row::new(
        format!("{readers} readers beside one that never reads"),
        format!("{STALLED_BAR} and more"),
        measured,
        Verdict::of(kept >= STALLED_BAR),
    )
    .number("ratio", kept)
    .number("framesPerSecond", with.rate)
    .number("framesPerSecondWithout", without.rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_connection() {
        let body = "event: hello\ndata: {}\n\nevent: message\ndata: {\"a\":1}\nid: 8\n\n: ping\n\nevent: message\ndata: {}\nid: 9\n\n";
        let (first, second) = body.split_at(40);
        let stream = |body: &[&str]| {
            let chunks: String = body.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
            format!("HTTP/1.1 200 OK\r\n\r\n{chunks}").into_bytes()
        };
        let frames = numbered_frames(&stream(&[first, second])).unwrap();
        let expected = ["event: message\ndata: {\"a\":1}\nid: 8\n\n", "event: message\ndata: {}\nid: 9\n\n"];
        assert_eq!(frames, expected.map(|frame| frame.as_bytes().to_vec()));
        assert!(numbered_frames(&stream(&["data: {}\nid: 8\n\n", "data: {}\nid: 10\n\n"])).is_err());
        assert!(numbered_frames(b"").is_err());
    }

    #[test]
    fn the_median_is_taken_of_each_value() {
        let run = |rate, cost, load| Run { rate, cost, load };
        let median = Run::median(&[run(1.0, 9.0, 4.0), run(3.0, 8.0, 6.0), run(2.0, 7.0, 5.0)]).unwrap();
        assert_eq!((median.rate, median.cost, median.load), (2.0, 8.0, 5.0));
        assert!(Run::median(&[]).is_err());
    }

    #[test]
    fn twice_is_within_the_bar_and_more_is_not() {
        let run = |rate, cost| Run { rate, cost, load: 1.0 };
        let verdicts = |ours, bare| compare(10, &ours, &bare).map(|row| row.verdict);
        assert_eq!(verdicts(run(50.0, 4.0), run(100.0, 2.0)), [Verdict::Ok, Verdict::Ok]);
        assert_eq!(verdicts(run(49.0, 4.1), run(100.0, 2.0)), [Verdict::Over, Verdict::Over]);
    }
}
