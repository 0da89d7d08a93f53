//! Decodes the chunked transfer coding in place, from pieces of any size. Pure.

/// Maximum size of chunk extensions and trailers together. No known server sends any.
const MAX_EXTRA_BYTES: usize = 16 << 10;

/// The chunk framing is broken.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedChunk;

/// The part of the coding that the next byte belongs to.
#[derive(Debug, Clone, Copy)]
enum ChunkState {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    SizeLf { value: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailer { empty: bool },
    TrailerLf { empty: bool },
    Done,
}

/// A decoder that keeps its state between two pieces.
#[derive(Debug)]
pub struct ChunkedDecoder {
    state: ChunkState,
    extras: usize,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder {
            state: SIZE,
            extras: 0,
        }
    }
}

const SIZE: ChunkState = ChunkState::Size {
    value: 0,
    digits: 0,
};

impl ChunkedDecoder {
    /// Whether the last chunk and the trailers have been decoded.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ChunkState::Done)
    }

    /// Removes the framing from `piece`. Returns the number of bytes after the end of the body.
    ///
    /// # Errors
    /// [`MalformedChunk`]; the decoder must not be used afterwards.
    pub fn decode(&mut self, piece: &mut Vec<u8>) -> Result<usize, MalformedChunk> {
        let (mut from, mut to) = (0, 0);
        while let Some(byte) = piece.get(from).copied() {
            self.state = match self.state {
                ChunkState::Done => break,
                ChunkState::Data { left } => {
                    let here = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(piece.len() - from);
                    piece.copy_within(from..from + here, to);
                    to += here;
                    from += here;
                    match left - here as u64 {
                        0 => ChunkState::DataCr,
                        left => ChunkState::Data { left },
                    }
                }
                state => {
                    from += 1;
                    self.framing(state, byte)?
                }
            };
        }
        let beyond = piece.len() - from;
        piece.truncate(to);
        Ok(beyond)
    }

    /// Returns the state after a byte of the framing.
    fn framing(&mut self, state: ChunkState, byte: u8) -> Result<ChunkState, MalformedChunk> {
        let digit = char::from(byte).to_digit(16);
        Ok(match (state, byte) {
            (ChunkState::Size { value, digits }, _) if digit.is_some() && digits < 16 => {
                ChunkState::Size {
                    // Sixteen digits fill 64 bits exactly.
                    value: value << 4 | u64::from(digit.unwrap_or(0)),
                    digits: digits + 1,
                }
            }
            (ChunkState::Size { value, digits: 1.. } | ChunkState::Extension { value }, b'\r') => {
                ChunkState::SizeLf { value }
            }
            (ChunkState::Size { value, digits: 1.. }, b';' | b' ' | b'\t') => {
                ChunkState::Extension { value }
            }
            (ChunkState::Extension { value }, 1..) if byte != b'\n' => {
                self.extra()?;
                ChunkState::Extension { value }
            }
            (ChunkState::SizeLf { value: 0 }, b'\n') => ChunkState::Trailer { empty: true },
            (ChunkState::SizeLf { value }, b'\n') => ChunkState::Data { left: value },
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => SIZE,
            (ChunkState::Trailer { empty }, b'\r') => ChunkState::TrailerLf { empty },
            (ChunkState::Trailer { .. }, 1..) if byte != b'\n' => {
                self.extra()?;
                ChunkState::Trailer { empty: false }
            }
            (ChunkState::TrailerLf { empty: true }, b'\n') => ChunkState::Done,
            (ChunkState::TrailerLf { empty: false }, b'\n') => ChunkState::Trailer { empty: true },
            _ => return Err(MalformedChunk),
        })
    }

    fn extra(&mut self) -> Result<(), MalformedChunk> {
        self.extras += 1;
        if self.extras > MAX_EXTRA_BYTES {
            return Err(MalformedChunk);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the body, whether it is done, and the number of bytes after its end.
    fn decode(pieces: &[&[u8]]) -> Result<(String, bool, usize), MalformedChunk> {
        let (mut decoder, mut body, mut beyond) = (ChunkedDecoder::default(), Vec::new(), 0);
        for piece in pieces {
            let mut piece = piece.to_vec();
            beyond += decoder.decode(&mut piece)?;
            body.extend(piece);
        }
        let body = String::from_utf8(body).unwrap();
        Ok((body, decoder.is_done(), beyond))
    }

    const WHOLE: &str =
        "4\r\nWiki\r\n6;a=\"b\"\r\npedia \r\nB \r\nin \r\nchunks\r\n000\r\nx: y\r\n\r\nNEXT";

    #[test]
    fn split_at_every_byte() {
        let bytes = WHOLE.as_bytes();
        let expected = ("Wikipedia in \r\nchunks".to_owned(), true, 4);
        for i in 0..=bytes.len() {
            let (a, b) = bytes.split_at(i);
            assert_eq!(decode(&[a, b]), Ok(expected.clone()), "at {i}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), Ok(expected));
    }

    #[test]
    fn a_body_without_its_end_is_not_done() {
        for part in [
            "",
            "4",
            "4\r\n",
            "4\r\nWik",
            "4\r\nWiki\r\n",
            "0\r\n",
            "0\r\n\r",
        ] {
            assert!(!decode(&[part.as_bytes()]).unwrap().1, "{part:?}");
        }
    }

    #[test]
    fn broken_framing_is_refused() {
        for broken in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "0x4\r\n",
            "4\nWiki",
            "4\r\nWikiX",
            "4\r\nWiki\n",
            "4\rX",
            ";a\r\n",
            "4;\n",
            "11111111111111111\r\n",
            "0\r\n\n",
            "0\r\nx\n",
            "4;\0",
        ] {
            assert_eq!(
                decode(&[broken.as_bytes()]),
                Err(MalformedChunk),
                "{broken:?}"
            );
        }
    }

    #[test]
    fn the_largest_size_does_not_overflow() {
        let (body, done, _) = decode(&[b"ffffffffffffffff\r\nabc"]).unwrap();
        assert_eq!((body.as_str(), done), ("abc", false));
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        for start in ["1;", "0\r\nx: "] {
            let endless = format!("{start}{}", "a".repeat(MAX_EXTRA_BYTES + 1));
            assert_eq!(decode(&[endless.as_bytes()]), Err(MalformedChunk));
        }
    }
}
