//! A server beside the test, on its own thread and runtime, so that it answers also while the test blocks.
//!
//! Invariant: when the guard is dropped, the thread has ended and everything it served is closed.

use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Keeps a server running.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs what `make` gives until the guard is dropped. `make` is called on the server's own runtime.
    pub(crate) fn start<F: Future<Output = ()>>(name: &str, make: impl FnOnce() -> F + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = make() => {}
                }
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server was printed by its thread; a second one here would abort the test run.
            let _ = thread.join();
        }
    }
}
