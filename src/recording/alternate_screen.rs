//! Finds where programs enter and leave the alternate screen: DECSET and DECRST of 1049, 1047 and 47.

/// Maximum length of the parameters of a sequence that is parsed.
const MAX_PARAMETERS: usize = 64;

/// Follows the sequences in the output, wherever a read may have cut it.
#[derive(Debug, Default)]
pub struct AlternateScreen {
    shown: bool,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    Escape,
    Csi,
    /// The parameters so far of `ESC [ ?`.
    Parameters(Vec<u8>),
}

impl AlternateScreen {
    /// Returns whether the alternate screen is shown.
    pub fn is_shown(&self) -> bool {
        self.shown
    }

    /// Looks at the next bytes, up to the end of the first sequence that changes the screen. Returns their number.
    pub fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            self.state = match (std::mem::take(&mut self.state), *byte) {
                (State::Text, _) => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    match memchr::memchr(0x1b, rest) {
                        Some(found) => at += found,
                        None => return bytes.len(),
                    }
                    State::Escape
                }
                (_, 0x1b) => State::Escape,
                (State::Escape, b'[') => State::Csi,
                (State::Csi, b'?') => State::Parameters(Vec::new()),
                (State::Parameters(mut parameters), b'0'..=b'9' | b';')
                    if parameters.len() < MAX_PARAMETERS =>
                {
                    parameters.push(*byte);
                    State::Parameters(parameters)
                }
                (State::Parameters(parameters), b'h' | b'l') => {
                    let mut modes = parameters.split(|byte| *byte == b';');
                    let is_screen = modes.any(|mode| matches!(mode, b"1049" | b"1047" | b"47"));
                    let on = *byte == b'h';
                    if is_screen && on != self.shown {
                        self.shown = on;
                        return at + 1;
                    }
                    State::Text
                }
                _ => State::Text,
            };
            at += 1;
        }
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the offsets of the changes.
    fn changes(parts: &[&[u8]]) -> Vec<(usize, bool)> {
        let mut screen = AlternateScreen::default();
        let (mut changes, mut offset) = (Vec::new(), 0);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let before = screen.is_shown();
                let length = screen.advance(rest);
                offset += length;
                rest = &rest[length..];
                if screen.is_shown() != before {
                    changes.push((offset, screen.is_shown()));
                }
            }
        }
        changes
    }

    #[test]
    fn changes_are_found_wherever_a_read_cuts_them() {
        let stream: &[u8] = b"a\x1b[?1049h\x1b[?47;1hb\x1b\x1b[?1;47lc\x1b[?1047h\x1b[?2004h";
        let want = [(9, true), (27, false), (36, true)];
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(changes(&[a, b]), want, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(changes(&bytes), want);
    }

    #[test]
    fn other_sequences_change_nothing() {
        for other in [
            "\x1b[1049h",
            "\x1b[?10490h",
            "\x1b[?1049$p",
            "?1049h",
            "\x1b]?1049h",
        ] {
            assert_eq!(changes(&[other.as_bytes()]), [], "{other:?}");
        }
    }
}
