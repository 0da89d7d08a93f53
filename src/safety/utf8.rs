//! Incremental UTF-8 decoding that never fails.

/// Returns the longest start of `text` that has at most `bytes` bytes.
pub fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Decodes a byte stream to text; invalid bytes become U+FFFD.
///
/// The result for a whole stream equals [`String::from_utf8_lossy`] on all its bytes, independent of how the stream was
/// split. At most three bytes are held back until their character is complete.
#[derive(Debug, Default)]
pub struct Utf8Stream {
    held: [u8; 4],
    len: usize,
}

impl Utf8Stream {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes `bytes` and appends the text to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        while self.len > 0 {
            let Some((&byte, after)) = rest.split_first() else {
                return;
            };
            // `held` is an incomplete character, so at most three of its four bytes are in use.
            self.held[self.len] = byte;
            match std::str::from_utf8(&self.held[..=self.len]) {
                Ok(text) => {
                    out.push_str(text);
                    self.len = 0;
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => {
                    self.len += 1;
                    rest = after;
                }
                // The new byte does not continue the held ones; it may begin a character itself.
                Err(_) => self.finish(out),
            }
        }
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return out.push_str(text),
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    // Validated above, so nothing is lost here.
                    out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(len) = error.error_len() else {
                        // An incomplete character has at most three bytes.
                        self.len = bad.len();
                        return self.held[..bad.len()].copy_from_slice(bad);
                    };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[len..];
                }
            }
        }
    }

    /// Returns whether no incomplete character is held back.
    pub fn is_complete(&self) -> bool {
        self.len == 0
    }

    /// Ends the stream: an incomplete character becomes one U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if std::mem::take(&mut self.len) > 0 {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut stream, mut out) = (Utf8Stream::new(), String::new());
        for part in parts {
            stream.push(part, &mut out);
            assert!(stream.len <= 3);
        }
        stream.finish(&mut out);
        assert_eq!(stream.len, 0);
        out
    }

    fn check_every_split(bytes: &[u8]) {
        let whole = String::from_utf8_lossy(bytes);
        assert_eq!(decode([bytes]), whole, "{bytes:x?}");
        assert_eq!(decode(bytes.chunks(1)), whole, "{bytes:x?} byte by byte");
        for cut in 0..=bytes.len() {
            let (left, right) = bytes.split_at(cut);
            assert_eq!(decode([left, right]), whole, "{bytes:x?} cut at {cut}");
        }
    }

    #[test]
    fn agrees_with_from_utf8_lossy_at_every_split() {
        let corpus: &[&[u8]] = &[
            b"",
            b"plain",
            "añ漢🦀é".as_bytes(),
            b"\x80",
            b"a\xffb\xfec",
            b"\xc0\x80 \xc1\xbf overlong",
            b"\xe0\x80\x80 \xe0\x9f\xbf \xf0\x80\x80\x80 \xf0\x8f\xbf\xbf overlong",
            b"\xed\xa0\x80\xed\xbf\xbf surrogates",
            b"\xf4\x90\x80\x80 \xf5\x80\x80\x80 beyond U+10FFFF",
            b"\xf8\x88\x80\x80\x80 five bytes",
            b"\xe2\x82",
            b"\xf0\x9f\xa6",
            b"\xf0\x9f\xa6\xf0\x9f\xa6\x80",
            b"\xe2\x82a\xe2\xe2\x82\xac\xc3",
            b"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64",
            b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",
        ];
        for bytes in corpus {
            check_every_split(bytes);
        }
    }

    proptest! {
        #[test]
        fn agrees_on_random_bytes(bytes in prop::collection::vec(prop::sample::select(vec![
            0x00u8, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf,
            0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ]), 0..24)) {
            check_every_split(&bytes);
        }
    }
}
