//! From bytes to events. Owns the line and the event that are not complete yet.
//!
//! Invariant: the events, the last id and the error depend on the bytes alone, never on how they were cut; every byte
//! is looked at a constant number of times.

use bytes::{Buf, BytesMut};

/// The name of an event that gave none.
pub const DEFAULT_EVENT_NAME: &str = "message";

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, else [`DEFAULT_EVENT_NAME`].
    pub name: String,
    /// The `data` lines joined with LF.
    pub data: String,
    /// The `id` field of this very event; [`Decoder::last_id`] has the one that is in force.
    pub id: Option<String>,
}

/// Why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("event stream has an event of more than {limit} bytes")]
    TooLarge { limit: usize },
}

/// Incremental reader of one event stream.
///
/// Give it bytes with [`feed`](Self::feed), then take events until the iterator gives `None`, which means "feed more".
/// After an error it is dead: it ignores what it is fed and gives nothing more.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// Bytes that are not parsed yet.
    buffer: BytesMut,
    /// How many bytes of `buffer` are known to hold no line break.
    scanned: usize,
    /// The byte-order mark that may open a stream was looked for.
    opened: bool,
    /// The last line ended with CR; an LF that follows belongs to it.
    after_carriage_return: bool,
    /// Nothing more is taken in.
    closed: bool,
    pending: Pending,
    last_id: String,
    retry: Option<u64>,
}

/// The event whose empty line has not come yet.
#[derive(Debug, Default)]
struct Pending {
    name: String,
    /// `data` lines, each with an LF behind it; empty means that there was none.
    data: String,
    id: Option<String>,
    /// Length of its field lines, for the limit.
    bytes: usize,
}

impl Decoder {
    /// A reader at the start of a stream. `max_event_bytes` bounds the lines of one event, and any single line.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            limit: max_event_bytes,
            buffer: BytesMut::new(),
            scanned: 0,
            opened: false,
            after_carriage_return: false,
            closed: false,
            pending: Pending::default(),
            last_id: String::new(),
            retry: None,
        }
    }

    /// Takes in the next bytes. Take all events out before feeding again, or the bytes pile up here.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The stream has ended. An event without its empty line is dropped, as the standard asks, unless
    /// `count_unfinished` says that the sender is known to leave the last one out. Events that are complete still follow.
    pub fn finish(&mut self, count_unfinished: bool) {
        if count_unfinished {
            // Ends the open line if there is one, then the event; more empty lines mean nothing.
            self.feed(b"\n\n");
        }
        self.closed = true;
    }

    /// The id in force after the last event that was taken out, which a reconnect sends as `Last-Event-ID`.
    /// Empty until there was one. Events without data count, as do events without an `id`, which keep the former.
    #[must_use]
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// Milliseconds to wait before a reconnect, if the stream said so.
    #[must_use]
    pub const fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Bytes and fields of an event that has begun and not ended are here. Comments do not count.
    #[must_use]
    pub fn is_mid_event(&self) -> bool {
        self.pending.bytes > 0 || !self.buffer.is_empty()
    }

    /// The next whole line without its end, or `None` if it has not come yet.
    fn next_line(&mut self) -> Option<BytesMut> {
        if !self.opened {
            if self.buffer.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.buffer) && !self.closed {
                return None;
            }
            self.opened = true;
            if self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.advance(BYTE_ORDER_MARK.len());
            }
        }
        if self.after_carriage_return && !self.buffer.is_empty() {
            self.after_carriage_return = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
            }
        }
        let Some(found) = self.buffer[self.scanned..].iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            self.scanned = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.scanned + found);
        self.after_carriage_return = self.buffer[0] == b'\r';
        self.buffer.advance(1);
        self.scanned = 0;
        Some(line)
    }

    /// Reads a line that is not empty.
    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(0) => return, // a comment
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.pending.data.push_str(&String::from_utf8_lossy(value));
                self.pending.data.push('\n');
            }
            b"event" => self.pending.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.pending.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" => {}
            b"retry" => {
                let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                if let Some(millis) = std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok()) {
                    self.retry = Some(millis);
                }
                return;
            }
            _ => return, // takes no room, so it does not count against the limit
        }
        self.pending.bytes += line.len();
    }

    /// The empty line came: the event, if it has data.
    fn dispatch(&mut self) -> Option<Event> {
        let Pending { name, mut data, id, .. } = std::mem::take(&mut self.pending);
        if let Some(id) = &id {
            self.last_id.clone_from(id);
        }
        data.pop()?; // the LF behind the last line
        let name = if name.is_empty() { DEFAULT_EVENT_NAME.to_owned() } else { name };
        Some(Event { name, data, id })
    }

    fn is_too_large(&self, line: usize) -> bool {
        self.pending.bytes.saturating_add(line) > self.limit
    }

    fn die(&mut self) -> DecodeError {
        self.closed = true;
        self.buffer = BytesMut::new();
        self.scanned = 0;
        self.pending = Pending::default();
        DecodeError::TooLarge { limit: self.limit }
    }
}

impl Iterator for Decoder {
    type Item = Result<Event, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(line) = self.next_line() else {
                return (self.opened && self.is_too_large(self.buffer.len())).then(|| Err(self.die()));
            };
            if self.is_too_large(line.len()) {
                return Some(Err(self.die()));
            }
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Some(Ok(event));
                }
            } else {
                self.field(&line);
            }
        }
    }
}
