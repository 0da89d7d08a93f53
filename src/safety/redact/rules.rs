//! Formats of secrets.
//!
//! A table of keywords and of what must follow each of them. Prefixes, lengths and alphabets come from the documentation
//! of each vendor, or from the rules of gitleaks (MIT) where a vendor documents none; each entry names its source.
//! Minimum lengths are slightly below the documented ones where the prefix is distinctive, so that the entry still works
//! if a vendor shortens its keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use super::known::KnownValues;
use super::stage::ByteClass;
use super::{AHEAD, BACK, value_class};

mod apart;
mod arguments;
mod byte_classes;
mod calls;
mod cells;
mod column_headings;
mod column_rows;
mod columns;
mod command_words;
mod commands;
mod context;
mod context_table;
mod custom_formats;
mod dialogues;
mod fields;
mod file_contexts;
mod files;
mod headers;
mod key_text;
mod line_prefix;
mod line_words;
mod logins;
mod objects;
mod phrases;
mod random_keys;
mod rows;
mod search;
mod secret_names;
mod service_table;
mod settling;
mod signs;
mod stored_secrets;
mod table;
mod url_table;
mod urls;
mod value_spans;
mod vendor_formats;
mod vendor_table;

pub(super) use columns::TableState;
use columns::{Opening, TableEvent};
use context::at_word_start;
pub(super) use context_table::{AWS_SECRET_KEY, is_context_kind};
use custom_formats::{truncated_key_start, truncated_secret_end};
use line_words::piped_from;
pub(super) use rows::begins_assignment;
use urls::{is_address_byte, unfinished_url_password};

/// An entry of the tables.
#[derive(Clone, Copy)]
pub(super) struct FormatRule {
    pub kind: &'static str,
    /// The keyword that identifies the secret.
    pub key: &'static str,
    /// What must follow the keyword.
    pub pattern: FormatPattern,
    /// Where the format is documented.
    #[cfg_attr(not(test), expect(dead_code))]
    pub source: &'static str,
}

/// The keywords with which a private key begins, as such and in base64.
const PRIVATE_KEY_STARTS: &[&str] = &["-----BEGIN ", "LS0tLS1CRUdJTi"];

/// What must follow the keyword.
#[derive(Clone, Copy)]
pub(super) enum FormatPattern {
    /// At least N characters of the class; all of them belong to the secret.
    AtLeast(usize, ByteClass),
    /// At least N characters of the class, with high entropy.
    HighEntropy(usize, ByteClass),
    /// Exactly N characters of the class.
    Exactly(usize, ByteClass),
    /// Decided by a function. The keyword is then matched in any case.
    Custom(SecretFinder),
}

/// Returns the secret that a keyword identifies.
pub(super) type SecretFinder = fn(&KeywordMatch<'_>) -> Option<SecretSpan>;

/// Returns the entries whose keyword identifies a secret by itself.
fn formats() -> impl Iterator<Item = FormatRule> {
    let stored = stored_secrets::STORED_SECRETS.iter();
    stored
        .chain(table::FORMATS)
        .chain(vendor_table::VENDORS)
        .chain(service_table::SERVICES)
        .chain(url_table::URLS)
        .copied()
}

/// Returns all entries. For keywords with the same beginning, the order matters: the first one that fits counts.
pub(super) fn all_rules() -> Vec<FormatRule> {
    formats().chain(context_table::context_rules()).collect()
}

/// Whether all secrets of a kind have a certain length.
pub(super) fn has_fixed_length(kind: &str) -> bool {
    let mut rules = formats().filter(|rule| rule.kind == kind);
    let is_fixed = |rule: FormatRule| matches!(rule.pattern, FormatPattern::Exactly(..));
    rules.next().is_some_and(is_fixed) && rules.all(is_fixed)
}

/// An occurrence of a keyword.
#[derive(Clone, Copy)]
pub(super) struct KeywordMatch<'t> {
    /// The text, up to where it may be inspected.
    pub text: &'t [u8],
    /// First position that may be inspected.
    pub from: usize,
    /// Start of the keyword.
    pub at: usize,
    /// End of the keyword.
    pub end: usize,
}

impl<'t> KeywordMatch<'t> {
    /// The text before the keyword, as far as it may be inspected.
    pub fn before(&self) -> &'t [u8] {
        &self.text[self.from..self.at]
    }

    /// The line before the keyword, as far as it may be inspected.
    fn line_before(&self) -> &'t [u8] {
        let before = self.before();
        let start = before.iter().rposition(|&b| b == b'\n');
        &before[start.map_or(0, |at| at + 1)..]
    }

    /// The same with the lines before it that a backslash continues.
    fn command_before(&self) -> &'t [u8] {
        let before = &self.text[self.from..self.at];
        let is_end = |at: &usize| !before[..*at].trim_ascii_end().ends_with(b"\\");
        let start = memchr::memrchr_iter(b'\n', before).find(is_end);
        &before[start.map_or(0, |at| at + 1)..]
    }
}

/// Position of a secret.
pub(super) struct SecretSpan {
    pub start: usize,
    pub end: usize,
    /// Bytes of this class that follow the span also belong to the secret.
    pub more: Option<ByteClass>,
}

impl SecretSpan {
    pub(super) fn new(start: usize, end: usize) -> SecretSpan {
        SecretSpan {
            start,
            end,
            more: None,
        }
    }

    /// A span of bytes of a class. One that the end of the text leaves open may go on.
    pub(super) fn open(text: &[u8], start: usize, end: usize, class: ByteClass) -> SecretSpan {
        SecretSpan {
            start,
            end,
            more: (end == text.len()).then_some(class),
        }
    }
}

/// Returns where a secret may begin whose keyword is at `at`: with the text before the keyword without a gap. Such parts consist of
/// letters, digits and signs; `rules/custom_formats` and `rules/urls` read them.
fn secret_start(text: &[u8], at: usize) -> usize {
    /// A secret begins at most this far before its keyword.
    const BEFORE_KEYWORD: usize = 64;
    // A keyword that begins with a blank or a quote has nothing before it.
    if text.get(at).is_some_and(|b| !is_address_byte(b)) {
        return at;
    }
    let far = at.saturating_sub(BEFORE_KEYWORD);
    let before = text[far..at].iter().rposition(|b| !is_address_byte(b));
    before.map_or(far, |before| far + before + 1)
}

/// Returns the first two bytes of a text in lower case, with 0 in place of those that it does not have.
fn start_of(text: &[u8]) -> [u8; 2] {
    [0, 1].map(|at| text.get(at).map_or(0, u8::to_ascii_lowercase))
}

/// Length of the run of bytes of the class at `at`.
pub(super) fn run_length(text: &[u8], at: usize, class: ByteClass) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let mut length = 0;
    // Not `position`: tests search for secrets in a debug build, where each call of its closure takes longer than the class.
    while length < rest.len() && class(rest[length]) {
        length += 1;
    }
    #[cfg(test)]
    super::tests::INSPECTED.with(|n| n.set(n.get() + length));
    length
}

/// How far after a keyword its rule looks. Text that repeats a keyword is inspected again at each of them, so this is no
/// more than the rule needs: most secrets continue with [`SecretSpan::more`].
fn window(kind: &str) -> usize {
    match kind {
        // Recognised by their last part.
        "jwt" | "private-key" | "kubernetes-secret" => AHEAD,
        "cookie" | "basic-auth" => 4 << 10,
        _ => 1 << 10,
    }
}

impl FormatRule {
    fn find_secret(&self, place: &KeywordMatch<'_>) -> Option<SecretSpan> {
        let KeywordMatch { text, at, end, .. } = *place;
        // Keywords are found in any case, which only custom patterns accept.
        let is_custom = matches!(self.pattern, FormatPattern::Custom(_));
        if !is_custom && text.get(at..end) != Some(self.key.as_bytes()) {
            return None;
        }
        let is_glued = !is_custom && (!at_word_start(place) || is_within_base64(place));
        if is_glued && !self.is_distinctive(text[at - 1]) {
            return None;
        }
        match self.pattern {
            FormatPattern::Custom(find) => find(place),
            FormatPattern::AtLeast(least, class) => {
                let n = run_length(text, end, class);
                (n >= least).then(|| SecretSpan {
                    more: Some(class),
                    ..SecretSpan::new(at, end + n)
                })
            }
            FormatPattern::HighEntropy(least, class) => {
                let n = run_length(text, end, class);
                let random = || value_class::is_random(&text[end..end + n]);
                (n >= least && random()).then(|| SecretSpan {
                    more: Some(class),
                    ..SecretSpan::new(at, end + n)
                })
            }
            FormatPattern::Exactly(n, class) => {
                (run_length(text, end, class) == n).then(|| SecretSpan::new(at, end + n))
            }
        }
        .filter(|secret| {
            // Behind a letter a keyword may be the end of a word, as in `task_test_`, and what follows it more words.
            !is_glued || self.kind == "aws-key" || is_no_word(&text[end..secret.end])
        })
        .filter(|secret| {
            // Values of documentation, and the names of algorithms of OpenSSH.
            let value = String::from_utf8_lossy(&text[secret.start..secret.end]);
            let is_algorithm = value.starts_with("sk-ssh-") || value.starts_with("sk-ecdsa-sha2-");
            let last = &text[secret.end.saturating_sub(8).max(secret.start)..secret.end];
            let is_filled = last.iter().all(|b| b.eq_ignore_ascii_case(&b'x'));
            !value.contains("EXAMPLE") && !is_algorithm && !is_filled
        })
    }

    /// Whether the keyword is rarely a part of a longer word, so that it counts after the letter or digit `before` too: a program
    /// may print a key after anything.
    fn is_distinctive(&self, before: u8) -> bool {
        match self.kind {
            "aws-key" => !before.is_ascii_uppercase(),
            // The end of `session_`, `mexico-` and `REST-API-`.
            "ionic-token" | "infracost-key" | "octopus-key" => false,
            _ => self.key.len() >= 4 && self.key.ends_with(['_', '-']),
        }
    }
}

/// Whether the keyword is within a long run of base64, behind a sign that also separates the parts of an address.
fn is_within_base64(place: &KeywordMatch<'_>) -> bool {
    /// More than an address has without a sign that base64 does not have.
    const MAX_PATH: usize = 64;
    let before = &place.text[place.from..place.at];
    before.last().is_some_and(|b| b"/+".contains(b))
        && before.len() > MAX_PATH
        && before
            .iter()
            .rev()
            .take(MAX_PATH)
            .all(|b| byte_classes::base64(*b))
}

/// Whether what follows a keyword is no further words of a name.
fn is_no_word(value: &[u8]) -> bool {
    let is_one = value.len() >= 30 && value.iter().all(u8::is_ascii_alphanumeric);
    let is_number = |part: &[u8]| part.len() <= 4 && part.iter().all(u8::is_ascii_digit);
    let mut parts = value.split(|b| b"-_.".contains(b));
    is_one
        || (value_class::is_random(value)
            && !parts.all(|part| value_class::is_identifier(part) || is_number(part)))
}

/// The compiled table.
pub(super) struct FormatRules {
    finder: Option<AhoCorasick>,
    /// Entries by the first two bytes of their keyword in lower case, in table order. Keywords of one byte have 0 as the second.
    by_start: BTreeMap<[u8; 2], Vec<FormatRule>>,
    longest: usize,
}

impl FormatRules {
    pub(super) fn new() -> FormatRules {
        let mut by_start: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let rules = all_rules();
        for &rule in &rules {
            by_start
                .entry(start_of(rule.key.as_bytes()))
                .or_default()
                .push(rule);
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .ascii_case_insensitive(true)
            // A DFA searches in two thirds of the time and takes 1.3 MB more of each process that redacts.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(rules.iter().map(|rule| rule.key));
        FormatRules {
            // The build cannot fail for these constant keywords, which a test verifies.
            finder: finder.ok(),
            by_start,
            longest: rules.iter().map(|rule| rule.key.len()).max().unwrap_or(0),
        }
    }

    /// Returns the memory that the automaton of keywords takes, in bytes.
    #[cfg(test)]
    pub(super) fn memory_usage(&self) -> usize {
        self.finder.as_ref().map_or(0, AhoCorasick::memory_usage)
    }

    /// Whether the text contains any keyword.
    pub(super) fn may_match(&self, text: &[u8]) -> bool {
        self.finder.as_ref().is_some_and(|f| f.is_match(text))
    }

    /// Returns the position before which nothing that follows the text can change the findings. `from` is where the part that
    /// was not searched begins.
    pub(super) fn settled(
        &self,
        tables: &TableState,
        text: &[u8],
        base: usize,
        from: usize,
    ) -> usize {
        // The command that reads the output of a line comes after it.
        let printed = piped_from(text);
        let open = self.open_keyword(text);
        let mut complete = secret_start(text, open).min(printed);
        let mut tables = tables.clone();
        let (mut at, mut rows) = (from, from);
        // Between the rows of tables, as the search does.
        loop {
            let (limit, next) = match tables.next(text, base, rows.max(at), false) {
                TableEvent::None => (text.len(), None),
                TableEvent::Secret(cell) => (cell.range.start, Some(cell.range.end)),
                TableEvent::Misfit(end) => (end, Some(end)),
                TableEvent::Incomplete(row) => {
                    complete = complete.min(row);
                    (text.len(), None)
                }
            };
            let mut is_heading = false;
            let end = text.len().min(limit.saturating_add(self.longest));
            while let Some(finder) = &self.finder
                && !is_heading
                && let Some(key) = finder.find(Input::new(text).range(at.min(end)..end))
                && key.start() < limit
            {
                at = key.start();
                let opening = match self.is_name_at(text, at) {
                    true => tables.open(self, text, base, at),
                    false => Opening::None,
                };
                let is_settled = |rule: FormatRule| rule.is_settled(text, at);
                if opening == Opening::Incomplete || !self.keys_at(text, at).all(is_settled) {
                    return secret_start(text, at).min(complete);
                }
                is_heading = opening == Opening::Table;
                at += 1;
            }
            match next {
                _ if is_heading => {}
                Some(next) => (at, rows) = (at.max(limit), next),
                None => return complete,
            }
        }
    }

    /// Returns where a keyword begins that the end of the text leaves incomplete; the end if there is none.
    fn open_keyword(&self, text: &[u8]) -> usize {
        let is_open = |at: &usize| {
            let end = &text[*at..];
            let start = start_of(end);
            let last = if end.len() == 1 {
                [start[0], u8::MAX]
            } else {
                start
            };
            let mut rules = self
                .by_start
                .range(start..=last)
                .flat_map(|(_, rules)| rules);
            rules.any(|rule| {
                let beginning = rule.key.as_bytes().get(..end.len());
                beginning.is_some_and(|key| key.eq_ignore_ascii_case(end))
            })
        };
        let first = text.len().saturating_sub(self.longest);
        (first..text.len()).find(is_open).unwrap_or(text.len())
    }

    /// Returns the entries whose keyword occurs at a position, in any case.
    fn keys_at<'t>(&'t self, text: &'t [u8], at: usize) -> impl Iterator<Item = FormatRule> + 't {
        let start = start_of(text.get(at..).unwrap_or_default());
        let starts = [[start[0], 0], start].into_iter();
        // Behind the last byte, and before a zero byte, both are the same.
        let starts = starts.skip(usize::from(start[1] == 0));
        let rules = starts.filter_map(|start| self.by_start.get(&start));
        rules.flatten().copied().filter(move |rule| {
            let key = text.get(at..at + rule.key.len());
            key.is_some_and(|key| key.eq_ignore_ascii_case(rule.key.as_bytes()))
        })
    }

    /// Whether a private key begins at `at`, as such or in base64.
    fn private_key_at(&self, text: &[u8], at: usize) -> bool {
        let is_start = |rule: &FormatRule| PRIVATE_KEY_STARTS.contains(&rule.key);
        let mut rules = self.keys_at(text, at).filter(is_start);
        rules.any(|rule| {
            let end = at + rule.key.len();
            let from = at.saturating_sub(BACK);
            rule.find_secret(&KeywordMatch {
                text,
                from,
                at,
                end,
            })
            .is_some()
        })
    }

    /// Returns the secret that is identified by a keyword at `at`; with `only_formats`, not by a custom pattern.
    pub(super) fn at(
        &self,
        text: &[u8],
        at: usize,
        only_formats: bool,
    ) -> Option<(SecretSpan, Arc<str>)> {
        self.keys_at(text, at).find_map(|rule| {
            let text = &text[..text.len().min(at + window(rule.kind))];
            if only_formats && matches!(rule.pattern, FormatPattern::Custom(_)) {
                return None;
            }
            let place = KeywordMatch {
                text,
                from: at.saturating_sub(BACK),
                at,
                end: at + rule.key.len(),
            };
            let secret = rule.find_secret(&place)?;
            Some((secret, rule.kind.into()))
        })
    }
}

/// Returns where the beginning of a text whose middle was dropped must end so that it does not contain a part of a
/// secret; `bytes.len()` if it contains none.
pub(super) fn cut_end(bytes: &[u8], known: &KnownValues) -> usize {
    let value = known.truncated_at_end(bytes).unwrap_or(bytes.len());
    value
        .min(truncated_key_start(bytes))
        .min(unfinished_url_password(bytes))
}

/// Returns where the end of a text whose middle was dropped must start so that it does not contain a part of a secret; 0
/// if it contains none.
pub(super) fn cut_start(tail: &str, known: &KnownValues) -> usize {
    let bytes = tail.as_bytes();
    known
        .truncated_at_start(bytes)
        .unwrap_or(0)
        .max(truncated_secret_end(bytes))
}
