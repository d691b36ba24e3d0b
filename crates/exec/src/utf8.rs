//! Text out of a byte stream that may be cut anywhere: sequences that are incomplete at the end of a chunk wait for the next one,
//! what can never become valid is U+FFFD, as `String::from_utf8_lossy` would say of the whole.

/// A decoder for one stream.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    /// The beginning of a sequence, at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// Adds the text of `bytes` to `text`.
    pub fn push(&mut self, bytes: &[u8], text: &mut String) {
        let joined;
        let mut rest = if self.pending.is_empty() {
            bytes
        } else {
            joined = [self.pending.as_slice(), bytes].concat();
            self.pending.clear();
            joined.as_slice()
        };
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => return text.push_str(valid),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    match error.error_len() {
                        Some(length) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            rest = after.get(length..).unwrap_or_default();
                        }
                        None => return self.pending.extend_from_slice(after),
                    }
                }
            }
        }
    }

    /// The stream ended: an incomplete sequence will never be complete.
    pub fn finish(&mut self, text: &mut String) {
        if !self.pending.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            self.pending.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut decoder, mut text) = (Utf8Decoder::default(), String::new());
        for chunk in chunks {
            decoder.push(chunk, &mut text);
        }
        decoder.finish(&mut text);
        text
    }

    #[test]
    fn every_cut_gives_the_same_text() {
        for bytes in ["aé€😀z".as_bytes(), b"\xff\xc3(\xe2\x82\xf0\x9f\x98", b"\xed\xa0\x80\xf4\x90\x80\x80"] {
            for cut in 0..=bytes.len() {
                assert_eq!(decode([&bytes[..cut], &bytes[cut..]]), String::from_utf8_lossy(bytes), "cut at {cut}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn chunks_do_not_matter(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xe2), Just(0x82), Just(0xac)], 0..60), size in 1_usize..7) {
            prop_assert_eq!(decode(bytes.chunks(size)), String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
