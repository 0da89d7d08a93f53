//! One redaction stage: cuts what a matcher finds out of chunked text, and holds back what is undecided.

use std::ops::Range;
use std::sync::Arc;

use super::BACK;

/// A set of bytes.
pub(super) type ByteClass = fn(u8) -> bool;

/// Decides where a secret is.
///
/// The decision on a position may depend only on the [`BACK`] bytes before and the [`super::AHEAD`] bytes after it,
/// which makes it independent of how the text was split.
pub(super) trait SecretMatcher {
    /// Returns the first secret identified at `from` or later that begins at `floor` or later. `last` means that the
    /// text ends here.
    fn next(&self, text: &[u8], from: usize, floor: usize, last: bool) -> SearchResult;
}

/// Result of a search.
pub(super) enum SearchResult {
    /// A secret.
    Hit(SecretMatch),
    /// No secret is identified before this position; deciding further needs more text.
    Wait(usize),
}

/// A secret.
pub(super) struct SecretMatch {
    pub range: Range<usize>,
    pub kind: Arc<str>,
    /// Further bytes of this class after its end also belong to it, without limit.
    pub more: Option<ByteClass>,
}

/// Output of a stage.
pub(super) enum StagePiece<'t> {
    Text(&'t [u8]),
    /// A secret, with its position in the whole text.
    Mark(Range<usize>, Arc<str>),
}

/// State between two chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct RedactStage {
    buffer: Vec<u8>,
    /// Position of the buffer in the whole text.
    base: usize,
    /// Everything before this position in the buffer has been emitted.
    out: usize,
    /// Everything before this position in the buffer has been searched.
    from: usize,
    /// A secret whose end has not been reached, with its start in the whole text.
    swallowing: Option<(usize, Arc<str>, ByteClass)>,
}

impl RedactStage {
    /// Number of bytes of the whole text that have been processed.
    pub(super) fn processed(&self) -> usize {
        match self.swallowing {
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
        matcher: &impl SecretMatcher,
        piece: &[u8],
        last: bool,
        sink: &mut dyn FnMut(StagePiece<'_>),
    ) {
        self.buffer.extend_from_slice(piece);
        loop {
            if !self.skip_secret(last, sink) {
                break;
            }
            let floor = self.out;
            match matcher.next(&self.buffer, self.from, floor, last) {
                SearchResult::Hit(SecretMatch { range, kind, more }) => {
                    sink(StagePiece::Text(&self.buffer[self.out..range.start]));
                    self.out = range.end;
                    self.from = range.end;
                    let start = self.base + range.start;
                    match more {
                        Some(class) => self.swallowing = Some((start, kind, class)),
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

    /// Skips the rest of a long secret; returns whether its end was reached.
    fn skip_secret(&mut self, last: bool, sink: &mut dyn FnMut(StagePiece<'_>)) -> bool {
        let Some((_, _, class)) = &self.swallowing else {
            return true;
        };
        let rest = &self.buffer[self.out..];
        let end = rest.iter().position(|&byte| !class(byte));
        self.out += end.unwrap_or(rest.len());
        self.from = self.out;
        if end.is_none() && !last {
            return false;
        }
        if let Some((start, kind, _)) = self.swallowing.take() {
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
