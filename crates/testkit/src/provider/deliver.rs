//! Sends a reply as its script says, and notices a client that leaves.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answer::{Delivery, Reply};
use super::record::{Kind, Outcome, RecordedRequest};
use super::{Shared, anthropic, openai};

/// Why nothing more is written.
enum Stop {
    Cut,
    ClientClosed,
}

/// Writes the reply. Gives back its outcome; the connection can be used on only if that is `Complete`.
pub(super) async fn deliver(reply: &Reply, request: &RecordedRequest, shared: &Arc<Shared>, stream: &mut TcpStream) -> Outcome {
    let sent = match reply {
        Reply::Answer(answer) => {
            let mut events = match request.kind {
                Kind::Anthropic => anthropic::render(answer, request, &mut shared.state().issued),
                Kind::OpenAi => openai::render(answer, request, &mut shared.state().issued),
            };
            if let Some((after, kind, message)) = &answer.failure {
                events.truncate(*after);
                events.push(match request.kind {
                    Kind::Anthropic => anthropic::error_event(kind, message),
                    Kind::OpenAi => openai::error_event(kind, message),
                });
            }
            send_stream(stream, 200, "text/event-stream; charset=utf-8", &events, &answer.delivery).await
        }
        Reply::Raw { status, content_type, body, delivery } => {
            send_stream(stream, *status, content_type, std::slice::from_ref(body), delivery).await
        }
        Reply::Error { status, kind, message, headers } => {
            let body = match request.kind {
                Kind::Anthropic => anthropic::error_body(kind, message),
                Kind::OpenAi => openai::error_body(kind, message, None),
            };
            send_json(stream, *status, headers, &body).await
        }
        Reply::HangUp => Err(Stop::Cut),
        Reply::Silence => Err(until_closed(stream).await),
    };
    match sent {
        Ok(()) => Outcome::Complete,
        Err(Stop::Cut) => Outcome::Cut,
        Err(Stop::ClientClosed) => Outcome::ClientClosed,
    }
}

/// A whole JSON answer.
pub(super) async fn respond_json(stream: &mut TcpStream, status: u16, body: &Value) -> bool {
    send_json(stream, status, &[], body).await.is_ok()
}

async fn send_json(stream: &mut TcpStream, status: u16, headers: &[(String, String)], body: &Value) -> Result<(), Stop> {
    let body = body.to_string();
    let mut lines = vec![format!("HTTP/1.1 {status} Scripted"), "content-type: application/json".to_owned()];
    lines.push(format!("content-length: {}", body.len()));
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    let head = lines.join("\r\n");
    write(stream, format!("{head}\r\n\r\n{body}").as_bytes()).await
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), Stop> {
    stream.write_all(bytes).await.map_err(|_| Stop::ClientClosed)
}

/// Waits for `wake`, or for the client to leave.
async fn wait(stream: &mut TcpStream, wake: impl Future<Output = ()>) -> Result<(), Stop> {
    tokio::select! {
        biased;
        stop = until_closed(stream) => Err(stop),
        () = wake => Ok(()),
    }
}

async fn until_closed(stream: &mut TcpStream) -> Stop {
    let mut unexpected = [0; 64];
    while let Ok(1..) = stream.read(&mut unexpected).await {}
    Stop::ClientClosed
}

async fn send_stream(stream: &mut TcpStream, status: u16, content_type: &str, events: &[Vec<u8>], delivery: &Delivery) -> Result<(), Stop> {
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    write(stream, head.as_bytes()).await?;
    let mut sent = 0;
    for (index, event) in events.iter().enumerate() {
        for (_, gate) in delivery.gates.iter().filter(|(before, _)| *before == index) {
            wait(stream, gate.pass()).await?;
        }
        if index > 0 && delivery.pace > Duration::ZERO {
            wait(stream, tokio::time::sleep(delivery.pace)).await?;
        }
        for piece in event.chunks(delivery.write_size.unwrap_or(event.len()).max(1)) {
            let stop = [delivery.cut_at, delivery.stall_at].into_iter().flatten().min().unwrap_or(usize::MAX);
            let allowed = piece.len().min(stop.saturating_sub(sent));
            if allowed > 0 {
                let mut chunk = format!("{allowed:x}\r\n").into_bytes();
                chunk.extend_from_slice(&piece[..allowed]);
                chunk.extend_from_slice(b"\r\n");
                write(stream, &chunk).await?;
                sent += allowed;
            }
            if sent >= stop {
                return Err(halt(stream, delivery).await);
            }
        }
    }
    write(stream, b"0\r\n\r\n").await
}

/// The script's end of the bytes: a stall lasts until the client leaves.
async fn halt(stream: &mut TcpStream, delivery: &Delivery) -> Stop {
    let stalls = delivery.stall_at.is_some_and(|stall| delivery.cut_at.is_none_or(|cut| stall < cut));
    if stalls {
        return until_closed(stream).await;
    }
    if delivery.reset {
        // The connection is dropped as a reset then.
        let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
    }
    Stop::Cut
}
