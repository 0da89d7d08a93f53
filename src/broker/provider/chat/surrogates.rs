//! Joins surrogate pairs that a server has split over two events. Pure.
//!
//! `serde_json` rejects JSON with half a pair. [`mark`] replaces each half by a private-use character, and a [`PairJoiner`] for
//! each text of an answer turns two of them back into their character, and a single one into U+FFFD.

use std::borrow::Cow;

use crate::safety::json_text::replace_halves;

/// The character that represents the first half, U+D800; the others follow.
const FIRST: u32 = 0x10_F800;

/// Returns the JSON with marked halves, or `None` if it has none.
pub(super) fn mark(json: &str) -> Option<String> {
    replace_halves(json, |half| {
        char::from_u32(FIRST + u32::from(half - 0xD800)).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

/// Returns the half that a character represents.
fn half(c: char) -> Option<u16> {
    let number = u32::from(c).checked_sub(FIRST)?;
    u16::try_from(number).ok()?.checked_add(0xD800)
}

/// Joins the halves in one text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct PairJoiner {
    /// The first half of a pair, as long as nothing follows it.
    high: Option<u16>,
}

impl PairJoiner {
    /// Returns the next piece of the text; `marked` if it comes from [`mark`].
    pub(super) fn join<'t>(&mut self, text: Cow<'t, str>, marked: bool) -> Cow<'t, str> {
        if text.is_empty() || !marked && self.high.is_none() {
            return text;
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            let half = half(c).filter(|_| marked);
            if let (Some(high), Some(low)) = (self.high, half)
                && let Some(Ok(joined)) = char::decode_utf16([high, low]).next()
            {
                self.high = None;
                out.push(joined);
                continue;
            }
            out.push_str(&self.end());
            match half {
                None => out.push(c),
                Some(half @ 0xD800..0xDC00) => self.high = Some(half),
                Some(_) => out.push(char::REPLACEMENT_CHARACTER),
            }
        }
        Cow::Owned(out)
    }

    /// Ends the text.
    pub(super) fn end(&mut self) -> String {
        let lone = self.high.take();
        lone.map(|_| char::REPLACEMENT_CHARACTER)
            .into_iter()
            .collect()
    }
}
