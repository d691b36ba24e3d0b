//! Every bound and time limit of the server in one place, each with its reason.

use std::time::Duration;

/// Time limits of connections. Tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Between two comments on an event stream: a quarter of the shortest idle limit that proxies and clients are known to have.
    pub keepalive: Duration,
    /// A write that makes no progress for so long ends its connection: the reader is gone or stuck, and comes back with its id.
    pub write_stall: Duration,
    /// Request headers arrive within this; as in wolli 0.0.2.
    pub request_head: Duration,
    /// A request's body arrives within this after its headers; as in wolli 0.0.2.
    pub request_body: Duration,
    /// A connection without a request is closed after this. `ANNOUNCED_IDLE` is what clients are told; a second more, so that
    /// a client that uses its connection up to the last moment does not lose a request.
    pub idle: Duration,
    /// How long a request waits for the agent to be loaded before it is told to come back.
    pub loading: Duration,
    /// An answer that is not ready by now is sent piece by piece; most are, and keep their `content-length`.
    pub quick_answer: Duration,
    /// How long answers and streams get to be written out when the daemon stops.
    pub drain: Duration,
    /// How long runs get to end when the daemon stops.
    pub grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            keepalive: Duration::from_secs(15),
            write_stall: Duration::from_secs(30),
            request_head: Duration::from_secs(60),
            request_body: Duration::from_secs(300),
            idle: Duration::from_secs(6),
            loading: Duration::from_secs(10),
            quick_answer: Duration::from_millis(100),
            drain: Duration::from_secs(2),
            grace: wolli_runtime::limits::SHUTDOWN_GRACE,
        }
    }
}

/// Seconds in `keep-alive: timeout=`, as in wolli 0.0.2.
pub(crate) const ANNOUNCED_IDLE: &str = "timeout=5";

/// Connections at a time: the 1,100 streams that a busy agent may have, and headroom for commands. Beyond it: 503.
pub(crate) const CONNECTIONS: usize = 2048;

/// Descriptors that the process asks for: one for each connection, and as many again for files and programs. Systems usually give
/// 1024 to whoever does not ask.
pub(crate) const DESCRIPTORS: u64 = 2 * CONNECTIONS as u64;

/// Refusals beyond [`CONNECTIONS`] that are written at a time; connections beyond these are closed without a word.
pub(crate) const REFUSALS: usize = 64;

/// Connections that the kernel completes while we are busy; more than clients that all come back at once after a restart.
pub(crate) const BACKLOG: i32 = 1024;

/// Largest head of a request, and what one connection buffers for a reader that is slow.
pub(crate) const CONNECTION_BUFFER: usize = 64 * 1024;

/// How long a closing connection waits for the rest of a request that was refused, so that the client gets to read why.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Pause after the system refused a connection (out of descriptors), so that the loop does not spin.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
