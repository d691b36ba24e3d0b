//! The way of sessions and clients to the sums: off the threads that serve, one at a time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use wolli_home::paths::AgentHome;
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Usage;
use wolli_protocol::model::Model;

use super::book::Book;
use super::day::LocalDays;
use crate::clock::now_millis;
use crate::tasks::Tasks;

/// Counts what models use. Clones share the sums, which are read from disk when they are first needed.
#[derive(Clone, Debug)]
pub(crate) struct UsageCounter {
    inner: Arc<Inner>,
    tasks: Tasks,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    sessions: PathBuf,
    days: LocalDays,
    book: Mutex<Option<Book>>,
}

impl UsageCounter {
    /// Shutdown waits for what `tasks` are writing.
    pub(crate) fn new(home: &AgentHome, days: LocalDays, tasks: Tasks) -> Self {
        let inner = Inner { path: home.usage(), sessions: home.sessions(), days, book: Mutex::new(None) };
        Self { inner: Arc::new(inner), tasks }
    }

    /// Counts what one request used (an answer, whatever it ended with, or a summary), and returns the notice of it, with the sums. To be called before the
    /// answer's entry is written. Nothing is used, nothing is counted: `None`. Never fails: what the disk refuses is still counted in memory.
    ///
    /// Cancel-safe: it is counted also if nobody waits for the notice.
    pub(crate) async fn record(&self, session: &SessionId, model: &Model, usage: &Usage) -> Option<SessionEvent> {
        if *usage == Usage::default() {
            return None;
        }
        let (session_id, model, answer) = (session.clone(), model.reference(), *usage);
        self.with_book(move |book| {
            let now = now_millis();
            book.record(&session_id, &model, &answer, now);
            let UsageTotals { session, today, total } = book.totals(&session_id, now);
            SessionEvent::Usage { model, answer, session, today, total }
        })
        .await
    }

    /// The sums of the moment; `None` while the daemon stops.
    pub(crate) async fn totals(&self, session: &SessionId) -> Option<UsageTotals> {
        let session = session.clone();
        self.with_book(move |book| book.totals(&session, now_millis())).await
    }

    async fn with_book<T: Send + 'static>(&self, work: impl FnOnce(&mut Book) -> T + Send + 'static) -> Option<T> {
        let inner = Arc::clone(&self.inner);
        let done = self.tasks.spawn_blocking(move || {
            let mut book = inner.book.lock().unwrap_or_else(PoisonError::into_inner);
            let book = book.get_or_insert_with(|| Book::open(inner.path.clone(), inner.sessions.clone(), inner.days.clone()));
            work(book)
        });
        done.await.ok()
    }
}
