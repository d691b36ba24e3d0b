//! The wire kinds: how a request is written, and how the events of an answer fold into a message.
//!
//! Pure: bytes come in as decoded events and go out as a body. Invariant of every folder: whatever it is fed, the message
//! it holds is the sum of the steps it gave out, and each step costs time in proportion to its own length.
//!
//! Not here: sockets, retries, headers.

pub(crate) mod anthropic;
mod errors;
mod growing;
pub(crate) mod openai_completions;
mod usage;

use std::collections::VecDeque;

use wolli_protocol::event::AssistantMessageEvent;
use wolli_protocol::message::{AssistantMessage, StopReason};
use wolli_protocol::model::Model;

pub(crate) use errors::{error_in_body, status_text};
pub(crate) use growing::Growing;

use crate::prepare::ToolNames;
use crate::refused::Fingerprint;
use crate::repair::Repairs;
use crate::request::{CacheRetention, ModelRequest};

/// The kinds of wire that a request can be sent over, beside `echo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Anthropic,
    OpenAiCompletions,
}

/// What one decoded event led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    More,
    /// The provider said that the answer is whole.
    Complete,
    Failed(Failure),
    /// The event is none of this kind. It may have been cut short.
    Unreadable(String),
}

/// Why an answer is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// The same request may succeed later.
    pub(crate) may_pass: bool,
}

impl Failure {
    pub(crate) fn lasting(text: impl Into<String>) -> Self {
        Self { text: text.into(), may_pass: false }
    }
}

/// A body and what is needed to read the answer to it.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) body: Vec<u8>,
    pub(crate) names: ToolNames,
    pub(crate) betas: Vec<&'static str>,
    pub(crate) has_images: bool,
    /// What the repairs of this request left out, to be remembered if the provider takes the rest.
    pub(crate) left_out: Vec<Fingerprint>,
}

impl Kind {
    pub(crate) fn of(api: &str) -> Option<Self> {
        match api {
            anthropic::API => Some(Self::Anthropic),
            openai_completions::API => Some(Self::OpenAiCompletions),
            _ => None,
        }
    }

    /// Path below the base URL.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAiCompletions => "/chat/completions",
        }
    }

    /// Writes the body of a request.
    pub(crate) fn write(self, request: &ModelRequest, retention: CacheRetention, repairs: &Repairs) -> Result<Written, serde_json::Error> {
        match self {
            Self::Anthropic => anthropic::write(request, retention, repairs),
            Self::OpenAiCompletions => openai_completions::write(request, retention, repairs),
        }
    }
}

/// Folds the events of one answer.
#[derive(Debug)]
pub(crate) enum Folder {
    Anthropic(anthropic::Folder),
    OpenAiCompletions(openai_completions::Folder),
}

impl Folder {
    pub(crate) fn new(kind: Kind, model: &Model, names: ToolNames, timestamp: i64) -> Self {
        let growing = Growing::new(AssistantMessage::begin(model, timestamp), names);
        match kind {
            Kind::Anthropic => Self::Anthropic(anthropic::Folder::new(growing, model.cost)),
            Kind::OpenAiCompletions => Self::OpenAiCompletions(openai_completions::Folder::new(growing, model.cost)),
        }
    }

    /// Takes one event; what it adds to the answer goes to `steps`.
    pub(crate) fn feed(&mut self, name: &str, data: &str, steps: &mut VecDeque<AssistantMessageEvent>) -> Fed {
        match self {
            Self::Anthropic(folder) => folder.feed(name, data, steps),
            Self::OpenAiCompletions(folder) => folder.feed(data, steps),
        }
    }

    /// How many blocks the answer has so far.
    pub(crate) fn blocks(&self) -> usize {
        match self {
            Self::Anthropic(folder) => folder.blocks(),
            Self::OpenAiCompletions(folder) => folder.blocks(),
        }
    }

    /// The stream ended without the event that says so: still an answer, or the text of the error.
    pub(crate) fn at_end(&self) -> Result<(), &'static str> {
        match self {
            Self::Anthropic(folder) => folder.at_end(),
            Self::OpenAiCompletions(folder) => folder.at_end(),
        }
    }

    /// The whole answer, after [`Fed::Complete`] or a good [`at_end`](Self::at_end). An answer that the provider refused
    /// to give is an error here too.
    pub(crate) fn finish(self, steps: &mut VecDeque<AssistantMessageEvent>) -> AssistantMessage {
        match self {
            Self::Anthropic(folder) => folder.finish(steps),
            Self::OpenAiCompletions(folder) => folder.finish(steps),
        }
    }

    /// What had arrived, as a failed answer.
    pub(crate) fn fail(self, stop_reason: StopReason, text: String) -> AssistantMessage {
        match self {
            Self::Anthropic(folder) => folder.fail(stop_reason, text),
            Self::OpenAiCompletions(folder) => folder.fail(stop_reason, text),
        }
    }
}

/// Word-for-word level for the wire: the model's own word for it, else its name.
fn level_word(model: &Model, level: wolli_protocol::model::ThinkingLevel) -> &str {
    mapped(model, level).flatten().unwrap_or(level.as_str())
}

/// The map's entry for a level: absent, `null`, or a word.
fn mapped(model: &Model, level: wolli_protocol::model::ThinkingLevel) -> Option<Option<&str>> {
    model.thinking_level_map.as_ref().and_then(|map| map.get(&level)).map(Option::as_deref)
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::registry::{DEMO_API, supported_apis};

    /// What the registry offers is what can be asked.
    #[test]
    fn each_supported_api_has_a_kind() {
        for api in ["anthropic-messages", "openai-completions", "openai-responses", "bedrock-converse-stream", "", DEMO_API] {
            assert_eq!(supported_apis(api), Kind::of(api).is_some() || api == DEMO_API, "{api}");
        }
    }
}
