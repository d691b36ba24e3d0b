//! `bash`: a shell command, with its output as it comes and its end in any case.
//!
//! The command and what it starts are one guarded family (`wolli_exec`): time limit and abort end all of it. What it leaves running after a normal end goes
//! to whoever keeps background commands, or ends too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use wolli_exec::spill::{MAX_SPILL_BYTES, clean};
use wolli_exec::{
    Collected, Ending, Exit, Finished, Limits, Program, RunSettings, SpillReport, SpillSettings, Truncated, TruncatedBy, Update, Updates,
    run,
};
use wolli_protocol::event::ToolResult;
use wolli_protocol::message::{JsonObject, UserBlock};
use wolli_protocol::number::Number;

use super::context::{ToolContext, ToolOutput, ToolUpdate};
use super::failure::ToolFailure;
use super::report;
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};

/// The shortest time between two updates: people see no more, and each costs every client.
const UPDATE_EVERY: Duration = Duration::from_millis(100);

/// Long outputs are kept as `<prefix>-<16 hex digits>.log` for a week, and 100 MiB of them: a model reads them soon or never.
const SPILL_PREFIX: &str = "bash";
const SPILL_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Where commands can run. Confined targets will stand here as well.
const TARGETS: [&str; 1] = ["host"];

const DESCRIPTION: &str = "Run a shell command in your home. Output and errors come back together; of a long output the end is shown (2000 lines or 50KB) and the \
     whole is in a file that is named. Commands that run for long need a `timeout` in seconds; without one they end after 10 minutes. \
     There is no input: use flags that avoid questions.";

#[derive(Debug)]
struct Bash(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Bash(builtin(
        "bash",
        "bash",
        Execution::Parallel,
        DESCRIPTION,
        json!({
            "type": "object",
            "required": ["command"],
            "properties": {
                "command": {"type": "string", "description": "The command line"},
                "timeout": {"type": "number", "description": "Seconds after which the command is ended (default: 600)"},
                "target": {
                    "anyOf": [{"const": "sandbox", "type": "string"}, {"const": "host", "type": "string"}],
                    "description": "Where to run it; leave it out for the default"
                }
            }
        }),
        "Run shell commands",
        &["Commands run in the default target; ask for the host only when the command cannot work otherwise"],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    command: String,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    target: Option<String>,
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = typed(arguments)?;
            if let Some(target) = arguments.target.as_deref().filter(|target| !TARGETS.contains(target)) {
                return Err(ToolFailure::Text(format!("Unknown target \"{target}\". Available: {}", TARGETS.join(", "))));
            }
            execute(&arguments, context).await
        })
    }
}

async fn execute(arguments: &Arguments, context: &ToolContext) -> Result<ToolOutput, ToolFailure> {
    let home = context.home.display();
    if !tokio::fs::metadata(&context.home).await.is_ok_and(|metadata| metadata.is_dir()) {
        return Err(ToolFailure::Text(format!("Working directory does not exist: {home}\nCannot execute bash commands.")));
    }
    let (time_limit, seconds) = time_limit(arguments.timeout, context.bash_time_limit);
    let path = context.environment.get("PATH").map(String::as_str);
    let program =
        Program::new(shell(path), &context.home).arguments(["-c", arguments.command.as_str()]).environment(context.environment.iter());
    let limits = Limits::default();
    let settings = RunSettings {
        cancel: context.cancel.clone(),
        time_limit,
        spill: Some(SpillSettings {
            folder: context.spill_dir.clone(),
            prefix: SPILL_PREFIX.to_owned(),
            beyond_lines: limits.max_lines as u64,
            beyond_bytes: limits.max_bytes as u64,
        }),
        ledger: context.ledger.clone(),
        ..RunSettings::default()
    };
    context.updates.send(ToolUpdate { partial: ToolResult::default(), appended: String::new(), skipped: 0 });
    let mut deliver = |update: Update<'_>| context.updates.send(partial(&update, limits));
    let updates = Updates { every: UPDATE_EVERY, deliver: &mut deliver };
    let finished = Box::pin(run(program, settings, Some(updates))).await.map_err(|error| ToolFailure::Text(error.to_string()))?;
    let output = describe(&finished, seconds, limits);
    if finished.spill.is_some() {
        clean_up(context.spill_dir.clone()).await;
    }
    if let Some(background) = finished.background {
        context.background.keep(background);
    }
    Ok(output)
}

/// Long outputs of former commands must not pile up. Best effort; the next command tries again.
async fn clean_up(folder: PathBuf) {
    let cleaned = tokio::task::spawn_blocking(move || clean(&folder, SPILL_PREFIX, SPILL_MAX_AGE, MAX_SPILL_BYTES)).await;
    if let Ok(Err(error)) = cleaned {
        tracing::debug!(%error, "long outputs not cleaned up");
    }
}

/// The limit, and as text in seconds. Absent, zero and negative mean the default.
fn time_limit(asked: Option<f64>, default: Duration) -> (Option<Duration>, String) {
    let seconds = asked.filter(|seconds| *seconds > 0.0).unwrap_or(default.as_secs_f64());
    // What does not fit into a duration is for ever.
    let limit = Duration::try_from_secs_f64(seconds).ok();
    (limit, serde_json::to_string(&Number(seconds)).unwrap_or_default())
}

/// `/bin/bash`, else bash from PATH, else sh.
fn shell(path: Option<&str>) -> PathBuf {
    let usual = Path::new("/bin/bash");
    let in_path = || path.unwrap_or_default().split(':').filter(|folder| !folder.is_empty()).map(|folder| Path::new(folder).join("bash"));
    let candidates = std::iter::once(usual.to_owned()).chain(in_path());
    candidates.into_iter().find(|shell| shell.is_file()).unwrap_or_else(|| PathBuf::from("sh"))
}

fn partial(update: &Update<'_>, limits: Limits) -> ToolUpdate {
    let shown = update.so_far.truncate_tail(limits);
    let mut details = Map::new();
    if shown.truncation.truncated() {
        details.insert("truncation".to_owned(), report::truncation(&shown.truncation));
        if let Some(path) = update.spill {
            details.insert("fullOutputPath".to_owned(), json!(path.display().to_string()));
        }
    }
    ToolUpdate {
        partial: ToolResult { content: vec![UserBlock::text(shown.content)], details: Some(details.into()), terminate: None },
        appended: update.appended.to_owned(),
        skipped: update.skipped,
    }
}

fn describe(finished: &Finished, seconds: String, limits: Limits) -> ToolOutput {
    let shown = finished.output.truncate_tail(limits);
    let is_truncated = shown.truncation.truncated();
    let status = status(finished, &seconds);
    // A command that was stopped need not have said anything.
    let nothing = if finished.ending == Ending::Exited { "(no output)" } else { "" };
    let mut text = if shown.content.is_empty() { nothing.to_owned() } else { shown.content.clone().into_owned() };
    if is_truncated {
        report::add_notices(&mut text, &[notice(&shown, &finished.output, finished.spill.as_ref())]);
    }
    if let Some(status) = status {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&status);
        return ToolOutput::error(text);
    }
    ToolOutput::text(text).with_details(is_truncated.then(|| details(&shown, finished.spill.as_ref())))
}

/// Why it is an error; `None`: it is none.
fn status(finished: &Finished, seconds: &str) -> Option<String> {
    let mut status = match (finished.ending, finished.exit) {
        (Ending::Exited, Some(Exit::Code(0))) => return None,
        (Ending::Exited, Some(Exit::Code(code))) => format!("Command exited with code {code}"),
        (Ending::Exited, Some(Exit::Signal(signal))) => format!("Command was killed by signal {signal}{}", signal_name(signal)),
        (Ending::Exited, None) => "Command ended in an unknown way".to_owned(),
        (Ending::TimedOut, _) => format!("Command timed out after {seconds} seconds"),
        (Ending::Cancelled, _) => "Command aborted".to_owned(),
    };
    if !finished.survivors.is_empty() {
        let numbers: Vec<String> = finished.survivors.iter().map(|process| process.pid.to_string()).collect();
        status = format!("{status} (still running, cannot be killed: {})", numbers.join(", "));
    }
    Some(status)
}

/// The numbers that are the same on Linux and macOS.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

fn notice(shown: &Truncated<'_>, output: &Collected, spill: Option<&SpillReport>) -> String {
    let record = &shown.truncation;
    let last = record.total_lines;
    let what = if record.last_line_partial {
        let (end, whole) = (report::size(record.output_bytes), report::size(output.last_line_bytes()));
        format!("Showing last {end} of line {last} (line is {whole})")
    } else {
        let first = (last + 1).saturating_sub(record.output_lines);
        let by_bytes = if record.truncated_by == Some(TruncatedBy::Bytes) { " (50.0KB limit)" } else { "" };
        format!("Showing lines {first}-{last} of {last}{by_bytes}")
    };
    let reason = spill.and_then(|spill| spill.incomplete.as_deref());
    match (spill.and_then(|spill| spill.path.as_deref()), reason) {
        (Some(file), None) => format!("{what}. Full output: {}", file.display()),
        (Some(file), Some(reason)) => format!("{what}. Full output: {} (incomplete: {reason})", file.display()),
        (None, reason) => format!("{what}. Full output not kept: {}", reason.unwrap_or("no file")),
    }
}

fn details(shown: &Truncated<'_>, spill: Option<&SpillReport>) -> Value {
    let mut details = Map::new();
    details.insert("truncation".to_owned(), report::truncation(&shown.truncation));
    if let Some(path) = spill.and_then(|spill| spill.path.as_ref()) {
        details.insert("fullOutputPath".to_owned(), json!(path.display().to_string()));
    }
    details.into()
}

#[cfg(test)]
mod tests;
