//! An event stream that a test reads event by event.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wolli_protocol::ids::FrameId;
use wolli_protocol::sse::{Decoder, Event};

use super::connection::Connection;
use super::message::{BodyKind, ChunkDecoder, Head};
use crate::DEADLINE;

/// Far above any event that a test makes.
const MAX_EVENT: usize = 256 << 20;

/// The body of a `text/event-stream` response.
#[derive(Debug)]
pub struct EventStream {
    pub head: Head,
    connection: Connection,
    chunks: Option<ChunkDecoder>,
    decoder: Decoder,
    ready: VecDeque<Event>,
    /// The body so far, without chunking, if [`keep_bytes`](Self::keep_bytes) was asked.
    bytes: Option<Vec<u8>>,
    received: u64,
    ended: bool,
}

impl EventStream {
    /// Reads the head of a response and takes its body as an event stream.
    ///
    /// # Errors
    /// When the status is not 200; the message has the body.
    pub async fn begin(mut connection: Connection) -> Result<Self> {
        let (head, _) = connection.read_head().await?;
        let kind = head.body_kind(false)?;
        if head.status()? != 200 {
            let body = connection.read_body(kind).await?;
            anyhow::bail!("{}: {}", head.start_line, String::from_utf8_lossy(&body));
        }
        ensure!(!matches!(kind, BodyKind::Length(_)), "an event stream with a length");
        let chunks = (kind == BodyKind::Chunked).then(ChunkDecoder::default);
        let (decoder, ready) = (Decoder::new(MAX_EVENT), VecDeque::new());
        Ok(Self { head, connection, chunks, decoder, ready, bytes: None, received: 0, ended: false })
    }

    /// Keeps the bytes of the body from here on.
    pub fn keep_bytes(&mut self) {
        self.bytes.get_or_insert_default();
    }

    /// The connection below, for example to end this side's direction. What was read and not given out stays here.
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The bytes that were kept, exactly as the server framed them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// How many bytes of body came.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The next event, or `None` at the end of the stream.
    ///
    /// # Errors
    /// When nothing comes until [`DEADLINE`].
    pub async fn next(&mut self) -> Result<Option<Event>> {
        self.next_within(DEADLINE).await
    }

    /// The next event; an error if none comes within `limit`.
    ///
    /// # Errors
    /// See [`next`](Self::next).
    pub async fn next_within(&mut self, limit: Duration) -> Result<Option<Event>> {
        // Comments come in between for ever, and are no event.
        let deadline = Instant::now() + limit;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            self.pump(deadline.saturating_duration_since(Instant::now())).await?;
        }
    }

    /// Reads on until these bytes stand in what was kept (see [`keep_bytes`](Self::keep_bytes)); comments can be found in no other
    /// way. Events that come on the way stay to be read.
    ///
    /// # Errors
    /// When they have not come after `limit`.
    pub async fn until_bytes(&mut self, needle: &[u8], limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.bytes().windows(needle.len()).any(|window| window == needle) {
            ensure!(!self.ended, "stream ended before {:?}", String::from_utf8_lossy(needle));
            let left = deadline.saturating_duration_since(Instant::now());
            self.pump(left).await.with_context(|| format!("no {:?} in {limit:?}", String::from_utf8_lossy(needle)))?;
        }
        Ok(())
    }

    async fn pump(&mut self, limit: Duration) -> Result<()> {
        let mut raw = self.connection.take_buffer();
        if raw.is_empty() {
            self.ended = !self.connection.fill(limit).await.context("no event in time")?;
            raw = self.connection.take_buffer();
        }
        let mut body = Vec::new();
        match &mut self.chunks {
            Some(chunks) => {
                chunks.feed(&raw, &mut body)?;
                self.ended |= chunks.is_done();
            }
            None => body = raw,
        }
        self.received += body.len() as u64;
        if let Some(bytes) = &mut self.bytes {
            bytes.extend_from_slice(&body);
        }
        self.decoder.feed(&body);
        for event in self.decoder.by_ref() {
            self.ready.push_back(event?);
        }
        Ok(())
    }

    /// The stream ended as HTTP asks for it, with its last chunk.
    #[must_use]
    pub fn ended_cleanly(&self) -> bool {
        self.ended && self.chunks.as_ref().is_none_or(ChunkDecoder::is_done)
    }

    /// Reads events until one is what the test looks for; gives all of them back, that one last.
    ///
    /// # Errors
    /// When the stream ends before; the message lists what came.
    pub async fn until(&mut self, mut found: impl FnMut(&Event) -> bool) -> Result<Vec<Event>> {
        let mut seen = Vec::new();
        loop {
            let next = self.next().await.with_context(|| format!("after {} events, the last {:?}", seen.len(), seen.last()));
            let event = next?.with_context(|| format!("stream ended after {seen:?}"))?;
            let last = found(&event);
            seen.push(event);
            if last {
                return Ok(seen);
            }
        }
    }

    /// Reads up to the event of that `type`; gives the JSON of all events back, that one last.
    ///
    /// # Errors
    /// See [`until`](Self::until).
    pub async fn until_type(&mut self, kind: &str) -> Result<Vec<Value>> {
        let events = self.until(|event| event_type(event).as_deref() == Some(kind)).await?;
        events.iter().map(|event| serde_json::from_str(&event.data).context("event is no JSON")).collect()
    }

    /// The JSON of the next event.
    ///
    /// # Errors
    /// When the stream ends, or the event is no JSON.
    pub async fn next_json(&mut self) -> Result<Value> {
        let event = self.next().await?.context("stream ended")?;
        serde_json::from_str(&event.data).with_context(|| format!("no JSON: {}", event.data))
    }
}

fn event_type(event: &Event) -> Option<String> {
    let value: Value = serde_json::from_str(&event.data).ok()?;
    Some(value.get("type")?.as_str()?.to_owned())
}

/// The number of a frame, if it has one.
#[must_use]
pub fn frame_id(event: &Event) -> Option<FrameId> {
    FrameId::parse(event.id.as_deref()?)
}
