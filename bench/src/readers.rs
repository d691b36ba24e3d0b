//! A crowd of attached readers: raw sockets in one thread that count what they receive.
//!
//! They cost as little as they can: one buffer for all, one pass over the bytes, no parsing. A reader never stops reading by itself;
//! [`Stalled`] is the one that never reads. Not here: what frames mean.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pacing::Progress;
use crate::scan::{Scanner, unchunk};

/// One read takes at most so much, for all readers of a crowd.
const BUFFER_BYTES: usize = 256 << 10;
/// All readers of a crowd are attached within this time.
const ATTACH_LIMIT: Duration = Duration::from_secs(30);

/// Sees the bytes of each read of a reader, when they were read.
pub type Observer = Box<dyn FnMut(&[u8]) + Send>;

/// Attached readers; they leave when this is dropped.
#[derive(Debug)]
pub struct Crowd {
    progress: Arc<Progress>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    /// Attaches one reader per request and waits until each has its first frame. Numbers are counted from `base` on.
    pub async fn attach(address: SocketAddr, requests: Vec<Vec<u8>>, base: u64) -> Result<Self> {
        Self::start(address, requests, base, None).await
    }

    /// Attaches one reader whose bytes are seen.
    pub async fn observe(address: SocketAddr, request: Vec<u8>, base: u64, observer: Observer) -> Result<Self> {
        Self::start(address, vec![request], base, Some(observer)).await
    }

    async fn start(address: SocketAddr, requests: Vec<Vec<u8>>, base: u64, observer: Option<Observer>) -> Result<Self> {
        let progress = Arc::new(Progress::default());
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (ready, attached) = oneshot::channel();
        let thread = std::thread::Builder::new().name("readers".to_owned()).spawn({
            let (progress, stop) = (Arc::clone(&progress), stop.clone());
            move || {
                let work = read_all(address, requests, base, observer, &progress, ready);
                LocalSet::new().block_on(&runtime, async { stop.run_until_cancelled(work).await });
            }
        })?;
        let crowd = Self { progress, stop, thread: Some(thread) };
        timeout(ATTACH_LIMIT, attached).await.context("readers were not attached in time")?.context("readers ended early")??;
        Ok(crowd)
    }

    /// What they have received.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn read_all(
    address: SocketAddr,
    requests: Vec<Vec<u8>>,
    base: u64,
    mut observer: Option<Observer>,
    progress: &Arc<Progress>,
    ready: oneshot::Sender<Result<()>>,
) {
    let buffer = Rc::new(RefCell::new(vec![0; BUFFER_BYTES]));
    let count = requests.len();
    // One message per reader, so that no sender ever waits.
    let (greeted, mut greetings) = mpsc::channel(count.max(1));
    let mut readers = JoinSet::new();
    for request in requests {
        let stream = match connect(address, &request).await {
            Ok(stream) => stream,
            Err(error) => {
                drop(ready.send(Err(error)));
                return;
            }
        };
        let reader = Reader { base, scanner: Scanner::default(), greeted: Some(greeted.clone()), observer: observer.take() };
        readers.spawn_local(reader.run(stream, Rc::clone(&buffer), Arc::clone(progress)));
    }
    drop(greeted);
    let mut waiting = count;
    while waiting > 0 && greetings.recv().await.is_some() {
        waiting -= 1;
    }
    let result = if waiting == 0 { Ok(()) } else { Err(anyhow!("{waiting} of {count} readers were refused")) };
    drop(ready.send(result));
    while readers.join_next().await.is_some() {}
}

async fn connect(address: SocketAddr, request: &[u8]) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await.context("failed to attach a reader")?;
    stream.write_all(request).await.context("failed to attach a reader")?;
    Ok(stream)
}

struct Reader {
    base: u64,
    scanner: Scanner,
    greeted: Option<mpsc::Sender<()>>,
    observer: Option<Observer>,
}

impl Reader {
    /// Reads to the end of the connection, which nobody asked for.
    async fn run(mut self, stream: TcpStream, buffer: Rc<RefCell<Vec<u8>>>, progress: Arc<Progress>) {
        while stream.readable().await.is_ok() {
            let read = stream.try_read(&mut buffer.borrow_mut());
            match read {
                Ok(0) => break,
                Ok(length) => self.take(&buffer.borrow()[..length], &progress),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        progress.add_closed();
    }

    fn take(&mut self, bytes: &[u8], progress: &Progress) {
        if let Some(observer) = &mut self.observer {
            observer(bytes);
        }
        let before = (self.scanner.last_id().unwrap_or(self.base), self.scanner.frames());
        self.scanner.feed(bytes);
        let delivered = self.scanner.last_id().unwrap_or(self.base).saturating_sub(before.0);
        progress.add(delivered, self.scanner.frames() - before.1, bytes.len() as u64);
        if self.scanner.frames() > 0
            && let Some(greeted) = self.greeted.take()
        {
            let _ = greeted.try_send(());
        }
    }
}

/// A reader that asked for a stream and never reads, with the smallest buffer there is.
#[derive(Debug)]
pub struct Stalled {
    _stream: std::net::TcpStream,
}

impl Stalled {
    /// Attaches it. Blocking, but the answer is not waited for.
    pub fn attach(address: SocketAddr, request: &[u8]) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // Before the connection, so that the window is never offered; the system raises it to its minimum.
        socket.set_recv_buffer_size(1)?;
        socket.connect(&address.into()).context("failed to attach a stalled reader")?;
        let mut stream = std::net::TcpStream::from(socket);
        io::Write::write_all(&mut stream, request)?;
        Ok(Self { _stream: stream })
    }
}

/// The `hello` of a reader that leaves at once.
pub async fn hello(address: SocketAddr, request: &[u8]) -> Result<Value> {
    timeout(ATTACH_LIMIT, async {
        let mut stream = connect(address, request).await?;
        let mut bytes = Vec::new();
        loop {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(anyhow!("no hello but {:?}", String::from_utf8_lossy(&bytes)));
            }
            if let Some(hello) = parse_hello(&bytes) {
                return hello;
            }
        }
    })
    .await
    .context("no hello in time")?
}

/// `None` while it is not there as a whole.
fn parse_hello(bytes: &[u8]) -> Option<Result<Value>> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (data, _) = unchunk(&bytes[head + 4..]);
    let end = data.windows(2).position(|pair| pair == b"\n\n")?;
    let json = data[..end].strip_prefix(b"event: hello\ndata: ").context("the first frame is not hello");
    Some(json.and_then(|json| serde_json::from_slice(json).context("hello is not JSON")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_in_pieces() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\n5\r\nevent\r\n1c\r\n: hello\ndata: {\"stream\":1}\n\n\r\n";
        for end in 0..bytes.len() - 1 {
            assert!(parse_hello(&bytes[..end]).is_none(), "{end}");
        }
        assert_eq!(parse_hello(bytes).unwrap().unwrap()["stream"], 1);
        assert!(parse_hello(b"HTTP/1.1 200 OK\r\n\r\n8\r\n: ping\n\n\r\n").unwrap().is_err());
    }
}
