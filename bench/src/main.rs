//! The program behind `make bench`: chooses, measures, prints the table, writes the JSON.
//!
//! `wolli-bench [name ...]` measures the promises that are named, or all. The binary that is measured is `WOLLI_BIN`, else the
//! `wolli` beside this program. Exit status: 0 when everything asked for was measured, whatever the verdicts; 1 when something could
//! not be; 2 for wrong arguments.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::signal::unix::{SignalKind, signal};
use wolli_bench::harness::{Bench, load};
use wolli_bench::measurements::Measurement;
use wolli_bench::reference;
use wolli_bench::report::Report;

/// The whole run; what has not begun by then is not begun.
const RUN_LIMIT: Duration = Duration::from_secs(470);
/// One measurement.
const MEASUREMENT_LIMIT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["serve-reference"] {
        return status(reference::serve().map(|()| true));
    }
    let mut chosen = Vec::new();
    for name in &arguments {
        let Some(measurement) = Measurement::from_name(name) else {
            let names = Measurement::ALL.map(Measurement::name).join(", ");
            drop(writeln!(std::io::stderr(), "wolli-bench: there is no measurement {name:?}; there are {names}"));
            return ExitCode::from(2);
        };
        chosen.push(measurement);
    }
    if chosen.is_empty() {
        chosen.extend(Measurement::ALL);
    }
    let binary = std::env::var_os("WOLLI_BIN").map(PathBuf::from);
    status(run(&chosen, binary))
}

fn status(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "wolli-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(chosen: &[Measurement], binary: Option<PathBuf>) -> Result<bool> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let beside = program.parent().unwrap_or(Path::new("."));
    let wolli = std::path::absolute(binary.unwrap_or_else(|| beside.join("wolli")))?;
    ensure!(wolli.is_file(), "{} is not there; build it (cargo build --release -p wolli-cli) or set WOLLI_BIN", wolli.display());
    let report_file = beside.parent().unwrap_or(beside).join("bench/report.json");

    let bench = Bench { wolli, program };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        // What is dropped on a signal takes its processes and its folders with it.
        tokio::select! {
            report = measure(&bench, chosen) => report,
            _ = interrupt.recv() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })?;
    write!(std::io::stdout(), "\n{}", report.table())?;
    report.write(&report_file)?;
    writeln!(std::io::stdout(), "written to {}", report_file.display())?;
    Ok(report.is_complete())
}

async fn measure(bench: &Bench, chosen: &[Measurement]) -> Result<Report> {
    let (begin, before) = (Instant::now(), load());
    let mut sections = Vec::new();
    for measurement in chosen {
        // To standard error: standard output is the table alone.
        writeln!(std::io::stderr(), "measuring {} ...", measurement.name())?;
        let limit = MEASUREMENT_LIMIT.min(RUN_LIMIT.saturating_sub(begin.elapsed()));
        sections.push(measurement.take(bench, limit).await);
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Report { binary: bench.wolli.display().to_string(), before, after: load(), seconds, sections })
}
