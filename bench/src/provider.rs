//! The scripted model provider: an OpenAI chat-completions endpoint on the loopback interface, in a thread of its own.
//!
//! Whatever the request, it answers with the current [`Script`]. Counts and times are facts of the sender: when the first delta went
//! out, how many went out. Not here: checks of what was asked.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::pacing::{BURST, Window};

/// Longest request that is read: a history of some megabytes.
const REQUEST_MAX_BYTES: usize = 32 << 20;
/// Words of a reply, about as long as tokens are.
const WORDS: [&str; 8] = [" steady", " the", " river", " carries", " a", " lantern", " past", " midnight"];
/// Digits of a stamp: nanoseconds of more than a day.
const STAMP_DIGITS: usize = 15;

/// How fast deltas follow each other.
#[derive(Debug, Clone)]
pub enum Pace {
    /// One after the other at this distance.
    Interval(Duration),
    /// As fast as the readers follow.
    Window(Window),
}

/// A reply.
#[derive(Debug, Clone)]
pub struct Script {
    /// Number of deltas.
    pub tokens: u64,
    /// Their pace.
    pub pace: Pace,
    /// Whether each delta is a stamp of its send time (see [`stamps`]) in place of a word.
    pub stamped: bool,
}

impl Script {
    /// The text of one delta.
    fn text(&self, index: u64) -> String {
        if self.stamped { stamp() } else { word(index).to_owned() }
    }
}

/// The word of a delta.
pub fn word(index: u64) -> &'static str {
    WORDS[usize::try_from(index).unwrap_or(0) % WORDS.len()]
}

/// Bytes of text in a reply of unstamped tokens.
pub fn text_bytes(tokens: u64) -> u64 {
    (0..tokens).map(|index| word(index).len() as u64).sum()
}

/// What happened to the last reply.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// When its first delta was written.
    pub first_sent: Option<Instant>,
    /// How often its window had to be reopened.
    pub reopened: u64,
}

#[derive(Debug)]
struct State {
    script: Script,
    outcome: Outcome,
}

/// A running provider; ends when dropped.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Starts one on a free port.
    pub fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("failed to bind the provider")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let script = Script { tokens: 1, pace: Pace::Interval(Duration::ZERO), stamped: false };
        let state = Arc::new(Mutex::new(State { script, outcome: Outcome::default() }));
        let stop = CancellationToken::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("provider".to_owned()).spawn({
            let (state, stop) = (Arc::clone(&state), stop.clone());
            move || runtime.block_on(serve(listener, &state, &stop))
        })?;
        Ok(Self { address, state, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the reply to all requests from now on, and forgets the last outcome.
    pub fn set_script(&self, script: Script) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State { script, outcome: Outcome::default() };
    }

    /// The outcome of the reply that was given last.
    pub fn outcome(&self) -> Outcome {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outcome
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn serve(listener: std::net::TcpListener, state: &Arc<Mutex<State>>, stop: &CancellationToken) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            Ok((stream, _)) = listener.accept() => {
                // A connection that ends early is an aborted run; the measurement knows.
                connections.spawn(answer_all(stream, Arc::clone(state)));
            }
        }
    }
}

async fn answer_all(mut stream: TcpStream, state: Arc<Mutex<State>>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let Some(is_completion) = read_request(&mut stream, &mut buffer).await? else { return Ok(()) };
        if !is_completion {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await?;
            continue;
        }
        let script = state.lock().unwrap_or_else(PoisonError::into_inner).script.clone();
        reply(&mut stream, script, &state).await?;
    }
}

/// Reads one request and drops it; `None` when the connection ended between two. Tells whether it asks for a completion.
async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<bool>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end])?;
            let length = head
                .split("\r\n")
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())?;
            let is_completion = head.starts_with("POST /v1/chat/completions ");
            let whole = end + 4 + length;
            if length > REQUEST_MAX_BYTES {
                return Err(anyhow!("request is larger than {REQUEST_MAX_BYTES} bytes"));
            }
            while buffer.len() < whole {
                if stream.read_buf(buffer).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
            buffer.drain(..whole);
            return Ok(Some(is_completion));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

async fn reply(stream: &mut TcpStream, script: Script, state: &Mutex<State>) -> Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let mut output = Vec::new();
    push_event(&mut output, r#"{"role":"assistant","content":""}"#, "null");
    stream.write_all(&output).await?;
    let outcome = |first_sent, reopened| state.lock().unwrap_or_else(PoisonError::into_inner).outcome = Outcome { first_sent, reopened };
    let begin = Instant::now();
    match script.pace.clone() {
        Pace::Interval(distance) => {
            outcome(Some(begin), 0);
            let mut ticks = interval(distance.max(Duration::from_nanos(1)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for index in 0..script.tokens {
                ticks.tick().await;
                send(stream, &mut output, &script, index..index + 1).await?;
            }
        }
        Pace::Window(mut window) => {
            outcome(Some(begin), 0);
            let mut sent = 0;
            while sent < script.tokens {
                window.admit(sent).await;
                let end = script.tokens.min(sent + BURST);
                send(stream, &mut output, &script, sent..end).await?;
                sent = end;
            }
            outcome(Some(begin), window.reopened());
        }
    }
    output.clear();
    push_event(&mut output, "{}", r#""stop""#);
    let usage = format!(
        r#"data: {{"id":"bench","object":"chat.completion.chunk","created":0,"model":"load","choices":[],"usage":{{"prompt_tokens":1,"completion_tokens":{0},"total_tokens":{1}}}}}"#,
        script.tokens,
        script.tokens + 1
    );
    push_chunk(&mut output, format!("{usage}\n\ndata: [DONE]\n\n").as_bytes());
    output.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&output).await?;
    Ok(())
}

async fn send(stream: &mut TcpStream, output: &mut Vec<u8>, script: &Script, indexes: std::ops::Range<u64>) -> io::Result<()> {
    output.clear();
    for index in indexes {
        push_event(output, &format!(r#"{{"content":"{}"}}"#, script.text(index)), "null");
    }
    stream.write_all(output).await
}

fn push_event(output: &mut Vec<u8>, delta: &str, finish: &str) {
    let event = format!(
        "data: {{\"id\":\"bench\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"load\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    );
    push_chunk(output, event.as_bytes());
}

fn push_chunk(output: &mut Vec<u8>, data: &[u8]) {
    output.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    output.extend_from_slice(data);
    output.extend_from_slice(b"\r\n");
}

/// Nanoseconds since the first call in this process; all threads share it.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The text of a delta that tells when it was made.
pub fn stamp() -> String {
    format!("@{:0STAMP_DIGITS$};", now())
}

/// The stamps in delta frames, in order; those in whole texts are passed over.
pub fn stamps(bytes: &[u8]) -> Vec<u64> {
    const DELTA: &[u8] = br#""delta":"@"#;
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(DELTA.len()).position(|window| window == DELTA) {
        // Keeps the `@`: deltas that were joined follow each other.
        rest = &rest[at + DELTA.len() - 1..];
        while let Some(digits) = rest.strip_prefix(b"@").and_then(|rest| rest.get(..=STAMP_DIGITS)?.strip_suffix(b";"))
            && let Some(nanoseconds) = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())
        {
            found.push(nanoseconds);
            rest = &rest[STAMP_DIGITS + 2..];
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::unchunk;

    #[test]
    fn stamps_of_deltas_but_not_of_whole_texts() {
        let (first, second) = (stamp(), stamp());
        let bytes = format!(r#"{{"delta":"{first}"}} {{"delta":"{first}{second}"}} {{"content":"{first}{second}"}} {{"delta":"@12"}}"#);
        let found = stamps(bytes.as_bytes());
        assert_eq!(found.len(), 3);
        assert!(found[0] == found[1] && found[1] <= found[2] && found[2] <= now());
        assert!(stamps(b"\"delta\":\"@").is_empty());
    }

    #[tokio::test]
    async fn a_reply_is_what_the_script_says() {
        let provider = Provider::start().unwrap();
        for tokens in [3, 0, 70] {
            provider.set_script(Script { tokens, pace: Pace::Interval(Duration::ZERO), stamped: false });
            let mut stream = TcpStream::connect(provider.address()).await.unwrap();
            stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET /x HTTP/1.1\r\n\r\n").await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"404 Not Found\r\ncontent-length: 0\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
            }
            let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
            let text = String::from_utf8(unchunk(&bytes[head + 4..]).0).unwrap();
            let contents: Vec<String> = text
                .lines()
                .filter_map(|line| serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok())
                .filter_map(|event| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned()))
                .collect();
            let expected: Vec<&str> = std::iter::once("").chain((0..tokens).map(word)).collect();
            assert_eq!(contents, expected);
            assert!(text.ends_with("data: [DONE]\n\n"));
            assert!(provider.outcome().first_sent.is_some());
            assert_eq!(text_bytes(tokens), contents.concat().len() as u64);
        }
    }
}
