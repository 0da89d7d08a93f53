//! Server-sent events out of bytes that arrive in any pieces. Pure.
//!
//! Lines end in LF, CR or CRLF. An event whose `data:` is one line and lies in
//! one piece is handed on without a copy, which is the common case.

/// The most that one line, or the `data` of one event, may hold. A server that
/// sends more is broken or hostile, and memory stays bounded.
pub const MAX_EVENT: usize = 1 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event, as it was sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// What `event:` said; empty when it was not there.
    pub name: &'a [u8],
    /// The `data:` lines, joined with LF.
    pub data: &'a [u8],
}

/// A line or an event is longer than [`MAX_EVENT`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The begin of a line whose end has not arrived.
    line: Vec<u8>,
    /// `event:` of the event under way.
    name: Vec<u8>,
    /// `data:` of the event under way, as far as it could not be borrowed.
    data: Vec<u8>,
    /// Whether there was a `data:` line; it may have been an empty one.
    has_data: bool,
    /// The last piece ended in CR, so an LF in front of the next one belongs to it.
    after_cr: bool,
    /// The first line is behind us, and with it the place for a byte order mark.
    started: bool,
    /// A line that server-sent events have has been seen.
    recognised: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Decoder::default()
    }

    /// Whether anything so far looked like server-sent events.
    pub fn recognised(&self) -> bool {
        self.recognised || self.line.starts_with(b"data:")
    }

    /// Takes the next piece and hands on every event that it completes.
    ///
    /// # Errors
    /// What `on_event` returns, or [`TooLong`]; the decoder is of no use then.
    pub fn feed<E: From<TooLong>>(
        &mut self,
        mut input: &[u8],
        mut on_event: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr
            && let Some((first, rest)) = input.split_first()
        {
            self.after_cr = false;
            if *first == b'\n' {
                input = rest;
            }
        }
        // The data of the event under way, as long as it is one line of this piece.
        let mut borrowed: Option<&[u8]> = None;
        while let Some(at) = memchr::memchr2(b'\n', b'\r', input) {
            let (head, end) = input.split_at(at);
            input = match end {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            if self.line.is_empty() {
                self.take_line(head, &mut borrowed, &mut on_event)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                append(&mut line, head)?;
                let mut data = None;
                // `borrowed` is empty here: only the first line of a piece can have begun before it.
                self.take_line(&line, &mut data, &mut on_event)?;
                if let Some(data) = data {
                    append(&mut self.data, data)?;
                }
                line.clear();
                self.line = line;
            }
        }
        if let Some(data) = borrowed {
            append(&mut self.data, data)?;
        }
        append(&mut self.line, input)?;
        Ok(())
    }

    /// The end of the stream: hands on an event that lacks only its blank line.
    ///
    /// # Errors
    /// What `on_event` returns, or [`TooLong`].
    pub fn finish<E: From<TooLong>>(
        &mut self,
        mut on_event: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.feed(b"\n", &mut on_event)?;
        self.feed(b"\n", &mut on_event)
    }

    /// One whole line, without its end. `borrowed` may take the data of a first `data:` line.
    fn take_line<'a, E: From<TooLong>>(
        &mut self,
        mut line: &'a [u8],
        borrowed: &mut Option<&'a [u8]>,
        on_event: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.started {
            self.started = true;
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.len() > MAX_EVENT {
            return Err(TooLong.into());
        }
        if line.is_empty() {
            if self.has_data {
                on_event(Event {
                    name: &self.name,
                    data: borrowed.take().unwrap_or(&self.data),
                })?;
            }
            self.has_data = false;
            self.data.clear();
            self.name.clear();
            return Ok(());
        }
        if let Some(data) = field(line, b"data") {
            self.recognised = true;
            if self.has_data {
                if let Some(first) = borrowed.take() {
                    append(&mut self.data, first)?;
                }
                append(&mut self.data, b"\n")?;
                append(&mut self.data, data)?;
            } else {
                self.has_data = true;
                *borrowed = Some(data);
            }
        } else if let Some(name) = field(line, b"event") {
            self.recognised = true;
            self.name.clear();
            self.name.extend_from_slice(name);
        } else if line.starts_with(b":")
            || field(line, b"id").is_some()
            || field(line, b"retry").is_some()
        {
            self.recognised = true;
        }
        Ok(())
    }
}

/// The value of `line` if it is the field `name`; one space after the colon is not part of it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// Appends within [`MAX_EVENT`].
fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TooLong> {
    if bytes.len() > MAX_EVENT.saturating_sub(buffer.len()) {
        return Err(TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stream of these pieces decodes to.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        let mut note = |e: Event<'_>| {
            events.push((
                String::from_utf8_lossy(e.name).into_owned(),
                String::from_utf8_lossy(e.data).into_owned(),
            ));
            Ok::<(), TooLong>(())
        };
        for piece in pieces {
            decoder.feed(piece, &mut note).unwrap();
        }
        decoder.finish(&mut note).unwrap();
        events
    }

    fn events(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(n, d)| ((*n).to_owned(), (*d).to_owned()))
            .collect()
    }

    const CORPUS: &[(&str, &[(&str, &str)])] = &[
        ("data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]),
        ("data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]),
        ("\u{FEFF}data: bom\n\n", &[("", "bom")]),
        (
            "data:tight\n\ndata:  two\n\n",
            &[("", "tight"), ("", " two")],
        ),
        (": OPENROUTER PROCESSING\n\ndata: x\n\n", &[("", "x")]),
        ("data: 1\ndata: 2\ndata:\ndata: 4\n\n", &[("", "1\n2\n\n4")]),
        (
            "event: error\ndata: {}\n\ndata: n\n\n",
            &[("error", "{}"), ("", "n")],
        ),
        ("id: 7\nretry: 1\ndatax: no\ndata\n\n", &[("", "")]),
        ("event: only\n\n\n\ndata: é👩‍💻\n\n", &[("", "é👩‍💻")]),
        ("data: no blank line", &[("", "no blank line")]),
        ("\n\n\n", &[]),
    ];

    #[test]
    fn every_form_in_one_piece_and_byte_by_byte() {
        for (text, expected) in CORPUS {
            assert_eq!(decode([text.as_bytes()]), events(expected), "{text:?}");
            assert_eq!(
                decode(text.as_bytes().chunks(1)),
                events(expected),
                "{text:?}"
            );
        }
    }

    #[test]
    fn split_in_two_and_in_three_at_every_byte() {
        for (text, expected) in CORPUS {
            let bytes = text.as_bytes();
            for i in 0..=bytes.len() {
                let (a, rest) = bytes.split_at(i);
                assert_eq!(decode([a, rest]), events(expected), "{text:?} at {i}");
                for j in 0..=rest.len() {
                    let (b, c) = rest.split_at(j);
                    assert_eq!(decode([a, b, c]), events(expected), "{text:?} at {i}, {j}");
                }
            }
        }
    }

    fn fed(pieces: impl Iterator<Item = Vec<u8>>) -> Result<(), TooLong> {
        let mut decoder = Decoder::new();
        for piece in pieces {
            decoder.feed(&piece, |_| Ok::<(), TooLong>(()))?;
            let held = decoder.line.capacity() + decoder.data.capacity();
            assert!(held <= 5 * MAX_EVENT, "{held} bytes are held");
        }
        Ok(())
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_kept() {
        let piece = vec![b'x'; 64 * 1024];
        assert_eq!(fed(std::iter::repeat_n(piece, 1024)), Err(TooLong));
        assert_eq!(fed([vec![b'x'; 2 << 20]].into_iter()), Err(TooLong));
        let mut whole = vec![b'x'; 2 << 20];
        whole.push(b'\n');
        assert_eq!(fed([whole].into_iter()), Err(TooLong));
    }

    #[test]
    fn an_event_of_endless_data_lines_is_refused() {
        let lines = b"data: 0123456789\n".repeat(1000);
        assert_eq!(fed(std::iter::repeat_n(lines, 1000)), Err(TooLong));
    }

    #[test]
    fn the_error_of_the_receiver_ends_the_feed() {
        let mut seen = 0;
        let result = Decoder::new().feed(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            Err(TooLong)
        });
        assert_eq!((result, seen), (Err(TooLong), 1));
    }

    #[test]
    fn html_is_not_recognised() {
        let mut decoder = Decoder::new();
        let nothing = |_: Event<'_>| Ok::<(), TooLong>(());
        decoder
            .feed(b"<html>\n<p style=\"a: b\">\n", nothing)
            .unwrap();
        assert!(!decoder.recognised());
        decoder.feed(b": ping\n", nothing).unwrap();
        assert!(decoder.recognised());
    }
}
