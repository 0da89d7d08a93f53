//! One redaction stage: passes chunked text on, with the secrets that a matcher finds replaced by marks. Buffers the end of
//! the text while it may still turn out to be part of a secret.

use std::ops::Range;
use std::sync::Arc;

use super::BACK;

/// A set of bytes.
pub(super) type ByteClass = fn(u8) -> bool;

/// Searches a text for secrets.
///
/// The decision on a position may depend only on the [`BACK`] bytes before and the [`super::AHEAD`] bytes after it, so that
/// it does not depend on how the text was split into chunks.
pub(super) trait SecretMatcher {
    /// What the matcher knows of the text before the buffer, beyond those bytes.
    type State: Clone;

    /// Returns the first secret whose keyword is at `from` or later.
    fn next(&self, state: &mut Self::State, text: &[u8], place: SearchPlace) -> SearchResult;
}

/// Where a matcher searches.
#[derive(Clone, Copy)]
pub(super) struct SearchPlace {
    /// Position of the searched text in the whole text.
    pub base: usize,
    /// Everything before this position has been searched.
    pub from: usize,
    /// A secret begins here or later.
    pub floor: usize,
    /// The text ends here.
    pub last: bool,
}

/// Result of a search.
pub(super) enum SearchResult {
    Hit(SecretMatch),
    /// There is no secret before this position; to search further, the matcher needs more text.
    Wait(usize),
}

/// A secret in the searched text.
pub(super) struct SecretMatch {
    pub range: Range<usize>,
    pub kind: Arc<str>,
    /// Bytes of this class that follow the range also belong to the secret, however many there are.
    pub more: Option<ByteClass>,
}

/// Output of a stage.
pub(super) enum StagePiece<'t> {
    Text(&'t [u8]),
    /// A secret, with its position in the whole text.
    Mark(Range<usize>, Arc<str>),
}

/// State of a stage between two chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct RedactStage<S = ()> {
    /// The state of the matcher.
    pub state: S,
    buffer: Vec<u8>,
    /// Position of the buffer in the whole text.
    base: usize,
    /// Everything before this position in the buffer has been emitted.
    out: usize,
    /// Everything before this position in the buffer has been searched.
    from: usize,
    /// A secret whose end has not been reached: its start in the whole text, its kind, and the class of its bytes.
    open_secret: Option<(usize, Arc<str>, ByteClass)>,
}

impl<S: Clone> RedactStage<S> {
    /// Number of bytes of the whole text that have been processed.
    pub(super) fn processed(&self) -> usize {
        match self.open_secret {
            Some((start, ..)) => start,
            None => self.base + self.out,
        }
    }

    /// Number of buffered bytes.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Processes a chunk; `last` means that the text ends with it.
    pub(super) fn push(
        &mut self,
        matcher: &impl SecretMatcher<State = S>,
        piece: &[u8],
        last: bool,
        sink: &mut dyn FnMut(StagePiece<'_>),
    ) {
        self.buffer.extend_from_slice(piece);
        loop {
            if !self.skip_secret(last, sink) {
                break;
            }
            let place = SearchPlace {
                base: self.base,
                from: self.from,
                floor: self.out,
                last,
            };
            match matcher.next(&mut self.state, &self.buffer, place) {
                SearchResult::Hit(SecretMatch { range, kind, more }) => {
                    sink(StagePiece::Text(&self.buffer[self.out..range.start]));
                    self.out = range.end;
                    self.from = range.end;
                    let start = self.base + range.start;
                    match more {
                        Some(class) => self.open_secret = Some((start, kind, class)),
                        None => sink(StagePiece::Mark(start..self.base + range.end, kind)),
                    }
                }
                SearchResult::Wait(to) => {
                    self.from = to;
                    let until = match last {
                        true => self.buffer.len(),
                        false => to.saturating_sub(BACK).max(self.out),
                    };
                    if until > self.out {
                        sink(StagePiece::Text(&self.buffer[self.out..until]));
                        self.out = until;
                    }
                    break;
                }
            }
        }
        self.trim_buffer();
    }

    /// Emits what is settled already although it may still be buffered: as if the text ended after `more`, up to where
    /// `settled` says. `settled` gets the state, the buffer, its position in the whole text, and where the part that was not
    /// searched begins.
    pub(super) fn peek(
        &self,
        matcher: &impl SecretMatcher<State = S>,
        more: &[u8],
        settled: impl FnOnce(&S, &[u8], usize, usize) -> usize,
        sink: &mut dyn FnMut(StagePiece<'_>),
    ) {
        if self.open_secret.is_some() {
            return;
        }
        let mut rest = self.clone();
        rest.buffer.extend_from_slice(more);
        let open = rest.from.min(rest.out);
        let limit = settled(&rest.state, &rest.buffer, rest.base, open);
        let (base, mut at) = (rest.base, rest.out);
        rest.push(matcher, &[], true, &mut |piece| match piece {
            StagePiece::Text(text) => {
                let wanted = limit.saturating_sub(at).min(text.len());
                sink(StagePiece::Text(&text[..wanted]));
                at += text.len();
            }
            StagePiece::Mark(range, kind) => {
                let end = range.end - base;
                if end < limit {
                    sink(StagePiece::Mark(range, kind));
                    at = end;
                } else {
                    // Nothing after it is emitted.
                    at = usize::MAX / 2;
                }
            }
        });
    }

    /// Skips the rest of a long secret; returns whether its end was reached.
    fn skip_secret(&mut self, last: bool, sink: &mut dyn FnMut(StagePiece<'_>)) -> bool {
        let Some((_, _, class)) = &self.open_secret else {
            return true;
        };
        let rest = &self.buffer[self.out..];
        let end = rest.iter().position(|&byte| !class(byte));
        self.out += end.unwrap_or(rest.len());
        self.from = self.out;
        if end.is_none() && !last {
            return false;
        }
        if let Some((start, kind, _)) = self.open_secret.take() {
            sink(StagePiece::Mark(start..self.base + self.out, kind));
        }
        true
    }

    /// Drops the part of the buffer that is no longer needed, in large steps to limit copying.
    fn trim_buffer(&mut self) {
        let past = self.out.min(self.from).saturating_sub(BACK);
        if past >= 4096.max(self.buffer.len() / 2) {
            self.buffer.drain(..past);
            self.base += past;
            self.out -= past;
            self.from -= past;
        }
    }
}
