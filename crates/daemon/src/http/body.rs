//! The body of an answer: whole, or a stream that is asked for its next bytes when there is room for them.
//!
//! It holds its request's mark on the connection, so that the connection counts as busy until the last byte was handed over.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};

use crate::server::activity::InProgress;

pub(crate) type ByteStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

enum Content {
    /// Sent with `content-length`.
    Whole(Bytes),
    /// Sent in one chunk, without `content-length`.
    Chunk(Bytes),
    Stream(ByteStream),
    Done,
}

pub(crate) struct AnswerBody {
    content: Content,
    in_progress: Option<InProgress>,
}

impl AnswerBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(bytes.into()), in_progress: None }
    }

    pub(crate) fn chunk(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Chunk(bytes.into()), in_progress: None }
    }

    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { content: Content::Stream(Box::pin(stream)), in_progress: None }
    }

    pub(crate) fn holding(mut self, in_progress: InProgress) -> Self {
        self.in_progress = Some(in_progress);
        self
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.content {
            Content::Whole(bytes) | Content::Chunk(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Done;
                Some(bytes).filter(|bytes| !bytes.is_empty())
            }
            Content::Stream(stream) => {
                let next = std::task::ready!(stream.as_mut().poll_next(cx));
                if next.is_none() {
                    // Detaches at once, not when the connection gets to it.
                    self.content = Content::Done;
                }
                next
            }
            Content::Done => None,
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Done => true,
            Content::Chunk(_) | Content::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Done => SizeHint::with_exact(0),
            Content::Chunk(_) | Content::Stream(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AnswerBody")
    }
}
