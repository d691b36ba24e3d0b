//! Pictures of any size, made without a library: what tests hand to tools, prompts and providers.
//!
//! Not here: reading pictures. What is made is black, and correct to the last checksum.

/// A PNG of that many pixels, one byte each, not compressed: it has a little more than `width * height` bytes.
#[must_use]
pub fn png(width: u32, height: u32) -> Vec<u8> {
    // Eight bits of grey, nothing interlaced.
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    // Each row begins with its filter, which is none.
    let rows = vec![0; (width as usize + 1) * height as usize];
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", header), (b"IDAT", stored(&rows)), (b"IEND", Vec::new())] {
        image.extend((data.len() as u32).to_be_bytes());
        let begin = image.len();
        image.extend(kind);
        image.extend(&data);
        image.extend(crc32(&image[begin..]).to_be_bytes());
    }
    image
}

/// The bytes as a zlib stream of blocks that are not compressed.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(bytes).to_be_bytes());
    stream
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    high << 16 | low
}

fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> =
        (0..256_u32).map(|byte| (0..8).fold(byte, |rest, _| if rest & 1 == 1 { 0xedb8_8320 ^ rest >> 1 } else { rest >> 1 })).collect();
    !bytes.iter().fold(!0, |sum, byte| table[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::{adler32, crc32, png};

    #[test]
    fn checksums_are_those_of_the_standards() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND"), 0xae42_6082);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }

    #[test]
    fn a_large_picture_has_all_its_rows() {
        let picture = png(300, 400);
        assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(&picture[16..24], [0, 0, 1, 44, 0, 0, 1, 144]);
        assert!(picture.len() > 301 * 400 && picture.len() < 301 * 400 + 100);
    }
}
