//! Lines from stdin while other things happen.
//!
//! A thread reads, since a terminal's read cannot be cancelled; it ends with the process. A line that ends in a backslash goes on in
//! the next one.

use std::io::{self, BufRead};

use tokio::sync::mpsc;

/// Lines that were typed and not yet taken. The thread fills it and waits when it is full, so a file on stdin is not read ahead.
const LINES: usize = 16;

/// What was typed, line by line; the channel ends with stdin.
pub(crate) fn lines() -> io::Result<mpsc::Receiver<io::Result<String>>> {
    let (sender, receiver) = mpsc::channel(LINES);
    let read = move || read_lines(io::stdin().lock(), |line| sender.blocking_send(line).is_ok());
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    Ok(receiver)
}

/// Hands out whole lines until the end, an error, or until nobody wants more. What is not UTF-8 becomes replacement characters.
fn read_lines(mut from: impl BufRead, mut hand_out: impl FnMut(io::Result<String>) -> bool) {
    let mut message = String::new();
    loop {
        let mut line = Vec::new();
        match from.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => {
                hand_out(Err(e));
                return;
            }
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(part) = line.strip_suffix('\\') {
            message.push_str(part);
            message.push('\n');
            continue;
        }
        message.push_str(line);
        if !hand_out(Ok(std::mem::take(&mut message))) {
            return;
        }
    }
    // The end of input ends a message that was to go on.
    if !message.is_empty() {
        hand_out(Ok(message));
    }
}

#[cfg(test)]
mod tests {
    use super::read_lines;

    fn read(input: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        read_lines(input, |line| {
            lines.push(line.unwrap());
            true
        });
        lines
    }

    #[test]
    fn lines_and_messages_of_several_lines() {
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"one\ntwo\r\n\nthree"), ["one", "two", "", "three"]);
        assert_eq!(read(b"one\\\ntwo\\\r\nthree\nfour\\\n"), ["one\ntwo\nthree", "four\n"]);
        assert_eq!(read(b"caf\xc3\xa9 \xff\n"), ["caf\u{e9} \u{fffd}"]);
    }

    #[test]
    fn reading_stops_when_nobody_wants_more() {
        let mut count = 0;
        read_lines(&b"1\n2\n3\n"[..], |_| {
            count += 1;
            count < 2
        });
        assert_eq!(count, 2);
    }
}
