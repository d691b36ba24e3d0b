//! Heads and bodies of HTTP/1.1 messages, as plain functions.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// A head longer than this is an error of the test.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The first lines of a request or of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The first line without its end.
    pub start_line: String,
    /// Names as they came, in their order.
    pub headers: Vec<(String, String)>,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Length(usize),
    Chunked,
    /// The end of the connection.
    ToEnd,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub head: Head,
    /// Without any chunking.
    pub body: Vec<u8>,
}

/// Where the head ends (behind its empty line), if it is whole.
pub(crate) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

impl Head {
    /// Reads a head, its empty line included.
    ///
    /// # Errors
    /// When it is no head.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).context("head is no UTF-8")?;
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        ensure!(!start_line.is_empty(), "head without a first line");
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line.split_once(':').with_context(|| format!("header without a colon: {line:?}"))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Self { start_line, headers })
    }

    /// The value of the first header of that name, upper and lower case alike.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The status of a response.
    ///
    /// # Errors
    /// When the first line is no status line.
    pub fn status(&self) -> Result<u16> {
        let mut words = self.start_line.split(' ');
        let version = words.next().unwrap_or_default();
        ensure!(version == "HTTP/1.1" || version == "HTTP/1.0", "no status line: {:?}", self.start_line);
        words.next().and_then(|status| status.parse().ok()).with_context(|| format!("no status: {:?}", self.start_line))
    }

    /// How the body ends. A request without either header has none.
    ///
    /// # Errors
    /// When the headers contradict each other.
    pub fn body_kind(&self, request: bool) -> Result<BodyKind> {
        let chunked = self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let length = self.header("content-length").map(str::parse).transpose().context("content-length is no number")?;
        match (chunked, length) {
            (true, Some(_)) => bail!("both content-length and transfer-encoding"),
            (true, None) => Ok(BodyKind::Chunked),
            (false, Some(length)) => Ok(BodyKind::Length(length)),
            (false, None) if request => Ok(BodyKind::Length(0)),
            (false, None) => Ok(BodyKind::ToEnd),
        }
    }
}

impl Response {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text; bytes that are none show as U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none; the message has the whole response.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("no JSON ({error}) in {} {:?}", self.head.start_line, self.text()),
        }
    }
}

/// Takes the chunking off a body, however it is cut.
#[derive(Debug, Default)]
pub(crate) struct ChunkDecoder {
    line: Vec<u8>,
    state: ChunkState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Data(usize),
    /// The line end behind the data.
    AfterData,
    Trailer,
    Done,
}

impl ChunkDecoder {
    pub(crate) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Appends the data to `body`; gives back how many bytes belong to this body.
    pub(crate) fn feed(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<usize> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            if let ChunkState::Data(left) = self.state {
                let part = left.min(bytes.len() - used);
                body.extend_from_slice(&bytes[used..used + part]);
                used += part;
                self.state = if part == left { ChunkState::AfterData } else { ChunkState::Data(left - part) };
                continue;
            }
            self.line.push(bytes[used]);
            used += 1;
            if self.line.ends_with(b"\r\n") {
                let line = std::mem::take(&mut self.line);
                self.line(&line[..line.len() - 2])?;
            }
            ensure!(self.line.len() < MAX_HEAD, "chunk line without an end");
        }
        Ok(used)
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        self.state = match self.state {
            ChunkState::Size => {
                let text = std::str::from_utf8(line).context("chunk size is no text")?;
                let digits = text.split(';').next().unwrap_or_default().trim();
                match usize::from_str_radix(digits, 16).with_context(|| format!("no chunk size: {text:?}"))? {
                    0 => ChunkState::Trailer,
                    size => ChunkState::Data(size),
                }
            }
            ChunkState::AfterData => {
                ensure!(line.is_empty(), "chunk is longer than its size");
                ChunkState::Size
            }
            ChunkState::Trailer if line.is_empty() => ChunkState::Done,
            other => other,
        };
        Ok(())
    }
}
