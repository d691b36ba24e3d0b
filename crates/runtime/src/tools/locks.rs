//! One writer per file: calls that change the same real file wait for each other, in the order of their coming.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::failure::ToolFailure;

/// From this many entries on, those nobody uses are removed before one is added.
const CLEAN_FROM: usize = 64;

type Table = HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Waits for the file; the guard has to be held until the work is really over.
///
/// Cancel-safe. `real` is a path without symbolic links, see [`super::path::real`].
pub(super) async fn lock(real: &Path, cancel: &CancellationToken) -> Result<OwnedMutexGuard<()>, ToolFailure> {
    let lock = entry(real);
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolFailure::Aborted),
        guard = lock.lock_owned() => Ok(guard),
    }
}

fn entry(real: &Path) -> Arc<tokio::sync::Mutex<()>> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = table.get(real).and_then(Weak::upgrade) {
        return lock;
    }
    if table.len() >= CLEAN_FROM {
        table.retain(|_, lock| lock.strong_count() > 0);
    }
    let lock = Arc::default();
    table.insert(real.to_owned(), Arc::downgrade(&lock));
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_waits_and_can_be_cancelled() {
        let never = CancellationToken::new();
        let path = Path::new("/locks/a");
        let first = lock(path, &never).await.unwrap();
        assert!(lock(Path::new("/locks/b"), &never).await.is_ok());
        let cancel = CancellationToken::new();
        let second = lock(path, &cancel);
        let (second, ()) = tokio::join!(second, async { cancel.cancel() });
        assert_eq!(second.unwrap_err(), ToolFailure::Aborted);
        drop(first);
        assert!(lock(path, &never).await.is_ok());
    }

    #[tokio::test]
    async fn the_table_does_not_grow() {
        let never = CancellationToken::new();
        for index in 0..1000 {
            let _guard = lock(Path::new(&format!("/locks/many/{index}")), &never).await.unwrap();
        }
        assert!(TABLE.lock().unwrap().len() <= CLEAN_FROM * 2);
    }
}
