//! Starts a program, collects what it prints, and ends it on cancel or time limit.
//!
//! Invariant: [`run()`] returns soon after the leader ended, whoever holds the pipe; and after a cancel or a time limit only when
//! everything the program started is dead (or is named in [`Finished::survivors`]). Dropping the future kills everything.
//! What is left running after a normal end is handed over as [`Background`], and dies with that.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::collect::{Collected, Collector, CollectorSettings};
use crate::guard::ProcessGuard;
use crate::ledger::Ledger;
use crate::process_table::ProcessIdentity;
use crate::program::{Exit, Program, SpawnError, Stdin};
use crate::spill::{Spill, SpillReport, SpillSettings};
use crate::truncate::end_of;

/// How long the pipe is read after the leader ended. A process it left behind may hold the pipe for ever; what the leader itself wrote is
/// in the pipe already and is read in any case.
pub const LINGER: Duration = Duration::from_millis(100);

/// Between SIGTERM and SIGKILL: enough to remove a lock file, short enough for a person who pressed stop.
pub const GRACE: Duration = Duration::from_millis(500);

/// One read: the usual capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// What is read after the linger time at most, in reads: a pipe holds 1 MiB at most, and a background process may fill it as fast as we read.
const LAST_READS: usize = 16;

/// How soon a background program without a pipe is looked at: mostly it has closed the pipe by ending.
const BACKGROUND_FIRST_LOOK: Duration = Duration::from_millis(50);

/// How long the pause between two looks grows: one that runs for days costs nothing.
const BACKGROUND_LAST_LOOK: Duration = Duration::from_secs(30);

/// How a program is run.
#[derive(Debug, Clone, Default)]
pub struct RunSettings {
    /// Everything is ended when it is cancelled.
    pub cancel: CancellationToken,
    /// Everything is ended after this; `None`: never.
    pub time_limit: Option<Duration>,
    pub collector: CollectorSettings,
    /// A file for long output (standard output, or both if merged).
    pub spill: Option<SpillSettings>,
    /// Where the program is recorded while it runs.
    pub ledger: Option<Ledger>,
}

/// Why [`run()`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The leader ended by itself.
    Exited,
    TimedOut,
    Cancelled,
}

/// Everything about a program that ran.
#[derive(Debug)]
pub struct Finished {
    pub ending: Ending,
    /// `None` if the leader could not be ended, see `survivors`.
    pub exit: Option<Exit>,
    /// Standard output, with standard error if merged.
    pub output: Collected,
    /// Standard error, if separate.
    pub errors: Option<Collected>,
    /// `None`: the output was short, or no spill was asked for.
    pub spill: Option<SpillReport>,
    /// Processes that SIGKILL did not end.
    pub survivors: Vec<ProcessIdentity>,
    /// What the program left running when it ended by itself.
    pub background: Option<Background>,
}

/// New output, see [`Updates`].
#[derive(Debug)]
pub struct Update<'a> {
    /// Text since the last update; its end if it was more than the collector's tail.
    pub appended: &'a str,
    /// Bytes of text left out in front of `appended`.
    pub skipped: u64,
    /// Everything so far.
    pub so_far: &'a Collected,
    /// The file with everything, if there is one by now.
    pub spill: Option<&'a Path>,
}

/// Somebody who watches the output.
pub struct Updates<'a> {
    /// The shortest time between two updates. What is left when the program has ended is told at once.
    pub every: Duration,
    /// Must not block.
    pub deliver: &'a mut (dyn FnMut(Update<'_>) + Send),
}

impl std::fmt::Debug for Updates<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Updates").field("every", &self.every).finish_non_exhaustive()
    }
}

/// Runs a program to its end.
///
/// Cancel-safe in that dropping the future kills everything the program started.
///
/// # Errors
/// [`SpawnError`] if it did not start. Whatever happens later is in [`Finished`].
pub async fn run(mut program: Program, settings: RunSettings, updates: Option<Updates<'_>>) -> Result<Finished, SpawnError> {
    let RunSettings { cancel, time_limit, collector, spill, ledger } = settings;
    let input = match std::mem::take(&mut program.stdin) {
        Stdin::Bytes(bytes) => {
            program.stdin = Stdin::Pipe;
            bytes
        }
        // Nobody could write to a pipe here.
        Stdin::Null | Stdin::Pipe => Bytes::new(),
    };
    let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut guard = ProcessGuard::spawn(program, ledger.as_ref()).await?;
    let mut output = Stream::new(guard.take_stdout(), collector, updates, spill);
    let mut errors = Stream::new(guard.take_stderr(), collector, None, None);
    let is_separate = errors.is_open();
    let mut feed = Box::pin(feed(guard.take_stdin(), input));
    let (mut fed, mut exit, mut linger) = (false, None, None);

    let ending = loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break Ending::Cancelled,
            () = at(deadline) => break Ending::TimedOut,
            () = at(linger) => break Ending::Exited,
            ended = guard.wait(), if linger.is_none() => {
                exit = ended.ok();
                linger = Some(Instant::now() + LINGER);
            }
            () = &mut feed, if !fed => fed = true,
            news = output.next(), if output.has_next() => output.take(news).await,
            news = errors.next(), if errors.has_next() => errors.take(news).await,
        }
        if linger.is_some() && !output.is_open() && !errors.is_open() {
            break Ending::Exited;
        }
    };
    drop(feed);

    let mut survivors = Vec::new();
    if ending != Ending::Exited {
        let mut end = Box::pin(guard.end(GRACE));
        // Reading goes on: a program that is asked to end may have something to say, and must not hang on a full pipe.
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut end => break ended,
                news = output.next(), if output.has_next() => output.take(news).await,
                news = errors.next(), if errors.has_next() => errors.take(news).await,
            }
        };
        drop(end);
        (exit, survivors) = (ended.exit, ended.survivors);
    }
    output.read_the_rest().await;
    errors.read_the_rest().await;
    output.tell_the_rest();

    if !output.is_open() && !errors.is_open() {
        guard.output_is_closed();
    }
    let left_running = ending == Ending::Exited && guard.is_alive().await;
    let background = left_running.then(|| Background { guard, pipes: [output.pipe.take(), errors.pipe.take()] });
    let errors = is_separate.then(|| errors.collector.into_collected());
    let spill = match output.spill.take() {
        Some(spill) => spill.finish().await,
        None => None,
    };
    Ok(Finished { ending, exit, output: output.collector.into_collected(), errors, spill, survivors, background })
}

/// Writes the input; a program that does not read it is no error.
async fn feed(pipe: Option<pipe::Sender>, input: Bytes) {
    if let Some(mut pipe) = pipe {
        let _closed_early = pipe.write_all(&input).await;
    }
}

/// Never, without an instant.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// One output pipe with its collector, its file and its observer.
struct Stream<'a> {
    pipe: Option<pipe::Receiver>,
    buffer: Box<[u8]>,
    collector: Collector,
    spill: Option<Spill>,
    updates: Option<Updates<'a>>,
    keep: usize,
    appended: String,
    skipped: u64,
    /// When the observer may be told next; `None`: there is nothing to tell.
    due: Option<Instant>,
    last_update: Option<Instant>,
}

impl<'a> Stream<'a> {
    fn new(pipe: Option<pipe::Receiver>, settings: CollectorSettings, updates: Option<Updates<'a>>, spill: Option<SpillSettings>) -> Self {
        let size = if pipe.is_some() { READ_BYTES } else { 0 };
        Self {
            pipe,
            buffer: vec![0; size].into_boxed_slice(),
            collector: Collector::new(settings),
            spill: spill.map(Spill::new),
            updates,
            keep: settings.tail_bytes,
            appended: String::new(),
            skipped: 0,
            due: None,
            last_update: None,
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn has_next(&self) -> bool {
        self.is_open() || self.due.is_some()
    }

    /// The next read, or `None` when the observer is to be told. Cancel-safe: nothing is lost before [`Self::take`] has it.
    async fn next(&mut self) -> Option<io::Result<usize>> {
        let (pipe, buffer) = (&mut self.pipe, &mut self.buffer);
        let reading = async {
            match pipe {
                Some(pipe) => pipe.read(buffer).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = at(self.due) => None,
            read = reading => Some(read),
        }
    }

    async fn take(&mut self, news: Option<io::Result<usize>>) {
        let Some(read) = news else { return self.tell() };
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(error) => {
                tracing::debug!(%error, "output pipe failed");
                0
            }
        };
        let bytes = self.buffer.get(..count).unwrap_or_default();
        let text = if count == 0 {
            self.pipe = None;
            self.collector.finish()
        } else {
            self.collector.push(bytes)
        };
        if let Some(updates) = &self.updates
            && !text.is_empty()
        {
            self.appended.push_str(text);
            if self.appended.len() > self.keep.saturating_mul(2) {
                let surplus = self.appended.len() - end_of(&self.appended, self.keep).len();
                self.appended.drain(..surplus);
                self.skipped += surplus as u64;
            }
            let earliest = self.last_update.map_or_else(Instant::now, |last| last + updates.every);
            self.due = Some(self.due.unwrap_or(earliest));
        }
        if let Some(spill) = &mut self.spill
            && count > 0
        {
            let so_far = self.collector.so_far();
            spill.push(bytes, so_far.total_lines(), so_far.total_bytes()).await;
        }
    }

    fn tell(&mut self) {
        self.due = None;
        let Some(updates) = &mut self.updates else {
            return;
        };
        self.last_update = Some(Instant::now());
        (updates.deliver)(Update {
            appended: &self.appended,
            skipped: self.skipped,
            so_far: self.collector.so_far(),
            spill: self.spill.as_ref().and_then(Spill::path),
        });
        self.appended.clear();
        self.skipped = 0;
    }

    /// What the observer was not told yet: the updates join to the whole text.
    fn tell_the_rest(&mut self) {
        if !self.appended.is_empty() || self.skipped > 0 {
            self.tell();
        }
    }

    /// What is in the pipe already, without waiting for more.
    async fn read_the_rest(&mut self) {
        for _ in 0..LAST_READS {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.try_read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                read => self.take(Some(read)).await,
            }
        }
        if self.pipe.is_some() {
            self.collector.finish();
        }
    }
}

/// What a program left running when it ended: a server that it started, for instance.
///
/// It lives as long as this value; dropping it kills it.
#[derive(Debug)]
pub struct Background {
    guard: ProcessGuard,
    pipes: [Option<pipe::Receiver>; 2],
}

impl Background {
    /// The program that left it, and the number of its session.
    pub fn identity(&self) -> ProcessIdentity {
        self.guard.identity()
    }

    /// Lets it run: throws away what it prints, returns when it is gone, ends it when `cancel` is cancelled.
    ///
    /// Cancel-safe in that dropping the future kills it.
    pub async fn supervise(self, cancel: &CancellationToken) {
        let Self { mut guard, pipes: [mut output, mut errors] } = self;
        let mut pause = BACKGROUND_FIRST_LOOK;
        while guard.is_alive().await {
            // While a pipe is open, somebody holds it; its end is the news.
            let is_open = output.is_some() || errors.is_some();
            let look_again = (!is_open).then(|| Instant::now() + pause);
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    // A closed pipe is one more reason for it to end.
                    drop((output, errors));
                    guard.end(GRACE).await;
                    return;
                }
                _ = async { tokio::join!(discard(&mut output), discard(&mut errors)) }, if is_open => {}
                () = at(look_again) => pause = (pause * 2).min(BACKGROUND_LAST_LOOK),
            }
        }
    }
}

/// Reads until the pipe is closed.
async fn discard(pipe: &mut Option<pipe::Receiver>) {
    if let Some(open) = pipe {
        let mut buffer = vec![0; READ_BYTES];
        while matches!(open.read(&mut buffer).await, Ok(count) if count > 0) {}
        *pipe = None;
    }
}

#[cfg(test)]
mod tests;
