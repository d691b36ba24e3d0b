//! Event streams: a first frame, what follows it in the runtime's log, and a comment now and then.
//!
//! A stream is polled by its connection's task and has one timer; it costs nothing while nothing happens. It ends when the log ends,
//! when the reader was too slow, or when the daemon stops. Not here: what frames hold.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::StatusCode;
use http::header::HeaderMap;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use wolli_home::config::{Events, Notice, View as ConfiguredView};
use wolli_protocol::ids::{EntryId, SessionId};
use wolli_protocol::sse;
use wolli_runtime::hub::{Attach, Cursor, Include, View};
use wolli_runtime::runtime::{ControlReader, Runtime};
use wolli_runtime::session::SessionHandle;

use super::sessions::session_error;
use crate::http::answer::{self, Answer};
use crate::http::body::AnswerBody;
use crate::http::query::parameter;

const LAST_EVENT_ID: &str = "last-event-id";

/// What a client that asks for nothing gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    view: View,
    include: Include,
}

impl Defaults {
    /// From the section `[events]`.
    pub(crate) fn of(events: &Events) -> Self {
        let view = match events.view {
            ConfiguredView::Delta => View::Delta,
            ConfiguredView::Full => View::Full,
            ConfiguredView::Snapshot => View::Snapshot,
        };
        let include = events.include.iter().fold(Include::NONE, |all, notice| {
            all.with(match notice {
                Notice::Compaction => Include::COMPACTION,
                Notice::Retry => Include::RETRY,
                Notice::Waiting => Include::WAITING,
                Notice::LoginUi => Include::LOGIN_UI,
                Notice::Usage => Include::USAGE,
                Notice::Lifecycle => Include::LIFECYCLE,
            })
        });
        Self { view, include }
    }
}

/// How streams are kept alive and ended.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) keepalive: Duration,
    pub(crate) end: CancellationToken,
}

/// Reads what a client asks of a session's stream.
fn asked(query: Option<&str>, headers: &HeaderMap, defaults: Defaults) -> Result<(Attach, Option<EntryId>), String> {
    let view = match parameter(query, "view") {
        None => defaults.view,
        Some(word) => View::parse(&word).ok_or_else(|| format!("unknown view \"{word}\"; valid are delta, full and snapshot"))?,
    };
    let include = included(query, defaults)?;
    let last_event_id = headers.get(LAST_EVENT_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Ok((Attach { view, include, last_event_id }, parameter(query, "after").map(EntryId::from)))
}

/// The kinds of notices that a client asks for.
fn included(query: Option<&str>, defaults: Defaults) -> Result<Include, String> {
    match parameter(query, "include") {
        None => Ok(defaults.include),
        Some(list) => Include::parse(&list).map_err(|word| {
            format!("unknown word \"{word}\" in include; valid are compaction, retry, waiting, login_ui, usage, lifecycle and all")
        }),
    }
}

/// `GET /sessions/:id/events`. `attach` is false for `HEAD`, which looks and does not stay.
pub(crate) async fn session(
    runtime: &Runtime,
    id: &SessionId,
    (query, headers): (Option<&str>, &HeaderMap),
    defaults: Defaults,
    pace: &Pace,
    attach: bool,
) -> Answer {
    let (asked, after) = match asked(query, headers, defaults) {
        Ok(asked) => asked,
        Err(message) => return answer::error(StatusCode::BAD_REQUEST, &message),
    };
    if !attach {
        return match runtime.entries(id, None, 1, 1).await {
            Ok(_) => answer::event_stream(AnswerBody::whole("")),
            Err(error) => session_error(&error),
        };
    }
    match runtime.attach(id, &asked, after).await {
        Ok(attached) => {
            let source = Source::Session(Box::new((attached.cursor, attached.session)));
            answer::event_stream(AnswerBody::stream(frames(attached.hello, source, pace)))
        }
        Err(error) => session_error(&error),
    }
}

/// `GET /events`.
pub(crate) async fn control(runtime: &Runtime, query: Option<&str>, defaults: Defaults, pace: &Pace, attach: bool) -> Answer {
    let include = match included(query, defaults) {
        Ok(include) => include,
        Err(message) => return answer::error(StatusCode::BAD_REQUEST, &message),
    };
    if !attach {
        return answer::event_stream(AnswerBody::whole(""));
    }
    match runtime.attach_control(include).await {
        Ok((state, reader)) => {
            let Ok(json) = serde_json::to_vec(&state) else { return answer::internal_error() };
            let mut hello = bytes::BytesMut::with_capacity(json.len() + 32);
            sse::encode_frame(&mut hello, "hello", &json, None);
            answer::event_stream(AnswerBody::stream(frames(hello.freeze(), Source::Control(reader), pace)))
        }
        Err(error) => session_error(&error),
    }
}

/// Where frames come from.
enum Source {
    Session(Box<(Cursor, SessionHandle)>),
    Control(ControlReader),
}

impl Source {
    /// The next bytes; `None` at the end. Cancel-safe.
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Session(reader) => {
                let (cursor, session) = &mut **reader;
                cursor.next(session.messages()).await.ok()
            }
            Self::Control(reader) => reader.next().await.ok(),
        }
    }
}

struct Frames {
    first: Option<Bytes>,
    source: Source,
    keepalive: Duration,
    ping: Option<Pin<Box<Sleep>>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

fn frames(first: Bytes, source: Source, pace: &Pace) -> impl Stream<Item = Bytes> + Send + use<> {
    let frames =
        Frames { first: Some(first), source, keepalive: pace.keepalive, ping: None, end: Box::pin(pace.end.clone().cancelled_owned()) };
    futures_util::stream::unfold(frames, |mut frames| async move {
        let bytes = frames.next().await?;
        Some((bytes, frames))
    })
}

impl Frames {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            self.ping = Some(Box::pin(tokio::time::sleep(self.keepalive)));
            return Some(first);
        }
        let keepalive = self.keepalive;
        let ping = self.ping.get_or_insert_with(|| Box::pin(tokio::time::sleep(keepalive)));
        tokio::select! {
            biased;
            // First, so that a stream that never rests is kept alive as well: readers count on it.
            () = ping.as_mut() => {
                let now = Instant::now();
                let next = ping.deadline() + keepalive;
                ping.as_mut().reset(if next > now { next } else { now + keepalive });
                Some(Bytes::from_static(sse::PING))
            }
            bytes = self.source.next() => bytes,
            // Last, so that what the log holds is told before the end.
            () = self.end.as_mut() => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let defaults = Defaults { view: View::Full, include: Include::RETRY };
        let headers = HeaderMap::new();
        let (attach, after) = asked(None, &headers, defaults).unwrap();
        assert_eq!((attach.view, attach.include, attach.last_event_id, after), (View::Full, Include::RETRY, None, None));

        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, "41".parse().unwrap());
        let (attach, after) = asked(Some("view=delta&include=usage,waiting&after=e1&token=x"), &headers, defaults).unwrap();
        assert_eq!(attach.view, View::Delta);
        assert_eq!(attach.include, Include::USAGE.with(Include::WAITING));
        assert_eq!((attach.last_event_id.as_deref(), after), (Some("41"), Some("e1".into())));

        assert_eq!(asked(Some("view=snapshot"), &headers, defaults).unwrap().0.view, View::Snapshot);

        for (query, text) in [
            ("view=snapshots", "unknown view \"snapshots\"; valid are delta, full and snapshot"),
            ("view=", "unknown view \"\"; valid are delta, full and snapshot"),
            (
                "include=usage,nope",
                "unknown word \"nope\" in include; valid are compaction, retry, waiting, login_ui, usage, lifecycle and all",
            ),
        ] {
            assert_eq!(asked(Some(query), &HeaderMap::new(), defaults).unwrap_err(), text);
        }
    }
}
