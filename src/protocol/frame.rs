//! Frames: how a stream of bytes is cut into them, both ways.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kind;
use crate::error::{Error, Result};

/// The largest frame: a prompt of 10 MB with its attachments fits after JSON quoting.
pub const MAX_FRAME: usize = 48 << 20;

/// The largest frame of a client before its [`Hello`](super::Hello) was received.
pub const MAX_HELLO_FRAME: usize = 64 << 10;

/// Capacity that an empty decoder keeps.
const KEPT_CAPACITY: usize = 64 << 10;

/// Bytes before a body: length and kind.
pub const HEADER: usize = 5;

/// A whole frame with a JSON body.
///
/// # Errors
/// The frame would be larger than [`MAX_FRAME`].
pub fn json_frame<T: Serialize>(kind: u8, body: &T) -> Result<Vec<u8>> {
    let mut frame = vec![0, 0, 0, 0, kind];
    serde_json::to_writer(&mut frame, body)
        .map_err(|e| Error::runtime(format!("cannot write a frame: {e}")))?;
    finish_frame(frame)
}

/// A whole frame with raw text.
///
/// # Errors
/// The frame would be larger than [`MAX_FRAME`].
pub fn text_frame(text: &str) -> Result<Vec<u8>> {
    let mut frame = Vec::with_capacity(HEADER + text.len());
    frame.extend_from_slice(&[0, 0, 0, 0, kind::TEXT]);
    frame.extend_from_slice(text.as_bytes());
    finish_frame(frame)
}

fn finish_frame(mut frame: Vec<u8>) -> Result<Vec<u8>> {
    let length = frame.len() - 4;
    if length > MAX_FRAME {
        return Err(Error::usage(format!(
            "the message is too large: {} MB; the limit is {} MB",
            length >> 20,
            MAX_FRAME >> 20
        ))
        .hint("attach less, or ask for less (--limit)"));
    }
    // The limit above is far below 4 GiB, so that nothing is cut off here.
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Reads the header of a frame: its kind and the length of its body.
///
/// # Errors
/// The length is 0 or above [`MAX_FRAME`]: the peer uses another protocol.
pub fn parse_header(header: [u8; HEADER]) -> Result<(u8, usize)> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length == 0 || length > MAX_FRAME {
        return Err(
            Error::runtime(format!("received a frame of {length} bytes"))
                .hint("run: aish-helper restart"),
        );
    }
    Ok((header[4], length - 1))
}

/// Reads a JSON body.
///
/// # Errors
/// It is not of the form wanted.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|e| {
        Error::runtime(format!("cannot decode a frame from the socket: {e}"))
            .hint("run: aish-helper restart")
    })
}

/// Splits a byte stream into frames; an incomplete frame is kept until more bytes arrive.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    /// The largest accepted frame.
    limit: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        FrameDecoder {
            buffer: Vec::new(),
            start: 0,
            limit: MAX_FRAME,
        }
    }
}

impl FrameDecoder {
    /// Adds bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.drop_read();
        self.buffer.extend_from_slice(bytes);
    }

    /// Sets the size of the largest accepted frame.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Returns the size that the header of an incomplete frame announces, at most the limit.
    pub fn announced(&self) -> Option<usize> {
        let header = self.buffer.get(self.start..)?.first_chunk::<HEADER>()?;
        parse_header(*header).ok().map(|(_, length)| length)
    }

    /// Removes the frames that were returned, and gives back the memory of a large one.
    fn drop_read(&mut self) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_CAPACITY);
        }
    }

    /// The next whole frame: kind and body.
    ///
    /// # Errors
    /// As for [`parse_header`]; or the frame is larger than the limit.
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>> {
        let rest = &self.buffer[self.start..];
        let Some(header) = rest.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let (kind, length) = parse_header(*header)?;
        if length >= self.limit {
            return Err(Error::runtime(format!(
                "received a frame of {length} bytes; the limit is {}",
                self.limit
            )));
        }
        if rest.len() < HEADER + length {
            return Ok(None);
        }
        let body = self.start + HEADER;
        self.start = body + length;
        Ok(Some((kind, &self.buffer[body..body + length])))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Hello;
    use super::*;

    #[test]
    fn frames_survive_any_split() {
        let mut stream = json_frame(kind::HELLO, &Hello::current()).unwrap();
        stream.extend(text_frame("grüße").unwrap());
        for cut in 0..=stream.len() {
            let mut decoder = FrameDecoder::default();
            let mut seen = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                decoder.push(part);
                while let Some((kind, body)) = decoder.next_frame().unwrap() {
                    seen.push((kind, body.to_vec()));
                }
            }
            assert_eq!(seen.len(), 2, "cut at {cut}");
            assert_eq!(parse::<Hello>(&seen[0].1).unwrap(), Hello::current());
            assert_eq!(seen[1], (kind::TEXT, "grüße".as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_wild_length_is_an_error_not_an_allocation() {
        let mut decoder = FrameDecoder::default();
        decoder.push(b"GET / HTTP/1.1\r\n");
        assert!(decoder.next_frame().is_err());
        let mut decoder = FrameDecoder::default();
        decoder.push(&[0, 0, 0, 0, b'H']);
        assert!(decoder.next_frame().is_err());
    }
}
