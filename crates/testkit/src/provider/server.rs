//! Connections of the provider: reads requests, judges them, and lets a reply be delivered.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::Reply;
use super::deliver::{deliver, respond_json};
use super::record::{Kind, Outcome, RecordedRequest, State};
use super::rules::{self, Refusal};
use super::{MODEL, Shared};
use crate::http::{BodyKind, ChunkDecoder, Head, MAX_HEAD, head_end};

pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move { serve_connection(stream, &shared).await });
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve_connection(mut stream: TcpStream, shared: &Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(&mut stream, &mut buffer).await {
        if !answer(&head, body, &mut stream, shared).await {
            return;
        }
    }
}

/// The next whole request, or `None` at the end of the connection or of sense.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(Head, Vec<u8>)> {
    let end = loop {
        if let Some(end) = head_end(buffer) {
            break end;
        }
        if buffer.len() > MAX_HEAD || !matches!(stream.read_buf(buffer).await, Ok(1..)) {
            return None;
        }
    };
    let head = Head::parse(&buffer.drain(..end).collect::<Vec<_>>()).ok()?;
    match head.body_kind(true).ok()? {
        BodyKind::Length(length) => {
            while buffer.len() < length {
                if !matches!(stream.read_buf(buffer).await, Ok(1..)) {
                    return None;
                }
            }
            Some((head, buffer.drain(..length).collect()))
        }
        BodyKind::Chunked => {
            let mut decoder = ChunkDecoder::default();
            let mut body = Vec::new();
            loop {
                let used = decoder.feed(buffer, &mut body).ok()?;
                buffer.drain(..used);
                if decoder.is_done() {
                    return Some((head, body));
                }
                if !matches!(stream.read_buf(buffer).await, Ok(1..)) {
                    return None;
                }
            }
        }
        BodyKind::ToEnd => None,
    }
}

/// Answers one request; false when the connection is of no use any more.
async fn answer(head: &Head, raw: Vec<u8>, stream: &mut TcpStream, shared: &Arc<Shared>) -> bool {
    let mut words = head.start_line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let kind = match (method, path.split('?').next().unwrap_or_default()) {
        ("POST", "/v1/messages") => Kind::Anthropic,
        ("POST", "/v1/chat/completions") => Kind::OpenAi,
        ("GET", "/v1/models") => {
            let models = json!({"object": "list", "data": [{"id": MODEL, "object": "model"}]});
            return respond_json(stream, 200, &models).await;
        }
        _ => {
            shared.state().violations.push(format!("unknown route: {method} {path}"));
            return respond_json(stream, 404, &json!({"error": {"message": "Not Found", "type": "invalid_request_error"}})).await;
        }
    };
    let (request, reply) = judge(kind, path, head, raw, &mut shared.state());
    shared.changed();
    let (outcome, usable) = match reply {
        Ok(reply) => {
            let outcome = deliver(&reply, &request, shared, stream).await;
            (outcome, outcome == Outcome::Complete)
        }
        Err(refusal) => (Outcome::Complete, respond_json(stream, refusal.status, &refusal.body(kind)).await),
    };
    if let Some(entry) = shared.state().outcomes.get_mut(request.number) {
        *entry = outcome;
    }
    shared.changed();
    usable
}

/// Records the request and finds its reply, or the reason to refuse it.
fn judge(kind: Kind, path: &str, head: &Head, raw: Vec<u8>, state: &mut State) -> (RecordedRequest, Result<Reply, Refusal>) {
    let parsed = serde_json::from_slice::<Value>(&raw);
    let request = RecordedRequest {
        number: state.requests.len(),
        kind,
        path: path.to_owned(),
        headers: head.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect(),
        body: parsed.as_ref().cloned().unwrap_or(Value::Null),
        raw,
    };
    state.requests.push(request.clone());
    state.outcomes.push(Outcome::Open);
    let judged = match &parsed {
        Ok(_) => rules::check(&request, &state.issued, &state.allowed),
        Err(error) => Err(Refusal::invalid(format!("The request body is not valid JSON: {error}"))),
    };
    if let Err(refusal) = judged {
        state.violations.push(format!("request {}: {}", request.number, refusal.message));
        return (request, Err(refusal));
    }
    let queued = state.queue.pop_front();
    let reply = queued.or_else(|| state.responder.clone().map(|responder| (responder.0)(&request)));
    let reply = reply.ok_or_else(|| {
        state.violations.push(format!("request {}: there is no reply for it", request.number));
        Refusal::invalid("the script has no reply for this request".into())
    });
    (request, reply)
}
