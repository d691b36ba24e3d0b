//! The one writer of a resident session's file.
//!
//! Requests are written in the order in which they were handed over; several that wait are written together and
//! synced once. Nobody else appends, so ids and parents cannot race.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::append::NewEntry;
use super::context::ContextMessage;
use super::file::SessionFile;
use super::sidecar::Sidecar;
use super::window::Window;
use crate::limits::PENDING_WRITES;
use crate::tasks::Tasks;

/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The line is in the file; a power cut may still take it.
    Written,
    /// The line is on disk.
    Synced,
}

/// Why nothing was stored. The text goes to clients.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot write the session file {path}: {reason}")]
    Write { path: String, reason: String },
    #[error("cannot read the session file {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("the session has too many pending writes; the disk is too slow")]
    Overloaded,
    #[error("the session is closed")]
    Closed,
}

/// What is changed in memory at the moment when entries are in the file.
type Effect = Box<dyn FnOnce() + Send>;

enum Request {
    Append { entries: Vec<NewEntry>, durability: Durability, effect: Option<Effect>, done: oneshot::Sender<Result<(), StoreError>> },
    Sync { done: oneshot::Sender<Result<(), StoreError>> },
    Sidecar { sidecar: Sidecar, done: oneshot::Sender<Result<(), StoreError>> },
    Context { done: oneshot::Sender<Result<Vec<ContextMessage>, StoreError>> },
    Window { done: oneshot::Sender<Result<Window, StoreError>> },
}

/// Handle of a session's writer. When the last one is dropped the writer finishes what it has and ends.
#[derive(Clone, Debug)]
pub struct Journal {
    requests: mpsc::Sender<Request>,
}

impl Journal {
    pub(crate) fn start(file: SessionFile, tasks: &Tasks) -> Self {
        let (requests, queue) = mpsc::channel(PENDING_WRITES);
        tasks.spawn("journal", write_all(file, queue, tasks.clone()));
        Self { requests }
    }

    /// Hands entries over now; the returned future tells when they are stored.
    ///
    /// Cancel-safe: dropping the future does not take the entries back.
    pub fn append(&self, entries: Vec<NewEntry>, durability: Durability) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Append { entries, durability, effect: None, done }, answer)
    }

    /// Like [`Journal::append`]; `effect` runs in the order of the file, when the entries are in it and not before. It must be short.
    pub(crate) fn append_then<F: FnOnce() + Send + 'static>(
        &self,
        entries: Vec<NewEntry>,
        durability: Durability,
        effect: F,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<F> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Append { entries, durability, effect: Some(Box::new(effect)), done }, answer)
    }

    /// Waits until everything handed over before is on disk.
    pub fn sync(&self) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Sync { done }, answer)
    }

    pub(crate) fn store_sidecar(&self, sidecar: Sidecar) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Sidecar { sidecar, done }, answer)
    }

    /// What the model sees, as of everything handed over before.
    pub fn context(&self) -> impl Future<Output = Result<Vec<ContextMessage>, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Context { done }, answer)
    }

    /// What a compaction works on, as of everything handed over before.
    pub(crate) fn window(&self) -> impl Future<Output = Result<Window, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.hand_over(Request::Window { done }, answer)
    }

    fn hand_over<T: Send + 'static>(
        &self,
        request: Request,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + use<T> {
        let refused = match self.requests.try_send(request) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(_)) => Some(StoreError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => Some(StoreError::Closed),
        };
        async move {
            match refused {
                Some(error) => Err(error),
                None => answer.await.unwrap_or(Err(StoreError::Closed)),
            }
        }
    }
}

async fn write_all(file: SessionFile, mut queue: mpsc::Receiver<Request>, tasks: Tasks) {
    let path: Arc<str> = file.path().to_string_lossy().into();
    let mut file = Some(file);
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, PENDING_WRITES).await > 0 {
        let Some(mut open) = file.take() else { return };
        let requests = std::mem::take(&mut batch);
        let at = Arc::clone(&path);
        let work = tasks.spawn_blocking(move || {
            serve(&mut open, requests, &at);
            open
        });
        match work.await {
            Ok(open) => file = Some(open),
            Err(error) => {
                tracing::error!(path = %path, %error, "the writer of a session file failed; the session is closed");
                return;
            }
        }
    }
}

/// Serves a batch in order, with one sync for all of it that asks for one.
fn serve(file: &mut SessionFile, requests: Vec<Request>, path: &Arc<str>) {
    let write_error = |error: &std::io::Error| StoreError::Write { path: path.to_string(), reason: error.to_string() };
    let mut unsynced: Vec<oneshot::Sender<Result<(), StoreError>>> = Vec::new();
    for request in requests {
        match request {
            Request::Append { entries, durability, effect, done } => {
                let written = file.append(&entries, false);
                if let (Ok(()), Some(effect)) = (&written, effect) {
                    effect();
                }
                match written {
                    Ok(()) if durability == Durability::Synced => unsynced.push(done),
                    // The caller may have gone; the entry is stored all the same.
                    result => drop(done.send(result.map_err(|error| write_error(&error)))),
                }
            }
            Request::Sync { done } => unsynced.push(done),
            Request::Sidecar { sidecar, done } => {
                drop(done.send(file.store_sidecar(&sidecar).map_err(|error| write_error(&error))));
            }
            Request::Context { done } => {
                let context = file.context().map_err(|error| StoreError::Read { path: path.to_string(), reason: error.to_string() });
                drop(done.send(context));
            }
            Request::Window { done } => {
                let window = file.window().map_err(|error| StoreError::Read { path: path.to_string(), reason: error.to_string() });
                drop(done.send(window));
            }
        }
    }
    if unsynced.is_empty() {
        return;
    }
    let synced = file.sync().map_err(|error| write_error(&error));
    for done in unsynced {
        drop(done.send(synced.clone()));
    }
}
