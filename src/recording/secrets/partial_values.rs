//! Values that were found, searched for by their beginnings: a value that is being typed, or cut off, counts as well.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

/// Length of the beginning that identifies a value, in bytes. Shorter values are searched for whole.
const PREFIX: usize = 8;

/// Shortest value that is searched for: a shorter one is part of other words.
const MIN_LENGTH: usize = 6;

/// Shortest line of a value of several lines that is searched for by itself, such as a line of a private key.
const MIN_LINE: usize = 16;

/// The values, by their beginnings.
#[derive(Debug, Default)]
pub struct PartialValues {
    finder: Option<AhoCorasick>,
    /// The values that have each of the finder's patterns as their beginning.
    values: Vec<Vec<String>>,
}

impl PartialValues {
    /// Prepares the search.
    pub fn new<'v>(values: impl Iterator<Item = &'v String>) -> PartialValues {
        let mut by_prefix: HashMap<&str, Vec<String>> = HashMap::new();
        for value in values {
            let lines: Vec<&str> = match value.contains('\n') {
                true => value
                    .lines()
                    .map(str::trim)
                    .filter(|line| line.len() >= MIN_LINE && !line.starts_with("-----"))
                    .collect(),
                false => vec![value],
            };
            for line in lines.into_iter().filter(|line| line.len() >= MIN_LENGTH) {
                let mut end = PREFIX.min(line.len());
                while !line.is_char_boundary(end) {
                    end += 1;
                }
                let prefix = line.get(..end).unwrap_or(line);
                by_prefix.entry(prefix).or_default().push(line.to_owned());
            }
        }
        if by_prefix.is_empty() {
            return PartialValues::default();
        }
        let (prefixes, values): (Vec<_>, Vec<_>) = by_prefix.into_iter().unzip();
        let mut finder = AhoCorasick::builder();
        let finder = finder.match_kind(MatchKind::LeftmostLongest);
        PartialValues {
            finder: finder.build(prefixes).ok(),
            values,
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Returns where values are, whole or in part.
    pub fn find(&self, text: &str) -> Vec<Range<usize>> {
        let Some(finder) = &self.finder else {
            return Vec::new();
        };
        let mut found: Vec<Range<usize>> = Vec::new();
        for hit in finder.find_iter(text) {
            let rest = text.get(hit.start()..).unwrap_or_default();
            let values = self.values.get(hit.pattern().as_usize());
            let longest = values
                .into_iter()
                .flatten()
                .map(|value| common(value, rest))
                .max();
            found.push(hit.start()..hit.start() + longest.unwrap_or(hit.len()));
        }
        found
    }

    /// Replaces values in a text.
    pub fn redact(&self, text: &str) -> String {
        let mut out = String::new();
        let mut at = 0;
        for range in self.find(text) {
            if range.start < at {
                continue;
            }
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str("[REDACTED]");
            at = range.end;
        }
        out + text.get(at..).unwrap_or_default()
    }
}

/// Length of the common beginning, in bytes.
fn common(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    same.map(|(c, _)| c.len_utf8()).sum()
}
