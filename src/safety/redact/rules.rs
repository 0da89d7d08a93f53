//! The formats of secrets.
//!
//! A table: the word by which a secret is noticed and what must stand behind it. The facts (prefixes, lengths, alphabets) are
//! those that the vendors tell, or where a vendor is silent those that the rules of gitleaks (MIT) have collected; each line says which.
//! A least length stands a little below the true one where the word before says enough by itself, so that a vendor who
//! shortens a key by a few characters does not end what protects it.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::filter::{Class, Hit, Matcher, Next};
use super::known::Known;
use super::{AHEAD, BACK};

mod context;
mod form;
mod table;

use context::bounded;
use form::{cut_key, cut_run};
pub(super) use table::TABLE;

/// A line of the table.
pub(super) struct Rule {
    pub kind: &'static str,
    /// By what it is noticed.
    pub key: &'static str,
    /// What must stand there.
    pub tail: Tail,
    /// Where the fact is from.
    #[cfg_attr(not(test), expect(dead_code))]
    pub source: &'static str,
}

/// What stands behind the key.
pub(super) enum Tail {
    /// So many of these or more; all of them belong to it.
    Least(usize, Class),
    /// The same, and they must look like chance.
    Chance(usize, Class),
    /// So many of these, and none after them.
    Exactly(usize, Class),
    /// What a function says. The key is then noticed in any case of its letters.
    By(fn(&Place<'_>) -> Option<Secret>),
}

/// A place where a key stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    /// The text, to where it may be looked at.
    pub text: &'t [u8],
    /// From where it may be looked at.
    pub from: usize,
    /// The key.
    pub at: usize,
    /// Its end.
    pub end: usize,
}

/// Where a secret is.
pub(super) struct Secret {
    pub start: usize,
    pub end: usize,
    /// What belongs to it behind its end.
    pub more: Option<Class>,
}

impl Secret {
    pub(super) fn new(start: usize, end: usize) -> Secret {
        Secret {
            start,
            end,
            more: None,
        }
    }
}

/// So many of the bytes from `at` on are of the class.
pub(super) fn run(text: &[u8], at: usize, class: Class) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().position(|&b| !class(b)).unwrap_or(rest.len())
}

impl Rule {
    fn look(&self, place: &Place<'_>) -> Option<Secret> {
        let Place { text, at, end, .. } = *place;
        let case = || text.get(at..end) == Some(self.key.as_bytes()) && bounded(place);
        match self.tail {
            Tail::By(look) => look(place),
            Tail::Least(least, class) => {
                let n = run(text, end, class);
                (n >= least && case()).then(|| Secret {
                    more: Some(class),
                    ..Secret::new(at, end + n)
                })
            }
            Tail::Chance(least, class) => {
                let n = run(text, end, class);
                let chance = || super::shape::random(&text[end..end + n]);
                (n >= least && case() && chance()).then(|| Secret {
                    more: Some(class),
                    ..Secret::new(at, end + n)
                })
            }
            Tail::Exactly(n, class) => {
                (run(text, end, class) == n && case()).then(|| Secret::new(at, end + n))
            }
        }
        .filter(|secret| {
            !String::from_utf8_lossy(&text[secret.start..secret.end]).contains("EXAMPLE")
        })
    }
}

/// The table, ready to be used.
pub(super) struct Rules {
    finder: Option<AhoCorasick>,
    /// The lines whose key begins with a byte, in the order of the table.
    lines: Vec<Vec<&'static Rule>>,
    longest: usize,
}

impl Rules {
    pub(super) fn new() -> Rules {
        let mut lines: Vec<Vec<_>> = (0..256).map(|_| Vec::new()).collect();
        for rule in TABLE {
            let first = rule.key.as_bytes().first().copied().unwrap_or_default();
            lines[usize::from(first.to_ascii_lowercase())].push(rule);
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(TABLE.iter().map(|rule| rule.key));
        Rules {
            // The keys are constants: a test builds it.
            finder: finder.ok(),
            lines,
            longest: TABLE.iter().map(|rule| rule.key.len()).max().unwrap_or(0),
        }
    }

    /// Whether a key stands in it at all.
    pub(super) fn may_match(&self, text: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|f| f.is_match(text))
    }

    /// The lines whose key stands at a place, in whatever case.
    fn keys_at<'t>(
        &'t self,
        text: &'t [u8],
        at: usize,
    ) -> impl Iterator<Item = &'static Rule> + 't {
        let first = text.get(at).map_or(0, u8::to_ascii_lowercase);
        let lines = self.lines[usize::from(first)].iter().copied();
        lines.filter(move |rule| {
            let key = text.get(at..at + rule.key.len());
            key.is_some_and(|key| key.eq_ignore_ascii_case(rule.key.as_bytes()))
        })
    }

    /// What a place is the start of.
    pub(super) fn at(
        &self,
        text: &[u8],
        at: usize,
        only_formats: bool,
    ) -> Option<(Secret, Arc<str>)> {
        let text = &text[..text.len().min(at + AHEAD)];
        self.keys_at(text, at).find_map(|rule| {
            if only_formats && matches!(rule.tail, Tail::By(_)) {
                return None;
            }
            let place = Place {
                text,
                from: at.saturating_sub(BACK),
                at,
                end: at + rule.key.len(),
            };
            let secret = rule.look(&place)?;
            Some((secret, rule.kind.into()))
        })
    }
}

impl Matcher for Rules {
    fn next(&self, text: &[u8], from: usize, floor: usize, last: bool) -> Next {
        // Before this, every key stands there whole.
        let whole = match last {
            true => text.len(),
            false => text.len().saturating_sub(self.longest),
        };
        let mut at = from;
        while let Some(finder) = &self.finder
            && let Some(key) = finder.find(Input::new(text).range(at..))
            && key.start() <= whole
        {
            at = key.start();
            if !last && at + AHEAD > text.len() {
                return Next::Wait(at);
            }
            if let Some((secret, kind)) = self.at(text, at, false) {
                let start = secret.start.max(floor);
                if start < secret.end {
                    return Next::Hit(Hit {
                        range: start..secret.end,
                        kind,
                        more: secret.more,
                    });
                }
            }
            at += 1;
        }
        Next::Wait(whole.max(at))
    }
}

/// Where a head must end so that no secret is cut: `head.len()` where none is.
pub(super) fn cut_end(head: &str, known: &Known) -> usize {
    let bytes = head.as_bytes();
    let value = known.begun(bytes).unwrap_or(bytes.len());
    value.min(cut_key(bytes))
}

/// The same of a tail's start.
pub(super) fn cut_start(tail: &str, known: &Known) -> usize {
    let bytes = tail.as_bytes();
    known.ended(bytes).unwrap_or(0).max(cut_run(bytes))
}
