//! The thread that writes log lines, and the way to it.
//!
//! A thread of its own, so that a slow disk or a blocked pipe never holds up a task. What comes faster than it can write is left
//! out and counted. It sleeps until there is a line.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use tracing_subscriber::fmt::MakeWriter;
use wolli_protocol::time::iso_from_millis;

use super::LogFormat;
use super::collapse::{Collapser, Repeated};
use super::rotate::RotatingFile;

/// Lines on their way to the thread. Filled by every task, drained by the thread; full means that the disk is slower than the
/// program talks, and the line is left out and counted.
const LINES: usize = 1024;
/// Secrets that are shorter are not masked.
const SHORTEST_SECRET: usize = 16;
/// How long the end of the program waits for the last lines.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

enum Message {
    Line(SystemTime, Vec<u8>),
    /// Write everything, then answer.
    Flush(SyncSender<()>),
}

/// Makes sure that the last lines are written; keep it until the end of the program.
#[derive(Debug)]
pub(crate) struct LogGuard {
    lines: Lines,
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (done, finished) = sync_channel(1);
        // The thread may be stuck in a write; then the lines before it are lost and the program ends all the same.
        if self.lines.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = finished.recv_timeout(FLUSH_LIMIT);
        }
    }
}

/// Where formatted lines go. Clones share one thread.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    sender: SyncSender<Message>,
    left_out: Arc<AtomicU64>,
}

/// One line on its way.
#[derive(Debug)]
pub(super) struct LineWriter<'a>(&'a Lines);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

impl Write for LineWriter<'_> {
    /// The formatter hands over one whole line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.sender.try_send(Message::Line(SystemTime::now(), line.to_vec())).is_err() {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the thread. If the system refuses one there is no log, and nothing else changes.
pub(super) fn start(file: RotatingFile, format: LogFormat, secret: &SecretString) -> (LogGuard, Lines) {
    let (sender, messages) = sync_channel(LINES);
    let lines = Lines { sender, left_out: Arc::new(AtomicU64::new(0)) };
    let mut writer = LogWriter::new(file, format, Box::new(io::stderr())).masking(secret.expose_secret());
    let left_out = Arc::clone(&lines.left_out);
    let thread = std::thread::Builder::new().name("log".into()).spawn(move || write_all(&messages, &mut writer, &left_out));
    if let Err(error) = thread {
        let _ = writeln!(io::stderr(), "there is no log: the system gave no thread for it: {error}");
    }
    (LogGuard { lines: lines.clone() }, lines)
}

fn write_all(messages: &Receiver<Message>, writer: &mut LogWriter, left_out: &AtomicU64) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Line(at, line) => {
                let lost = left_out.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    writer.notice(at, Instant::now(), &format!("{lost} lines were left out: the log was written too slowly"));
                }
                writer.line(at, Instant::now(), &line);
            }
            Message::Flush(done) => {
                writer.finish(SystemTime::now(), Instant::now());
                let _ = done.send(());
            }
        }
    }
}

/// Dates lines, collapses them and writes them to both places.
pub(super) struct LogWriter {
    file: RotatingFile,
    format: LogFormat,
    errors: Box<dyn Write + Send>,
    collapser: Collapser,
    /// What never stands in a line; empty for nothing.
    secret: Box<[u8]>,
    /// The file has refused lines since this was last said.
    refused: u64,
    due: Vec<Repeated>,
}

impl LogWriter {
    pub(super) fn new(file: RotatingFile, format: LogFormat, errors: Box<dyn Write + Send>) -> Self {
        Self { file, format, errors, collapser: Collapser::default(), secret: Box::default(), refused: 0, due: Vec::new() }
    }

    /// Replaces `secret` in every line, unless it is so short that it may be a part of ordinary words.
    pub(super) fn masking(mut self, secret: &str) -> Self {
        if secret.len() >= SHORTEST_SECRET {
            self.secret = secret.as_bytes().into();
        }
        self
    }

    pub(super) fn line(&mut self, at: SystemTime, now: Instant, line: &[u8]) {
        let line = masked(one_line(line), &self.secret);
        let mut due = std::mem::take(&mut self.due);
        let admitted = self.collapser.admit(&line, now, &mut due);
        for repeated in due.drain(..) {
            self.put(at, now, &repeated.line, Some(repeated.times));
        }
        self.due = due;
        if admitted {
            self.put(at, now, &line, None);
        }
    }

    pub(super) fn finish(&mut self, at: SystemTime, now: Instant) {
        for repeated in self.collapser.finish() {
            self.put(at, now, &repeated.line, Some(repeated.times));
        }
    }

    fn notice(&mut self, at: SystemTime, now: Instant, text: &str) {
        let line = match self.format {
            LogFormat::Text => format!(" WARN log: {text}"),
            LogFormat::Json => format!(r#"{{"level":"WARN","fields":{{"message":"{text}"}},"target":"log"}}"#),
        };
        self.put(at, now, line.as_bytes(), None);
    }

    fn put(&mut self, at: SystemTime, now: Instant, line: &[u8], repeated: Option<u64>) {
        let dated = dated(self.format, at, line, repeated);
        // Neither place may keep the other from its line.
        let _ = self.errors.write_all(&dated);
        if self.file.write_line(&dated, now).is_err() {
            self.refused += 1;
        } else if self.refused > 0 {
            let refused = std::mem::take(&mut self.refused);
            self.notice(at, now, &format!("{refused} lines could not be written to the log file"));
        }
    }
}

fn dated(format: LogFormat, at: SystemTime, line: &[u8], repeated: Option<u64>) -> Vec<u8> {
    let mut head = String::with_capacity(64);
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = iso_from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let mut tail = String::new();
    let rest = match format {
        LogFormat::Text => {
            let _ = write!(head, "{time} ");
            if let Some(times) = repeated {
                let _ = write!(tail, " (this line came {times} more times)");
            }
            line
        }
        LogFormat::Json => {
            let _ = write!(head, r#"{{"timestamp":"{time}","#);
            if let Some(times) = repeated {
                let _ = write!(head, r#""repeated":{times},"#);
            }
            line.strip_prefix(b"{").unwrap_or(line)
        }
    };
    tail.push('\n');
    [head.as_bytes(), rest, tail.as_bytes()].concat()
}

fn masked(mut line: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    if secret.is_empty() {
        return line;
    }
    while let Some(at) = line.windows(secret.len()).position(|window| window == secret) {
        line.splice(at..at + secret.len(), *b"[secret]");
    }
    line
}

/// The line without its line break, and without any other control character that could make it look like two.
fn one_line(line: &[u8]) -> Vec<u8> {
    let line = line.trim_ascii_end();
    let mut plain = Vec::with_capacity(line.len());
    for byte in line {
        match byte {
            b'\n' => plain.extend_from_slice(b"\\n"),
            b'\r' => plain.extend_from_slice(b"\\r"),
            0..=8 | 11..=31 | 127 => plain.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            _ => plain.push(*byte),
        }
    }
    plain
}
