//! The measuring side: the reference as a child process, and its feed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::pacing::{BURST, Window};
use crate::wire::Target;

/// The argument under which the program is the reference.
const ARGUMENT: &str = "serve-reference";
/// It binds two ports and is there.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A running reference; killed when dropped.
#[derive(Debug)]
pub struct Reference {
    child: Child,
    /// Where readers and commands go.
    pub target: Target,
    feed: SocketAddr,
}

impl Reference {
    /// Starts this program a second time, as the reference.
    pub async fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {} {ARGUMENT}", program.display()))?;
        let output = child.stdout.take().context("reference has no output")?;
        let mut line = String::new();
        timeout(START_LIMIT, BufReader::new(output).read_line(&mut line)).await.context("reference did not start in time")??;
        let (readers, feed) = line.trim().split_once(' ').context("reference printed no addresses")?;
        let target = Target { address: readers.parse()?, token: String::new() };
        Ok(Self { child, target, feed: feed.parse()? })
    }

    /// Its process.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().context("reference has ended")
    }

    /// Opens a feed; one at a time.
    pub async fn feed(&self) -> Result<Feed> {
        let stream = TcpStream::connect(self.feed).await.context("failed to connect to the feed")?;
        stream.set_nodelay(true)?;
        Ok(Feed { stream })
    }
}

/// A connection over which frames are given to the reference.
#[derive(Debug)]
pub struct Feed {
    stream: TcpStream,
}

impl Feed {
    /// Sends one frame.
    pub async fn send(&mut self, frame: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frame).await?)
    }

    /// Sends all frames as fast as the readers follow.
    pub async fn send_all(&mut self, frames: &[Vec<u8>], mut window: Window) -> Result<Window> {
        let mut sent = 0;
        for burst in frames.chunks(usize::try_from(BURST)?) {
            window.admit(sent).await;
            self.send(&burst.concat()).await?;
            sent += burst.len() as u64;
        }
        Ok(window)
    }
}
