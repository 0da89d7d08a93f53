//! Keys as the terminal sends them, decoded from the bytes of one read.

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKey {
    /// A single byte.
    Byte(u8),
    /// Cursor or page down.
    Down,
    /// Cursor or page up.
    Up,
    /// The End key.
    End,
    /// Esc alone.
    Escape,
    /// The same byte several times at once: a key that is held down, or a paste.
    Repeated(u8),
    /// Several printable characters at once: a paste, or keys that the terminal held back.
    Pasted,
    /// Anything else: another escape sequence, a non-ASCII character.
    Other,
}

impl PromptKey {
    /// The byte of the key, also if it arrived several times.
    pub fn byte(self) -> Option<u8> {
        match self {
            PromptKey::Byte(byte) | PromptKey::Repeated(byte) => Some(byte),
            _ => None,
        }
    }

    /// Whether the key only scrolls, in every question.
    pub fn scrolls(self) -> bool {
        matches!(
            self,
            PromptKey::Down
                | PromptKey::Up
                | PromptKey::End
                | PromptKey::Byte(b' ' | b'j' | b'k' | b'f' | b'b' | b'G')
        )
    }

    /// Decodes the bytes of one read. Several bytes that are not a known sequence are not a key, so that a paste answers
    /// nothing.
    pub fn parse(bytes: &[u8]) -> PromptKey {
        match bytes {
            b"\x1b" => PromptKey::Escape,
            [byte] => PromptKey::Byte(*byte),
            b"\x1b[B" | b"\x1bOB" | b"\x1b[6~" => PromptKey::Down,
            b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" => PromptKey::End,
            b"\x1b[A" | b"\x1bOA" | b"\x1b[5~" => PromptKey::Up,
            [_, _, ..]
                if bytes
                    .iter()
                    .all(|byte| matches!(byte, b' '..=b'~' | b'\r' | b'\n')) =>
            {
                PromptKey::Pasted
            }
            _ => PromptKey::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_is_not_a_key() {
        for (bytes, key) in [
            (&b"y"[..], PromptKey::Byte(b'y')),
            (b"\x1b", PromptKey::Escape),
            (b"\x1b[B", PromptKey::Down),
            (b"\x1bOA", PromptKey::Up),
            (b"yy", PromptKey::Pasted),
            (b"yes\r", PromptKey::Pasted),
            (b"\xc3\xbf", PromptKey::Other),
            (b"\x1b[200~y\x1b[201~", PromptKey::Other),
        ] {
            assert_eq!(PromptKey::parse(bytes), key, "{bytes:?}");
        }
    }
}
