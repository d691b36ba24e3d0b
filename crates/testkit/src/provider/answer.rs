//! Scripts: what a reply says, and how its bytes travel.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

/// What the provider does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Status 200 and a stream.
    Answer(Answer),
    /// An error of the service, in the shape of the request's kind.
    Error { status: u16, kind: String, message: String, headers: Vec<(String, String)> },
    /// Exactly this body.
    Raw { status: u16, content_type: String, body: Vec<u8>, delivery: Delivery },
    /// The connection ends without a single byte.
    HangUp,
    /// Nothing ever comes, not even a head.
    Silence,
}

impl Reply {
    /// An error of the service; `kind` is its `error.type`.
    #[must_use]
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::Error { status, kind: kind.into(), message: message.into(), headers: Vec::new() }
    }

    /// Status 200 and exactly these bytes as an event stream.
    #[must_use]
    pub fn raw_stream(body: impl Into<Vec<u8>>) -> Self {
        Self::Raw { status: 200, content_type: "text/event-stream".into(), body: body.into(), delivery: Delivery::default() }
    }

    /// Adds a header to an error.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Error { headers, .. } = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// One block of an answer, already cut into deltas.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    Text(Vec<String>),
    /// The signature is made up if there is none.
    Thinking {
        deltas: Vec<String>,
        signature: Option<String>,
    },
    Redacted(String),
    /// The arguments' JSON text.
    ToolCall {
        id: String,
        name: String,
        deltas: Vec<String>,
    },
}

/// Tokens that an answer says it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenCount {
    /// Without cached ones.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl Default for TokenCount {
    fn default() -> Self {
        Self { input: 100, output: 20, cache_read: 0, cache_write: 0 }
    }
}

/// A streamed answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub(super) blocks: Vec<Block>,
    pub(super) stop: Option<String>,
    pub(super) usage: TokenCount,
    pub(super) response_model: Option<String>,
    /// The stream's last mark (`message_stop`, `[DONE]`) is left out.
    pub(super) without_end: bool,
    pub(super) failure: Option<(usize, String, String)>,
    pub(super) delivery: Delivery,
}

/// How bytes travel.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    /// Before every event but the first.
    pub(super) pace: Duration,
    /// Bytes of one write (and HTTP chunk); else one write per event.
    pub(super) write_size: Option<usize>,
    pub(super) cut_at: Option<usize>,
    /// The cut is a reset.
    pub(super) reset: bool,
    pub(super) stall_at: Option<usize>,
    /// Before which event (from 0) to wait for whom.
    pub(super) gates: Vec<(usize, Gate)>,
}

/// Cuts text behind each space, so that a word is a delta.
fn words(text: &str) -> Vec<String> {
    text.split_inclusive(' ').map(str::to_owned).collect()
}

impl Answer {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer that is this text, one word a delta.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self::new().text(text)
    }

    /// Adds text, one word a delta.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.text_deltas(words(text))
    }

    /// Adds text in these deltas.
    #[must_use]
    pub fn text_deltas<D: Into<String>>(mut self, deltas: impl IntoIterator<Item = D>) -> Self {
        self.blocks.push(Block::Text(deltas.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds thinking, one word a delta, with a made-up signature.
    #[must_use]
    pub fn thinking(mut self, text: &str) -> Self {
        self.blocks.push(Block::Thinking { deltas: words(text), signature: None });
        self
    }

    /// Adds thinking with this signature.
    #[must_use]
    pub fn signed_thinking(mut self, text: &str, signature: &str) -> Self {
        self.blocks.push(Block::Thinking { deltas: words(text), signature: Some(signature.into()) });
        self
    }

    /// Adds thinking that nobody may read (Anthropic's kind only).
    #[must_use]
    pub fn redacted_thinking(mut self, data: &str) -> Self {
        self.blocks.push(Block::Redacted(data.into()));
        self
    }

    /// Adds a tool call; its arguments come in three deltas. Several of them are parallel calls.
    #[must_use]
    pub fn tool_call(self, id: &str, name: &str, arguments: &Value) -> Self {
        let text: Vec<char> = arguments.to_string().chars().collect();
        let deltas: Vec<String> = text.chunks(text.len().div_ceil(3).max(1)).map(|piece| piece.iter().collect()).collect();
        self.tool_call_deltas(id, name, deltas)
    }

    /// Adds a tool call with exactly these fragments of arguments, whether they make JSON or not.
    #[must_use]
    pub fn tool_call_deltas<D: Into<String>>(mut self, id: &str, name: &str, deltas: impl IntoIterator<Item = D>) -> Self {
        let deltas = deltas.into_iter().map(Into::into).collect();
        self.blocks.push(Block::ToolCall { id: id.into(), name: name.into(), deltas });
        self
    }

    /// The stop or finish reason, as the wire has it; else the one that fits the blocks.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.into());
        self
    }

    #[must_use]
    pub const fn usage(mut self, usage: TokenCount) -> Self {
        self.usage = usage;
        self
    }

    /// Reports another model than the one that was asked for.
    #[must_use]
    pub fn response_model(mut self, model: &str) -> Self {
        self.response_model = Some(model.into());
        self
    }

    /// Leaves out the stream's last mark.
    #[must_use]
    pub const fn without_end(mut self) -> Self {
        self.without_end = true;
        self
    }

    /// After that many events, an error of that type inside the stream, and the end.
    #[must_use]
    pub fn fail_after(mut self, events: usize, kind: &str, message: &str) -> Self {
        self.failure = Some((events, kind.into(), message.into()));
        self
    }

    /// Waits that long before every event but the first.
    #[must_use]
    pub const fn pace(mut self, pace: Duration) -> Self {
        self.delivery.pace = pace;
        self
    }

    /// Writes so many bytes at once, and flushes; 1 is byte by byte.
    #[must_use]
    pub const fn write_size(mut self, bytes: usize) -> Self {
        self.delivery.write_size = Some(bytes);
        self
    }

    /// Ends the connection after that many bytes of the body, in the middle of whatever stands there.
    #[must_use]
    pub const fn cut_at(mut self, bytes: usize) -> Self {
        self.delivery.cut_at = Some(bytes);
        self
    }

    /// Makes the cut a reset of the connection.
    #[must_use]
    pub const fn with_reset(mut self) -> Self {
        self.delivery.reset = true;
        self
    }

    /// Sends nothing more after that many bytes of the body, for ever.
    #[must_use]
    pub const fn stall_at(mut self, bytes: usize) -> Self {
        self.delivery.stall_at = Some(bytes);
        self
    }

    /// Waits before that event (from 0) until the gate is open. The head was sent before.
    #[must_use]
    pub fn hold_before(mut self, event: usize, gate: &Gate) -> Self {
        self.delivery.gates.push((event, gate.clone()));
        self
    }
}

/// A point where an answer waits for the test.
#[derive(Clone, Debug)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    open: watch::Sender<bool>,
    /// How many answers have come to it.
    reached: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(GateState { open: watch::Sender::new(false), reached: watch::Sender::new(0) }))
    }

    /// Lets all through, now and later.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Waits until an answer stands at the gate.
    ///
    /// # Panics
    /// When none comes until [`crate::DEADLINE`].
    pub async fn reached(&self) {
        let mut reached = self.0.reached.subscribe();
        let waited = tokio::time::timeout(crate::DEADLINE, reached.wait_for(|count| *count > 0)).await;
        assert!(waited.is_ok(), "no answer came to the gate");
    }

    pub(super) async fn pass(&self) {
        self.0.reached.send_modify(|count| *count += 1);
        // The sender lives in the gate itself.
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }
}
