//! One file per promise; here is the list, and how one is taken.

mod big;
mod bytes;
mod control;
mod fan_out;
mod idle;
mod latency;
mod memory;
mod start;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::time::timeout;

use crate::harness::{Bench, cpu_time};
use crate::report::{Row, Section, Verdict};

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measurement {
    /// Spawn to `/health`.
    Start,
    /// What a daemon that nobody uses costs.
    Idle,
    /// Commands a second, and their latency under load.
    Control,
    /// Provider byte to client byte.
    Latency,
    /// Many readers of one session.
    FanOut,
    /// Bytes on the wire for a text.
    Bytes,
    /// Growth over attach and drop and over long turns, and many readers.
    Memory,
    /// Large sessions, and many.
    Big,
}

impl Measurement {
    /// All, in the order in which they are taken.
    pub const ALL: [Self; 8] = [Self::Start, Self::Idle, Self::Control, Self::Latency, Self::FanOut, Self::Bytes, Self::Memory, Self::Big];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Idle => "idle",
            Self::Control => "control",
            Self::Latency => "latency",
            Self::FanOut => "fan-out",
            Self::Bytes => "bytes",
            Self::Memory => "memory",
            Self::Big => "big",
        }
    }

    /// The measurement of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measurement| measurement.name() == name)
    }

    /// Takes it, within `limit`. A failure is a row, so that the others are still taken.
    pub async fn take(self, bench: &Bench, limit: Duration) -> Section {
        let begin = Instant::now();
        let own = || cpu_time(std::process::id()).unwrap_or_default();
        let before = own();
        // Outside of what may be cut off: lines that were measured by then are kept.
        let mut rows = Vec::new();
        let failure = match timeout(limit, self.measure(bench, &mut rows)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some(format!("not done in {} s", limit.as_secs())),
        };
        rows.extend(failure.map(|reason| Row::new("measurement", "", reason, Verdict::Failed)));
        let seconds = begin.elapsed().as_secs_f64();
        let load_generator_processors = (own() - before).as_secs_f64() / seconds.max(0.001);
        Section { name: self.name(), rows, seconds, load_generator_processors }
    }

    async fn measure(self, bench: &Bench, rows: &mut Vec<Row>) -> Result<()> {
        match self {
            Self::Start => start::measure(bench, rows).await,
            Self::Idle => idle::measure(bench, rows).await,
            Self::Control => Box::pin(control::measure(bench, rows)).await,
            Self::Latency => latency::measure(bench, rows).await,
            Self::FanOut => Box::pin(fan_out::measure(bench, rows)).await,
            Self::Bytes => bytes::measure(bench, rows).await,
            Self::Memory => Box::pin(memory::measure(bench, rows)).await,
            Self::Big => big::measure(bench, rows).await,
        }
    }
}

/// The error of a set without samples.
fn no_samples() -> anyhow::Error {
    anyhow!("no samples")
}

/// A count as a number of a report; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a bounded run")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for measurement in Measurement::ALL {
            assert_eq!(Measurement::from_name(measurement.name()), Some(measurement));
        }
        assert_eq!(Measurement::from_name("all"), None);
    }

    #[tokio::test]
    async fn a_failure_is_a_row() {
        let missing: std::path::PathBuf = "/nonexistent/wolli".into();
        let bench = Bench { wolli: missing.clone(), program: missing };
        let section = Measurement::Start.take(&bench, Duration::from_secs(30)).await;
        assert_eq!(section.rows.len(), 1);
        assert_eq!(section.rows[0].verdict, Verdict::Failed);
        assert!(section.rows[0].measured.contains("/nonexistent/wolli"), "{}", section.rows[0].measured);
    }
}
