//! Key events: bytes of the terminal decoded to presses, repeats and releases, and the difference between a press and a
//! key that is held down.
//!
//! Auto-repeat starts 250 to 660 ms after a press, so a short silence does not show that a key was released. Without
//! help from the terminal, the same key counts again only after [`REPEAT_DELAY`] without it. Terminals with the kitty
//! keyboard protocol say what is a repeat: <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::PromptKey;
use crate::client::terminal;
use crate::config::preferences;

/// Time without a key after which the same key counts as pressed again. Longer than the delay before a key repeats, and than
/// the interval between two repeats.
pub const REPEAT_DELAY: Duration = Duration::from_millis(700);

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPhase {
    /// Pressed or repeated: the terminal does not say which.
    Unknown,
    /// Pressed.
    Press,
    /// Held down.
    Repeat,
    /// Released.
    Release,
}

/// A key event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEvent {
    /// The key.
    pub key: PromptKey,
    /// What happened to it.
    pub phase: KeyPhase,
}

/// Decodes the bytes of one read. Bytes without event types are one event: several keys at once are a paste, or a key
/// that is held down.
pub fn decode(bytes: &[u8]) -> Vec<KeyEvent> {
    let mut events = Vec::new();
    let mut rest = bytes;
    while let Some((event, length)) = kitty_event(rest) {
        events.extend(event);
        rest = &rest[length..];
    }
    if rest.is_empty() {
        return events;
    }
    // Repeats that arrive together are the same key as one of them.
    let is_same = rest.iter().all(|byte| Some(byte) == rest.first());
    let key = match is_same && rest.len() > 1 {
        true => PromptKey::Repeated(rest[0]),
        false => PromptKey::parse(rest),
    };
    events.push(KeyEvent {
        key,
        phase: KeyPhase::Unknown,
    });
    events
}

/// Decodes an escape sequence of the kitty keyboard protocol. Returns its length, and no event for a modifier key.
fn kitty_event(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let body = bytes.strip_prefix(b"\x1b[")?;
    let length = body
        .iter()
        .position(|byte| !byte.is_ascii_digit() && !b":;".contains(byte))?;
    let last = body[length];
    let text = std::str::from_utf8(&body[..length]).ok()?;
    let mut fields = text.split(';');
    let number = |field: Option<&str>| -> Option<u32> { field?.split(':').next()?.parse().ok() };
    let code = number(fields.next());
    let modifiers = fields.next();
    let phase = match modifiers.and_then(|field| field.split(':').nth(1)) {
        None if last == b'u' => KeyPhase::Press,
        // The same sequence as without the protocol.
        None => return None,
        Some("1") => KeyPhase::Press,
        Some("2") => KeyPhase::Repeat,
        Some(_) => KeyPhase::Release,
    };
    let pressed = number(modifiers).unwrap_or(1).wrapping_sub(1);
    let has_control = pressed & 4 != 0;
    // Alt, Super, Hyper and Meta.
    let has_other = pressed & 0b11_1010 != 0;
    let written = number(fields.next()).and_then(|text| u8::try_from(text).ok());
    let key = match (last, code) {
        (b'u', Some(27)) => PromptKey::Escape,
        // Modifiers and other keys without a meaning here: Unicode's private area.
        (b'u', Some(57344..=63743)) => return Some((None, length + 3)),
        _ if has_other => PromptKey::Other,
        (b'u', Some(code @ 64..=126)) if has_control => PromptKey::Byte(code as u8 & 0x1f),
        (b'u', Some(code)) => match written.or(u8::try_from(code).ok()) {
            Some(byte) if byte.is_ascii() => PromptKey::Byte(byte),
            _ => PromptKey::Other,
        },
        (b'B', _) | (b'~', Some(6)) => PromptKey::Down,
        (b'A', _) | (b'~', Some(5)) => PromptKey::Up,
        (b'F', _) | (b'~', Some(4)) => PromptKey::End,
        _ => PromptKey::Other,
    };
    Some((Some(KeyEvent { key, phase }), length + 3))
}

/// The last key of this process, or of the process that asked the previous question, and when it was last seen.
static LAST_KEY: Mutex<Option<(u8, Instant)>> = Mutex::new(None);

/// Remembers a key that answered a question in another process `age` ago.
pub fn set_last_key(key: u8, age: Duration) {
    let now = Instant::now();
    let seen = now.checked_sub(age).unwrap_or(now);
    *LAST_KEY.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, seen));
}

/// Returns the last key of this process.
pub fn last_key() -> Option<u8> {
    let last = LAST_KEY.lock().unwrap_or_else(PoisonError::into_inner);
    last.map(|(key, _)| key)
}

/// Remembers the key of an event. Returns whether the event is not a new press of the key.
pub fn note(event: KeyEvent) -> bool {
    let byte = match event.key {
        PromptKey::Byte(byte) | PromptKey::Repeated(byte) => byte,
        // These keys decide nothing.
        _ => return matches!(event.phase, KeyPhase::Repeat | KeyPhase::Release),
    };
    let mut last = LAST_KEY.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let is_recent =
        last.is_some_and(|(key, seen)| key == byte && now.duration_since(seen) < REPEAT_DELAY);
    match event.phase {
        // Released: the next press is a new one.
        KeyPhase::Release => *last = None,
        _ => *last = Some((byte, now)),
    }
    match event.phase {
        KeyPhase::Unknown => is_recent,
        KeyPhase::Press => false,
        KeyPhase::Repeat | KeyPhase::Release => true,
    }
}

/// Asks the terminal for event types of all keys; reverted when dropped.
#[derive(Debug)]
pub struct EventTypes(File);

impl EventTypes {
    /// Turns event types on if the terminal is known to have them.
    pub fn enable(tty: &File) -> Option<EventTypes> {
        let file = preferences::terminal_reports_key_releases().then(|| tty.try_clone().ok())??;
        // Event types (2), all keys as escape sequences (8), with the text that they write (16).
        (&file).write_all(b"\x1b[>26u").ok()?;
        Some(EventTypes(file))
    }
}

impl Drop for EventTypes {
    fn drop(&mut self) {
        // In the background the terminal belongs to another job; a lost terminal needs no restoring.
        if terminal::foreground(&self.0) {
            let _ = (&self.0).write_all(b"\x1b[<u");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<(PromptKey, KeyPhase)> {
        decode(bytes).iter().map(|e| (e.key, e.phase)).collect()
    }

    #[test]
    fn event_types_of_the_kitty_protocol_are_decoded() {
        use KeyPhase::{Press, Release, Repeat, Unknown};
        use PromptKey::{Byte, Down, Escape, Other, Pasted, Repeated};
        for (bytes, expected) in [
            (&b"\x1b[121;1:1;121u"[..], vec![(Byte(b'y'), Press)]),
            (b"\x1b[121;;121u", vec![(Byte(b'y'), Press)]),
            (b"\x1b[121u", vec![(Byte(b'y'), Press)]),
            (b"\x1b[121;1:2;121u", vec![(Byte(b'y'), Repeat)]),
            (b"\x1b[121;1:3u", vec![(Byte(b'y'), Release)]),
            (
                b"\x1b[121;1:1;121u\x1b[121;1:3u",
                vec![(Byte(b'y'), Press), (Byte(b'y'), Release)],
            ),
            // Shift, then A.
            (b"\x1b[57441;2:1u\x1b[97;2:1;65u", vec![(Byte(b'A'), Press)]),
            (b"\x1b[99;5:1u", vec![(Byte(3), Press)]),
            (b"\x1b[122;5u", vec![(Byte(26), Press)]),
            (b"\x1b[13;1:1u", vec![(Byte(13), Press)]),
            (b"\x1b[27u", vec![(Escape, Press)]),
            (b"\x1b[121;3:1;121u", vec![(Other, Press)]),
            (b"\x1b[121;9:1;121u", vec![(Other, Press)]),
            (b"\x1b[1;1:2B", vec![(Down, Repeat)]),
            (b"\x1b[6;1:1~", vec![(Down, Press)]),
            (b"\x1b[252;1:1;252u", vec![(Other, Press)]),
            (b"\x1b[B", vec![(Down, Unknown)]),
            (b"\x1b[1;2B", vec![(Other, Unknown)]),
            (b"yyy", vec![(Repeated(b'y'), Unknown)]),
            (b"yn", vec![(Pasted, Unknown)]),
            (b"\x1b[99999999999;9999999999:9u", vec![(Other, Release)]),
            (b"", vec![]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_key_counts_again_after_its_release_another_key_or_a_pause() {
        let event = |key, phase| KeyEvent {
            key: PromptKey::Byte(key),
            phase,
        };
        assert!(!note(event(b'y', KeyPhase::Unknown)));
        assert!(note(event(b'y', KeyPhase::Unknown)));
        assert!(!note(event(b'n', KeyPhase::Unknown)));
        assert!(!note(event(b'y', KeyPhase::Unknown)));
        assert!(!note(event(b'y', KeyPhase::Press)));
        assert!(note(event(b'y', KeyPhase::Repeat)));
        assert!(note(event(b'y', KeyPhase::Release)));
        assert!(!note(event(b'y', KeyPhase::Unknown)));
        assert_eq!(last_key(), Some(b'y'));
        set_last_key(b'q', REPEAT_DELAY / 2);
        assert!(note(event(b'q', KeyPhase::Unknown)));
        set_last_key(b'q', REPEAT_DELAY);
        assert!(!note(event(b'q', KeyPhase::Unknown)));
    }
}
