//! The ring of a session that left memory, with long texts kept once.
//!
//! A long answer stands in the ring twice: at the end of its block, and in the end of its message; a tool's result likewise. The earlier frame
//! gives its copy up and remembers where the later one has it. Invariant: a frame is only ever taken from while its text stands in
//! a later one of the ring, and the oldest leave first, so that unpacking gives back every byte that is still to be had.
//!
//! Not here: when a ring is packed; nobody reads a packed one.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use memchr::memmem;

use super::frame::Frame;

/// Shorter texts are not worth it.
const LEAST: usize = 4 * 1024;
/// So much of a text's beginning must be found in a later frame before the rest is compared.
const PROBE: usize = 128;
/// Later frames that are looked through for a text, and texts of one frame that are looked for: the end of a message soon follows the end
/// of its block. Packing takes time in proportion to the ring by it, whatever the frames hold.
const LOOKED_THROUGH: usize = 8;
const LOOKED_FOR: usize = 8;
/// What stands before long texts in frames.
const BEFORE_TEXTS: [&[u8]; 5] = [br#""content":""#, br#""text":""#, br#""thinking":""#, br#""output":""#, br#""data":""#];

/// A piece that was cut out of a frame. Frames are named by their position in the log.
#[derive(Clone, Copy, Debug)]
struct Cut {
    frame: u64,
    at: usize,
    donor: u64,
    from: usize,
    length: usize,
}

/// What was cut out of a ring.
#[derive(Debug, Default)]
pub(super) struct Pack {
    cuts: Vec<Cut>,
}

impl Pack {
    /// Cuts what later frames have as well out of the frames of a ring, the first of which stands at `first`. Gives back how many bytes
    /// that saves.
    pub(super) fn pack(&mut self, frames: &mut VecDeque<Frame>, first: u64) -> usize {
        let large: Vec<usize> = (0..frames.len()).filter(|index| frames[*index].bytes.len() >= LEAST).collect();
        let mut saved = 0;
        for (number, index) in large.iter().enumerate() {
            let frame = &frames[*index].bytes;
            let mut later = large[number + 1..].iter().take(LOOKED_THROUGH);
            let found = later.find_map(|donor| shared(frame, &frames[*donor].bytes).map(|(at, from, length)| (at, *donor, from, length)));
            let Some((at, donor, from, length)) = found else { continue };
            self.cuts.push(Cut { frame: first + *index as u64, at, donor: first + donor as u64, from, length });
            let rest = [&frame[..at], &frame[at + length..]].concat();
            frames[*index].bytes = Bytes::from(rest);
            saved += length;
        }
        saved
    }

    /// Puts everything back. Gives back how many bytes that adds.
    pub(super) fn unpack(&mut self, frames: &mut VecDeque<Frame>, first: u64) -> usize {
        let mut added = 0;
        // The last cut first: its donor may have been cut before.
        while let Some(cut) = self.cuts.pop() {
            let index = |position: u64| position.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            // A frame that left took nothing with it but its own part.
            let (Some(frame), Some(donor)) = (index(cut.frame), index(cut.donor)) else { continue };
            let Some(piece) = frames.get(donor).and_then(|donor| donor.bytes.get(cut.from..cut.from + cut.length)) else { continue };
            let Some(frame) = frames.get(frame) else { continue };
            let (Some(before), Some(behind)) = (frame.bytes.get(..cut.at), frame.bytes.get(cut.at..)) else { continue };
            let mut whole = BytesMut::with_capacity(frame.bytes.len() + cut.length);
            whole.extend_from_slice(before);
            whole.extend_from_slice(piece);
            whole.extend_from_slice(behind);
            let whole = whole.freeze();
            if let Some(frame) = index(cut.frame).and_then(|index| frames.get_mut(index)) {
                frame.bytes = whole;
                added += cut.length;
            }
        }
        added
    }
}

/// The longest text of a frame that a later one has too: where it stands in both, and its length.
fn shared(frame: &[u8], later: &[u8]) -> Option<(usize, usize, usize)> {
    let texts = BEFORE_TEXTS.iter().flat_map(|before| memmem::find_iter(frame, *before).map(|at| at + before.len()));
    let found = texts.filter(|at| is_long(&frame[*at..])).take(LOOKED_FOR).filter_map(|at| {
        // With the quotation mark: a text that repeats itself is found at its beginning only.
        let probe = frame.get(at - 1..at - 1 + PROBE)?;
        let from = memmem::find(later, probe)? + 1;
        let length = frame[at..].iter().zip(&later[from..]).take_while(|(one, other)| one == other).count();
        Some((at, from, length))
    });
    found.filter(|(_, _, length)| *length >= LEAST).max_by_key(|(_, _, length)| *length)
}

/// True for the inside of a JSON text that does not end within the least length.
fn is_long(text: &[u8]) -> bool {
    let Some(begin) = text.get(..LEAST) else { return false };
    let mut escaped = false;
    begin.iter().all(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        !ends
    })
}
