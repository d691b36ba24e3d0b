//! bytes: what one reader receives for a reply, as a multiple of its text, and how that grows with the reply; and what the views cost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::float;
use crate::harness::{Bench, BenchHome, Daemon, cpu_time};
use crate::pacing::Window;
use crate::provider::{Pace, Provider, Script, text_bytes};
use crate::readers::Crowd;
use crate::report::{Row, Verdict};

/// Deltas of the short and of the long reply.
const SHORT: u64 = 1_000;
const LONG: u64 = 10_000;
/// The promise: so many times the text, and so many bytes a frame.
const TEXT_TIMES: u64 = 5;
const FRAME_BYTES: u64 = 160;
/// The promise: bytes of the long reply over those of the short one.
const GROWTH_BAR: f64 = 10.5;
/// Everything has arrived by then.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn measure(bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
    let provider = Provider::start()?;
    let home = BenchHome::new(provider.address())?;
    let daemon = Daemon::start(&bench.wolli, &home).await?;
    let short = Wire::of(&daemon, &provider, SHORT, "delta").await?;
    let long = Wire::of(&daemon, &provider, LONG, "delta").await?;
    let full = Wire::of(&daemon, &provider, SHORT, "full").await?;
    let snapshot = Wire::of(&daemon, &provider, LONG, "snapshot").await?;
    daemon.stop().await?;

    let growth = float(long.bytes) / float(short.bytes);
    let growth_row = Row::new(
        format!("{LONG} tokens over {SHORT}"),
        format!("{GROWTH_BAR} times"),
        format!("{growth:.2} times"),
        Verdict::of(growth <= GROWTH_BAR),
    );
    let full_row = Row::new(
        format!("view full, {SHORT} tokens"),
        "-",
        format!("{} bytes, {:.0} times the text", full.bytes, float(full.bytes) / float(full.text)),
        Verdict::Note,
    );
    let share = float(snapshot.bytes) / float(long.bytes);
    let cost = snapshot.processor.as_secs_f64() / long.processor.as_secs_f64().max(0.001);
    let snapshot_row = Row::new(
        format!("view snapshot, {LONG} tokens, over view delta"),
        "-",
        format!("{share:.2} of the bytes in {} frames, {cost:.2} of the processor time", snapshot.frames),
        Verdict::Note,
    );
    rows.extend([short.row(SHORT), long.row(LONG), growth_row.number("ratio", growth), full_row.number("bytes", float(full.bytes))]);
    rows.push(snapshot_row.number("bytesRatio", share).number("processorRatio", cost).number("frames", float(snapshot.frames)));
    Ok(())
}

struct Wire {
    text: u64,
    bytes: u64,
    frames: u64,
    /// What the daemon took for it.
    processor: Duration,
}

impl Wire {
    async fn of(daemon: &Daemon, provider: &Provider, tokens: u64, view: &str) -> Result<Self> {
        let session = daemon.new_session().await?;
        let base = session.last_id().await?;
        let reader = Crowd::attach(daemon.target.address, vec![session.attach(view)], base).await?;
        let progress = Arc::clone(reader.progress());
        let (bytes, frames) = (progress.bytes(), progress.frames());
        let before = cpu_time(daemon.pid()?)?;
        let window = Window::new(Arc::clone(&progress), 1);
        provider.set_script(Script { tokens, pace: Pace::Window(window), stamped: false });
        session.prompt().await?;
        session.idle().await?;
        let numbers = session.last_id().await? - base;
        ensure!(numbers >= tokens, "a reply of {tokens} tokens made {numbers} numbered frames");
        ensure!(progress.finished(numbers, ARRIVAL_LIMIT).await, "{} of {numbers} frames arrived", progress.delivered());
        let processor = cpu_time(daemon.pid()?)?.saturating_sub(before);
        Ok(Self { text: text_bytes(tokens), bytes: progress.bytes() - bytes, frames: progress.frames() - frames, processor })
    }

    fn row(&self, tokens: u64) -> Row {
        let bar = TEXT_TIMES * self.text + FRAME_BYTES * self.frames;
        let measured = format!("{} bytes in {} frames for {} of text", self.bytes, self.frames, self.text);
        Row::new(format!("view delta, {tokens} tokens"), format!("{bar} bytes"), measured, Verdict::of(self.bytes <= bar))
            .number("bytes", float(self.bytes))
            .number("barBytes", float(bar))
            .number("frames", float(self.frames))
            .number("textBytes", float(self.text))
    }
}
