//! The search of a text for secrets: by keywords, and in the cells of tables.

use aho_corasick::Input;

use super::super::stage::{SearchPlace, SearchResult, SecretMatch, SecretMatcher};
use super::super::{AHEAD, BACK, MARK_START};
use super::columns::{Opening, TableEvent, TableState};
use super::fields::{FIELD_VALUE, ends_cell};
use super::{FormatRule, FormatRules, run_length};

/// Result of a search for keywords up to a limit.
enum KeywordSearch {
    Ended(SearchResult),
    /// A table begins; the search goes on here.
    Table(usize),
    /// There is none before the limit.
    None,
}

impl FormatRules {
    /// Searches for a secret whose keyword is at `place.from` or later and before `limit`, and for the heading of a table.
    fn next_keyword(
        &self,
        tables: &mut TableState,
        text: &[u8],
        place: SearchPlace,
        limit: usize,
    ) -> KeywordSearch {
        // Every keyword that starts before this position is complete.
        let certain = match place.last {
            true => text.len(),
            false => text.len().saturating_sub(self.longest),
        };
        // A keyword that begins before the limit ends here.
        let end = text.len().min(limit.saturating_add(self.longest));
        let mut at = place.from;
        while let Some(finder) = &self.finder
            && let Some(key) = finder.find(Input::new(text).range(at.min(end)..end))
            && key.start() <= certain
            && key.start() < limit
        {
            #[cfg(test)]
            crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + key.start() - at));
            at = key.start();
            if !place.last && at + AHEAD > text.len() {
                return KeywordSearch::Ended(SearchResult::Wait(at));
            }
            if let Some((secret, kind)) = self.at(text, at, false) {
                // A part of a mark represents a whole value.
                let start = self.format_before(text, at + 1, secret.start);
                let start = start.max(place.floor);
                let start = mark_around(text, start).unwrap_or(start);
                let end = mark_around(text, secret.end).unwrap_or(secret.end);
                if start < end {
                    return KeywordSearch::Ended(SearchResult::Hit(SecretMatch {
                        range: start..end,
                        kind,
                        more: secret.more,
                    }));
                }
            } else if self.is_name_at(text, at)
                && tables.open(self, text, place.base, at) == Opening::Table
            {
                return KeywordSearch::Table(at + 1);
            }
            at += 1;
        }
        #[cfg(test)]
        crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + end.saturating_sub(at)));
        match certain < limit {
            true => KeywordSearch::Ended(SearchResult::Wait(certain.max(at))),
            false => KeywordSearch::None,
        }
    }

    /// Returns where a known format begins from `from` on and before `end`, between a keyword and its secret, such as a token in place of
    /// a user; `end` if there is none.
    fn format_before(&self, text: &[u8], from: usize, end: usize) -> usize {
        let mut at = from;
        while let Some(finder) = &self.finder
            && at < end
            && let Some(key) = finder.find(Input::new(text).range(at..end))
        {
            at = key.start();
            if self.at(text, at, true).is_some() {
                return at;
            }
            at += 1;
        }
        end
    }

    /// Whether a word that names a secret, or a column of values, is at `at`.
    pub(super) fn is_name_at(&self, text: &[u8], at: usize) -> bool {
        let is_values =
            |rule: &FormatRule| rule.key == FIELD_VALUE && ends_cell(text, at + FIELD_VALUE.len());
        let mut rules = self.keys_at(text, at);
        rules.any(|rule| rule.is_name() || is_values(&rule))
    }
}

impl SecretMatcher for FormatRules {
    type State = TableState;

    fn next(&self, tables: &mut TableState, text: &[u8], place: SearchPlace) -> SearchResult {
        let mut place = place;
        loop {
            let event = tables.next(text, place.base, place.from, place.last);
            let limit = match &event {
                TableEvent::None => usize::MAX,
                TableEvent::Secret(cell) => cell.range.start,
                TableEvent::Misfit(at) | TableEvent::Incomplete(at) => *at,
            };
            match (self.next_keyword(tables, text, place, limit), event) {
                (KeywordSearch::Table(from), _) => place.from = from,
                (KeywordSearch::Ended(SearchResult::Hit(hit)), TableEvent::Secret(cell)) => {
                    return SearchResult::Hit(joined(hit, &cell));
                }
                (KeywordSearch::Ended(result), _) => return result,
                (KeywordSearch::None, TableEvent::Secret(cell)) => return SearchResult::Hit(cell),
                (KeywordSearch::None, TableEvent::Misfit(end)) => place.from = end,
                (KeywordSearch::None, TableEvent::Incomplete(row)) => {
                    return SearchResult::Wait(row);
                }
                (KeywordSearch::None, TableEvent::None) => return SearchResult::Wait(text.len()),
            }
        }
    }
}

/// Returns what a keyword identifies, with the secret of a cell that begins within it.
fn joined(hit: SecretMatch, cell: &SecretMatch) -> SecretMatch {
    let is_over = hit.more.is_none() && hit.range.end > cell.range.start;
    let end = if is_over {
        hit.range.end.max(cell.range.end)
    } else {
        hit.range.end
    };
    SecretMatch {
        range: hit.range.start..end,
        ..hit
    }
}

/// Returns the end of the mark of the first stage that begins before `at` and ends after it.
fn mark_around(text: &[u8], at: usize) -> Option<usize> {
    const OPEN: &[u8] = MARK_START.as_bytes();
    let from = at.saturating_sub(BACK / 2);
    let mut starts = memchr::memrchr_iter(OPEN[0], &text[from..at]).map(|start| from + start);
    let start = starts.find(|start| text[*start..].starts_with(OPEN))?;
    let kind = start + OPEN.len();
    let is_kind = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let end = kind + run_length(text, kind, is_kind);
    (text.get(end) == Some(&b']') && at <= end).then_some(end + 1)
}
