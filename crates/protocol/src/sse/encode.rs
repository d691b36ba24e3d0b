//! From events to the bytes that the daemon sends.

use std::io::{self, Write};

use bytes::{BufMut, BytesMut};
use serde::Serialize;

use crate::ids::FrameId;

/// A comment that keeps a quiet stream alive. It is no event and moves no id.
pub const PING: &[u8] = b": ping\n\n";

/// Appends one frame. A line break in `data` (CR, LF, CRLF) begins another `data` line.
///
/// `event_name` must hold no line break; it ends at the first one.
pub fn encode_frame(buffer: &mut BytesMut, event_name: &str, data: &[u8], id: Option<FrameId>) {
    let digits = 32; // an id line takes at most 25 bytes, and the empty line one
    buffer.reserve(event_name.len() + data.len() + digits + "event: \ndata: \n".len());
    begin(buffer, event_name);
    DataLines::new(buffer).put(data);
    end(buffer, id);
}

/// Appends one frame with `data` as JSON.
///
/// # Errors
/// When `data` has no JSON form; then `buffer` is as it was.
pub fn encode_json(buffer: &mut BytesMut, event_name: &str, data: &impl Serialize, id: Option<FrameId>) -> Result<(), serde_json::Error> {
    let before = buffer.len();
    begin(buffer, event_name);
    if let Err(error) = serde_json::to_writer(DataLines::new(buffer), data) {
        buffer.truncate(before);
        return Err(error);
    }
    end(buffer, id);
    Ok(())
}

fn begin(buffer: &mut BytesMut, event_name: &str) {
    let name = event_name.split(['\r', '\n']).next().unwrap_or_default();
    buffer.put_slice(b"event: ");
    buffer.put_slice(name.as_bytes());
    buffer.put_slice(b"\ndata: ");
}

fn end(buffer: &mut BytesMut, id: Option<FrameId>) {
    buffer.put_u8(b'\n');
    if let Some(id) = id {
        // Writing to a `BytesMut` cannot fail.
        let _ = writeln!(buffer.writer(), "id: {id}");
    }
    buffer.put_u8(b'\n');
}

/// Writes data into the open `data` line and begins another at each line break.
struct DataLines<'a> {
    buffer: &'a mut BytesMut,
    after_carriage_return: bool,
}

impl<'a> DataLines<'a> {
    const fn new(buffer: &'a mut BytesMut) -> Self {
        Self { buffer, after_carriage_return: false }
    }

    fn put(&mut self, mut data: &[u8]) {
        if self.after_carriage_return && !data.is_empty() {
            self.after_carriage_return = false;
            data = data.strip_prefix(b"\n").unwrap_or(data);
        }
        while let Some(at) = data.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.buffer.put_slice(&data[..at]);
            self.buffer.put_slice(b"\ndata: ");
            let rest = &data[at + 1..];
            self.after_carriage_return = data[at] == b'\r' && rest.is_empty();
            data = if data[at] == b'\r' { rest.strip_prefix(b"\n").unwrap_or(rest) } else { rest };
        }
        self.buffer.put_slice(data);
    }
}

impl Write for DataLines<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.put(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
