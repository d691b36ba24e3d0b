//! Changes of seeds, from a seeded source: enough to walk around each seed without an engine that watches the code.

/// Random numbers that are the same every time (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

/// What parsers of ours trip over, if over anything.
const WORDS: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\\ud83d",
    b"\\u0000",
    b"\\",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"1e-999",
    b"9007199254740993",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"0.1",
    b"\"\":",
    b"{\"type\":",
    b"\"id\":\"\"",
    b"\"id\":null",
    b"\"parentId\":null",
    b"data:",
    b"data: ",
    b"event: hello\n",
    b"id: 4294967296\n",
    b"id: 18446744073709551615\n",
    b"retry: 1\n",
    b": ping\n\n",
];

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or_default() % end.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// One of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// One of the seeds, changed in one to eight places.
#[must_use]
pub fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.pick(seeds).clone();
    for _ in 0..=random.below(8) {
        change(&mut bytes, seeds, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + 1 + random.below(16)).min(bytes.len());
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at.min(end)..end)),
        2 => insert(bytes, at, WORDS[random.below(WORDS.len())]),
        3 => {
            let repeated = bytes[at.min(end)..end].to_vec();
            insert(bytes, at, &repeated.repeat(1 + random.below(4)));
        }
        4 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        5 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.byte();
            }
        }
        6 => {
            // The beginning of one and the end of another.
            let other = random.pick(seeds);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
        _ => {
            // A whole line, elsewhere.
            let lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            if !lines.is_empty() {
                let line = random.pick(&lines).clone();
                let before: usize = lines.iter().take(random.below(lines.len() + 1)).map(Vec::len).sum();
                insert(bytes, before, &line);
            }
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, more: &[u8]) {
    bytes.splice(at..at, more.iter().copied());
}
