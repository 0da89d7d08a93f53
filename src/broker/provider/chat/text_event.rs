//! Reads the text of an ordinary chat completion event in one pass over its bytes. Pure.
//!
//! Nearly every event of an answer carries one piece of text. Providers surround it with ids, counts, and padding
//! of random length, in any order, so nothing can be learned from the previous event. The scan finds the text and
//! checks that everything else in the event is JSON without meaning for an answer. It costs a tenth of the full
//! parser. Whatever the scan does not recognize, it leaves to the full parser.

use std::borrow::Cow;

/// Maximum nesting of a skipped value. Deeper values are left to the full parser.
const MAX_DEPTH: usize = 16;

/// An event that holds text, reasoning, or neither, and nothing else that matters to an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TextEvent<'a> {
    /// Text of the answer; may be empty.
    pub text: Cow<'a, str>,
    /// Reasoning of the model; may be empty.
    pub reasoning: Cow<'a, str>,
    /// Whether the event names a model.
    pub has_model: bool,
}

impl<'a> TextEvent<'a> {
    /// Scans the `data` of an event. Returns `None` if the event needs the full parser.
    pub fn scan(data: &'a [u8]) -> Option<TextEvent<'a>> {
        let mut scanner = EventScanner { data, at: 0 };
        let mut event = TextEvent::default();
        let mut seen = SeenKeys::default();
        scanner.object(|scanner, key| match key {
            b"choices" => {
                seen.first(0)?;
                scanner.choice(&mut event)
            }
            b"model" => {
                seen.first(1)?;
                event.has_model = !scanner.plain_string()?.is_empty();
                Some(())
            }
            b"usage" => {
                seen.first(2)?;
                scanner.null()
            }
            b"error" => None,
            _ => scanner.skip(MAX_DEPTH),
        })?;
        scanner.space();
        (scanner.at == data.len() && seen.has(0)).then_some(event)
    }
}

/// The keys of one object that have a meaning: the full parser refuses an object that repeats one of them.
#[derive(Default)]
struct SeenKeys(u8);

impl SeenKeys {
    fn has(&self, key: u8) -> bool {
        self.0 & (1 << key) != 0
    }

    /// Fails for a repeated key.
    fn first(&mut self, key: u8) -> Option<()> {
        let repeated = self.has(key);
        self.0 |= 1 << key;
        (!repeated).then_some(())
    }
}

/// Finds the first quote, backslash or control character, eight bytes at a time.
fn first_special(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = ONES << 7;
    // Sets the high bit of the lowest byte below `limit`; bits above it may be wrong.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let mut words = bytes.chunks_exact(8);
    let mut at = 0;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().ok()?);
        let special = below(word, b' ') | equal(word, b'"') | equal(word, b'\\');
        let special = special & HIGH_BITS;
        if special != 0 {
            return Some(at + special.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let mut rest = words.remainder().iter();
    let found = rest.position(|byte| matches!(byte, 0..b' ' | b'"' | b'\\'))?;
    Some(at + found)
}

/// A position in an event. Every method advances the position past the bytes it has read, or returns `None`.
struct EventScanner<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> EventScanner<'a> {
    /// Reads a list of exactly one choice.
    fn choice(&mut self, event: &mut TextEvent<'a>) -> Option<()> {
        let mut seen = SeenKeys::default();
        self.byte(b'[')?;
        self.object(|scanner, key| match key {
            b"index" => {
                seen.first(0)?;
                scanner.byte(b'0')
            }
            b"delta" => {
                seen.first(1)?;
                scanner.delta(event)
            }
            b"finish_reason" => {
                seen.first(2)?;
                scanner.null()
            }
            b"message" => None,
            _ => scanner.skip(MAX_DEPTH),
        })?;
        self.byte(b']')
    }

    fn delta(&mut self, event: &mut TextEvent<'a>) -> Option<()> {
        let mut seen = SeenKeys::default();
        let mut other_reasoning = Cow::Borrowed("");
        self.object(|scanner, key| {
            match key {
                b"content" => {
                    seen.first(0)?;
                    event.text = scanner.text()?;
                }
                b"reasoning_content" => {
                    seen.first(1)?;
                    event.reasoning = scanner.text()?;
                }
                b"reasoning" => {
                    seen.first(2)?;
                    other_reasoning = scanner.text()?;
                }
                b"refusal" => {
                    seen.first(3)?;
                    scanner.null()?;
                }
                b"tool_calls" => {
                    seen.first(4)?;
                    scanner.null()?;
                }
                b"reasoning_details" => {
                    seen.first(5)?;
                    scanner.null()?;
                }
                _ => scanner.skip(MAX_DEPTH)?,
            }
            Some(())
        })?;
        // A server that sends both names sends the same reasoning under both.
        if event.reasoning.is_empty() {
            event.reasoning = other_reasoning;
        }
        Some(())
    }

    /// Reads an object and calls `member` at the value of each key.
    fn object(
        &mut self,
        mut member: impl FnMut(&mut EventScanner<'a>, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.byte(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.plain_string()?;
            self.byte(b':')?;
            member(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Reads any value, nested at most `depth` deep.
    fn skip(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.plain_string().map(|_| ()),
            b'n' => self.word(b"null"),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'{' => {
                let depth = depth.checked_sub(1)?;
                self.object(|scanner, _| scanner.skip(depth))
            }
            b'[' => {
                let depth = depth.checked_sub(1)?;
                self.at += 1;
                if self.peek()? == b']' {
                    self.at += 1;
                    return Some(());
                }
                loop {
                    self.skip(depth)?;
                    match self.peek()? {
                        b',' => self.at += 1,
                        b']' => {
                            self.at += 1;
                            return Some(());
                        }
                        _ => return None,
                    }
                }
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<()> {
        if self.current() == Some(b'-') {
            self.at += 1;
        }
        if self.current()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.current() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.current(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.current(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.current().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Reads a string or `null`, which counts as an empty string.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? == b'n' {
            self.word(b"null")?;
            return Some(Cow::Borrowed(""));
        }
        self.byte(b'"')?;
        let start = self.at;
        if let Some(text) = self.until_quote() {
            return std::str::from_utf8(text).ok().map(Cow::Borrowed);
        }
        // The text has an escape or is malformed. serde_json decodes the bytes between the quotes.
        loop {
            match self.current()? {
                b'"' => break,
                b'\\' => self.at += 2,
                0..b' ' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let quoted = self.data.get(start.checked_sub(1)?..self.at)?;
        serde_json::from_slice(quoted).ok().map(Cow::Owned)
    }

    /// Reads a string without escapes. It may hold bytes that are not UTF-8.
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.byte(b'"')?;
        self.until_quote()
    }

    /// Reads to the closing quote. With an escape or a control character before it, nothing is read.
    fn until_quote(&mut self) -> Option<&'a [u8]> {
        let rest = self.data.get(self.at..)?;
        let length = first_special(rest)?;
        let (text, end) = rest.split_at(length);
        if end.first() != Some(&b'"') {
            return None;
        }
        self.at += length + 1;
        Some(text)
    }

    fn null(&mut self) -> Option<()> {
        self.peek()?;
        self.word(b"null")
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.data.get(self.at..)?.starts_with(word).then(|| {
            self.at += word.len();
        })
    }

    /// Reads `byte`, which white space may precede.
    fn byte(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.current()
    }

    fn space(&mut self) {
        while matches!(self.current(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn current(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests;
