//! What was measured, as a table for people and as JSON for programs.
//!
//! A verdict compares with the bar and nothing else; what is only told for comparison is a note.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::harness::Load;

/// How a measured value stands to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Within the bar.
    Ok,
    /// Beyond it.
    Over,
    /// There is no bar; for comparison.
    Note,
    /// Not measured on this machine, for the reason that is told.
    Skipped,
    /// Could not be measured.
    Failed,
}

impl Verdict {
    /// `Ok` if the value is within the bar.
    pub fn of(within: bool) -> Self {
        if within { Self::Ok } else { Self::Over }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Over => "over",
            Self::Note => "note",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What is promised.
    pub promise: String,
    /// The value that it promises.
    pub bar: String,
    /// The value that was measured.
    pub measured: String,
    /// How they stand to each other.
    pub verdict: Verdict,
    /// The values as numbers, by name with unit.
    pub numbers: Map<String, Value>,
}

impl Row {
    /// A line without numbers.
    pub fn new(promise: impl Into<String>, bar: impl Into<String>, measured: impl Into<String>, verdict: Verdict) -> Self {
        Self { promise: promise.into(), bar: bar.into(), measured: measured.into(), verdict, numbers: Map::new() }
    }

    /// Adds a number. What is not finite is left out.
    pub fn number(mut self, name: &str, value: impl Into<f64>) -> Self {
        if let Some(number) = serde_json::Number::from_f64(value.into()) {
            self.numbers.insert(name.to_owned(), Value::Number(number));
        }
        self
    }
}

/// The lines of one measurement, and what taking them cost.
#[derive(Debug, Clone, Serialize)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// Its lines.
    pub rows: Vec<Row>,
    /// How long it took.
    pub seconds: f64,
    /// Processor time of this program while it did, over the time it took: 1 is one processor.
    pub load_generator_processors: f64,
}

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The binary that was measured.
    pub binary: String,
    /// The machine before.
    pub before: Load,
    /// The machine after.
    pub after: Load,
    /// How long the run took.
    pub seconds: f64,
    /// What was measured.
    pub sections: Vec<Section>,
}

impl Report {
    /// The table.
    pub fn table(&self) -> String {
        let header = ["promise", "bar", "measured", "verdict"].map(str::to_owned);
        let rows: Vec<(usize, [String; 4])> = std::iter::once((0, header))
            .chain(self.sections.iter().enumerate().flat_map(|(section, found)| {
                found.rows.iter().map(move |row| {
                    let promise = format!("{}: {}", found.name, row.promise);
                    (section + 1, [promise, row.bar.clone(), row.measured.clone(), row.verdict.word().to_owned()])
                })
            }))
            .collect();
        let widths: [usize; 4] = std::array::from_fn(|column| rows.iter().map(|(_, row)| row[column].chars().count()).max().unwrap_or(0));
        let mut text = String::new();
        let mut last = 0;
        for (section, row) in &rows {
            if *section != last {
                text.push_str(&widths.map(|width| "-".repeat(width)).join("  "));
                text.push('\n');
                last = *section;
            }
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        // Writing into a string does not fail.
        let _ = writeln!(text);
        for section in &self.sections {
            let (name, seconds, processors) = (section.name, section.seconds, section.load_generator_processors);
            let _ = writeln!(text, "{name}: {seconds:.1} s, load generator used {processors:.2} processors");
        }
        let _ = writeln!(
            text,
            "machine: {}, {} processors; load average before {}, after {}; whole run {:.0} s",
            self.before.system, self.before.processors, self.before.average, self.after.average, self.seconds
        );
        text
    }

    /// Writes the JSON.
    pub fn write(&self, file: &Path) -> Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(file, text).with_context(|| format!("failed to write {}", file.display()))
    }

    /// Whether everything that was asked for was measured.
    pub fn is_complete(&self) -> bool {
        self.sections.iter().flat_map(|section| &section.rows).all(|row| row.verdict != Verdict::Failed)
    }
}

/// A time as people read it.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

/// Bytes as people read them.
pub fn mebibytes(bytes: f64) -> String {
    format!("{:.2} MiB", bytes / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let load = Load { average: "0.10 0.20 0.30".to_owned(), processors: 2, system: "Linux 6".to_owned() };
        let start =
            Row::new("spawn to health", "20 ms", "9.1 ms", Verdict::of(true)).number("milliseconds", 9.1).number("nothing", f64::NAN);
        let idle = Row::new("memory", "10 MiB", "11.00 MiB", Verdict::of(false));
        let section = |name, row| Section { name, rows: vec![row], seconds: 1.25, load_generator_processors: 0.5 };
        let sections = vec![section("start", start), section("idle", idle)];
        Report { binary: "wolli".to_owned(), before: load.clone(), after: load, seconds: 2.5, sections }
    }

    #[test]
    fn the_table() {
        let expected = "\
promise                 bar     measured   verdict
----------------------  ------  ---------  -------
start: spawn to health  20 ms   9.1 ms     ok
----------------------  ------  ---------  -------
idle: memory            10 MiB  11.00 MiB  over

start: 1.2 s, load generator used 0.50 processors
idle: 1.2 s, load generator used 0.50 processors
machine: Linux 6, 2 processors; load average before 0.10 0.20 0.30, after 0.10 0.20 0.30; whole run 2 s
";
        assert_eq!(report().table(), expected);
    }

    #[test]
    fn the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench/report.json");
        report().write(&file).unwrap();
        let value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!(value["sections"][0]["rows"][0]["numbers"], serde_json::json!({ "milliseconds": 9.1 }));
        assert_eq!(value["sections"][1]["rows"][0]["verdict"], "over");
    }

    #[test]
    fn failed_rows_make_a_run_incomplete() {
        let mut report = report();
        assert!(report.is_complete());
        report.sections[0].rows[0].verdict = Verdict::Failed;
        assert!(!report.is_complete());
    }

    #[test]
    fn units() {
        assert_eq!((milliseconds(Duration::from_micros(1_234)), mebibytes(1_572_864.0)), ("1.23 ms".to_owned(), "1.50 MiB".to_owned()));
    }
}
