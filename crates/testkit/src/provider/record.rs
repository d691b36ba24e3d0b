//! What the provider was asked, and what it knows of its own words.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::answer::Reply;

/// The interface of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1/chat/completions`.
    OpenAi,
}

/// One request for an answer.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Counts from 0.
    pub number: usize,
    pub kind: Kind,
    pub path: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// Null if `raw` is no JSON.
    pub body: Value,
    pub raw: Vec<u8>,
}

impl RecordedRequest {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The messages, without a system prompt of Anthropic's kind.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// All text of the last message with role `user`, tool results left out.
    #[must_use]
    pub fn last_user_text(&self) -> String {
        let last = self.messages().iter().rev().find(|message| message["role"] == "user");
        match last.map(|message| &message["content"]) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
            _ => String::new(),
        }
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Open,
    /// All of it was written.
    Complete,
    /// The script cut it.
    Cut,
    /// The client went away before the end.
    ClientClosed,
}

/// Thinking that is signed.
#[derive(Clone, Debug)]
pub(super) struct Thought {
    pub(super) text: String,
    /// Who thought it; `None` may be anyone.
    pub(super) model: Option<String>,
}

/// What this provider said and must get back unchanged.
#[derive(Debug, Default)]
pub(super) struct Issued {
    /// By signature.
    pub(super) thinking: BTreeMap<String, Thought>,
    /// Signatures (or the data of redacted thinking) of each answer that has any, in order.
    pub(super) answers: Vec<Vec<String>>,
    pub(super) redacted: BTreeSet<String>,
    /// Thinking without signatures (OpenAI's kind).
    pub(super) reasoning: BTreeSet<String>,
}

/// Makes replies when none is queued.
#[derive(Clone)]
pub(super) struct Responder(pub(super) Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>);

impl fmt::Debug for Responder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Responder")
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: VecDeque<Reply>,
    pub(super) responder: Option<Responder>,
    pub(super) requests: Vec<RecordedRequest>,
    /// By number of the request.
    pub(super) outcomes: Vec<Outcome>,
    pub(super) violations: Vec<String>,
    pub(super) issued: Issued,
    pub(super) allowed: BTreeSet<String>,
}
