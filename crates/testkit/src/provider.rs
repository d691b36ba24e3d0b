//! A model provider on a loopback socket that says what a script says, byte for byte.
//!
//! It speaks Anthropic Messages (`POST /v1/messages`) and OpenAI chat completions (`POST /v1/chat/completions`), both
//! streaming. It is strict: a request that the real service would refuse is refused with the same kind of error, and
//! remembered, so that every test guards the rules of the interface for free.
//!
//! Invariant: a [`Provider`] that is dropped with violations that nobody took panics.

mod answer;
mod anthropic;
mod deliver;
mod openai;
mod record;
mod rules;
mod server;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use answer::{Answer, Gate, Reply, TokenCount};
use record::State;
pub use record::{Kind, Outcome, RecordedRequest};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::DEADLINE;
use crate::background::Background;

#[cfg(test)]
mod tests;

/// The model ids that `GET /v1/models` lists and that [`Provider::models_json`] defines.
pub const MODEL: &str = "scripted-1";

/// A running provider. Replies are taken from the queue; when it is empty, the responder makes one.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: Background,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Counts what changed in `state`: requests and their outcomes.
    changes: watch::Sender<u64>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Provider {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When the machine has no loopback.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(0) });
        match Self::listen(&shared) {
            Ok((address, server)) => Self { address, shared, _server: server },
            Err(error) => panic!("no provider: {error}"),
        }
    }

    fn listen(shared: &Arc<Shared>) -> std::io::Result<(SocketAddr, Background)> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::clone(shared);
        let server = Background::start("provider", move || server::serve(listener, shared))?;
        Ok((address, server))
    }

    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for that kind, as `baseUrl` of `models.json` has it.
    #[must_use]
    pub fn base_url(&self, kind: Kind) -> String {
        match kind {
            Kind::Anthropic => format!("http://{}", self.address),
            Kind::OpenAi => format!("http://{}/v1", self.address),
        }
    }

    /// A `models.json` with the providers `scripted` (Anthropic) and `scripted-openai`, each with [`MODEL`], which
    /// thinks and sees.
    #[must_use]
    pub fn models_json(&self) -> Value {
        let provider = |kind: Kind, api: &str| {
            json!({
                "baseUrl": self.base_url(kind),
                "api": api,
                "apiKey": "scripted-key-000000000000",
                "models": [{
                    "id": MODEL, "name": "Scripted", "reasoning": true, "input": ["text", "image"],
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 1.5},
                    "contextWindow": 200_000, "maxTokens": 32_000,
                }],
            })
        };
        json!({"providers": {
            "scripted": provider(Kind::Anthropic, "anthropic-messages"),
            "scripted-openai": provider(Kind::OpenAi, "openai-completions"),
        }})
    }

    /// Puts a reply behind those that wait.
    pub fn reply(&self, reply: impl Into<Reply>) {
        self.shared.state().queue.push_back(reply.into());
    }

    /// Answers what no queued reply is there for.
    pub fn respond_with<R: Into<Reply>>(&self, responder: impl Fn(&RecordedRequest) -> R + Send + Sync + 'static) {
        self.shared.state().responder = Some(record::Responder(Arc::new(move |request| responder(request).into())));
    }

    /// Accepts a field at the top of requests or of messages that the service itself does not have, as compatible
    /// servers do.
    pub fn allow_field(&self, name: &str) {
        self.shared.state().allowed.insert(name.to_owned());
    }

    /// Takes thinking of a history that this provider did not say for its own, whatever its kind.
    pub fn accept_thinking(&self, thinking: &str, signature: &str) {
        let issued = &mut self.shared.state().issued;
        issued.thinking.insert(signature.to_owned(), record::Thought { text: thinking.to_owned(), model: None });
        issued.reasoning.insert(thinking.to_owned());
    }

    /// All requests for an answer so far, refused ones included.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.state().requests.clone()
    }

    /// Replies that nobody asked for yet.
    #[must_use]
    pub fn unused_replies(&self) -> usize {
        self.shared.state().queue.len()
    }

    /// Waits until there are that many requests, and gives them back.
    ///
    /// # Panics
    /// When they do not come until [`DEADLINE`].
    pub async fn wait_for_requests(&self, count: usize) -> Vec<RecordedRequest> {
        self.wait(&format!("{count} requests"), |state| (state.requests.len() >= count).then(|| state.requests.clone())).await
    }

    /// Waits until the answer to request `number` (from 0) has ended, and says how.
    ///
    /// # Panics
    /// When it does not end until [`DEADLINE`].
    pub async fn wait_for_outcome(&self, number: usize) -> Outcome {
        let ended = |state: &State| state.outcomes.get(number).copied().filter(|outcome| *outcome != Outcome::Open);
        self.wait(&format!("the outcome of request {number}"), ended).await
    }

    async fn wait<T>(&self, what: &str, found: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.shared.changes.subscribe();
        let search = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = found(&self.shared.state()) {
                    return found;
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        match timeout(DEADLINE, search).await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come; there were {}", self.shared.state().requests.len()),
        }
    }

    /// Rules that requests broke; they count as looked at then.
    #[must_use]
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().violations)
    }

    /// Fails the test if a request broke a rule.
    ///
    /// # Panics
    /// Then, with all of them.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.take_violations();
        assert!(violations.is_empty(), "requests broke rules of the provider:\n{}", violations.join("\n"));
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // They may well be the reason.
            for violation in self.take_violations() {
                eprintln!("the provider refused: {violation}");
            }
        } else {
            self.assert_clean();
        }
    }
}
