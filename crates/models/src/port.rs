//! The way in for models that a program answers for itself: an inference engine in the same process, a recording, a rule.
//!
//! Such a model stands in the list beside the others and is chosen, limited, aborted and recorded like them. Not here:
//! how its events become those of a request; see `stream`.

use std::time::SystemTime;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;
use wolli_protocol::event::AssistantMessageEvent;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, JsonObject, StopReason, TextContent, ToolCall, Usage};
use wolli_protocol::model::Model;

use crate::event::ModelEvent;
use crate::request::ModelRequest;

/// Models of the program's own.
pub trait ModelPort: Send + Sync {
    /// Their records; asked once, when the engine opens. Their `api` and `baseUrl` are shown and not used. They need no credentials.
    fn models(&self) -> Vec<Model>;

    /// Answers a request to one of them. The history in it is as it is stored: unfinished calls and answers that failed are in it.
    ///
    /// The stream gives [`Step`](ModelEvent::Step)s in order, then one [`End`](ModelEvent::End). A
    /// [`Start`](ModelEvent::Start) is made for it. When `cancel` fires the request ends at once, and the stream is
    /// dropped; a stream that stops without an `End`, or is silent for the time limit of providers, has failed.
    fn answer(&self, request: ModelRequest, cancel: CancellationToken) -> BoxStream<'static, ModelEvent>;
}

impl std::fmt::Debug for dyn ModelPort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ModelPort")
    }
}

/// An answer that is known as a whole, as the events of a [`ModelPort`].
#[derive(Debug)]
pub struct Answer {
    message: AssistantMessage,
    steps: Vec<AssistantMessageEvent>,
}

impl Answer {
    /// An empty answer to `request`.
    #[must_use]
    pub fn to(request: &ModelRequest) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self { message: AssistantMessage::begin(&request.model, now), steps: Vec::new() }
    }

    /// Adds a block of text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        let (content_index, text) = (self.message.content.len(), text.into());
        self.steps.push(AssistantMessageEvent::TextStart { content_index, partial: None });
        self.steps.push(AssistantMessageEvent::TextDelta { content_index, delta: text.clone(), partial: None });
        self.steps.push(AssistantMessageEvent::TextEnd { content_index, content: text.clone(), partial: None });
        self.message.content.push(AssistantBlock::Text(TextContent { text, text_signature: None }));
        self
    }

    /// Adds a call of a tool, whose result comes with the next request. `id` tells the calls of a conversation apart.
    #[must_use]
    pub fn call(mut self, id: impl Into<String>, name: impl Into<String>, arguments: JsonObject) -> Self {
        let content_index = self.message.content.len();
        let call = ToolCall { id: id.into(), name: name.into(), arguments, thought_signature: None };
        let delta = serde_json::Value::Object(call.arguments.clone()).to_string();
        self.steps.push(AssistantMessageEvent::ToolcallStart {
            content_index,
            tool_call_id: Some(call.id.clone()),
            tool_name: Some(call.name.clone()),
            partial: None,
        });
        self.steps.push(AssistantMessageEvent::ToolcallDelta { content_index, delta, partial: None });
        self.steps.push(AssistantMessageEvent::ToolcallEnd { content_index, tool_call: call.clone(), partial: None });
        self.message.content.push(AssistantBlock::ToolCall(call));
        self.message.stop_reason = StopReason::ToolUse;
        self
    }

    /// What the answer used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.message.usage = usage;
        self
    }

    /// All its events at once.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, ModelEvent> {
        let steps = self.steps.into_iter().map(ModelEvent::Step);
        futures_util::stream::iter(steps.chain([ModelEvent::End(self.message)])).boxed()
    }
}
