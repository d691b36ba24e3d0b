//! Asks any model, whatever its provider and wire kind, and gives one stream of events back.
//!
//! Nothing runs in the background: a stream works while its reader polls it, and dropping it ends the request.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use wolli_protocol::model::Model;

use crate::port::ModelPort;
use crate::refused::RefusedParts;
use crate::request::{ClientConfig, ModelRequest};
use crate::stream::ModelStream;
use crate::transport::Transport;

/// What all requests of a process share: limits and connections. Cheap to clone; connections are made on first use.
#[derive(Clone, Debug)]
pub struct ModelClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ClientConfig,
    pub(crate) transport: Transport,
    pub(crate) refused: RefusedParts,
    pub(crate) provided: Option<Provided>,
}

/// Models that the program answers for itself.
#[derive(Debug)]
pub(crate) struct Provided {
    pub(crate) port: Arc<dyn ModelPort>,
    models: Vec<Model>,
}

impl Provided {
    pub(crate) fn serves(&self, model: &Model) -> bool {
        self.models.iter().any(|own| own.provider == model.provider && own.id == model.id)
    }
}

impl ModelClient {
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        Self::build(config, None)
    }

    /// A client whose requests to the models of `port` are answered by it.
    #[must_use]
    pub fn with_port(config: ClientConfig, port: Arc<dyn ModelPort>) -> Self {
        let models = port.models();
        Self::build(config, Some(Provided { port, models }))
    }

    fn build(config: ClientConfig, provided: Option<Provided>) -> Self {
        let transport = Transport::new(config.connect_timeout);
        Self { shared: Arc::new(Shared { config, transport, refused: RefusedParts::default(), provided }) }
    }

    /// Starts a request. Nothing is sent before the stream is polled, which must happen inside a tokio runtime.
    ///
    /// Never fails: every error is the [`End`](crate::event::ModelEvent::End) of the stream. When `cancel` fires, the
    /// stream ends at once with stop reason `aborted` and what had arrived.
    #[must_use]
    pub fn stream(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream {
        ModelStream::new(Arc::clone(&self.shared), request, cancel)
    }
}

impl Default for ModelClient {
    fn default() -> Self {
        Self::new(ClientConfig::default())
    }
}
