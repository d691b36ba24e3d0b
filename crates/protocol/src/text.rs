//! Text lengths as JavaScript counts them.

/// Length in UTF-16 code units, which is what wolli 0.0.2 calls characters.
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The longest prefix of `text` that has at most `limit` UTF-16 code units and ends between characters.
#[must_use]
pub fn utf16_prefix(text: &str, limit: usize) -> &str {
    let mut units = 0;
    for (offset, character) in text.char_indices() {
        units += character.len_utf16();
        if units > limit {
            return &text[..offset];
        }
    }
    text
}

/// The start of `text`, at most `limit` bytes, ending between characters.
#[must_use]
pub fn byte_prefix(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The end of `text`, at most `limit` bytes, starting between characters.
#[must_use]
pub fn byte_suffix(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::{byte_prefix, byte_suffix, utf16_len, utf16_prefix};

    #[test]
    fn lengths_and_cuts_stay_between_characters() {
        assert_eq!(utf16_len("aé😀"), 4);
        assert_eq!(utf16_prefix("a😀b", 2), "a");
        assert_eq!(utf16_prefix("a😀b", 3), "a😀");
        assert_eq!(byte_prefix("é😀", 3), "é");
        assert_eq!(byte_suffix("é😀", 5), "😀");
        assert_eq!(byte_suffix("abc", 9), "abc");
    }
}
