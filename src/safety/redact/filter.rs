//! A stage: text comes in pieces, and goes out with what a matcher finds cut out of it. It holds back what is not certain.

use std::ops::Range;
use std::sync::Arc;

use super::BACK;

/// A set of bytes.
pub(super) type Class = fn(u8) -> bool;

/// What decides where a secret is.
///
/// It must decide on a place by the [`BACK`] bytes before it and the [`super::AHEAD`] behind it alone: then it is all the
/// same in which pieces the text came.
pub(super) trait Matcher {
    /// The first secret that was noticed at `from` or later. It begins at `floor` or later. With `last` nothing follows
    /// the text.
    fn next(&self, text: &[u8], from: usize, floor: usize, last: bool) -> Next;
}

/// What a matcher says.
pub(super) enum Next {
    /// A secret.
    Hit(Hit),
    /// None is noticed before this place. There, more text is needed.
    Wait(usize),
}

/// A secret.
pub(super) struct Hit {
    pub range: Range<usize>,
    pub kind: Arc<str>,
    /// What else belongs to it, behind its end, however long.
    pub more: Option<Class>,
}

/// What goes out.
pub(super) enum Piece<'t> {
    Text(&'t [u8]),
    /// A secret, by its place in the whole text.
    Mark(Range<usize>, Arc<str>),
}

/// The state between two pieces.
#[derive(Debug, Default)]
pub(super) struct Filter {
    buffer: Vec<u8>,
    /// Where the buffer begins in the whole text.
    base: usize,
    /// All before it has gone out.
    out: usize,
    /// What was looked at.
    from: usize,
    /// The secret that is being swallowed, by its start in the whole text.
    swallowing: Option<(usize, Arc<str>, Class)>,
}

impl Filter {
    /// So much of the whole text has gone out.
    pub(super) fn given(&self) -> usize {
        match self.swallowing {
            Some((start, ..)) => start,
            None => self.base + self.out,
        }
    }

    /// How much is held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Takes a piece; with `last` none follows.
    pub(super) fn push(
        &mut self,
        matcher: &impl Matcher,
        piece: &[u8],
        last: bool,
        sink: &mut dyn FnMut(Piece<'_>),
    ) {
        self.buffer.extend_from_slice(piece);
        loop {
            if !self.swallow(last, sink) {
                break;
            }
            let floor = self.out;
            match matcher.next(&self.buffer, self.from, floor, last) {
                Next::Hit(Hit { range, kind, more }) => {
                    sink(Piece::Text(&self.buffer[self.out..range.start]));
                    self.out = range.end;
                    self.from = range.end;
                    let start = self.base + range.start;
                    match more {
                        Some(class) => self.swallowing = Some((start, kind, class)),
                        None => sink(Piece::Mark(start..self.base + range.end, kind)),
                    }
                }
                Next::Wait(to) => {
                    self.from = to;
                    let until = match last {
                        true => self.buffer.len(),
                        false => to.saturating_sub(BACK).max(self.out),
                    };
                    if until > self.out {
                        sink(Piece::Text(&self.buffer[self.out..until]));
                        self.out = until;
                    }
                    break;
                }
            }
        }
        self.forget();
    }

    /// Whether nothing is being swallowed any more.
    fn swallow(&mut self, last: bool, sink: &mut dyn FnMut(Piece<'_>)) -> bool {
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
            sink(Piece::Mark(start..self.base + self.out, kind));
        }
        true
    }

    /// Forgets what nobody will look at again, not for every few bytes.
    fn forget(&mut self) {
        let past = self.out.min(self.from).saturating_sub(BACK);
        if past >= 4096.max(self.buffer.len() / 2) {
            self.buffer.drain(..past);
            self.base += past;
            self.out -= past;
            self.from -= past;
        }
    }
}
