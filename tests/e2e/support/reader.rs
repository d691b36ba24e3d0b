//! A client of a session's stream: it folds what it reads, and checks that nothing is missing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wolli_protocol::ids::FrameId;
use wolli_protocol::reduce::{Attached, SessionView};
use wolli_protocol::sse;
use wolli_protocol::state::Hello;
use wolli_testkit::DEADLINE;
use wolli_testkit::http::{Client, EventStream, frame_id};

/// A reader and all that it saw.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) view: SessionView,
    /// The last `hello`.
    pub(crate) hello: Value,
    /// Frames since the first attach, as JSON, with their numbers.
    pub(crate) frames: Vec<(Option<FrameId>, Value)>,
    /// What the last `hello` meant for the view.
    pub(crate) attached: Option<Attached>,
    session: String,
    query: String,
    stream: EventStream,
}

impl Reader {
    /// Attaches for the first time; `query` is empty or begins with `?`.
    pub(crate) async fn attach(client: &Client, session: &str, query: &str) -> Result<Self> {
        let mut stream = client.events(&format!("/sessions/{session}/events{query}"), &[]).await?;
        let (hello, value) = read_hello(&mut stream).await?;
        let view = SessionView::attach(hello);
        let (session, query) = (session.to_owned(), query.to_owned());
        Ok(Self { view, hello: value, frames: Vec::new(), attached: None, session, query, stream })
    }

    /// Attaches again, over `client`, as a client does that lost its connection.
    pub(crate) async fn resume(&mut self, client: &Client) -> Result<()> {
        let mut path = format!("/sessions/{}/events{}", self.session, self.query);
        if let Some(after) = self.view.after_id() {
            path.push(if self.query.is_empty() { '?' } else { '&' });
            path.push_str("after=");
            path.push_str(after.as_str());
        }
        let last = self.view.resume_id().map(|id| id.to_string());
        let headers: Vec<_> = last.iter().map(|id| ("Last-Event-ID", id.as_str())).collect();
        let mut stream = client.events(&path, &headers).await?;
        let (hello, value) = read_hello(&mut stream).await?;
        self.attached = Some(self.view.apply_hello(hello)?);
        self.hello = value;
        self.stream = stream;
        Ok(())
    }

    /// Takes in the next frame; `None` at the end of the stream.
    pub(crate) async fn step(&mut self) -> Result<Option<Value>> {
        self.step_within(DEADLINE).await
    }

    pub(crate) async fn step_within(&mut self, limit: Duration) -> Result<Option<Value>> {
        let Some(event) = self.stream.next_within(limit).await? else { return Ok(None) };
        self.view.apply_frame(&event)?;
        let value: Value = serde_json::from_str(&event.data)?;
        self.frames.push((frame_id(&event), value.clone()));
        Ok(Some(value))
    }

    /// Reads until a frame is what the test looks for; gives that one back.
    pub(crate) async fn until(&mut self, mut found: impl FnMut(&Value) -> bool) -> Result<Value> {
        loop {
            let frame = self.step().await.with_context(|| format!("the last frames were {:#?}", tail(&self.frames)))?;
            let frame = frame.with_context(|| format!("the stream ended after {:#?}", tail(&self.frames)))?;
            if found(&frame) {
                return Ok(frame);
            }
        }
    }

    pub(crate) async fn until_type(&mut self, kind: &str) -> Value {
        self.until(|frame| frame["type"] == kind).await.unwrap()
    }

    /// Reads up to the end of a run; gives back all frames so far.
    pub(crate) async fn run_end(&mut self) -> Vec<Value> {
        self.until_type("agent_end").await;
        self.values()
    }

    /// The frames so far, without their numbers.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.frames.iter().map(|(_, value)| value.clone()).collect()
    }

    /// Whether the server ended the stream as HTTP asks for it.
    pub(crate) fn ended_cleanly(&self) -> bool {
        self.stream.ended_cleanly()
    }

    /// Entry ids of the messages whose end this reader saw or was told of, in order.
    pub(crate) fn entry_ids(&self) -> Vec<String> {
        let ids = self.view.transcript.iter().map(|item| item.entry_id.as_ref());
        ids.map(|id| id.map(ToString::to_string).unwrap_or_default()).collect()
    }
}

async fn read_hello(stream: &mut EventStream) -> Result<(Hello, Value)> {
    let event: sse::Event = stream.next().await?.context("the stream ended before hello")?;
    ensure!(event.name == "hello" && event.id.is_none(), "the first frame is no hello: {event:?}");
    Ok((serde_json::from_str(&event.data)?, serde_json::from_str(&event.data)?))
}

fn tail<T: std::fmt::Debug>(list: &[T]) -> &[T] {
    &list[list.len().saturating_sub(5)..]
}
