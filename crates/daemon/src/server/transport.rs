//! One accepted socket, guarded: a write that makes no progress ends it, the end of a request's bytes does not end its answer, and
//! closing waits for a client that is still sending what we refused.
//!
//! Timers exist only while something is stuck: a connection at rest costs no wake-up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep};

use super::activity::{Activity, Phase};
use super::limits::LINGER;

/// Bytes that a closing connection takes at a time from a client that is still sending.
const DISCARD: usize = 8 * 1024;

/// Turns that a request gets to take what has arrived of it before it is told that there is no more.
const END_KEPT: u8 = 3;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

macro_rules! each {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Guarded {
    socket: Socket,
    activity: Arc<Activity>,
    stall_limit: Duration,
    /// There while a write waits for the peer.
    stall: Option<Pin<Box<Sleep>>>,
    closing: Closing,
    /// How often the end of a request that is being received was kept back.
    end_kept: u8,
}

#[derive(Debug)]
enum Closing {
    No,
    /// Our side is closed; what the client still sends is thrown away.
    Discarding(Pin<Box<Sleep>>),
    Done,
}

impl Guarded {
    pub(crate) fn new(socket: Socket, activity: Arc<Activity>, stall_limit: Duration) -> Self {
        Self { socket, activity, stall_limit, stall: None, closing: Closing::No, end_kept: 0 }
    }

    /// Whether the end of the client's bytes is kept from the connection for now.
    fn keeps_end_back(&mut self, cx: &mut Context<'_>) -> bool {
        if self.activity.hold_end_of_input(cx.waker()) {
            return true;
        }
        // The bytes of a whole request and the end behind them can be here before anybody has looked at the request. It gets a turn
        // to take its body; if it is still waiting for bytes after that, the body really broke off.
        let turns_left = self.activity.phase() == Phase::Receiving && self.end_kept < END_KEPT;
        if turns_left {
            self.end_kept += 1;
            cx.waker().wake_by_ref();
        }
        turns_left
    }

    /// Starts the clock on a write that waits, stops it on one that went on.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stall.take().is_some() {
                self.activity.set_write_pending(false);
            }
            return written;
        }
        let limit = self.stall_limit;
        let activity = &self.activity;
        let stall = self.stall.get_or_insert_with(|| {
            activity.set_write_pending(true);
            Box::pin(tokio::time::sleep(limit))
        });
        if stall.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not read for too long")));
        }
        Poll::Pending
    }
}

impl AsyncRead for Guarded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        std::task::ready!(each!(&mut self.socket, stream => Pin::new(stream).poll_read(cx, buffer)))?;
        if buffer.filled().len() > before {
            self.end_kept = 0;
            self.activity.received();
        } else if room && self.keeps_end_back(cx) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = each!(&mut self.socket, stream => Pin::new(stream).poll_write(cx, bytes));
        self.watch(cx, written)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = each!(&mut self.socket, stream => Pin::new(stream).poll_write_vectored(cx, bytes));
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.socket, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if matches!(this.closing, Closing::No) {
            std::task::ready!(each!(&mut this.socket, stream => Pin::new(stream).poll_shutdown(cx)))?;
            this.closing = Closing::Discarding(Box::pin(tokio::time::sleep(LINGER)));
        }
        // A socket that is closed with unread bytes in it resets the connection, and the client may lose our last words.
        while let Closing::Discarding(limit) = &mut this.closing {
            let mut bytes = [0; DISCARD];
            let mut buffer = ReadBuf::new(&mut bytes);
            match each!(&mut this.socket, stream => Pin::new(stream).poll_read(cx, &mut buffer)) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && limit.deadline() > Instant::now() => {}
                Poll::Pending if this.activity.is_body_unread() && limit.as_mut().poll(cx).is_pending() => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => this.closing = Closing::Done,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    fn pair() -> (Guarded, UnixStream, Arc<Activity>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let activity = Arc::new(Activity::default());
        (Guarded::new(Socket::Unix(ours), Arc::clone(&activity), STALL), theirs, activity)
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_progress_ends_after_the_limit() {
        let (mut guarded, _theirs, activity) = pair();
        let started = Instant::now();
        let error = guarded.write_all(&vec![0; 32 << 20]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, STALL));
        assert!(!activity.is_at_rest());
    }

    #[tokio::test(start_paused = true)]
    async fn progress_however_slow_is_progress() {
        let (mut guarded, mut theirs, activity) = pair();
        let bytes = 2 << 20;
        let reading = async {
            let mut buffer = vec![0; 256 << 10];
            let mut left: usize = bytes;
            while left > 0 {
                tokio::time::sleep(STALL - Duration::from_secs(1)).await;
                left -= theirs.read(&mut buffer).await.unwrap();
            }
        };
        let writing = async { guarded.write_all(&vec![0; bytes]).await };
        let (written, ()) = tokio::join!(writing, reading);
        written.unwrap();
        assert!(activity.is_at_rest(), "and no clock runs any more");
    }

    #[tokio::test]
    async fn the_end_of_input_waits_for_the_answer() {
        let (mut guarded, theirs, activity) = pair();
        drop(theirs);
        let in_progress = activity.begin();
        in_progress.received();
        let mut buffer = [0; 8];
        let early = tokio::time::timeout(Duration::from_millis(20), guarded.read(&mut buffer)).await;
        assert!(early.is_err(), "kept back");
        let (read, ()) = tokio::join!(guarded.read(&mut buffer), async { drop(in_progress) });
        assert_eq!(read.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn closing_waits_for_a_refused_body_but_not_for_ever() {
        let (mut guarded, mut theirs, activity) = pair();
        activity.leave_body_unread();
        let started = Instant::now();
        guarded.shutdown().await.unwrap();
        assert_eq!(started.elapsed(), LINGER);

        let (mut guarded, _theirs, _) = pair();
        let started = Instant::now();
        guarded.shutdown().await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO, "nothing was refused");
        theirs.read_u8().await.unwrap_err();
    }
}
