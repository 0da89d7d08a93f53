//! Unwraps the chunked transfer coding, in place and in any pieces. Pure.

/// The most that sizes' extensions and trailers may take: none that is known sends any.
const MAX_EXTRAS: usize = 16 << 10;

/// The chunks are not what they should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// Where in the coding the next byte belongs.
#[derive(Debug, Clone, Copy)]
enum State {
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

/// The state between two pieces.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    extras: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            state: SIZE,
            extras: 0,
        }
    }
}

const SIZE: State = State::Size {
    value: 0,
    digits: 0,
};

impl Decoder {
    /// Whether the last chunk and the trailers are behind us.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Leaves of `piece` what is body, and says how many bytes lay behind the end of it.
    ///
    /// # Errors
    /// [`Malformed`]; the decoder is of no use then.
    pub fn decode(&mut self, piece: &mut Vec<u8>) -> Result<usize, Malformed> {
        let (mut from, mut to) = (0, 0);
        while let Some(byte) = piece.get(from).copied() {
            self.state = match self.state {
                State::Done => break,
                State::Data { left } => {
                    let here = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(piece.len() - from);
                    piece.copy_within(from..from + here, to);
                    to += here;
                    from += here;
                    match left - here as u64 {
                        0 => State::DataCr,
                        left => State::Data { left },
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

    /// The state after a byte that is not body.
    fn framing(&mut self, state: State, byte: u8) -> Result<State, Malformed> {
        let digit = char::from(byte).to_digit(16);
        Ok(match (state, byte) {
            (State::Size { value, digits }, _) if digit.is_some() && digits < 16 => State::Size {
                // Sixteen digits fill 64 bits and no more.
                value: value << 4 | u64::from(digit.unwrap_or(0)),
                digits: digits + 1,
            },
            (State::Size { value, digits: 1.. } | State::Extension { value }, b'\r') => {
                State::SizeLf { value }
            }
            (State::Size { value, digits: 1.. }, b';' | b' ' | b'\t') => State::Extension { value },
            (State::Extension { value }, 1..) if byte != b'\n' => {
                self.extra()?;
                State::Extension { value }
            }
            (State::SizeLf { value: 0 }, b'\n') => State::Trailer { empty: true },
            (State::SizeLf { value }, b'\n') => State::Data { left: value },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => SIZE,
            (State::Trailer { empty }, b'\r') => State::TrailerLf { empty },
            (State::Trailer { .. }, 1..) if byte != b'\n' => {
                self.extra()?;
                State::Trailer { empty: false }
            }
            (State::TrailerLf { empty: true }, b'\n') => State::Done,
            (State::TrailerLf { empty: false }, b'\n') => State::Trailer { empty: true },
            _ => return Err(Malformed),
        })
    }

    fn extra(&mut self) -> Result<(), Malformed> {
        self.extras += 1;
        if self.extras > MAX_EXTRAS {
            return Err(Malformed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, whether it is done, and what lay behind it.
    fn decode(pieces: &[&[u8]]) -> Result<(String, bool, usize), Malformed> {
        let (mut decoder, mut body, mut beyond) = (Decoder::default(), Vec::new(), 0);
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
    fn an_end_that_has_not_come_is_not_done() {
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
    fn what_is_broken_is_refused() {
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
            assert_eq!(decode(&[broken.as_bytes()]), Err(Malformed), "{broken:?}");
        }
    }

    #[test]
    fn the_largest_size_is_no_overflow() {
        let (body, done, _) = decode(&[b"ffffffffffffffff\r\nabc"]).unwrap();
        assert_eq!((body.as_str(), done), ("abc", false));
    }

    #[test]
    fn endless_extensions_and_trailers_are_refused() {
        for start in ["1;", "0\r\nx: "] {
            let endless = format!("{start}{}", "a".repeat(MAX_EXTRAS + 1));
            assert_eq!(decode(&[endless.as_bytes()]), Err(Malformed));
        }
    }
}
