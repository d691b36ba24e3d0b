//! How many pixels an image has, read from the few bytes that say it.
//!
//! The base64 is decoded only where those bytes stand, so that a large photograph costs as little as an icon. Pure; an image is never
//! decoded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Segments before the one that says the size of a JPEG; real ones have a dozen.
const MOST_SEGMENTS: usize = 512;

/// The longer side in pixels; `None` if the beginning does not say it. A PNG or GIF that ends before its size has none: 0.
pub(super) fn longer_side(data: &str) -> Option<u32> {
    let head: [u8; 30] = match bytes_at(data, 0) {
        Some(head) => head,
        None => short(data)?,
    };
    let (width, height) = match head {
        [0x89, b'P', b'N', b'G', ..] => {
            let side = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            (side(16), side(20))
        }
        [b'R', b'I', b'F', b'F', ..] => webp(&head)?,
        [b'G', b'I', b'F', ..] => (little(&head, 6, 2), little(&head, 8, 2)),
        [0xff, 0xd8, ..] => jpeg(data)?,
        _ => return None,
    };
    Some(width.max(height))
}

/// The head of an image that is shorter than a head, if its kind says its size within fewer bytes.
fn short(data: &str) -> Option<[u8; 30]> {
    let bytes = STANDARD.decode(data).ok()?;
    let mut head = [0; 30];
    head.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    (bytes.starts_with(b"\x89PNG") || bytes.starts_with(b"GIF8")).then_some(head)
}

/// Up to four bytes at a place, the lowest first.
fn little(head: &[u8; 30], at: usize, count: usize) -> u32 {
    head[at..at + count].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn webp(head: &[u8; 30]) -> Option<(u32, u32)> {
    const FOURTEEN_BITS: u32 = 0x3fff;
    match &head[12..16] {
        b"VP8X" => Some((little(head, 24, 3) + 1, little(head, 27, 3) + 1)),
        b"VP8L" => {
            let bits = little(head, 21, 4);
            Some(((bits & FOURTEEN_BITS) + 1, (bits >> 14 & FOURTEEN_BITS) + 1))
        }
        b"VP8 " => Some((little(head, 26, 2) & FOURTEEN_BITS, little(head, 28, 2) & FOURTEEN_BITS)),
        _ => None,
    }
}

/// Goes from segment to segment until one begins a frame.
fn jpeg(data: &str) -> Option<(u32, u32)> {
    let mut at = 2;
    for _ in 0..MOST_SEGMENTS {
        let [mark, kind, length @ .., a, b, c, d]: [u8; 9] = bytes_at(data, at)?;
        if mark != 0xff {
            return None;
        }
        match kind {
            // Filled up to an even place.
            0xff => at += 1,
            // These three look like frames and are tables.
            0xc4 | 0xc8 | 0xcc => at += 2 + segment(length),
            0xc0..=0xcf => {
                return Some((u32::from(u16::from_be_bytes([c, d])), u32::from(u16::from_be_bytes([a, b]))));
            }
            _ => at += 2 + segment(length),
        }
    }
    None
}

fn segment(length: [u8; 3]) -> usize {
    usize::from(u16::from_be_bytes([length[0], length[1]]))
}

/// The decoded bytes at a place; `None` beyond the end.
fn bytes_at<const COUNT: usize>(data: &str, at: usize) -> Option<[u8; COUNT]> {
    // Four characters are three bytes.
    let begin = at / 3 * 4;
    let end = ((at + COUNT).div_ceil(3) * 4).min(data.len());
    let bytes = STANDARD.decode(data.get(begin..end)?).ok()?;
    bytes.get(at % 3..at % 3 + COUNT)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::{bytes_at, longer_side};

    fn padded(head: &[u8]) -> String {
        STANDARD.encode([head, &[0; 40]].concat())
    }

    #[test]
    fn every_kind_says_its_size() {
        let exif = [&[0xff, 0xe1, 0x12, 0x34][..], &[7; 0x1232]].concat();
        let frame = [0xff, 0xc2, 0, 17, 8, 0x03, 0x20, 0x1f, 0x41, 3];
        let jpeg = [&[0xff, 0xd8][..], &exif, &[0xff, 0xff, 0xc4, 0, 4, 1, 2], &frame].concat();
        for (name, bytes, side) in [
            ("png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x23\x28\0\0\0\x0a".to_vec(), Some(9000)),
            ("gif", b"GIF89a\x10\x27\x02\x00".to_vec(), Some(10_000)),
            ("jpeg", jpeg.clone(), Some(8001)),
            ("jpeg without a frame", [0xff, 0xd8, 0xff, 0xe0, 0, 4].to_vec(), None),
            ("lossy webp", b"RIFF....WEBPVP8 ....\x30\x01\0\x9d\x01\x2a\x41\x1f\x05\0".to_vec(), Some(8001)),
            ("lossless webp", b"RIFF....WEBPVP8L....\x2f\x40\x5f\x00\x00".to_vec(), Some(8001)),
            ("extended webp", b"RIFF....WEBPVP8X....\0\0\0\0\x01\0\0\x40\x1f\0".to_vec(), Some(8001)),
            ("webp of tomorrow", b"RIFF....WEBPVP9 ....".to_vec(), None),
            ("text", b"<!DOCTYPE html>".to_vec(), None),
        ] {
            assert_eq!(longer_side(&padded(&bytes)), side, "{name}");
        }
        assert_eq!(longer_side(&STANDARD.encode(&jpeg[..jpeg.len() - 6])), None);
        for (bytes, side) in [
            (&b"GIF89a\x10\x27\x02\x00"[..], Some(10_000)),
            (b"GIF89a", Some(0)),
            (b"\x89PNG\r\n\x1a\n", Some(0)),
            (b"RIFF", None),
            (b"", None),
        ] {
            assert_eq!(longer_side(&STANDARD.encode(bytes)), side, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_are_found_wherever_they_stand(bytes in prop::collection::vec(any::<u8>(), 0..60), at in 0usize..70) {
            let found: Option<[u8; 5]> = bytes_at(&STANDARD.encode(&bytes), at);
            prop_assert_eq!(found.as_ref().map(|found| &found[..]), bytes.get(at..at + 5));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80), kind in 0usize..4) {
            let magic: [&[u8]; 4] = [b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF....WEBPVP8L", b"\xff\xd8\xff"];
            longer_side(&STANDARD.encode([magic[kind], &bytes].concat()));
            longer_side(&String::from_utf8_lossy(&bytes));
        }
    }
}
