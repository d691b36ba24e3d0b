//! The server's side: feed in, frames out.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

/// Frames that a reader may be behind; one that is further behind is cut off. Far more than a window.
const FRAMES_BEHIND: usize = 4_096;
/// As many as the daemon has.
const WORKERS: usize = 2;
/// Size of an answer to a command when the path does not tell.
const ANSWER_BYTES: usize = 256;
/// What readers are greeted with; they count it like the daemon's.
const HELLO: &[u8] = b"event: hello\ndata: {}\n\n";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until standard input ends, so that it never outlives who started it. Prints its two addresses.
pub fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        let readers = TcpListener::bind("127.0.0.1:0").await.context("failed to bind")?;
        let feed = TcpListener::bind("127.0.0.1:0").await.context("failed to bind")?;
        writeln!(std::io::stdout(), "{} {}", readers.local_addr()?, feed.local_addr()?)?;
        let (frames, _) = broadcast::channel(FRAMES_BEHIND);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept_readers(readers, frames.clone()));
        tasks.spawn(accept_feed(feed, frames));
        let input = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        drop(input.await);
        tasks.shutdown().await;
        Ok(())
    })
}

async fn accept_readers(listener: TcpListener, frames: broadcast::Sender<Bytes>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                drop(stream.set_nodelay(true));
                let frames = frames.clone();
                let service = service_fn(move |request: Request<Incoming>| answer(request, frames.clone()));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn accept_feed(listener: TcpListener, frames: broadcast::Sender<Bytes>) {
    while let Ok((stream, _)) = listener.accept().await {
        // A feed that ends is one that has said all.
        drop(publish(stream, &frames).await);
    }
}

async fn publish(mut stream: TcpStream, frames: &broadcast::Sender<Bytes>) -> std::io::Result<()> {
    let mut buffer = BytesMut::new();
    while stream.read_buf(&mut buffer).await? > 0 {
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            // No receiver is no error: frames of nobody are dropped.
            drop(frames.send(buffer.split_to(end + 2).freeze()));
        }
    }
    Ok(())
}

async fn answer(request: Request<Incoming>, frames: broadcast::Sender<Bytes>) -> Result<Response<Body>, hyper::http::Error> {
    if request.method() == Method::GET {
        let body = StreamBody::new(events(frames.subscribe()).map(|bytes| Ok(Frame::data(bytes))));
        return Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(body.boxed_unsync());
    }
    let length = request.uri().path().trim_start_matches('/').parse().unwrap_or(ANSWER_BYTES);
    drop(request.into_body().collect().await);
    let body = Full::new(Bytes::from(vec![b' '; length]));
    Response::builder().header(header::CONTENT_TYPE, "application/json").body(body.boxed_unsync())
}

fn events(frames: broadcast::Receiver<Bytes>) -> Pin<Box<dyn Stream<Item = Bytes> + Send>> {
    let live = stream::unfold(frames, |mut frames| async { Some((frames.recv().await.ok()?, frames)) });
    Box::pin(stream::once(async { Bytes::from_static(HELLO) }).chain(live))
}
