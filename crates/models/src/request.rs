//! What one model request consists of, and the limits that all requests share.
//!
//! Plain data; how it is written for a wire kind is the matter of `formats`, how it travels that of `transport`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wolli_protocol::message::Message;
use wolli_protocol::model::{Model, ThinkingLevel};

use crate::auth::RequestAuth;

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: Value,
}

/// One question to a model. Nothing in it is changed by sending it.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub model: Model,
    /// The system prompt; empty for none.
    pub system: String,
    /// The history as it is stored; what a provider would refuse in it is repaired in what is sent.
    pub messages: Vec<Arc<Message>>,
    pub tools: Arc<[ToolSpec]>,
    pub thinking: ThinkingLevel,
    /// Lets providers keep a session on one cache.
    pub session_id: String,
    pub auth: RequestAuth,
    /// Cap on the tokens of the answer; `None` leaves it to the wire kind.
    pub max_tokens: Option<u64>,
    /// The person or a program named this model. False for `echo` while it stands in because there is no real model.
    pub chosen_by_name: bool,
}

/// How long providers should keep the prompt in their cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheRetention {
    None,
    #[default]
    Short,
    Long,
}

/// Limits and settings that all requests of a [`ModelClient`](crate::client::ModelClient) share.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// For the TCP and TLS hand-shake of one attempt.
    pub connect_timeout: Duration,
    /// Longest silence of a provider: until the response headers, and then between two pieces of the body.
    pub idle_timeout: Duration,
    /// How often a request is sent again after a failure that may pass, as long as nothing was streamed.
    pub retries: u32,
    /// Back-off before the first retry; it doubles with each, up to `backoff_cap`, and is jittered in full.
    pub backoff_base: Duration,
    pub backoff_cap: Duration,
    /// Longest wait that a provider may ask for; a longer one ends the request with an error that says so.
    pub retry_after_cap: Duration,
    pub cache_retention: CacheRetention,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            // A provider that does not shake hands within this time will not do so later.
            connect_timeout: Duration::from_secs(10),
            // Models may think for minutes without a byte on the wire.
            idle_timeout: Duration::from_secs(300),
            retries: 4,
            backoff_base: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(30),
            // People rather see an error than an agent that is silent for longer.
            retry_after_cap: Duration::from_secs(120),
            cache_retention: CacheRetention::Short,
        }
    }
}
