//! Decodes server-sent events from pieces of any size. Pure.
//!
//! Lines end in LF, CR or CRLF. An event whose `data:` is one line within one piece, the common case, is passed on
//! without a copy.

/// Maximum size of one line, and of the `data` of one event. Bounds the memory that a broken or hostile server can take.
pub const MAX_EVENT_BYTES: usize = 8 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event:` field; empty if absent.
    pub name: &'a [u8],
    /// The `data:` lines, joined with LF.
    pub data: &'a [u8],
    /// The last `id:` field of the stream so far; empty if there was none.
    pub id: &'a [u8],
}

/// A line or an event is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub struct EventTooLong;

/// A decoder that keeps its state between two pieces of a stream.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// The `event:` field of the incomplete event.
    name: Vec<u8>,
    /// The last `id:` field.
    id: Vec<u8>,
    /// The `data:` lines of the incomplete event that could not be borrowed.
    data: Vec<u8>,
    /// Whether a `data:` line has arrived, which may be empty.
    has_data: bool,
    /// Whether the last piece ended in CR: an LF at the beginning of the next one belongs to the same line end.
    after_cr: bool,
    /// Whether the first line, which may begin with a byte order mark, has been read.
    started: bool,
    /// Whether any line was one of server-sent events.
    recognised: bool,
}

impl SseDecoder {
    /// Returns a decoder at the start of a stream.
    pub fn new() -> Self {
        SseDecoder::default()
    }

    /// Whether any line so far was a server-sent event field.
    pub fn recognised(&self) -> bool {
        self.recognised || self.line.starts_with(b"data:")
    }

    /// Decodes the next piece and passes every completed event to `on_event`.
    ///
    /// # Errors
    /// An error of `on_event`, or [`EventTooLong`]; the decoder must not be used afterwards.
    pub fn feed<E: From<EventTooLong>>(
        &mut self,
        mut input: &[u8],
        mut on_event: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr
            && let Some((first, rest)) = input.split_first()
        {
            self.after_cr = false;
            if *first == b'\n' {
                input = rest;
            }
        }
        // The data of the incomplete event, as long as it is one line of this piece.
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
                // `borrowed` is empty here: only the first line of a piece can have begun in an earlier piece.
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

    /// Ends the stream and passes on an event that lacks only its blank line.
    ///
    /// # Errors
    /// An error of `on_event`, or [`EventTooLong`].
    pub fn finish<E: From<EventTooLong>>(
        &mut self,
        mut on_event: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.feed(b"\n", &mut on_event)?;
        self.feed(b"\n", &mut on_event)
    }

    /// Reads one complete line without its end. `borrowed` takes the data of the first `data:` line.
    fn take_line<'a, E: From<EventTooLong>>(
        &mut self,
        mut line: &'a [u8],
        borrowed: &mut Option<&'a [u8]>,
        on_event: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.started {
            self.started = true;
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.len() > MAX_EVENT_BYTES {
            return Err(EventTooLong.into());
        }
        if line.is_empty() {
            if self.has_data {
                on_event(SseEvent {
                    name: &self.name,
                    data: borrowed.take().unwrap_or(&self.data),
                    id: &self.id,
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
        } else if let Some(id) = field(line, b"id") {
            self.recognised = true;
            self.id.clear();
            self.id.extend_from_slice(id);
        } else if line.starts_with(b":") || field(line, b"retry").is_some() {
            self.recognised = true;
        }
        Ok(())
    }
}

/// Returns the value of `line` if it is the field `name`, without one space after the colon.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

/// Appends up to [`MAX_EVENT_BYTES`].
fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), EventTooLong> {
    if bytes.len() > MAX_EVENT_BYTES.saturating_sub(buffer.len()) {
        return Err(EventTooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a stream of these pieces.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new();
        let mut events = Vec::new();
        let mut note = |e: SseEvent<'_>| {
            events.push((
                String::from_utf8_lossy(e.name).into_owned(),
                String::from_utf8_lossy(e.data).into_owned(),
            ));
            Ok::<(), EventTooLong>(())
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

    fn fed(pieces: impl Iterator<Item = Vec<u8>>) -> Result<(), EventTooLong> {
        let mut decoder = SseDecoder::new();
        for piece in pieces {
            decoder.feed(&piece, |_| Ok::<(), EventTooLong>(()))?;
            let held = decoder.line.capacity() + decoder.data.capacity();
            assert!(held <= 5 * MAX_EVENT_BYTES, "{held} bytes are held");
        }
        Ok(())
    }

    #[test]
    fn a_line_without_end_is_refused_and_not_kept() {
        let piece = vec![b'x'; 64 * 1024];
        assert_eq!(fed(std::iter::repeat_n(piece, 1024)), Err(EventTooLong));
        assert_eq!(
            fed([vec![b'x'; 2 * MAX_EVENT_BYTES]].into_iter()),
            Err(EventTooLong)
        );
        let mut whole = vec![b'x'; 2 * MAX_EVENT_BYTES];
        whole.push(b'\n');
        assert_eq!(fed([whole].into_iter()), Err(EventTooLong));
    }

    #[test]
    fn an_event_of_endless_data_lines_is_refused() {
        let lines = b"data: 0123456789\n".repeat(1000);
        assert_eq!(fed(std::iter::repeat_n(lines, 1000)), Err(EventTooLong));
    }

    #[test]
    fn the_error_of_the_receiver_ends_the_feed() {
        let mut seen = 0;
        let result = SseDecoder::new().feed(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            Err(EventTooLong)
        });
        assert_eq!((result, seen), (Err(EventTooLong), 1));
    }

    #[test]
    fn each_event_has_the_last_id() {
        let text = b"data: a\n\nid: 1.2\ndata: b\n\ndata: c\nid: 3\n\nid\ndata: d\n\n";
        for size in 1..=text.len() {
            let mut ids = Vec::new();
            let mut decoder = SseDecoder::new();
            for piece in text.chunks(size) {
                let mut note = |event: SseEvent<'_>| {
                    ids.push(String::from_utf8_lossy(event.id).into_owned());
                    Ok::<(), EventTooLong>(())
                };
                decoder.feed(piece, &mut note).unwrap();
            }
            assert_eq!(ids, ["", "1.2", "3", ""], "{size}");
        }
    }

    #[test]
    fn html_is_not_recognised() {
        let mut decoder = SseDecoder::new();
        let nothing = |_: SseEvent<'_>| Ok::<(), EventTooLong>(());
        decoder
            .feed(b"<html>\n<p style=\"a: b\">\n", nothing)
            .unwrap();
        assert!(!decoder.recognised());
        decoder.feed(b": ping\n", nothing).unwrap();
        assert!(decoder.recognised());
    }
}
