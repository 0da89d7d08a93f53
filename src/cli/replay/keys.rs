//! Keys of a replay.

/// Action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayKey {
    /// Pause or continue.
    Pause,
    /// Back by five seconds.
    Back,
    /// Forward by five seconds.
    Forward,
    /// To the start of the command, or of the one before.
    PreviousCommand,
    /// To the next command.
    NextCommand,
    /// To this tenth of the recording.
    Tenth(u8),
    /// One event further; pauses.
    Step,
    /// Faster.
    Faster,
    /// Slower.
    Slower,
    /// Ctrl-Z.
    Suspend,
    /// End.
    Quit,
}

/// Decodes the bytes of one read. Keys without a meaning are ignored.
pub fn decode(bytes: &[u8]) -> Vec<ReplayKey> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, more @ ..] = rest {
        rest = more;
        keys.extend(match first {
            b' ' => Some(ReplayKey::Pause),
            b'[' => Some(ReplayKey::PreviousCommand),
            b']' => Some(ReplayKey::NextCommand),
            b'+' | b'=' => Some(ReplayKey::Faster),
            b'-' => Some(ReplayKey::Slower),
            b'.' => Some(ReplayKey::Step),
            digit @ b'0'..=b'9' => Some(ReplayKey::Tenth(digit - b'0')),
            b'q' | b'Q' | 3 | 4 => Some(ReplayKey::Quit),
            26 => Some(ReplayKey::Suspend),
            b'\x1b' => {
                let (key, after) = escape(more);
                rest = after;
                key
            }
            _ => None,
        });
    }
    keys
}

/// Decodes the rest of an escape sequence. A key that is sent as one is ignored as a whole.
fn escape(bytes: &[u8]) -> (Option<ReplayKey>, &[u8]) {
    let body = match bytes {
        [b'[' | b'O', body @ ..] => body,
        // Escape alone, or with another key: Alt.
        [_, after @ ..] => return (None, after),
        [] => return (None, bytes),
    };
    let end = body.iter().position(|b| (b'@'..=b'~').contains(b));
    let Some((sequence, after)) = end.and_then(|end| body.split_at_checked(end + 1)) else {
        return (None, &[]);
    };
    let key = match sequence {
        b"C" => Some(ReplayKey::Forward),
        b"D" => Some(ReplayKey::Back),
        _ => None,
    };
    (key, after)
}

#[cfg(test)]
mod tests {
    use super::ReplayKey::*;
    use super::decode;

    #[test]
    fn keys_are_told_from_sequences() {
        assert_eq!(decode(b" q"), [Pause, Quit]);
        assert_eq!(decode(b"[]"), [PreviousCommand, NextCommand]);
        assert_eq!(decode(b"\x1b[C\x1b[D\x1bOC"), [Forward, Back, Forward]);
        assert_eq!(
            decode(b"+=-7\x03"),
            [Faster, Faster, Slower, Tenth(7), Quit]
        );
        // Up, page down, a function key, Alt-q, a mouse report, and an unfinished sequence.
        assert_eq!(
            decode(b"\x1b[A\x1b[6~\x1b[15;2~\x1bq\x1b[<0;3;4M\x1b[1;"),
            []
        );
        assert_eq!(decode(b"\x1b"), []);
    }
}
