//! Counting frames in the raw bytes of an event stream, chunk framing included, without parsing them.
//!
//! Invariant: the result does not depend on how the bytes were cut. Relies on what the encoder promises: a frame ends with an empty
//! line, JSON has no raw line feed, and no chunk border lies inside an `id` line.

/// What precedes the number of a frame.
const ID_LINE: &[u8] = b"\nid: ";
/// An `id` line never is longer: the marker, 20 digits, a line feed.
const ID_LINE_MAX: usize = ID_LINE.len() + 21;

/// Counts what one connection receives.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    frames: u64,
    last_id: Option<u64>,
    /// The end of what was seen, in which an `id` line may be cut.
    tail: Vec<u8>,
}

impl Scanner {
    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(first) = bytes.first() else { return };
        if *first == b'\n' && self.tail.last() == Some(&b'\n') {
            self.frames += 1;
        }
        self.frames += bytes.iter().zip(&bytes[1..]).filter(|pair| *pair == (&b'\n', &b'\n')).count() as u64;
        if let Some(id) = last_id(bytes).or_else(|| self.last_id_over_the_cut(bytes)) {
            self.last_id = self.last_id.max(Some(id));
        }
        let excess = (self.tail.len() + bytes.len().min(ID_LINE_MAX)).saturating_sub(ID_LINE_MAX);
        self.tail.drain(..excess.min(self.tail.len()));
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(ID_LINE_MAX)..]);
    }

    /// Frames that ended so far, unnumbered ones included.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The largest number seen.
    pub fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    fn last_id_over_the_cut(&self, bytes: &[u8]) -> Option<u64> {
        let mut joined = self.tail.clone();
        joined.extend_from_slice(&bytes[..bytes.len().min(ID_LINE_MAX)]);
        last_id(&joined)
    }
}

/// The number in the last whole `id` line. Searches from the end, where it is in a stream that is read as it comes.
fn last_id(mut bytes: &[u8]) -> Option<u64> {
    while let Some(at) = bytes.windows(ID_LINE.len()).rposition(|window| window == ID_LINE) {
        let digits = &bytes[at + ID_LINE.len()..];
        if let Some(id) =
            digits.iter().position(|byte| *byte == b'\n').and_then(|end| std::str::from_utf8(&digits[..end]).ok()?.parse().ok())
        {
            return Some(id);
        }
        bytes = &bytes[..at];
    }
    None
}

/// Joins the data of a chunked body and returns it with what remains: the bytes of an unfinished chunk.
pub fn unchunk(mut bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut data = Vec::with_capacity(bytes.len());
    loop {
        let chunk = bytes.windows(2).position(|pair| pair == b"\r\n").and_then(|end| {
            let size = std::str::from_utf8(&bytes[..end]).ok()?.split(';').next()?.trim();
            let start = end + 2;
            let end = start.checked_add(usize::from_str_radix(size, 16).ok()?)?;
            Some((bytes.get(start..end)?, bytes.get(end..end.checked_add(2)?)?, end + 2))
        });
        match chunk {
            Some((chunk, b"\r\n", end)) => {
                data.extend_from_slice(chunk);
                bytes = &bytes[end..];
            }
            _ => return (data, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
        1c\r\nevent: hello\ndata: {\"a\":1}\n\n\r\n\
        28\r\nevent: message\ndata: {\"id\":7}\nid: 4294967\n\n\r\n\
        8\r\n: ping\n\n\r\n\
        4d\r\nevent: message\ndata: {}\nid: 4294968\n\nevent: message\ndata: {}\nid: 18446744073709551615\n\n\r\n";

    fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (u64, Option<u64>) {
        let mut scanner = Scanner::default();
        pieces.into_iter().for_each(|piece| scanner.feed(piece));
        (scanner.frames(), scanner.last_id())
    }

    #[test]
    fn frames_and_numbers_of_a_whole_stream() {
        assert_eq!(scan([STREAM]), (5, Some(u64::MAX)));
        assert_eq!(scan([&b""[..]]), (0, None));
        assert_eq!(scan([&b"event: hello\ndata: {}\n\n"[..]]), (1, None));
        assert_eq!(scan([&b"data: {}\nid: 12\n\ndata: {}\nid: 1"[..]]), (1, Some(12)));
    }

    #[test]
    fn every_cut_gives_the_same() {
        for cut in 0..STREAM.len() {
            assert_eq!(scan([&STREAM[..cut], &STREAM[cut..]]), (5, Some(u64::MAX)), "cut at {cut}");
        }
        assert_eq!(scan(STREAM.chunks(1)), (5, Some(u64::MAX)));
    }

    #[test]
    fn chunks_are_joined_and_the_rest_is_kept() {
        assert_eq!(unchunk(b"3\r\nabc\r\n2;x=1\r\nde\r\n4\r\nfg"), (b"abcde".to_vec(), &b"4\r\nfg"[..]));
        assert_eq!(unchunk(b"zz\r\n"), (Vec::new(), &b"zz\r\n"[..]));
        assert_eq!(unchunk(b"ffffffffffffffff\r\nx"), (Vec::new(), &b"ffffffffffffffff\r\nx"[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn any_cutting_gives_the_same(ids in prop::collection::vec(any::<u64>(), 0..20), cuts in prop::collection::vec(1_usize..40, 1..60)) {
            let mut stream = Vec::new();
            for id in &ids {
                stream.extend_from_slice(format!("event: message\ndata: {{}}\nid: {id}\n\n").as_bytes());
            }
            let whole = (ids.len() as u64, ids.last().copied());
            let mut scanner = Scanner::default();
            let mut rest = &stream[..];
            let mut seen = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                scanner.feed(piece);
                seen.push(scanner.last_id());
                rest = after;
            }
            prop_assert_eq!(scanner.frames(), whole.0);
            prop_assert_eq!(scanner.last_id(), ids.iter().max().copied().filter(|_| whole.1.is_some()));
        }
    }
}
